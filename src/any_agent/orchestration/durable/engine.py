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
from typing import TYPE_CHECKING

import sqlalchemy.exc
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID

from any_agent.orchestration.durable.errors import StoreError

if TYPE_CHECKING:
    from any_agent.orchestration.durable.database import Database
    from any_agent.orchestration.durable.steps import Step

__all__ = ("Engine",)

#: the version of the shape of a run: which steps it takes in which order. Runs of another shape are not gone on with,
#: so a change needs a `DBOS.patch`, and this stays as it is
_SHAPE = "any-agent-1"
_POLL_S = 0.05
_STATES_OVER = ("SUCCESS", "ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")

_work: Callable[[str], Awaitable[None]] | None = None


@DBOS.workflow(name="any_agent.task", max_recovery_attempts=None)
async def _workflow(task: str) -> None:
    assert _work is not None
    await _work(task)


class _Journal:
    """The journal of whichever run it is used in."""

    def next_step(self, name: str) -> Step:
        """The next step of the run."""
        reservation = DBOS.reserve_step()
        return partial(reservation.run_async, {"name": name})


class Engine:
    """The one of this process: DBOS has a single instance."""

    journal = _Journal()

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._queue = f"any-agent {name}"
        self._has_queue = False

    def launch(self, work: Callable[[str], Awaitable[None]]) -> None:
        """Begin, in the running event loop; `work` is what a run does with the id of its task."""
        global _work
        if _work is not None:
            raise RuntimeError("there is a worker in this process already: use one Agents for everything in a process, or end it")
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

    async def begin(self, task: str, *, is_new: bool) -> bool:
        """Begin a run, or go on with it; `False` if there is nothing to go on with, since it is over."""
        status = None if is_new else await DBOS.get_workflow_status_async(task)
        if status is None:
            with SetWorkflowID(task):
                await DBOS.start_workflow_async(_workflow, task)
            return True
        if status.status in _STATES_OVER:
            return False
        if not self._has_queue:
            await DBOS.register_queue_async(self._queue, polling_interval_sec=_POLL_S)
            self._has_queue = True
        await DBOS.resume_workflows_async([task], queue_name=self._queue)
        return True

    def close(self) -> None:
        """End; runs that are not over can be gone on with elsewhere."""
        global _work
        _work = None
        DBOS.destroy()
        # the engine had put its own threads in their place, and has ended them
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())

    def explained(self, problem: Exception) -> Exception:
        """What the engine could not do with the database, in our words; anything else as it is."""
        if not isinstance(problem, sqlalchemy.exc.SQLAlchemyError):
            return problem
        origin = getattr(problem, "orig", None)
        explained = self._database.driver.explained(origin) if isinstance(origin, Exception) else problem
        return explained if isinstance(explained, StoreError) else StoreError(str(problem))
