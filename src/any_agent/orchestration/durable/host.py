"""Named agents for programs and for the command line: who is there, what they are asked, and what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from any_agent.errors import ProviderError, StreamInterrupted
from any_agent.events import Done, Event, Failed, ResponseEnd, TextDelta
from any_agent.orchestration.durable.agents import AgentRecord, AgentRecords
from any_agent.orchestration.durable.database import Database
from any_agent.orchestration.durable.history import History
from any_agent.orchestration.durable.log import last_position, read_events
from any_agent.orchestration.durable.presence import Worker, is_alive, workers
from any_agent.orchestration.durable.tasks import Scope, Task, Tasks
from any_agent.orchestration.registry import get_provider
from any_agent.types import LLMResponse, Message, TextBlock

if TYPE_CHECKING:
    from any_agent.orchestration.durable.agent import DurableAgent
    from any_agent.orchestration.durable.worker import TaskWorker
    from any_agent.orchestration.types import AgentConfig, AgentState
    from any_agent.tools.define import Tool

__all__ = ("Agents",)

_T = TypeVar("_T")
#: how often the log is read, and how often a task is looked at of which nothing is heard
_POLL_S, _CHECK_S = 0.05, 0.5


class Agents:
    """The agents of a database: the one given, that of `ANY_AGENT_DB`, or a file of this user.

    >>> import asyncio
    >>> from any_agent.orchestration import AgentConfig
    >>> async def main() -> None:
    ...     async with Agents("agents.db") as agents:
    ...         await agents.spawn(AgentConfig("gpt", "ollama", "qwen3"))
    ...         task = await agents.submit("gpt", "Say hello")
    ...         async for event in agents.work_on(task):
    ...             print(event)
    """

    def __init__(self, url: str | None = None) -> None:
        self.database = Database(url)
        self._records = AgentRecords(self.database)
        self._tasks = Tasks(self.database)
        self._history = History(self.database)
        #: what this process does since nobody else does, and the one worker that does it
        self._helped: list[Task] = []
        self._helper: TaskWorker | None = None
        self._helper_changes = asyncio.Lock()

    async def __aenter__(self) -> Agents:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.database.close()

    async def spawn(self, config: AgentConfig) -> AgentRecord:
        """A new agent, if it could be asked something: its model, its key and its tools are looked for now."""
        if config.api_key is not None:
            raise ValueError("keys are not stored: name the place of the key with api_key_env or api_key_keyring")
        await _aside(get_provider(config.provider).options, config)
        await _aside(self._records.add, config)
        return await self.find(config.name)

    async def find(self, name: str) -> AgentRecord:
        """The agent of that name, stopped or not."""
        return await _aside(self._records.find, name)

    async def agent(self, name: str) -> DurableAgent:
        """The agent of that name, to be talked with as with any other, and for a message bus."""
        from any_agent.orchestration.durable.agent import DurableAgent

        return DurableAgent(self, (await self.find(name)).config)

    def state_of(self, name: str) -> AgentState:
        """What an agent is doing; this waits for the database."""
        return self._records.find(name).state

    async def list(self) -> list[AgentRecord]:
        """All agents, by name."""
        return await _aside(self._records.all)

    async def stop(self, name: str) -> None:
        """End an agent: what it does is cancelled, and it takes no tasks any more."""
        await _aside(self._records.stop, name)

    async def submit(
        self, name: str, prompt: Any, *, id: str | None = None, sender: str = "user", is_fresh: bool = False
    ) -> Task:
        """A task for an agent. With an `id` that was submitted before it is that task, and is not done twice.

        A fresh one begins a conversation of its own, beside the agent's.
        """
        return await _aside(lambda: self._tasks.submit(name, prompt, id=id, sender=sender, is_fresh=is_fresh))

    async def task(self, id: str) -> Task:
        """The task of that id."""
        return await _aside(self._tasks.find, id)

    async def tasks(self, name: str, limit: int = 100) -> list[Task]:
        """The last tasks of an agent, the newest first."""
        return await _aside(self._tasks.of, name, limit)

    async def ahead(self, task: Task) -> int:
        """How many tasks the agent has to end before that one."""
        return await _aside(self._tasks.ahead, task)

    async def abandoned(self) -> set[str]:
        """The agents that were interrupted in the middle of a task with which nobody goes on."""
        there = {worker.id: worker for worker in await self.workers()}
        if any(worker.agents is None for worker in there.values()):
            return set()  # it is taken over in a moment
        return {task.agent for task in await _aside(self._tasks.running) if task.worker not in there}

    async def over(self, ids: list[str]) -> list[Task]:
        """Those of some tasks that are over."""
        return await _aside(self._tasks.over, ids)

    async def cancel(self, id: str) -> Task:
        """Stop a task; what it has done so far is kept."""
        return await _aside(self._tasks.cancel, id)

    async def history(self, name: str) -> list[Message]:
        """The conversation with an agent, whole, whatever the model still knows of it."""
        record = await self.find(name)
        return await _aside(self._history.whole, record.conversation)

    async def workers(self) -> list[Worker]:
        """The processes that work on tasks now."""
        return [worker for worker in await _aside(workers, self.database) if await _aside(is_alive, worker)]

    async def events(self, id: str, after: int = 0) -> AsyncGenerator[Event, None]:
        """What happens with a task, from its beginning or from a position on (`event.seq`), to `Done` or `Failed`.

        Whoever comes back goes on where they were; whoever comes after the end gets everything as well.
        """
        position = after
        quiet = 0.0
        while True:
            events = await _aside(read_events, self.database, id, position)
            for event in events:
                position = event.seq
                if isinstance(event, Done | Failed):
                    await self._over(id)
                    yield event
                    return
                yield event
            quiet = 0.0 if events else quiet + _POLL_S
            if not events:
                if quiet >= _CHECK_S or position == after:
                    quiet = 0.0
                    task = await self.task(id)
                    if task.is_over and not await _aside(read_events, self.database, id, position):
                        remembered = _remembered(task)
                        for event in remembered if position == 0 else remembered[-1:]:
                            yield event
                        return
                await asyncio.sleep(_POLL_S)

    async def last_event(self, id: str) -> Event | None:
        """What happened last with a task."""
        events = await _aside(read_events, self.database, id, await self.position(id) - 1)
        return events[-1] if events else None

    async def position(self, id: str) -> int:
        """How far a task has come: the position of its last event."""
        return await _aside(last_position, self.database, id)

    async def work_on(self, task: Task, after: int = 0) -> AsyncGenerator[Event, None]:
        """The events of a task. Unless a worker does it, this process does, with what the agent has to do before."""
        helping = asyncio.create_task(self._work_if_alone(task))
        reading = self.events(task.id, after)
        try:
            while True:
                step = asyncio.ensure_future(anext(reading, None))
                try:
                    await asyncio.wait({step, helping}, return_when=asyncio.FIRST_COMPLETED)
                    if helping.done():
                        helping.result()  # the worker cannot go on: its reason is raised
                    event = await step
                finally:
                    step.cancel()
                    await asyncio.gather(step, return_exceptions=True)
                if event is None:
                    return
                yield event
        finally:
            helping.cancel()
            await asyncio.gather(helping, return_exceptions=True)
            await reading.aclose()

    def worker(
        self, scope: Scope | None = None, *, room: int = 10, tools: Mapping[str, Sequence[Tool]] | None = None
    ) -> TaskWorker:
        """A worker in this process, for `async with`: it does the tasks of all agents, up to `room` at once.

        `tools` are functions that only this program has, by the name of the agent that may call them.
        """
        from any_agent.orchestration.durable.worker import TaskWorker  # its engine takes a while to be imported

        return TaskWorker(self.database, scope, room=room, tools=tools)

    async def _work_if_alone(self, task: Task) -> None:
        """Do the task here as soon as nobody else would. It returns only by being cancelled, or with an error."""
        while await self.is_served(task.id):
            await asyncio.sleep(_CHECK_S)
        try:
            async with self._helper_changes:
                self._helped.append(task)
                if self._helper is None:
                    self._helper = await self.worker(self._helped_scope()).__aenter__()
                self._helper.scope = self._helped_scope()
            await asyncio.shield(self._helper.failure)
        finally:
            async with self._helper_changes:
                if task in self._helped:
                    self._helped.remove(task)
                if self._helper is not None and self._helped:
                    self._helper.scope = self._helped_scope()
                elif self._helper is not None:
                    helper, self._helper = self._helper, None
                    await helper.__aexit__()

    def _helped_scope(self) -> Scope:
        """What others submitted later is theirs: this process may end before it."""
        return Scope(
            tuple(dict.fromkeys(task.agent for task in self._helped)), max(task.submitted for task in self._helped)
        )

    async def is_served(self, id: str) -> bool:
        """Whether a task is over, or somebody works on it, or will."""
        task = await self.task(id)
        there = await self.workers()
        return task.is_over or any(worker.agents is None or worker.id == task.worker for worker in there)

    async def _over(self, id: str) -> None:
        """Return when the end of a task is written down: its last event comes a moment before."""
        while not (await self.task(id)).is_over:
            await asyncio.sleep(_POLL_S / 5)


def _remembered(task: Task) -> list[Event]:
    """What is left to tell of a task whose events were cleared away, or that was cancelled before there were any."""
    if task.state == "done":
        text = str(task.outcome.get("text", ""))
        response = LLMResponse(content=[TextBlock(text)])
        return [TextDelta(text), ResponseEnd(response), Done(response)]
    if task.state == "cancelled":
        return [Failed(StreamInterrupted("The task was cancelled", kind="aborted", retryable=False), LLMResponse())]
    return [Failed(ProviderError(str(task.outcome.get("error", ""))), LLMResponse())]


async def _aside(work: Callable[..., _T], *arguments: Any) -> _T:
    """Wait for the database without holding up the event loop."""
    return await asyncio.to_thread(work, *arguments)
