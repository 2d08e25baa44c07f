"""The events of each task, in order: written by the worker that does it, read by anybody from any position.

Pieces of text that come close together are put together, since a row costs more than a token; everything else is
written at once. `seq` is the position in this log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from any_agent.events import Event, TextDelta, ThinkingDelta, ToolInputDelta, from_dict, to_dict
from any_agent.orchestration.durable.errors import StoreError
from any_agent.orchestration.durable.presence import check_known

if TYPE_CHECKING:
    from any_agent.orchestration.durable.database import Database, Transaction

__all__ = ("EventLog", "TaskLog", "last_position", "read_events")

_COALESCE_S = 0.05
_AT_ONCE = 500
_Piece = (TextDelta, ThinkingDelta, ToolInputDelta)
_WRITE = (
    "INSERT INTO aa_events (task, seq, step, body) VALUES (:task, :seq, :step, :body) "
    "ON CONFLICT (task, seq) DO NOTHING"
)


@dataclass(slots=True)
class TaskLog:
    """What one task has in the log, as its worker knows it."""

    task: str
    #: the position of the last event
    seq: int
    #: the steps that left events here before this worker began
    steps: set[str]
    #: how many events between steps were written before: a run that is done again makes them again
    between: int


@dataclass(slots=True)
class _Entry:
    log: TaskLog
    step: str | None
    event: Event


class EventLog:
    """Writes the events of all tasks of a process, together."""

    def __init__(self, database: Database, worker: str) -> None:
        self._database = database
        self._worker = worker
        self._entries: list[_Entry] = []
        #: the last entry of each task that is not written yet
        self._last: dict[str, _Entry] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_urgent = False
        self._writing = asyncio.Lock()
        self._flushes: set[asyncio.Task[None]] = set()

    async def open(self, task: str) -> TaskLog:
        """Where the log of a task stands."""
        rows = await asyncio.to_thread(
            self._database.read,
            "SELECT step, COUNT(*), MAX(seq) FROM aa_events WHERE task = :task GROUP BY step",
            task=task,
        )
        between = sum(count for step, count, _ in rows if step is None)
        last = max((seq for _, _, seq in rows), default=0)
        return TaskLog(task, last, {step for step, _, _ in rows if step is not None}, between)

    def put(self, log: TaskLog, step: str | None, event: Event) -> None:
        """Add an event; it is written soon."""
        last = self._last.get(log.task)
        joined = _joined(last.event, event) if last is not None and last.step == step else None
        if last is not None and joined is not None:
            last.event = joined
            return
        entry = self._last[log.task] = _Entry(log, step, event)
        self._entries.append(entry)
        is_urgent = not isinstance(event, _Piece)
        if self._timer is not None and is_urgent and not self._is_urgent:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._is_urgent = is_urgent
            delay = 0 if is_urgent else _COALESCE_S
            self._timer = asyncio.get_running_loop().call_later(delay, self._begin_flush)

    async def flush(self) -> None:
        """Return when everything is written that was added so far."""
        async with self._writing:
            entries, self._entries = self._entries, []
            self._last.clear()
            rows: list[dict[str, Any]] = []
            seqs: dict[str, int] = {}
            for entry in entries:
                task = entry.log.task
                seq = seqs[task] = seqs.get(task, entry.log.seq) + 1
                body = json.dumps(to_dict(replace(entry.event, seq=seq)))  # which takes what is no Unicode as well
                rows.append({"task": task, "seq": seq, "step": entry.step, "body": body})
            try:
                if rows:
                    await asyncio.to_thread(self._database.transact, partial(self._write, rows))
            except BaseException:
                self._entries = entries + self._entries
                raise
            for entry in entries:
                entry.log.seq = seqs[entry.log.task]

    async def close(self) -> None:
        """Write nothing more; what is not written is of tasks that others go on with."""
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*self._flushes, return_exceptions=True)

    def _write(self, rows: list[dict[str, Any]], transaction: Transaction) -> None:
        check_known(transaction, self._worker)
        transaction.run_many(_WRITE, rows)

    def _begin_flush(self) -> None:
        self._timer = None
        flush = asyncio.get_running_loop().create_task(self._flush_by_itself())
        self._flushes.add(flush)
        flush.add_done_callback(self._flushes.discard)

    async def _flush_by_itself(self) -> None:
        with contextlib.suppress(StoreError):  # nothing is lost by it, and the next step that ends hears of it
            await self.flush()


def read_events(database: Database, task: str, after: int = 0) -> list[Event]:
    """Up to some hundred events of a task, from those on that come after a position."""
    rows = database.read(
        "SELECT body FROM aa_events WHERE task = :task AND seq > :after ORDER BY seq LIMIT :limit",
        task=task,
        after=after,
        limit=_AT_ONCE,
    )
    return [from_dict(json.loads(body)) for (body,) in rows]


def last_position(database: Database, task: str) -> int:
    """The position of the last event of a task; 0 if there is none."""
    rows = database.read("SELECT COALESCE(MAX(seq), 0) FROM aa_events WHERE task = :task", task=task)
    return int(rows[0][0])


def _joined(last: Event, event: Event) -> Event | None:
    """Two pieces as one, if they are pieces of the same."""
    if isinstance(last, TextDelta) and isinstance(event, TextDelta):
        return TextDelta(last.text + event.text)
    if isinstance(last, ThinkingDelta) and isinstance(event, ThinkingDelta):
        return ThinkingDelta(last.text + event.text)
    if isinstance(last, ToolInputDelta) and isinstance(event, ToolInputDelta) and last.id == event.id:
        return ToolInputDelta(last.id, last.partial_json + event.partial_json)
    return None
