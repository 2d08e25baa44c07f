"""One turn while it runs: a task that produces events, and one reader who takes them.

The task runs on by itself, so that tools work while the reader is busy; where the order on a screen matters,
it waits until the reader has come back for more (`settled`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from any_agent.errors import StreamInterrupted
from any_agent.events import Done, Event, Failed, TextDelta, ThinkingDelta, ToolCall, ToolInputDelta
from any_agent.types import LLMResponse, ToolUseBlock

if TYPE_CHECKING:
    from any_agent.adapters.stream import EventStream

__all__ = ("Turn",)

_set = object.__setattr__
#: events that a reader takes at once; an interrupt cannot take them back
_AT_ONCE = 64
_DELTAS = (TextDelta, ThinkingDelta, ToolInputDelta)
_ENDS = (Done, Failed)  # a union would be made anew for each batch


class Turn:
    """The events of a turn, taken in batches; `on_done` hears of a good end when it is taken."""

    def __init__(self, on_done: Callable[[Done], None]) -> None:
        self.id = uuid.uuid4().hex
        #: the calls that this turn has shown
        self.calls: list[ToolUseBlock] = []
        self.started = False
        self.ended = False
        self._on_done = on_done
        self._events: deque[Event] = deque()
        self._seq = 0
        self._task: asyncio.Task[None] | None = None
        self._stream: EventStream | None = None
        self._interrupted = False
        self._reader: asyncio.Future[None] | None = None
        self._producers: list[asyncio.Future[None]] = []

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin, unless somebody has interrupted it by now; `work` emits the events."""
        self.started = True
        if self._interrupted:
            work.close()
            return
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(lambda _: _wake(self._reader))

    def emit(self, event: Event) -> None:
        """Hand an event to the reader."""
        self._events.append(event)
        if type(event) is ToolCall and isinstance(event.block, ToolUseBlock):
            self.calls.append(event.block)
        if self._reader is not None:
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

    async def batch(self) -> list[Event]:
        """What has happened since the last time, at least one event; none after the end.

        The last event of all is `Done` or `Failed`. What a hook raises is raised here.
        """
        while not self._events:
            if self.ended:
                return []
            if self._task is None or self._task.done():
                self._end(self._task)
                break
            self._reader = asyncio.get_running_loop().create_future()
            producers, self._producers = self._producers, []
            for producer in producers:
                _wake(producer)
            try:
                await self._reader
            finally:
                self._reader = None
        events = [self._events.popleft() for _ in range(min(len(self._events), _AT_ONCE))]
        for number, event in enumerate(events, self._seq + 1):
            # the events of a response come from elsewhere; here the turn counts
            _set(event, "seq", number)
        self._seq += len(events)
        last = events[-1]
        if isinstance(last, _ENDS):
            self.ended = True
            if isinstance(last, Done):
                self._on_done(last)
        return events

    async def interrupt(self) -> None:
        """Stop; the reader gets `Failed` of kind `aborted` as the last event."""
        self._interrupted = True
        task = self._task
        if task is None or task.done():
            return
        if self._stream is not None:
            await self._stream.aclose()
        else:
            task.cancel()
        if task is not asyncio.current_task():
            await asyncio.wait({task})
        # a reader who lags behind must not go on for long
        self._events = deque(event for event in self._events if not isinstance(event, _DELTAS))

    async def aclose(self) -> None:
        """Nobody reads any more: stop everything."""
        self.ended = True
        self._events.clear()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    def _end(self, task: asyncio.Task[None] | None) -> None:
        """The end of a task that emitted none: it was stopped, or a hook of the program raised."""
        if task is None or task.cancelled() or self._interrupted:
            error = StreamInterrupted("The turn was interrupted", kind="aborted", retryable=False)
            self.emit(Failed(error, LLMResponse()))
            return
        self.ended = True
        problem = task.exception()
        if isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
        assert problem is not None, "a turn that is complete says so"
        raise problem  # pyright: ignore[reportUnknownVariableType]


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
