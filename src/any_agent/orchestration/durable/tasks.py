"""The tasks of all agents: who waits, whose turn it is, who works on what.

Rules, on which the order rests:

1. The tasks of one conversation are done in the order of `seq`, one at a time: `waiting`, `ready` (its turn has come),
   `running` (a worker has it), and `done`, `failed` or `cancelled` in the end.
2. Whoever adds a task to an agent, or ends one, holds the lock on the agent's row. So the next in line is made `ready`
   exactly once, and an index makes a second one at a time impossible.
3. A worker claims what is `ready`. Of a worker that is dead, another takes over what is `running`.
4. Only the worker that has a task ends it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from any_agent.orchestration.durable.errors import AgentStopped, TaskConflict, UnknownAgent, UnknownTask

if TYPE_CHECKING:
    from any_agent.orchestration.durable.database import Database, Transaction

__all__ = ("Scope", "Task", "TaskState", "Tasks", "cancel_all")

TaskState = Literal["waiting", "ready", "running", "done", "failed", "cancelled"]
_COLUMNS = (
    "id, agent, conversation, seq, sender, prompt, state, worker, attempts, cancelled, outcome, submitted, started, "
    "finished"
)
_NEXT_TASK = "UPDATE aa_agents SET tasks = tasks + 1 WHERE name = :agent RETURNING generation, tasks, state"
_LEFT_BEHIND = "state = 'running' AND worker NOT IN (SELECT id FROM aa_workers)"
_LOCK_AGENT = "SELECT name FROM aa_agents WHERE name = :agent {for_update}"
_SUBMIT = (
    "INSERT INTO aa_tasks (id, ticket, agent, conversation, seq, sender, prompt, state, submitted) SELECT :id, "
    ":ticket, :agent, :conversation, :seq, :sender, :prompt, CASE WHEN EXISTS (SELECT 1 FROM aa_tasks WHERE "
    "conversation = :conversation AND state IN ('waiting', 'ready', 'running')) THEN 'waiting' ELSE 'ready' END, {now} "
    "WHERE 1 = 1 ON CONFLICT (id) DO NOTHING"
)
#: the next of a conversation, if nothing of it is on its way
_ADVANCE = (
    "UPDATE aa_tasks SET state = 'ready' WHERE state = 'waiting' AND conversation = :conversation AND seq = (SELECT "
    "MIN(seq) FROM aa_tasks WHERE conversation = :conversation AND state = 'waiting') AND NOT EXISTS (SELECT 1 FROM "
    "aa_tasks WHERE conversation = :conversation AND state IN ('ready', 'running'))"
)
#: of a task that nobody works on
_CANCEL_IDLE = (
    "UPDATE aa_tasks SET state = 'cancelled', cancelled = 1, finished = {now} WHERE id = :id AND "
    f"(state IN ('waiting', 'ready') OR {_LEFT_BEHIND})"
)


@dataclass(frozen=True, slots=True)
class Task:
    """One prompt for one agent, and what became of it."""

    id: str
    agent: str
    conversation: str
    seq: int
    sender: str
    prompt: Any
    state: TaskState
    worker: str | None
    attempts: int
    cancelled: bool
    #: how it ended: `text`, `reason`, `usage`, or `error`
    outcome: dict[str, Any]
    submitted: float
    started: float | None
    finished: float | None

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which tasks a process works on: all, or those of some agents, as far as they were submitted by then."""

    agents: tuple[str, ...] | None = None
    until: float | None = None

    def condition(self) -> tuple[str, dict[str, Any]]:
        """The scope as a condition of SQL, and its values."""
        if self.agents is None:
            return "1 = 1", {}
        values: dict[str, Any] = {f"agent{number}": name for number, name in enumerate(self.agents)}
        condition = f"agent IN ({', '.join(f':{name}' for name in values)})"
        if self.until is not None:
            condition, values["until"] = f"{condition} AND submitted <= :until", self.until
        return condition, values


