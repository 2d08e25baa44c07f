"""A worker in this process: what it does with its tasks when it ends, when the database fails, when it is given up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from any_agent import Done, Failed, Tool, ToolContext, ToolProgress, ToolResult, tool
from any_agent.orchestration.durable.database import Database
from any_agent.orchestration.durable.errors import StoreError
from any_agent.orchestration.durable.history import History
from any_agent.orchestration.durable.host import Agents
from any_agent.testing import HANG, ScriptedServer
from orchestration.durable.processes import until
from orchestration.durable.support import HALF, LIMIT_S, Model, read, said, spawn, texts, worker_of, written


class Deeds:
    """Tools that a test can hold."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = asyncio.Event()

    def tools(self) -> list[Tool]:
        @tool
        async def put(word: str) -> str:
            """Puts."""
            self.begun.append(word)
            await self.may_end.wait()
            return f"put of {word}"

        return [put]


async def over(agents: Agents, id: str) -> Any:
    await until(lambda: agents._tasks.find(id).is_over)
    return await agents.task(id)


async def test_a_worker_that_ends_in_the_middle_of_a_tool_leaves_it_to_others(
    model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    deeds = Deeds()
    task = await agents.submit("a", "do put x")
    async with worker_of(agents, deeds.tools()):
        await until(lambda: deeds.begun)
    assert (await agents.task(task.id)).state == "running"
    assert await said(agents, "a") == []  # nothing was broken off
    assert "tool_result" not in written(agents, task.id)
    deeds.may_end.set()
    async with worker_of(agents, deeds.tools()):
        events = await read(agents, task.id)
    assert isinstance(events[-1], Done)
    assert deeds.begun == ["x", "x"]
    assert model.asked == [("do put x", 0), ("do put x", 1)]
    assert await said(agents, "a") == [
        "user: do put x",
        "call: put x",
        "result: put of x",
        "assistant: heard: do put x",
    ]


async def test_a_worker_that_ends_in_the_middle_of_an_answer_leaves_it_to_others(
    model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    model.held[("x", 0)] = [HANG]
    task = await agents.submit("a", "x")
    async with worker_of(agents):
        await until(lambda: "heard" in written(agents, task.id))
    await server.disconnected()
    async with worker_of(agents):
        assert texts(await read(agents, task.id)) == ["heard: ", "heard: x"]
    assert model.asked == [("x", 0)] * 2


def break_writes(database: Database, table: str, word: str) -> None:
    """Writing to a table fails, as on a disk that is full, for whatever contains a word."""
    if database.url.startswith("sqlite"):
        statements = [
            f"CREATE TRIGGER broken BEFORE INSERT ON {table} WHEN NEW.body LIKE '%{word}%' "
            "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        ]
    else:
        statements = [
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$",
            f"CREATE TRIGGER broken BEFORE INSERT ON {table} FOR EACH ROW WHEN (NEW.body LIKE '%%{word}%%') "
            "EXECUTE FUNCTION broken()",
        ]
    for statement in statements:
        database.transact(lambda transaction, statement=statement: transaction.run(statement))


def mend_writes(database: Database, table: str) -> None:
    where = "" if database.url.startswith("sqlite") else f" ON {table}"
    database.transact(lambda transaction: transaction.run(f"DROP TRIGGER broken{where}"))


@pytest.mark.parametrize(
    ("table", "word"),
    [
        ("aa_events", "heard"),
        ("aa_events", "done"),
        ("aa_messages", "put of"),
    ],
)
async def test_what_cannot_be_written_stops_the_worker_and_costs_nothing(
    model: Model, server: ScriptedServer, agents: Agents, table: str, word: str
) -> None:
    await spawn(agents, server, "a")
    deeds = Deeds()
    deeds.may_end.set()
    task = await agents.submit("a", "do put x")
    agents.database.read("SELECT 1")
    break_writes(agents.database, table, word)
    async with worker_of(agents, deeds.tools()) as worker:
        with pytest.raises(StoreError, match="full"):
            await worker.failure
    assert (await agents.task(task.id)).state == "running"
    mend_writes(agents.database, table)
    async with worker_of(agents, deeds.tools()):
        events = await read(agents, task.id)
    assert isinstance(events[-1], Done), events[-1]
    assert (await over(agents, task.id)).outcome["text"] == "heard: do put x"
    assert await said(agents, "a") == [
        "user: do put x",
        "call: put x",
        "result: put of x",
        "assistant: heard: do put x",
    ]
    assert texts(events)[-1] == "heard: do put x"
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_a_task_whose_claim_was_lost_on_the_way_is_done_all_the_same(
    model: Model, server: ScriptedServer, agents: Agents
) -> None:
    """The transaction was committed, but the worker never heard of it: the connection was lost."""
    await spawn(agents, server, "a")
    task = await agents.submit("a", "x")
    async with worker_of(agents, room=0) as worker:
        assert [one.id for one in agents._tasks.claim(worker._presence.id, worker.scope, 1)] == [task.id]
        worker._room = 1
        assert isinstance((await read(agents, task.id))[-1], Done)
    assert model.asked == [("x", 0)]


async def test_a_worker_whose_engine_has_no_database_says_so(server: ScriptedServer, agents: Agents) -> None:
    await spawn(agents, server, "a")
    async with worker_of(agents) as worker:
        if agents.database.url.startswith("sqlite"):
            agents.database.transact(lambda new: new.run("DROP TABLE workflow_status"))
        else:
            agents.database.transact(lambda new: new.run("DROP TABLE dbos.workflow_status CASCADE"))
        await agents.submit("a", "x")
        with pytest.raises(StoreError, match="workflow_status"):
            await worker.failure


async def test_a_failing_database_is_no_fault_of_the_task(
    model: Model, server: ScriptedServer, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's configuration cannot be read just then."""
    await spawn(agents, server, "a")
    task = await agents.submit("a", "x")
    with monkeypatch.context() as patch:

        def broken(*_: object) -> None:
            raise StoreError("no database")

        patch.setattr("any_agent.orchestration.durable.worker.AgentRecords.find", broken)
        async with worker_of(agents) as worker:
            with pytest.raises(StoreError, match="no database"):
                await worker.failure
    async with worker_of(agents):
        assert isinstance((await read(agents, task.id))[-1], Done)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 5000, HALF, "naïve 🙂"])
async def test_whatever_a_model_calls_a_tool_the_task_goes_on(
    model: Model, server: ScriptedServer, agents: Agents, name: str
) -> None:
    await spawn(agents, server, "a")
    prompt = "do put x"
    model.names["put"] = name
    task = await agents.submit("a", prompt)
    async with worker_of(agents):
        events = await read(agents, task.id)
    assert isinstance(events[-1], Done), events[-1]
    assert (await over(agents, task.id)).state == "done"


async def test_a_model_that_writes_what_is_no_unicode_is_understood_or_told(
    server: ScriptedServer, agents: Agents, model: Model
) -> None:
    await spawn(agents, server, "a")
    model.suffix = f"{HALF} and \0"
    task = await agents.submit("a", "x")
    async with worker_of(agents):
        last = (await read(agents, task.id))[-1]
    assert isinstance(last, Done | Failed)
    assert (await over(agents, task.id)).state in ("done", "failed")
    assert "surrogates" not in str((await agents.task(task.id)).outcome)


async def test_a_task_that_no_process_survives_is_given_up(server: ScriptedServer, agents: Agents) -> None:
    await spawn(agents, server, "a")
    task, following = await agents.submit("a", "x"), await agents.submit("a", "y")
    agents._tasks.claim("dead", worker_of(agents).scope, 1)
    agents.database.transact(lambda new: new.run("UPDATE aa_tasks SET attempts = 20 WHERE id = :id", id=task.id))
    async with worker_of(agents):
        assert (await over(agents, following.id)).state == "done"
        (last,) = await read(agents, task.id)
    assert isinstance(last, Failed)
    assert "given up: 20 processes began it" in last.error.message


@pytest.mark.parametrize("text", ["caf\udce9", "a\0b", "🙂" * 3, ""])
async def test_whatever_a_tool_gives_back_the_task_goes_on(
    model: Model, server: ScriptedServer, agents: Agents, text: str
) -> None:
    """Such as the names of files, which need be no text."""

    @tool
    def put(word: str) -> str:
        """Puts."""
        return text

    await spawn(agents, server, "a")
    task = await agents.submit("a", "do put x")
    async with worker_of(agents, [put]) as worker:
        events = await read(agents, task.id)
        assert isinstance(events[-1], Done), events[-1]
        following = await agents.submit("a", "y")
        assert isinstance((await read(agents, following.id))[-1], Done)
        assert not worker.failure.done()


@pytest.mark.parametrize("prompt", ["caf\udce9", "a\0b", "🙂"])
async def test_whatever_is_asked_the_task_ends(
    model: Model, server: ScriptedServer, agents: Agents, prompt: str
) -> None:
    await spawn(agents, server, "a")
    async with worker_of(agents) as worker:
        try:
            task = await agents.submit("a", prompt)
        except ValueError:
            assert "\udce9" in prompt
            return
        await read(agents, task.id)
        assert (await over(agents, task.id)).state in ("done", "failed")
        assert not worker.failure.done()


async def test_progress_from_a_thread_is_in_the_log(model: Model, server: ScriptedServer, agents: Agents) -> None:
    @tool
    def put(word: str, context: ToolContext) -> str:
        """Puts."""
        for number in range(3):
            context.progress({"n": number})
        return "done"

    await spawn(agents, server, "a")
    task = await agents.submit("a", "do put x + put y")
    async with worker_of(agents, [put]):
        events = await read(agents, task.id)
    results = [event for event in events if isinstance(event, ToolResult)]
    assert [result.output for result in results] == ["done"] * 2
    for id in ("call_0", "call_1"):
        told = [event.data for event in events if isinstance(event, ToolProgress) and event.id == id]
        assert told == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_what_is_being_added_when_a_task_is_cancelled_is_there_before_the_next_begins(
    model: Model, server: ScriptedServer, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    adding, may_add = threading.Event(), threading.Event()
    append = History.append

    def slow(self: History, task: Any, part: int, messages: Any) -> None:
        if not adding.is_set():
            adding.set()
            may_add.wait(LIMIT_S)
        append(self, task, part, messages)

    monkeypatch.setattr(History, "append", slow)
    await spawn(agents, server, "a")
    async with worker_of(agents) as worker:
        one, two = await agents.submit("a", "one"), await agents.submit("a", "two")
        await until(adding.is_set)
        worker._runs[one.id].cancel()
        await asyncio.sleep(0.3)  # time enough to begin the next one too early
        assert (await agents.task(two.id)).state == "waiting"
        may_add.set()
        assert isinstance((await read(agents, two.id))[-1], Done)
    assert await said(agents, "a") == ["user: one", "assistant: heard: one", "user: two", "assistant: heard: two"]
    assert [message["role"] for message in server.requests[-1].json["messages"]] == ["user", "assistant", "user"]
