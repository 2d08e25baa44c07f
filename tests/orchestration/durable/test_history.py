"""What agents remember: only ever added to, and adding the same again changes nothing."""

from __future__ import annotations

import pytest

from any_agent import Message, TextBlock, ToolUseBlock
from any_agent.orchestration.durable.database import Database
from any_agent.orchestration.durable.errors import StoreError
from any_agent.orchestration.durable.history import History
from any_agent.orchestration.durable.tasks import Scope, Task
from any_agent.types import ImageBlock, ThinkingBlock, ToolResultBlock
from orchestration.durable.support import add_agents, appear


@pytest.fixture
def tasks(database: Database) -> list[Task]:
    """Two tasks of two agents, which the worker "w" has."""
    queue = add_agents(database, "a", "b")
    appear(database, "w")
    for name in "ab":
        queue.submit(name, "x")
    return queue.claim("w", Scope(), 2)


def test_what_is_added_twice_is_there_once(database: Database, tasks: list[Task]) -> None:
    history, (one, two) = History(database), tasks
    said = [
        Message("user", "x"),
        Message("assistant", [ThinkingBlock("t", "s"), TextBlock("\0 ü 🙂"), ToolUseBlock("1", "n", {"a": [1]})]),
        Message("tool", [ToolResultBlock("1", [TextBlock("r"), ImageBlock(data="AA==")])]),
    ]
    for _ in range(2):
        history.append(one, 1, said[:1])
        history.append(two, 1, [Message("user", "other")])
        history.append(one, 2, said[1:])
    assert history.before("a#1", "") == said
    assert history.whole("a#1") == said
    assert history.before("a#1", one.id) == []
    assert history.before("b#1", "") == [Message("user", "other")]


def test_who_was_given_up_adds_nothing(database: Database, tasks: list[Task]) -> None:
    history = History(database)
    database.transact(lambda new: new.run("DELETE FROM aa_workers"))
    with pytest.raises(StoreError, match="took over its tasks"):
        history.append(tasks[0], 1, [Message("user", "x")])
    with pytest.raises(StoreError, match="took over its tasks"):
        history.begin_call(tasks[0], "1:0")
    assert history.before("a#1", "") == []


def test_each_attempt_at_a_call_is_counted(database: Database, tasks: list[Task]) -> None:
    history, (one, two) = History(database), tasks
    assert [history.begin_call(one, "1:0") for _ in range(3)] == [1, 2, 3]
    assert (history.begin_call(one, "1:1"), history.begin_call(two, "1:0")) == (1, 1)


def test_long_results_are_kept_whole(database: Database, tasks: list[Task]) -> None:
    history = History(database)
    history.keep_results("a#1", {"r1": "x" * 1_000_000, "r2": "\0 🙂"})
    history.keep_results("a#1", {"r2": "y"})
    assert history.results("a#1") == {"r1": "x" * 1_000_000, "r2": "y"}
    assert history.results("b#1") == {}
