"""The agents themselves: what each is, and whether it lives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from any_agent.orchestration.durable.errors import AgentExists, UnknownAgent
from any_agent.orchestration.durable.tasks import cancel_all
from any_agent.orchestration.types import AgentConfig, AgentState

if TYPE_CHECKING:
    from any_agent.orchestration.durable.database import Database, Transaction

__all__ = ("AgentRecord", "AgentRecords")

_SELECT = """
SELECT name, generation, config, created, tasks,
    CASE WHEN state = 'stopped' THEN 'terminated'
        WHEN EXISTS (SELECT 1 FROM aa_tasks WHERE agent = name AND aa_tasks.state = 'running') THEN 'processing'
        ELSE COALESCE((SELECT CASE aa_tasks.state WHEN 'failed' THEN 'failed' ELSE 'idle' END FROM aa_tasks
            WHERE agent = name AND aa_tasks.state IN ('done', 'failed', 'cancelled') ORDER BY seq DESC LIMIT 1), 'idle')
    END,
    (SELECT COUNT(*) FROM aa_tasks WHERE agent = name AND aa_tasks.state IN ('waiting', 'ready'))
FROM aa_agents
"""


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """An agent as the database knows it."""

    config: AgentConfig
    state: AgentState
    #: how many tasks there were, and how many wait
    tasks: int
    waiting: int
    created: float
    #: the name of its conversation
    conversation: str


class AgentRecords:
    """All agents of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, config: AgentConfig) -> None:
        """A new agent; one that was stopped gives its name to the new one, which begins without its memories."""
        values: dict[str, Any] = {"name": config.name, "config": json.dumps(config.to_dict(), ensure_ascii=False)}

        def work(transaction: Transaction) -> None:
            # of those who make it at once the first is done before the others see what there is
            is_new = transaction.run(
                "INSERT INTO aa_agents (name, generation, tasks, config, state, created) "
                "VALUES (:name, 1, 0, :config, 'active', {now}) ON CONFLICT (name) DO NOTHING",
                **values,
            )
            if not is_new and not transaction.run(
                "UPDATE aa_agents SET generation = generation + 1, config = :config, state = 'active', "
                "created = {now} WHERE name = :name AND state = 'stopped'",
                **values,
            ):
                raise AgentExists(
                    f"there is an agent {config.name!r} already: take another name, or stop it first "
                    f"(`any-agent stop {config.name}`)"
                )

        self._database.transact(work)

    def find(self, name: str) -> AgentRecord:
        """The agent of that name, stopped or not."""
        rows = self._database.read(f"{_SELECT} WHERE name = :name", name=name)
        if not rows:
            raise UnknownAgent(f"there is no agent {name!r}: `any-agent list` shows those that there are")
        return _record(rows[0])

    def all(self) -> list[AgentRecord]:
        """All agents, by name."""
        return [_record(row) for row in self._database.read(f"{_SELECT} ORDER BY name")]

    def stop(self, name: str) -> None:
        """End an agent: what it does is cancelled, and it takes no tasks any more."""

        def work(transaction: Transaction) -> None:
            if not transaction.run("UPDATE aa_agents SET state = 'stopped' WHERE name = :name", name=name):
                raise UnknownAgent(f"there is no agent {name!r}: `any-agent list` shows those that there are")
            cancel_all(transaction, name)

        self._database.transact(work)


def _record(row: tuple[Any, ...]) -> AgentRecord:
    name, generation, config, created, tasks, state, waiting = row
    return AgentRecord(
        config=AgentConfig.from_dict(json.loads(config)),
        state=AgentState(state),
        tasks=tasks,
        waiting=waiting,
        created=created,
        conversation=f"{name}#{generation}",
    )
