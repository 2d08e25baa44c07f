"""What the tests of the durable agents share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, TypeVar

from any_agent.orchestration import AgentConfig
from any_agent.orchestration.durable.agents import AgentRecords
from any_agent.orchestration.durable.database import Database
from any_agent.orchestration.durable.tasks import Tasks

_T = TypeVar("_T")
LIMIT_S = 50
NOWHERE = "http://127.0.0.1:1/v1"


def add_agents(database: Database, *names: str) -> Tasks:
    for name in names:
        AgentRecords(database).add(AgentConfig(name, "openai", "scripted", base_url=NOWHERE))
    return Tasks(database)


def appear(database: Database, *ids: str, host: str = "elsewhere", silent: float = 0) -> None:
    """Workers of another machine, which were heard so many seconds ago."""
    for id in ids:
        database.transact(
            lambda transaction, id=id: transaction.run(
                "INSERT INTO aa_workers (id, host, pid, agents, room, started, beat) "
                "VALUES (:id, :host, 1, NULL, 10, {now}, {now} - :silent)",
                id=id,
                host=host,
                silent=silent,
            )
        )


def at_once(database: Database, *works: Callable[[Database], _T]) -> list[_T]:
    """Do all at the same moment, each in a thread with a connection of its own; what they return."""
    barrier = threading.Barrier(len(works))
    results: list[Any] = [None] * len(works)
    problems: list[BaseException] = []

    def run(number: int, work: Callable[[Database], _T]) -> None:
        try:
            with closing(Database(database.url)) as own:
                own.read("SELECT 1")
                barrier.wait(LIMIT_S)
                results[number] = work(own)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=item) for item in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    if problems:
        raise problems[0]
    return results


def states(tasks: Tasks, ids: Sequence[str]) -> list[str]:
    return [tasks.find(id).state for id in ids]