class Tasks:
    """The queue. Each method is one transaction.

    >>> Scope(("gpt",)).condition()
    ('agent IN (:agent0)', {'agent0': 'gpt'})
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(
        self, agent: str, prompt: Any, *, id: str | None = None, sender: str = "user", is_fresh: bool = False
    ) -> Task:
        """Add a task; with an `id` that is there already, it is that task, unless it asks for something else.

        A fresh one is a conversation of its own: it knows nothing of the agent's, and need not wait for it.
        """
        if id is not None and not (id and id.isprintable()):
            raise ValueError(f"{id!r} is no id for a task: it must be of characters that can be printed")
        ticket = uuid.uuid4().hex

        def work(transaction: Transaction) -> Task:
            known = _find(transaction, "ticket = :value", ticket) or (id and _find(transaction, "id = :value", id))
            if known:
                return known
            row = transaction.one(_NEXT_TASK, agent=agent)
            _check_living(agent, row[2] if row else None)
            assert row is not None
            generation, seq, _ = row
            new = id or f"{agent}:{seq:010d}"
            values: dict[str, Any] = {
                "ticket": ticket,
                "agent": agent,
                "conversation": f"{agent}#{generation}" + (f"/{new}" if is_fresh else ""),
                "seq": seq,
                "sender": sender,
                "prompt": json.dumps(prompt, ensure_ascii=False),
            }
            if not transaction.run(_SUBMIT, id=new, **values) and id is None:  # somebody gave their own task this id
                new = f"{new}-{ticket}"
                transaction.run(_SUBMIT, id=new, **values)
            return _found(transaction, new)

        task = self._database.transact(work)
        if (task.agent, task.prompt) != (agent, prompt):
            raise TaskConflict(f"there is a task {task.id!r} already, of {task.agent}, and it asks something else")
        return task

    def find(self, id: str) -> Task:
        """The task of that id."""
        return self._database.transact(lambda transaction: _found(transaction, id), writes=False)

    def of(self, agent: str, limit: int = 100) -> list[Task]:
        """The last tasks of an agent, the newest first."""
        rows = self._database.read(
            f"SELECT {_COLUMNS} FROM aa_tasks WHERE agent = :agent ORDER BY seq DESC LIMIT :limit",
            agent=agent,
            limit=limit,
        )
        return [_task(row) for row in rows]

    def ahead(self, task: Task) -> int:
        """How many tasks of its conversation come before a task, and are not over."""
        rows = self._database.read(
            "SELECT COUNT(*) FROM aa_tasks WHERE conversation = :conversation AND seq < :seq AND finished IS NULL",
            conversation=task.conversation,
            seq=task.seq,
        )
        return int(rows[0][0])

    def running(self) -> list[Task]:
        """The tasks that were begun and are not over, whether or not their worker lives."""
        return [_task(row) for row in self._database.read(f"SELECT {_COLUMNS} FROM aa_tasks WHERE state = 'running'")]

    def over(self, ids: Sequence[str]) -> list[Task]:
        """Those of some tasks that are over, in the order in which they ended."""
        if not ids:
            return []
        names = {f"id{number}": id for number, id in enumerate(ids)}
        rows = self._database.read(
            f"SELECT {_COLUMNS} FROM aa_tasks WHERE id IN ({', '.join(f':{name}' for name in names)}) "
            "AND finished IS NOT NULL ORDER BY finished",
            **names,
        )
        return [_task(row) for row in rows]

    def claim(self, worker: str, scope: Scope, room: int) -> list[Task]:
        """Up to `room` tasks whose turn it is; they are the worker's from now on."""
        condition, values = scope.condition()
        statement = (
            f"WITH chosen AS (SELECT id FROM aa_tasks WHERE state = 'ready' AND {condition} ORDER BY submitted, id "
            "LIMIT :room {skip_locked}) UPDATE aa_tasks SET state = 'running', worker = :worker, "
            "attempts = attempts + 1, started = COALESCE(started, {now}) WHERE id IN (SELECT id FROM chosen) "
            f"AND state = 'ready' RETURNING {_COLUMNS}"
        )
        return self._taken(statement, worker=worker, room=room, **values)

    def take_over(self, worker: str, scope: Scope, room: int) -> list[Task]:
        """Up to `room` tasks that were begun by workers which are no more."""
        condition, values = scope.condition()
        statement = (
            f"WITH chosen AS (SELECT id FROM aa_tasks WHERE {_LEFT_BEHIND} AND {condition} ORDER BY submitted, id "
            "LIMIT :room {skip_locked}) UPDATE aa_tasks SET worker = :worker, attempts = attempts + 1 "
            f"WHERE id IN (SELECT id FROM chosen) AND {_LEFT_BEHIND} RETURNING {_COLUMNS}"
        )
        return self._taken(statement, worker=worker, room=room, **values)

    def owned(self, worker: str) -> dict[str, bool]:
        """The tasks that a worker has, and whether somebody wants them to stop."""
        rows = self._database.read(
            "SELECT id, cancelled FROM aa_tasks WHERE state = 'running' AND worker = :worker", worker=worker
        )
        return {id: bool(cancelled) for id, cancelled in rows}

    def finish(self, task: Task, worker: str, state: TaskState, outcome: dict[str, Any]) -> bool:
        """End a task that the worker has, and let the next of its conversation begin; whether it still had it."""

        def work(transaction: Transaction) -> bool:
            transaction.one(_LOCK_AGENT, agent=task.agent)
            ended = transaction.run(
                "UPDATE aa_tasks SET state = :state, outcome = :outcome, finished = {now} "
                "WHERE id = :id AND state = 'running' AND worker = :worker",
                state=state,
                outcome=json.dumps(outcome, ensure_ascii=False),
                id=task.id,
                worker=worker,
            )
            if ended:
                transaction.run(_ADVANCE, conversation=task.conversation)
            return bool(ended)

        return self._database.transact(work)

    def cancel(self, id: str) -> Task:
        """Stop a task: at once if nobody works on it yet, else as soon as its worker notices."""

        def work(transaction: Transaction) -> Task:
            task = _found(transaction, id)
            transaction.one(_LOCK_AGENT, agent=task.agent)
            if transaction.run(_CANCEL_IDLE, id=id):
                transaction.run(_ADVANCE, conversation=task.conversation)
            transaction.run("UPDATE aa_tasks SET cancelled = 1 WHERE id = :id AND state = 'running'", id=id)
            return _found(transaction, id)

        return self._database.transact(work)

    def _taken(self, statement: str, **values: Any) -> list[Task]:
        # the retry of a commit that was lost on the way finds nothing: `owned` tells what is the worker's all the same
        rows = self._database.transact(lambda transaction: transaction.all(statement, **values))
        return sorted((_task(row) for row in rows), key=lambda task: (task.submitted, task.id))


