"""One task while a worker does it: the loop of the agent, on steps that outlive this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from any_agent.adapters.create import create_adapter
from any_agent.agent.conversation import Conversation
from any_agent.agent.hooks import hooks_from
from any_agent.agent.loop import Limits, run_turn
from any_agent.agent.results import LongResults
from any_agent.agent.steps import LocalSteps
from any_agent.agent.window import Window
from any_agent.errors import AgentSDKError, ProviderError, StreamInterrupted
from any_agent.events import Done, Event, Failed, message_from_dict
from any_agent.orchestration.durable.errors import StoreError
from any_agent.orchestration.durable.steps import DurableSteps, Journal
from any_agent.types import LLMResponse

if TYPE_CHECKING:
    from any_agent.adapters.base import BaseAdapter
    from any_agent.adapters.stream import EventStream
    from any_agent.agent.options import AgentOptions
    from any_agent.orchestration.durable.history import History
    from any_agent.orchestration.durable.log import EventLog, TaskLog
    from any_agent.orchestration.durable.tasks import Task, TaskState

__all__ = ("TaskRun",)


class TaskRun:
    """Does a task from its beginning, or from where it was left."""

    def __init__(
        self,
        task: Task,
        options: Callable[[], AgentOptions],
        journal: Journal,
        history: History,
        events: EventLog,
    ) -> None:
        self.id = task.id
        self.task = task
        self._options = options
        self._journal = journal
        self._history = history
        self._events = events
        self._steps: DurableSteps | None = None
        self._turn: asyncio.Task[None] | None = None
        self._is_cancelled = task.cancelled
        self._last: Event | None = None

    def cancel(self) -> None:
        """Stop: the server is disconnected at once, and tools are cancelled."""
        self._is_cancelled = True
        if self._turn is not None:
            self._turn.cancel()

    def leave(self) -> None:
        """Stop here, since this process ends; it goes on elsewhere."""
        if self._steps is not None:
            self._steps.leave()

    def read(self, stream: EventStream | None) -> None:
        """Nothing to do: a run is stopped by cancelling it, which closes the stream."""

    async def settled(self) -> None:
        """Nothing to wait for: who reads along does so in their own time."""

    async def done(self) -> tuple[TaskState, dict[str, Any]]:
        """Do it: how it ended, and what is to be remembered of it. Everything is written when this returns."""
        log = await self._events.open(self.task.id)
        try:
            options = await asyncio.to_thread(self._options)  # a server may have to be started first
        except StoreError:
            raise
        except (AgentSDKError, ValueError, TypeError) as problem:
            error = problem if isinstance(problem, ProviderError) else _invalid(problem)
            self._end(log, Failed(error, LLMResponse()))
        else:
            async with create_adapter(options) as adapter:
                self._steps = await self._make_steps(options, adapter, log)
                await self._do(options, self._steps, log)
        await self._events.flush()
        return self._outcome()

    async def _make_steps(self, options: AgentOptions, adapter: BaseAdapter, log: TaskLog) -> DurableSteps:
        task = self.task
        messages = await asyncio.to_thread(self._history.before, task.conversation, task.id)
        long_results = LongResults([tool.name for tool in options.tools])
        limit = LongResults.limit(options.num_ctx, options.max_result_tokens)
        long_results.restore(await asyncio.to_thread(self._history.results, task.conversation), limit)
        conversation = Conversation(Window(options.num_ctx), long_results, messages)
        local = LocalSteps(options, adapter, conversation, hooks_from(options.hooks), None, self)
        return DurableSteps(local, self._journal, task, self._history, self._events, log)

    async def _do(self, options: AgentOptions, steps: DurableSteps, log: TaskLog) -> None:
        def emit(event: Event) -> None:
            self._last = event
            steps.emit(event)

        turn = run_turn(
            steps,
            emit,
            history=steps.messages,
            prompt=message_from_dict({"role": "user", "content": self.task.prompt}),
            limits=Limits(options.auto_execute_tools, options.max_tool_iterations, options.loop_guard),
        )
        self._turn = asyncio.create_task(turn)
        if self._is_cancelled:
            self._turn.cancel()
        try:
            await self._turn
        except asyncio.CancelledError:
            if not self._is_cancelled:
                self._turn.cancel()
                raise
            error = StreamInterrupted("The task was cancelled", kind="aborted", retryable=False)
            self._end(log, Failed(error, LLMResponse()))

    def _end(self, log: TaskLog, event: Failed) -> None:
        """The last event, where the loop had no chance to make it."""
        self._last = event
        self._events.put(log, None, event)

    def _outcome(self) -> tuple[TaskState, dict[str, Any]]:
        last = self._last
        if isinstance(last, Done):
            usage = (
                {name: value for name, value in asdict(last.usage).items() if value is not None} if last.usage else {}
            )
            return "done", {"text": last.response.text or "", "reason": last.reason, "usage": usage}
        assert isinstance(last, Failed)
        if self._is_cancelled and last.error.kind == "aborted":
            return "cancelled", {}
        return "failed", {"error": last.error.message, "kind": last.error.kind}


def _invalid(problem: Exception) -> ProviderError:
    """What is wrong with an agent's own configuration, as the end of its turn."""
    error = ProviderError(str(problem), kind="invalid_request")
    error.__cause__ = problem
    return error
