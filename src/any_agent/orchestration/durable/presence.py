"""Which processes work on tasks, and which of them are dead.

A process says that it lives in two ways: it holds a lock on a file of its own, which the kernel lets go however the
process ends; and it writes the time into its row of the database, for those that cannot see the file. So on one
machine a death is noticed at once, and elsewhere after some seconds of silence.

Who was silent itself (the database was away, the machine slept) gives all others the same time to be heard again.

What a process writes for a task is written only as long as nobody thinks that it is dead: `check_known` in the same
transaction keeps its row until that is done. So of two processes that both think that a task is theirs, one can write.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from any_agent.embedded.errors import EmbeddedError
from any_agent.embedded.folder import try_lock
from any_agent.folders import user_folder
from any_agent.orchestration.durable.errors import StoreError

if TYPE_CHECKING:
    from any_agent.orchestration.durable.database import Database, Transaction

__all__ = ("LOST", "Presence", "Worker", "check_known", "is_alive", "workers")

_BEAT = "UPDATE aa_workers SET beat = {now} WHERE id = :id"
_FORGET = "DELETE FROM aa_workers WHERE id = :id"
BEAT_S = 2.0
#: after so long a silence a process counts as dead
SILENCE_S = 12.0
LOST = (
    "other workers heard nothing of this one for so long that they took over its tasks (did the machine sleep, or the "
    "database not answer?): start it again"
)


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that works on tasks."""

    id: str
    host: str
    pid: int
    #: `None` for a worker of all agents
    agents: str | None
    room: int
    #: seconds since it was heard last
    silent: float


def workers(database: Database) -> list[Worker]:
    """All that are known, dead or alive."""
    rows = database.read("SELECT id, host, pid, agents, room, {now} - beat FROM aa_workers ORDER BY started")
    return [Worker(*row) for row in rows]


def check_known(transaction: Transaction, worker: str | None) -> None:
    """Raise unless a worker counts as alive, and see to it that it does until the transaction ends."""
    if transaction.one("SELECT id FROM aa_workers WHERE id = :id {kept}", id=worker) is None:
        raise StoreError(LOST)


def is_alive(worker: Worker) -> bool:
    """Whether a process lives, as far as can be seen from here."""
    return _verdict(worker) in ("alive", "heard")


def _verdict(worker: Worker) -> Literal["alive", "dead", "heard", "silent"]:
    """`alive` and `dead` are certain: the lock says so."""
    file = _lock_file(worker.id)
    if worker.host == socket.gethostname() and file.exists() and sys.platform != "win32":
        descriptor = try_lock(file)
        if descriptor is None:
            return "alive"
        os.close(descriptor)
        return "dead"
    return "heard" if worker.silent < SILENCE_S else "silent"


def _lock_file(id: str) -> Path:
    return user_folder("data") / "workers" / id.replace(":", "-")


class Presence:
    """Says that this process lives, from a thread of its own, so that nothing that the process does can hinder it."""

    def __init__(self, database: Database, *, agents: tuple[str, ...] | None, room: int) -> None:
        self.id = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._database = database
        self._agents = ", ".join(agents) if agents is not None else None
        self._room = room
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="any-agent presence", daemon=True)
        self._lock: int | None = None
        self._on_lost: Callable[[], object] = lambda: None
        #: how many beats in a row were heard
        self._beats = 0

    def begin(self, on_lost: Callable[[], object]) -> None:
        """Appear; `on_lost` is called, from a thread, when others think that this process is dead."""
        file = _lock_file(self.id)
        file.parent.mkdir(0o700, parents=True, exist_ok=True)
        if sys.platform != "win32":
            with contextlib.suppress(EmbeddedError):  # a folder without locks: then silence has to do
                self._lock = try_lock(file)
        self._on_lost = on_lost
        self._database.transact(
            lambda transaction: transaction.run(
                "INSERT INTO aa_workers (id, host, pid, agents, room, started, beat) "
                "VALUES (:id, :host, :pid, :agents, :room, {now}, {now})",
                id=self.id,
                host=socket.gethostname(),
                pid=os.getpid(),
                agents=self._agents,
                room=self._room,
            )
        )
        self._thread.start()

    def end(self) -> None:
        """Disappear: what this process left behind can be taken over at once."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()
        with contextlib.suppress(StoreError):
            self._forget(self.id)
        if self._lock is not None:
            os.close(self._lock)
        self._database.close()

    def bury(self) -> int:
        """Forget the processes that are dead: what they left behind is nobody's then. How many there were."""
        known = workers(self._database)
        was_heard = any(worker.id == self.id and worker.silent < SILENCE_S / 2 for worker in known)
        can_judge = was_heard and self._beats * BEAT_S > SILENCE_S
        for worker in known:
            verdict = _verdict(worker)
            if verdict == "dead" or (verdict == "silent" and can_judge):
                self._forget(worker.id)
        return len(known)

    def _beat(self) -> None:
        while not self._end.wait(BEAT_S):
            with contextlib.suppress(StoreError):
                if not self._database.transact(self._say):
                    self._on_lost()
                    return

    def _say(self, transaction: Transaction) -> int:
        row = transaction.one("SELECT {now} - beat FROM aa_workers WHERE id = :id", id=self.id)
        self._beats = self._beats + 1 if row is not None and row[0] < SILENCE_S / 2 else 0
        return transaction.run(_BEAT, id=self.id)

    def _forget(self, id: str) -> None:
        self._database.transact(lambda transaction: transaction.run(_FORGET, id=id))
        _lock_file(id).unlink(missing_ok=True)
