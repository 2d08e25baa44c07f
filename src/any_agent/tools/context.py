"""What a running tool may know and do, beside its arguments."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

__all__ = ("ToolContext",)


class ToolContext:
    """A tool that names a parameter `context: ToolContext` gets one.

    >>> ToolContext("add", tool_use_id="call_1").tool_use_id
    'call_1'
    """

    def __init__(
        self,
        name: str,
        *,
        tool_use_id: str = "",
        idempotency_key: str = "",
        attempt: int = 1,
        on_progress: Callable[[Any], None] | None = None,
    ) -> None:
        self.name = name
        self.tool_use_id = tool_use_id
        #: the same for each attempt at one call, different for any two calls
        self.idempotency_key = idempotency_key
        self.attempt = attempt
        #: nobody waits for the result any more: a long computation should stop
        self.cancelled = False
        self._on_progress = on_progress
        self._thread = threading.get_ident()
        self._loop: asyncio.AbstractEventLoop | None = None
        with contextlib.suppress(RuntimeError):  # nobody's event loop: progress is told where it is made
            self._loop = asyncio.get_running_loop()

    def progress(self, data: Any) -> None:
        """Tell how far the tool is; whoever reads the events sees it at once. Works from any thread."""
        if self._loop is None or threading.get_ident() == self._thread:
            self._tell(data)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads any more
                self._loop.call_soon_threadsafe(self._tell, data)

    def _tell(self, data: Any) -> None:
        if self._on_progress is not None and not self.cancelled:
            self._on_progress(data)
