"""The stream of events that an adapter hands out."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from any_agent.events import Event
    from any_agent.transport.watch import Watch

__all__ = ("EventStream",)

_set = object.__setattr__


class EventStream:
    """Iterate over it; the last event is `Done` or `Failed`.

    It closes its connection when it is exhausted, when `aclose()` is called (also from another task, also
    while somebody waits for the next event), at the end of `async with`, and when nobody holds it any more.
    """

    def __init__(self, batches: AsyncGenerator[list[Event], None], watch: Watch) -> None:
        self._batches = batches
        self._watch = watch
        self._ready: deque[Event] = deque()
        self._seq = 0
        self._waiting = False

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        ready = self._ready
        if not ready:
            ready.extend(await self.batch())
            if not ready:
                raise StopAsyncIteration
        event = ready.popleft()
        self._seq += 1
        # events are frozen for those who read them; this is their one writer
        _set(event, "seq", self._seq)
        return event

    async def batch(self) -> list[Event]:
        """What came since the last time, at least one event; none at the end. Whoever takes batches numbers them."""
        self._waiting = True
        try:
            async for events in self._batches:
                if events:
                    return events
        finally:
            self._waiting = False
        return []

    async def __aenter__(self) -> EventStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop: drop the connection, and end the iteration wherever it waits."""
        self._ready.clear()
        if self._waiting:
            self._watch.close()  # the task that waits for the next event cleans up
        else:
            await self._batches.aclose()
