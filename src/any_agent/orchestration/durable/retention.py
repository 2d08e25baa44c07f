"""What is thrown away of tasks that have long been over: their events, and the engine's journal.

What was said is kept, and so is the task with its answer: its id will not be done twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from any_agent.orchestration.durable.database import Database, Transaction

__all__ = ("clear_away",)

_KEPT_S = 7 * 24 * 3600.0
_AT_ONCE = 200
_OLD = (
    "SELECT id, finished FROM aa_tasks WHERE finished > :since AND finished < {now} - :kept "
    "ORDER BY finished LIMIT :most"
)


def clear_away(database: Database) -> list[str]:
    """Clear away some of what is old: the ids of the tasks, whose journal can go too. Empty if there is nothing."""

    def work(transaction: Transaction) -> list[str]:
        row = transaction.one("SELECT value FROM aa_meta WHERE name = 'cleared'")
        old = transaction.all(_OLD, since=float(row[0]) if row else 0.0, kept=_KEPT_S, most=_AT_ONCE)
        if not old:
            return []
        tasks = [{"task": id} for id, _ in old]
        transaction.run_many("DELETE FROM aa_events WHERE task = :task", tasks)
        transaction.run_many("DELETE FROM aa_calls WHERE task = :task", tasks)
        transaction.run(
            "INSERT INTO aa_meta (name, value) VALUES ('cleared', :until) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            until=repr(old[-1][1]),
        )
        return [id for id, _ in old]

    return database.transact(work)
