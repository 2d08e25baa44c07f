"""DBOS, as far as a run needs it: a journal of its steps, and beginning or going on with a run in this process.

A run is a workflow whose id is that of the task. What is new begins at once; what somebody else began is put on a
queue of this process alone, since that is how DBOS hands a workflow over. Whose turn it is is decided in `tasks`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy.exc
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID, StepReservation, error

from any_agent.errors import AgentSDKError
from any_agent.orchestration.durable.database import PATIENCE_S, PAUSE_S
from any_agent.orchestration.durable.errors import StoreError
from any_agent.orchestration.durable.presence import LOST, workers

if TYPE_CHECKING:
    from any_agent.orchestration.durable.database import Database
    from any_agent.orchestration.durable.steps import Step

__all__ = ("Engine",)

#: the version of the shape of a run: which steps it takes in which order. Runs of another shape are not gone on with,
#: so a change needs a `DBOS.patch`, and this stays as it is
_SHAPE = "any-agent-1"
_POLL_S = 0.05
#: of the queue of what was taken over, which is looked at from then on as long as the process lives
_QUEUE_POLL_S = 0.5
#: each of them is a connection; its work is so short that more of them are no faster
_CONNECTIONS = 5
_QUEUE = "any-agent"
_STATES_OVER = ("SUCCESS", "ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")

_T = TypeVar("_T")
_work: Callable[[str], Awaitable[None]] | None = None


@DBOS.workflow(name="any_agent.task", max_recovery_attempts=None)
async def _workflow(task: str) -> None:
    if _work is None:
        raise asyncio.CancelledError  # the worker has ended just now; of anything else DBOS would make an outcome
    await _work(task)


class Engine:
    """The one of this process: DBOS has a single instance.

    `stand_still` is called with what makes it impossible to write anything down, and never returns.
    """

    def __init__(self, database: Database, name: str, stand_still: Callable[[StoreError], Awaitable[Any]]) -> None:
        self._database = database
        self._stand_still = stand_still
        self._queue = f"{_QUEUE} {name}"
        self._has_queue = False

    def launch(self, work: Callable[[str], Awaitable[None]]) -> None:
        """Begin, in the running event loop; `work` is what a run does with the id of its task."""
        global _work
        if _work is not None:
            raise AgentSDKError(
                "there is a worker in this process already: use one Agents for everything in a process, or end it"
            )
        _work = work
        log = logging.getLogger("dbos")
        log.setLevel(logging.CRITICAL)  # what goes wrong is told by the runs themselves
        log.handlers = [logging.NullHandler()]  # its own holds on to the standard error that was there at first
        url = self._database.url
        config: DBOSConfig = {
            "name": "any-agent",
            "system_database_url": url.replace("postgresql://", "postgresql+psycopg://", 1),
            "application_version": _SHAPE,
            "executor_id": self._queue,
            "sys_db_pool_size": _CONNECTIONS,
            # nothing of ours waits for notifications; this is how long the end waits for the thread that looks for them
            "use_listen_notify": False,
            "notification_listener_polling_interval_sec": _POLL_S,
            "serializer": DBOSPortableJSONSerializer(),
            "log_level": "CRITICAL",
        }
        self._database.read("SELECT 1")  # makes the file, with its journal mode, or says why that cannot be
        try:
            DBOS(config=config)
            DBOS.listen_queues([self._queue])
            DBOS.launch()
        except sqlalchemy.exc.SQLAlchemyError as problem:
            self.close()
            raise self.explained(problem) from problem

    def next_step(self, name: str) -> Step:
        """The next step of the run in which this is called."""
        return partial(self._step, name, DBOS.reserve_step())

    async def begin(self, task: str, *, is_new: bool) -> bool:
        """Begin a run, or go on with it; `False` if there is nothing to go on with, since it is over."""
        status = None if is_new else await self._patiently(lambda: DBOS.get_workflow_status_async(task))
        if status is None:
            with SetWorkflowID(task):
                await DBOS.start_workflow_async(_workflow, task)
            return True
        if status.status in _STATES_OVER:
            return False
        if not self._has_queue:
            await self._patiently(lambda: DBOS.register_queue_async(self._queue, polling_interval_sec=_QUEUE_POLL_S))
            self._has_queue = True
        await DBOS.resume_workflows_async([task], queue_name=self._queue)
        return True

    async def forget(self, tasks: list[str]) -> None:
        """Throw away the journal of tasks that are over, and the queues of workers that are no more."""
        if tasks:
            await DBOS.delete_workflows_async(tasks)
        # whoever has a queue was there before it had one
        queues = [queue.name for queue in await self._patiently(DBOS.list_queues_async)]
        there = {f"{_QUEUE} {worker.id}" for worker in await asyncio.to_thread(workers, self._database)}
        for name in queues:
            if name.startswith(_QUEUE) and name not in there:
                await self._patiently(partial(DBOS.delete_queue_async, name))

    def close(self) -> None:
        """End; runs that are not over can be gone on with elsewhere."""
        global _work
        _work = None
        DBOS.destroy()
        # the engine had put its own threads in their place, and has ended them
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())

    async def _step(self, name: str, reservation: StepReservation, work: Callable[[], Awaitable[Any]]) -> Any:
        async def guarded() -> Any:
            try:
                return await work()
            except StoreError as problem:  # the engine would write it down as what came of the step
                return await self._stand_still(problem)

        try:
            return await reservation.run_async({"name": name}, guarded)
        except sqlalchemy.exc.SQLAlchemyError as problem:
            return await self._stand_still(self._explained(problem))
        except error.DBOSWorkflowConflictIDError:  # another process goes on with the run
            return await self._stand_still(StoreError(LOST))

    async def _patiently(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """What comes of those few things that the engine does not try again when the database went away."""
        for pause in (*PAUSE_S, *repeat(PAUSE_S[-1], round(PATIENCE_S))):
            try:
                return await ask()
            except sqlalchemy.exc.DBAPIError as problem:
                if not isinstance(problem.orig, Exception) or not self._database.driver.is_lost(problem.orig):
                    raise
            await asyncio.sleep(pause)
        return await ask()

    def explained(self, problem: Exception) -> Exception:
        """What the engine could not do with the database, in our words; anything else as it is."""
        if not isinstance(problem, sqlalchemy.exc.SQLAlchemyError):
            return problem
        return self._explained(problem)

    def _explained(self, problem: sqlalchemy.exc.SQLAlchemyError) -> StoreError:
        origin = getattr(problem, "orig", None)
        explained = self._database.driver.explained(origin) if isinstance(origin, Exception) else problem
        return explained if isinstance(explained, StoreError) else StoreError(str(problem))
