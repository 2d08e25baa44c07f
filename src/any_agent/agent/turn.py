"""One turn while it runs: a task that produces events, and one reader who takes them.

The task runs on by itself, so that tools work while the reader is busy; where the order on a screen matters,
it waits until the reader has come back for more (`settled`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from any_agent.errors import StreamInterrupted
from any_agent.events import Done, Event, Failed, ToolCall
from any_agent.types import LLMResponse, ToolUseBlock

if TYPE_CHECKING:
    from any_agent.adapters.stream import EventStream

__all__ = ("Turn",)

_set = object.__setattr__


class Turn:
    """Iterate over it; the last event is `Done` or `Failed`. What a hook raises is raised here."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        #: the calls that this turn has shown
        self.calls: list[ToolUseBlock] = []
        self.ended = False
        self._events: deque[Event] = deque()
        self._seq = 0
        self._task: asyncio.Task[None] | None = None
        self._stream: EventStream | None = None
        self._interrupted = False
        self._reader: asyncio.Future[None] | None = None
        self._producers: list[asyncio.Future[None]] = []

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin; `work` emits the events."""
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(lambda _: _wake(self._reader))

    def emit(self, event: Event) -> None:
        """Hand an event to the reader."""
        self._events.append(event)
        if isinstance(event, ToolCall) and isinstance(event.block, ToolUseBlock):
            self.calls.append(event.block)
        _wake(self._reader)

    async def settled(self) -> None:
        """Wait until the reader has taken everything and asks for more."""
        while self._events or self._reader is None:
            turn_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._producers.append(turn_over)
            await turn_over

    def read(self, stream: EventStream | None) -> None:
        """The model's stream, while it is read: it is what an interrupt has to stop."""
        self._stream = stream

    def __aiter__(self) -> Turn:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            task = self._task
            if self.ended or task is None:
                raise StopAsyncIteration
            if task.done():
                return self._last(task)
            self._reader = asyncio.get_running_loop().create_future()
            producers, self._producers = self._producers, []
            for producer in producers:
                _wake(producer)
            try:
                await self._reader
            finally:
                self._reader = None
        event = self._events.popleft()
        self.ended = isinstance(event, Done | Failed)
        self._seq += 1
        # the stream of a response has numbered its own events; here the turn counts
        _set(event, "seq", self._seq)
        return event

    async def interrupt(self) -> None:
        """Stop; the reader gets `Failed` of kind `aborted` as the last event."""
        self._interrupted = True
        if self._stream is not None:
            await self._stream.aclose()
        elif self._task is not None:
            self._task.cancel()
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait({self._task})

    async def aclose(self) -> None:
        """Nobody reads any more: stop everything."""
        self.ended = True
        self._events.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _last(self, task: asyncio.Task[None]) -> Event:
        """The end of a task that emitted none: it was cancelled, or a hook of the program raised."""
        self.ended = True
        if task.cancelled() or self._interrupted:
            error = StreamInterrupted("The turn was interrupted", kind="aborted", retryable=False)
            self._seq += 1
            return Failed(error, LLMResponse(), self._seq)
        problem = task.exception()
        if isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
        raise problem or StopAsyncIteration  # pyright: ignore[reportUnknownVariableType]


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
