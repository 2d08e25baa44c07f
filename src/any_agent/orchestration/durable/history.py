"""What agents have said and heard: the messages of each conversation, and the whole of results that were cut."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
        """The conversation as the model knows it, without what this task added: what it began with."""
        messages: list[Message] = []
        for body in self._bodies(
            "conversation = :conversation AND task <> :task", conversation=conversation, task=task
        ):
            if "compacted" in body:
                messages = _messages(body["compacted"])
            else:
                messages.append(message_from_dict(body))
        return messages

    def whole(self, conversation: str) -> list[Message]:
        """The conversation as it was, with what the model does not know any more."""
        bodies = self._bodies("conversation = :conversation", conversation=conversation)
        return _messages(body for body in bodies if "compacted" not in body)

    def compacted(self, task: str, part: int) -> list[Message]:
        """What `compact` wrote down."""
        (body,) = self._bodies("task = :task AND part = :part", task=task, part=part)
        return _messages(body["compacted"])

    def append(self, task: Task, part: int, messages: Sequence[Message]) -> None:
        """Add the `part`th thing that a task has to add, unless it is there."""
        self._add(task, part, [message_to_dict(message) for message in messages])

    def compact(self, task: Task, part: int, messages: Sequence[Message]) -> None:
        """From here on the model knows these messages in the place of all before; those are kept all the same."""
        body = {"compacted": [message_to_dict(message) for message in messages]}
        self._add(task, part, [body])

    def _add(self, task: Task, part: int, bodies: Sequence[dict[str, Any]]) -> None:
        written = [msgspec.json.encode(body).decode() for body in bodies]

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
                for number, body in enumerate(written)
            ]
            transaction.run_many(
                "INSERT INTO aa_messages (conversation, seq, task, part, body) "
                "VALUES (:conversation, :seq, :task, :part, :body)",
                rows,
            )

        self._database.transact(work)

    def _bodies(self, condition: str, **values: Any) -> list[dict[str, Any]]:
        rows = self._database.read(f"SELECT body FROM aa_messages WHERE {condition} ORDER BY seq", **values)
        return [msgspec.json.decode(body) for (body,) in rows]

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


def _messages(bodies: Iterable[dict[str, Any]]) -> list[Message]:
    return [message_from_dict(body) for body in bodies]
