"""Ends one await of a stream: when its time is up, or when another task closes the stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

__all__ = ("Closed", "Watch")

T = TypeVar("T")


class Closed(Exception):
    """The stream was closed while somebody waited for it."""


class Watch:
    """Watches over the awaits of one stream, at the cost of one timer for many of them.

    The task that waits is cancelled and the cancellation taken back, as `asyncio.timeout` does it, so this
    works whatever the await is about, and a cancellation from elsewhere stays one.
    """

    def __init__(self) -> None:
        self.closed = False
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._deadline: float | None = None
        self._reason: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        #: the limit for which the timer was set; a longer one can wait until it rings
        self._seconds = 0.0

    async def wait(self, awaitable: Awaitable[T], seconds: float | None) -> T:
        """The result of `awaitable`; `TimeoutError` after so many seconds, `Closed` after `close()`."""
        task = asyncio.current_task()
        assert task is not None
        if self.closed:
            asyncio.ensure_future(awaitable).cancel()
            raise Closed
        self._task = task
        self._cancelling = task.cancelling()
        self._deadline = None
        if seconds is not None:
            self._deadline = time.monotonic() + seconds
            if self._timer is None or seconds < self._seconds:
                self._seconds = seconds
                self._set_timer(task.get_loop(), seconds)
        try:
            return await awaitable
        except asyncio.CancelledError:
            reason, self._reason = self._reason, None
            if reason is None or task.uncancel() > self._cancelling:
                raise
            raise reason from None
        finally:
            self._task = None

    def close(self) -> None:
        """End the await that is going on, and all later ones."""
        self.closed = True
        self.stop_timer()
        self._end(Closed())

    def stop_timer(self) -> None:
        """No more awaits are to come."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.stop_timer()
        self._timer = loop.call_later(seconds, self._check, loop)

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._task is None or self._deadline is None:
            return  # nobody waits for a limited time; the next await sets a timer anew
        left = self._deadline - time.monotonic()
        if left > 0:
            self._set_timer(loop, left)
        else:
            self._end(TimeoutError())

    def _end(self, reason: Exception) -> None:
        if self._task is not None and self._reason is None:
            self._reason = reason
            self._task.cancel()
