"""What others stumbled over with the engine, each with a test of its own.

Those that are shown elsewhere are named in the first line of their tests: dead workers, WAL, sortable ids, idempotent
task ids, retried steps telling readers to reset.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import closing
from typing import Any

from dbos import DBOS

from any_agent import Done, Message, tool
from any_agent.orchestration.durable.database import Database
from any_agent.orchestration.durable.engine import Engine
from any_agent.orchestration.durable.errors import StoreError
from any_agent.orchestration.durable.host import Agents
from any_agent.testing import HANG, ScriptedServer
from orchestration.durable.postgres import Postgres
from orchestration.durable.processes import Home, until
from orchestration.durable.support import Model, read, said, spawn, worker_of


@tool
def look(word: str) -> str:
    """Looks."""
    return f"look of {word}"


def journal(database: Database, columns: str, table: str) -> list[tuple[Any, ...]]:
    where = table if database.url.startswith("sqlite") else f"dbos.{table}"
    return database.read(f"SELECT {columns} FROM {where}")


async def test_a_run_is_gone_on_with_by_another_version_of_the_program(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    """version pinning: the engine's default is a hash of the sources, which an upgrade changes."""
    await spawn(agents, server, "a")
    model.held[("x", 0)] = [HANG]
    worker = await home.worker()
    task = await agents.submit("a", "x")
    await server.received(1)
    worker.kill()

    @DBOS.workflow(name="something new")
    async def something_new() -> None:
        """This process has another hash."""

    assert something_new
    async with worker_of(agents):
        assert isinstance((await read(agents, task.id))[-1], Done)
    # a constant of the shape of a run: whoever changes it leaves runs behind that nobody goes on with
    assert journal(agents.database, "workflow_uuid, application_version", "workflow_status") == [
        (task.id, "any-agent-1")
    ]


async def test_the_engine_writes_json_and_no_pickle(model: Model, server: ScriptedServer, agents: Agents) -> None:
    """JSON serializer: a pickle in a database is code that runs when it is read."""
    await spawn(agents, server, "a")
    task = await agents.submit("a", "do look x")
    async with worker_of(agents, [look]):
        await read(agents, task.id)
        await until(lambda: journal(agents.database, "output", "workflow_output"))
    ((inputs,),) = journal(agents.database, "inputs", "workflow_input")
    ((output, problem),) = journal(agents.database, "output, error", "workflow_output")
    ((of_run,),) = journal(agents.database, "serialization", "workflow_status")
    steps = journal(agents.database, "output, error, serialization", "operation_outputs")
    assert json.loads(inputs) == {"positionalArgs": [task.id], "namedArgs": {}}
    assert (json.loads(output), problem) == (None, None)
    assert {of_run, *(of_step for _, _, of_step in steps)} == {"portable_json"}
    assert len(steps) == 3
    for answer, error, _ in steps:
        assert error is None
        json.loads(answer)


async def test_the_history_is_never_a_part_of_a_step(model: Model, server: ScriptedServer, agents: Agents) -> None:
    """history never passed through steps: others wrote the whole conversation down again with each answer."""
    await spawn(agents, server, "a")
    long = "long ago " * 500
    task = await agents.submit("a", "first")
    async with worker_of(agents, [look]) as worker:
        await read(agents, task.id)
        claimed = agents._tasks.find(task.id)
        for part in range(10, 60):
            messages = [Message("user", long), Message("assistant", long)]
            agents._history.append(claimed, part, messages)
        assert worker
        for prompt in ("do look x, look y", "second"):
            last = (await read(agents, (await agents.submit("a", prompt)).id))[-1]
            assert isinstance(last, Done), last
    assert len(server.requests[-1].body) > 100 * len(long)  # the model got it all
    written = [
        *journal(agents.database, "inputs, workflow_uuid", "workflow_input"),
        *journal(agents.database, "output, error", "workflow_output"),
        *journal(agents.database, "output, error, function_name", "operation_outputs"),
        *agents.database.read("SELECT body, prompt, outcome FROM aa_events, aa_tasks WHERE task = id"),
    ]
    assert len(written) > 20
    for row in written:
        assert "long ago" not in str(row)
        assert sum(len(value or "") for value in row) < 3000


def test_engines_may_make_their_tables_at_once(database_url: str) -> None:
    """Workers that are the first."""
    program = (
        "import asyncio, sys\n"
        "from any_agent.orchestration.durable.host import Agents\n"
        "async def main():\n"
        "    async with Agents(sys.argv[1]) as agents:\n"
        "        sys.stdin.readline()\n"
        "        async with agents.worker():\n"
        "            print('ready')\n"
        "asyncio.run(main())"
    )
    command, pipe = [sys.executable, "-c", program, database_url], subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [(*process.communicate(), process.returncode) for process in processes] == [("ready\n", "", 0)] * 3


async def test_what_the_engine_asks_only_once_is_asked_again_when_the_server_is_back(
    postgres: Postgres, postgres_url: str
) -> None:
    """Most of what it does waits for the database; the rest would have ended the worker."""
    done: list[str] = []

    async def work(task: str) -> None:
        done.append(task)

    async def stand_still(problem: StoreError) -> None:
        raise problem

    with closing(Database(postgres_url)) as database:
        engine = Engine(database, "worker", stand_still)
        engine.launch(work)
        try:
            postgres.kill()
            doing = asyncio.gather(engine.begin("x", is_new=False), engine.forget([]))
            await asyncio.sleep(0)
            await asyncio.to_thread(postgres.start)
            assert await doing == [True, None]
            await until(lambda: done == ["x"])
        finally:
            engine.close()


async def test_the_queues_of_workers_that_are_no_more_are_thrown_away(
    model: Model, server: ScriptedServer, agents: Agents
) -> None:
    """The engine hands a run over by a queue, and keeps each queue for ever."""
    await spawn(agents, server, "a")
    model.held[("x", 0)] = [HANG]
    task = await agents.submit("a", "x")
    async with worker_of(agents):
        await server.received(1)
    async with worker_of(agents) as heir:
        await read(agents, task.id)
        assert journal(agents.database, "name", "queues") == [(f"any-agent {heir._presence.id}",)]
    async with worker_of(agents):
        await until(lambda: not journal(agents.database, "name", "queues"))


async def test_a_run_that_is_begun_as_its_worker_ends_is_done_by_the_next(
    model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    ids: list[str] = []
    for number in range(4):
        task = await agents.submit("a", str(number))
        ids.append(task.id)
        async with worker_of(agents) as worker:
            await until(lambda id=task.id, worker=worker: id in worker._runs or agents._tasks.find(id).state != "ready")
    async with worker_of(agents):
        for id in ids:
            assert isinstance((await read(agents, id))[-1], Done)
    assert [words for words in await said(agents, "a") if words[0] == "u"] == [f"user: {n}" for n in range(4)]
