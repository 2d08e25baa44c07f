"""The steps of a turn that outlives its process: each is done once, and what came of it is written down.

When a run is done again after a crash, the loop is the same and asks for the same steps in the same order; what is
written down is not done again, and makes no events a second time. A step that was interrupted is done again, and those
who read along are told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from any_agent.agent.steps import LocalSteps, together
from any_agent.errors import ProviderError
from any_agent.events import (
    Done,
    Event,
    Failed,
    Notice,
    Reset,
    ToolResult,
    from_dict,
    message_from_dict,
    message_to_dict,
    to_dict,
)
from any_agent.types import LLMResponse, Message, ToolResultBlock, ToolUseBlock

if TYPE_CHECKING:
    from any_agent.agent.calls import Emit
    from any_agent.errors import ContextLengthExceeded
    from any_agent.orchestration.durable.history import History
    from any_agent.orchestration.durable.log import EventLog, TaskLog
    from any_agent.orchestration.durable.tasks import Task

__all__ = ("DurableSteps", "Journal", "Step")

_ENDED = "the process that worked on this ended"
_ONCE = (
    "The process that ran this call ended before there was a result. {name} may run only once, so it was not run "
    "again; whether it took effect is not known. Find that out before you do anything about it."
)

Step = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


class Journal(Protocol):
    """What the engine does for a run."""

    def next_step(self, name: str) -> Step:
        """The next step of the run: it does what it is given, or returns what came of that before."""
        ...


class DurableSteps:
    """What `run_turn` needs, on top of the plain steps."""

    def __init__(
        self, local: LocalSteps, journal: Journal, task: Task, history: History, events: EventLog, log: TaskLog
    ) -> None:
        self._local = local
        self._journal = journal
        self._task = task
        self._history = history
        self._events = events
        self._log = log
        self._steps = 0
        self._parts = 0
        self._between = 0
        #: the step that is making an event, while it does
        self._step: str | None = None
        self._is_muted = False
        self._is_left = False

    @property
    def messages(self) -> list[Message]:
        """The conversation as the task found it."""
        return list(self._local.conversation.messages)

    def leave(self) -> None:
        """This process ends, and another one goes on: nothing more is written."""
        self._is_left = True

    def emit(self, event: Event) -> None:
        """Take an event: of a step that runs, or between two steps, where those of an earlier run are known already."""
        if self._is_muted or self._is_left:
            return
        if self._step is None:
            self._between += 1
            if self._between <= self._log.between:
                return
        self._events.put(self._log, self._step, event)

    async def fit(
        self,
        messages: Sequence[Message],
        pending: Sequence[Message],
        emit: Emit,
        overflow: ContextLengthExceeded | None = None,
    ) -> list[Message]:
        """The messages, or fewer if the agent has a policy for that and the window is too small for them."""
        if self._local.options.compaction is None:
            return list(messages)
        label, task = self._next_label(), self._task
        self._parts += 1
        part = self._parts

        async def work() -> bool | dict[str, Any]:
            try:
                shorter = await self._local.fit(messages, pending, self._marked(label, emit), overflow)
            except ProviderError as problem:  # in a form that the journal can keep
                return to_dict(Failed(problem, LLMResponse()))
            is_shorter = shorter != list(messages)
            if is_shorter:
                await asyncio.to_thread(self._history.compact, task, part, shorter)
            await self._events.flush()
            return is_shorter

        outcome = await self._journal.next_step("fit")(work)
        if isinstance(outcome, dict):
            failed = from_dict(cast("dict[str, Any]", outcome))
            assert isinstance(failed, Failed)
            raise failed.error
        if not outcome:
            return list(messages)
        shorter = await asyncio.to_thread(self._history.compacted, task.id, part)
        self._local.conversation.replace(shorter)
        return shorter

    async def model(self, messages: Sequence[Message], emit: Emit, *, answer_only: bool = False) -> Done | Failed:
        """Ask the model, or return what it answered."""
        label = self._next_label()

        async def work() -> dict[str, Any]:
            marked = self._marked(label, emit)
            if label in self._log.steps:
                marked(Reset(_ENDED))
            outcome = await self._local.model(messages, marked, answer_only=answer_only)
            await self._events.flush()
            return to_dict(outcome)

        outcome = from_dict(await self._journal.next_step("model")(work))
        assert isinstance(outcome, Done | Failed)
        return outcome

    async def tools(
        self, calls: Sequence[ToolUseBlock], refusals: Mapping[str, str], iteration: int, emit: Emit
    ) -> list[ToolResultBlock]:
        """Run the calls, each a step of its own, or return what came of them."""
        works: list[Callable[[], Awaitable[ToolResultBlock]]] = []
        for position, call in enumerate(calls):
            # the numbers of the steps are given out in the order of the calls, whichever is ready first
            step = self._journal.next_step(f"tool {call.name}")
            works.append(
                partial(
                    self._call, step, self._next_label(), call, refusals.get(call.id), f"{iteration}:{position}", emit
                )
            )
        return await together(works, self._local.options)

    async def append(self, messages: Sequence[Message]) -> None:
        """Add to the history. Adding the same again changes nothing, so it needs no step."""
        if self._is_left:
            return  # a round that was broken off here is done elsewhere
        self._parts += 1
        await self._local.append(messages)
        adding = asyncio.create_task(asyncio.to_thread(self._history.append, self._task, self._parts, list(messages)))
        try:
            await asyncio.shield(adding)
        except asyncio.CancelledError:
            await asyncio.wait({adding})  # the next task of the conversation begins with what is there
            raise

    async def _call(
        self, step: Step, label: str, call: ToolUseBlock, refusal: str | None, place: str, emit: Emit
    ) -> ToolResultBlock:
        is_run = False

        async def work() -> dict[str, Any]:
            nonlocal is_run
            is_run = True
            marked = self._marked(label, emit)
            attempt, why = (1, refusal) if refusal is not None else await self._begin_call(call, place, marked)
            known = set(self._local.conversation.long_results.whole)
            block = await self._local.call(call, why, place, marked, attempt)
            await self._keep_results(known)
            await self._events.flush()
            return message_to_dict(Message("tool", [block]))

        (block,) = message_from_dict(await step(work)).content
        assert isinstance(block, ToolResultBlock)
        if not is_run:
            self._is_muted = True  # the loop must know of it; those who read along do already
            emit(ToolResult(call.id, call.name, block.content, block.is_error))
            self._is_muted = False
        return block

    async def _begin_call(self, call: ToolUseBlock, place: str, emit: Emit) -> tuple[int, str | None]:
        """(which attempt at this call it is, why it must not be run)."""
        tool = next((tool for tool in self._local.options.tools if tool.name == call.name), None)
        if tool is None or tool.effect == "pure":
            return 1, None
        attempt = await asyncio.to_thread(self._history.begin_call, self._task, place)
        if attempt == 1:
            return 1, None
        is_once = tool.effect == "once"
        what = "was interrupted, and is not run again" if is_once else "was interrupted, and is run again"
        emit(Notice("call_interrupted", f"{_ENDED}: {call.name} {what}", {"id": call.id, "attempt": attempt}))
        return attempt, _ONCE.format(name=call.name) if is_once else None

    async def _keep_results(self, known: set[str]) -> None:
        whole = self._local.conversation.long_results.whole
        new = {handle: text for handle, text in whole.items() if handle not in known}
        if new:
            await asyncio.to_thread(self._history.keep_results, self._task.conversation, new)

    def _next_label(self) -> str:
        self._steps += 1
        return str(self._steps)

    def _marked(self, label: str, emit: Emit) -> Emit:
        """`emit` for what happens inside a step."""

        def marked(event: Event) -> None:
            self._step = label
            try:
                emit(event)
            finally:
                self._step = None

        return marked