def cancel_all(transaction: Transaction, agent: str) -> None:
    """Stop everything that an agent does, or would do."""
    transaction.run(
        "UPDATE aa_tasks SET state = 'cancelled', cancelled = 1, finished = {now} WHERE agent = :agent AND "
        f"(state IN ('waiting', 'ready') OR {_LEFT_BEHIND})",
        agent=agent,
    )
    transaction.run("UPDATE aa_tasks SET cancelled = 1 WHERE agent = :agent AND state = 'running'", agent=agent)


def _check_living(agent: str, state: str | None) -> None:
    if state is None:
        raise UnknownAgent(f"there is no agent {agent!r}: `any-agent spawn --name {agent} …` makes one")
    if state != "active":
        raise AgentStopped(f"the agent {agent!r} is stopped: `any-agent spawn --name {agent} …` begins anew with it")


def _find(transaction: Transaction, condition: str, value: str) -> Task | None:
    row = transaction.one(f"SELECT {_COLUMNS} FROM aa_tasks WHERE {condition}", value=value)
    return _task(row) if row is not None else None


def _found(transaction: Transaction, id: str) -> Task:
    task = _find(transaction, "id = :value", id)
    if task is None:
        raise UnknownTask(f"there is no task {id!r}; `any-agent show AGENT` lists an agent's tasks")
    return task


def _task(row: Sequence[Any]) -> Task:
    id, agent, conversation, seq, sender, prompt, state, worker, attempts, cancelled, outcome, *times = row
    submitted, started, finished = times
    return Task(
        id=id,
        agent=agent,
        conversation=conversation,
        seq=seq,
        sender=sender,
        prompt=json.loads(prompt),
        state=state,
        worker=worker,
        attempts=attempts,
        cancelled=bool(cancelled),
        outcome=json.loads(outcome) if outcome else {},
        submitted=submitted,
        started=started,
        finished=finished,
    )
