"""A process at work: it takes tasks whose turn it is, does them side by side, and takes over what dead ones left.

What cannot be written down is not done: when the database fails for good, runs do not end but stand still, and the
worker fails with the reason. Another one goes on with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from any_agent.errors import AgentSDKError
from any_agent.orchestration.durable.agents import AgentRecords
from any_agent.orchestration.durable.errors import StoreError
from any_agent.orchestration.durable.history import History
from any_agent.orchestration.durable.log import EventLog
from any_agent.orchestration.durable.presence import LOST, Presence
from any_agent.orchestration.durable.retention import clear_away
from any_agent.orchestration.durable.run import TaskRun
from any_agent.orchestration.durable.tasks import Scope, Task, Tasks, TaskState
from any_agent.orchestration.registry import get_provider

if TYPE_CHECKING:
    from any_agent.agent.options import AgentOptions
    from any_agent.orchestration.durable.database import Database
    from any_agent.tools.define import Tool

__all__ = ("TaskWorker",)

#: how often the queue is looked at, and when nothing happened for a while
_POLL_S, _IDLE_POLL_S, _IDLE_AFTER_S = 0.1, 0.25, 5.0
#: how often the dead are looked for
_BURY_S = 1.0
#: how often old things are thrown away
_CLEAR_S = 60.0
#: more workers than this look less often each, so that the database is asked as often by all of them together; but not
#: less often than so many times more seldom, since many may be busy
_CROWD, _PATIENCE = 10, 8
#: a task that so many processes began and none ended is given up
_MOST_ATTEMPTS = 20


class TaskWorker:
    """Use it with `async with`; one at a time in a process."""

    def __init__(
        self,
        database: Database,
        scope: Scope | None = None,
        *,
        room: int = 10,
        tools: Mapping[str, Sequence[Tool]] | None = None,
    ) -> None:
        self._database = database
        #: may change while it works
        self.scope = scope or Scope()
        self._room = room
        #: by the agent's name: functions that only this program has, in the place of those that the agent names
        self._tools = tools or {}
        self._tasks = Tasks(database)
        self._records = AgentRecords(database)
        self._history = History(database)
        self._own_databases = database.another(), database.another(lazily_kept=True)
        self._presence = Presence(self._own_databases[0], agents=self.scope.agents, room=room)
        self._events = EventLog(self._own_databases[1], self._presence.id)
        self._runs: dict[str, TaskRun] = {}
        self._working: dict[str, asyncio.Task[Any]] = {}
        self._wake = asyncio.Event()
        self._stack = contextlib.AsyncExitStack()
        #: done when the worker cannot go on, with the reason
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> TaskWorker:
        try:
            from any_agent.orchestration.durable.engine import Engine
        except ModuleNotFoundError as problem:
            message = f'tasks are done with {problem.name}: pip install "any-agent-sdk[durable]"'
            raise AgentSDKError(message) from problem
        loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as stack:
            for database in self._own_databases:
                stack.callback(database.close)
            self._engine = Engine(self._database, self._presence.id, self._stand_still)
            self._engine.launch(self._do)
            stack.callback(self._engine.close)
            self._presence.begin(partial(loop.call_soon_threadsafe, self._lose))
            stack.callback(self._presence.end)
            stack.push_async_callback(self._events.close)
            stack.push_async_callback(self._abandon)
            taking = asyncio.create_task(self._take_tasks())
            stack.push_async_callback(_ended, taking)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.ExitStack() as haste:  # who is asked to end does not wait for a database that went away
            for database in (self._database, *self._own_databases):
                haste.enter_context(database.in_haste())
            await self._stack.aclose()

    @property
    def busy(self) -> int:
        """How many tasks it is doing."""
        return len(self._runs)

    async def finish(self, patience: float) -> None:
        """Take no more tasks, and return when those that were begun are over, or the patience is."""
        self._room = 0
        if self._working:
            await asyncio.wait(self._working.values(), timeout=patience)

    async def _take_tasks(self) -> None:
        busy, buried, cleared, patience = time.monotonic(), 0.0, 0.0, 1.0
        try:
            while True:
                now = time.monotonic()
                if now - buried > _BURY_S * patience:
                    buried = now
                    patience = min(max(1.0, await asyncio.to_thread(self._presence.bury) / _CROWD), _PATIENCE)
                    await self._take_lost()
                    await self._take(self._tasks.take_over)
                if now - cleared > _CLEAR_S:
                    cleared = now
                    await self._engine.forget(await asyncio.to_thread(clear_away, self._database))
                await self._take(self._tasks.claim)
                if self._runs:
                    busy = now
                    await self._look_after_runs()
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(patience * (_POLL_S if now - busy < _IDLE_AFTER_S else _IDLE_POLL_S)):
                        await self._wake.wait()
        except Exception as problem:
            self._fail(self._engine.explained(problem))

    async def _take_lost(self) -> None:
        """Begin what this worker has without knowing it: the connection was lost when the claim was committed."""
        for id in await asyncio.to_thread(self._tasks.owned, self._presence.id):
            if id not in self._runs:
                task = await asyncio.to_thread(self._tasks.find, id)
                if task.state == "running" and id not in self._runs:  # it had not ended in between
                    await self._begin(task)

    async def _take(self, take: Callable[[str, Scope, int], list[Task]]) -> None:
        room = self._room - len(self._runs)
        if room > 0:
            for task in await asyncio.to_thread(take, self._presence.id, self.scope, room):
                await self._begin(task)

    async def _look_after_runs(self) -> None:
        for id, is_cancelled in (await asyncio.to_thread(self._tasks.owned, self._presence.id)).items():
            run = self._runs.get(id)
            if run is not None and is_cancelled:
                run.cancel()

    async def _begin(self, task: Task) -> None:
        if task.attempts > _MOST_ATTEMPTS:
            message = f"given up: {_MOST_ATTEMPTS} processes began it, and all of them ended in the middle"
            await asyncio.to_thread(self._finish, task, "failed", {"error": message})
            return
        options = partial(self._options, task.agent)
        run = TaskRun(task, options, self._engine, self._history, self._events)
        self._runs[task.id] = run
        if not await self._engine.begin(task.id, is_new=task.attempts == 1):
            del self._runs[task.id]
            await asyncio.to_thread(self._finish, task, "failed", {"error": "its run ended without an outcome"})

    def _options(self, agent: str) -> AgentOptions:
        config = self._records.find(agent).config
        return get_provider(config.provider).options(config, self._tools.get(agent))

    async def _do(self, id: str) -> None:
        """The run itself, inside the engine."""
        run = self._runs.get(id)
        current = asyncio.current_task()
        if run is None or current is None:
            raise asyncio.CancelledError  # it was begun for a worker that has ended since
        self._working[id] = current
        try:
            state, outcome = await self._outcome(run)
            await asyncio.to_thread(self._finish, run.task, state, outcome)
        except StoreError as problem:
            await self._stand_still(problem)
        finally:
            self._runs.pop(id, None)
            self._working.pop(id, None)
            self._wake.set()

    async def _outcome(self, run: TaskRun) -> tuple[TaskState, dict[str, Any]]:
        try:
            return await run.done()
        except Exception as problem:
            explained = self._engine.explained(problem)
            if isinstance(explained, StoreError):
                raise explained from problem
            return "failed", {"error": f"{type(problem).__name__}: {problem}"}

    async def _stand_still(self, problem: StoreError) -> None:
        """Until the worker ends: nothing may come of a run that cannot be written down."""
        self._fail(problem)
        await asyncio.get_running_loop().create_future()

    def _finish(self, task: Task, state: TaskState, outcome: dict[str, Any]) -> None:
        self._tasks.finish(task, self._presence.id, state, outcome)

    def _lose(self) -> None:
        self._fail(StoreError(LOST))

    def _fail(self, problem: Exception) -> None:
        self._room = 0
        if not self.failure.done():
            self.failure.set_exception(problem)

    async def _abandon(self) -> None:
        """Leave what is not done as it is."""
        if not self.failure.cancel() and not self.failure.cancelled():
            self.failure.exception()  # whoever did not wait for it need not be told
        for run in self._runs.values():
            run.leave()
        working = list(self._working.values())
        for work in working:
            work.cancel()
        await asyncio.gather(*working, return_exceptions=True)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
