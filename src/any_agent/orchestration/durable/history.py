"""What agents have said and heard: the messages of each conversation, and the whole of results that were cut."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from any_agent.events import message_from_dict, message_to_dict
from any_agent.orchestration.durable.presence import check_known

if TYPE_CHECKING:
    from any_agent.orchestration.durable.database import Database, Transaction
    from any_agent.orchestration.durable.tasks import Task
    from any_agent.types import Message

__all__ = ("History",)


class History:
    """Messages are only ever added, and adding the same again changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def before(self, conversation: str, task: str) -> list[Message]:
        """The conversation without what this task added to it: what it began with."""
        rows = self._database.read(
            "SELECT body FROM aa_messages WHERE conversation = :conversation AND task <> :task ORDER BY seq",
            conversation=conversation,
            task=task,
        )
        return [_message(body) for (body,) in rows]

    def of_task(self, task: str) -> list[Message]:
        """What a task added, its prompt first."""
        rows = self._database.read("SELECT body FROM aa_messages WHERE task = :task ORDER BY seq", task=task)
        return [_message(body) for (body,) in rows]

    def append(self, task: Task, part: int, messages: Sequence[Message]) -> None:
        """Add the `part`th thing that a task has to add, unless it is there."""
        bodies = [msgspec.json.encode(message_to_dict(message)).decode() for message in messages]

        def work(transaction: Transaction) -> None:
            check_known(transaction, task.worker)
            known = "SELECT 1 FROM aa_messages WHERE task = :task AND part = :part LIMIT 1"
            if transaction.one(known, task=task.id, part=part) is not None:
                return
            last = transaction.one(
                "SELECT COALESCE(MAX(seq), 0) FROM aa_messages WHERE conversation = :conversation",
                conversation=task.conversation,
            )
            first = (last[0] if last else 0) + 1
            rows = [
                {
                    "conversation": task.conversation,
                    "seq": first + number,
                    "task": task.id,
                    "part": part,
                    "body": body,
                }
                for number, body in enumerate(bodies)
            ]
            transaction.run_many(
                "INSERT INTO aa_messages (conversation, seq, task, part, body) "
                "VALUES (:conversation, :seq, :task, :part, :body)",
                rows,
            )

        self._database.transact(work)

    def begin_call(self, task: Task, place: str) -> int:
        """Write down that a call begins; the how manieth time that is."""
        statement = (
            "INSERT INTO aa_calls (task, place, attempts) VALUES (:task, :place, 1) "
            "ON CONFLICT (task, place) DO UPDATE SET attempts = aa_calls.attempts + 1 RETURNING attempts"
        )

        def work(transaction: Transaction) -> int:
            check_known(transaction, task.worker)
            row = transaction.one(statement, task=task.id, place=place)
            assert row is not None
            return int(row[0])

        return self._database.transact(work)

    def results(self, conversation: str) -> dict[str, str]:
        """The results that were cut, whole, by the handle that the model knows."""
        rows = self._database.read(
            "SELECT handle, body FROM aa_results WHERE conversation = :conversation", conversation=conversation
        )
        return {handle: json.loads(body) for handle, body in rows}

    def keep_results(self, conversation: str, results: Mapping[str, str]) -> None:
        """Keep results that were cut."""
        # what a tool gave back may hold characters that a database has no place for
        rows = [
            {"conversation": conversation, "handle": handle, "body": json.dumps(text)}
            for handle, text in results.items()
        ]
        self._database.transact(
            lambda transaction: transaction.run_many(
                "INSERT INTO aa_results (conversation, handle, body) VALUES (:conversation, :handle, :body) "
                "ON CONFLICT (conversation, handle) DO UPDATE SET body = excluded.body",
                rows,
            )
        )


def _message(body: str) -> Message:
    return message_from_dict(msgspec.json.decode(body))
