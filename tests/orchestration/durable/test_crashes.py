"""kill -9 at every place: nothing is lost, and nothing is repeated but the step that was interrupted."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from any_agent import Done, Failed, Notice, ToolResult
from any_agent.orchestration.durable.host import Agents
from any_agent.testing import HANG, ScriptedServer
from orchestration.durable.postgres import Postgres
from orchestration.durable.processes import Home, until
from orchestration.durable.processes import home as home_in
from orchestration.durable.support import DEEDS, Model, kinds, lines, read, said, spawn, texts, written


@pytest.mark.row("C15", "E7")
async def test_killed_in_the_middle_of_the_models_stream(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    """retried steps telling readers to reset"""
    await spawn(agents, server, "a")
    model.held[("tell me", 0)] = [HANG]
    worker = await home.worker()
    task = await agents.submit("a", "tell me")
    reading = asyncio.create_task(read(agents, task.id))
    await until(lambda: "heard" in written(agents, task.id))
    worker.kill()
    await home.worker()
    events = await reading
    assert texts(events) == ["heard: ", "heard: tell me"]
    assert isinstance(events[-1], Done)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert model.asked == [("tell me", 0)] * 2
    assert await said(agents, "a") == ["user: tell me", "assistant: heard: tell me"]
    # who comes later sees the same, and who was there goes on
    assert await read(agents, task.id) == events
    assert await read(agents, task.id, events[1].seq) == events[2:]


@pytest.mark.row("C15")
async def test_killed_in_the_middle_of_tools(home: Home, model: Model, server: ScriptedServer, agents: Agents) -> None:
    await spawn(agents, server, "a")
    (home.folder / "hold").touch()
    worker = await home.worker()
    task = await agents.submit("a", "do put x + pay y + look z")
    reading = asyncio.create_task(read(agents, task.id))
    await until(lambda: len(lines(home.folder / "deeds")) == 3)
    worker.kill()
    (home.folder / "hold").unlink()
    await home.worker()
    events = await reading
    key = f"{task.id}:1:"
    assert sorted(lines(home.folder / "deeds")) == sorted(
        [f"put x {key}0 1", f"pay y {key}1 1", f"look z {key}2 1", f"put x {key}0 2", f"look z {key}2 1"]
    )
    assert model.asked == [("do put x + pay y + look z", 0), ("do put x + pay y + look z", 1)]
    _, *calls, put, pay, look, answer = await said(agents, "a")
    assert calls == ["call: put x", "call: pay y", "call: look z"]
    assert (put, look) == ("result: put of x", "result: look of z")
    assert "pay may run only once, so it was not run again" in pay
    assert answer == "assistant: heard: do put x + pay y + look z"
    told = "".join(str(message["content"]) for message in server.requests[-1].json["messages"])
    assert "so it was not run again" in told  # the model knows
    assert kinds(events).count("tool_result") == 3
    notices = [event.message for event in events if isinstance(event, Notice)]
    assert any("pay was interrupted, and is not run again" in notice for notice in notices)
    assert any("put was interrupted, and is run again" in notice for notice in notices)


@pytest.mark.row("C15")
async def test_killed_between_a_tool_and_the_next_answer(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    prompt = "do put x + pay y, look z"
    model.held[(prompt, 1)] = [HANG]
    worker = await home.worker()
    task = await agents.submit("a", prompt)
    await until(lambda: (prompt, 1) in model.asked)
    worker.kill()
    await home.worker()
    events = await read(agents, task.id)
    assert isinstance(events[-1], Done)
    assert [line.split()[0] for line in lines(home.folder / "deeds")] in (
        ["put", "pay", "look"],
        ["pay", "put", "look"],
    )
    assert model.asked == [(prompt, 0), (prompt, 1), (prompt, 1), (prompt, 2)]
    assert await said(agents, "a") == [
        f"user: {prompt}",
        *("call: put x", "call: pay y", "result: put of x", "result: pay of y"),
        *("call: look z", "result: look of z"),
        f"assistant: heard: {prompt}",
    ]
    assert [event.id for event in events if isinstance(event, ToolResult)] in (
        ["call_0", "call_1", "call_0"],
        ["call_1", "call_0", "call_0"],
    )
    assert kinds(events).count("response") == 3  # what was told of finished steps is not told again


@pytest.mark.row("C14", "C15")
@pytest.mark.parametrize("returns", [True, False])
async def test_a_worker_is_killed_in_the_middle_of_a_batch(
    home: Home, model: Model, server: ScriptedServer, agents: Agents, returns: bool
) -> None:
    """dead workers"""
    names = [f"a{number}" for number in range(20)]
    await spawn(agents, server, *names)
    ids = [(await agents.submit(name, f"{name} {number}")).id for number in range(10) for name in names]
    one, _ = await asyncio.gather(home.worker(), home.worker())
    await server.received(60)
    one.kill()
    if returns:
        home.start("worker")
    await until(lambda: len(agents._tasks.over(ids)) == 200)
    for name in names:
        tasks = list(reversed(await agents.tasks(name)))
        assert [task.state for task in tasks] == ["done"] * 10
        assert [task.prompt for task in tasks] == [f"{name} {number}" for number in range(10)]
        expected = [words for task in tasks for words in (f"user: {task.prompt}", f"assistant: heard: {task.prompt}")]
        assert await said(agents, name) == expected
        asked = [prompt for prompt, _ in model.asked if prompt.split()[0] == name]
        assert asked == sorted(asked)  # in order, whatever was asked twice
    twice = len(model.asked) - len(set(model.asked))
    assert len(set(model.asked)) == 200
    assert twice <= 10  # what the dead one had in hand


async def test_postgres_is_killed_during_work(
    postgres: Postgres, postgres_url: str, tmp_path: Path, model: Model, server: ScriptedServer
) -> None:
    (tmp_path / "deeds.py").write_text(DEEDS, "utf-8")
    with home_in(tmp_path, postgres_url) as home:
        async with Agents(home.url) as agents:
            names = [f"a{number}" for number in range(8)]
            await spawn(agents, server, *names)
            ids = [(await agents.submit(name, f"do pay {number}")).id for number in range(6) for name in names]
            workers = await asyncio.gather(home.worker(), home.worker())
            readings = [asyncio.create_task(read(agents, id)) for id in ids[:: len(names) + 1]]
            for count in (20, 50):
                await server.received(count)
                postgres.kill()
                postgres.start()  # everything here stands still as well; the workers are on their own
            await until(lambda: len(agents._tasks.over(ids)) == len(ids))
            for id in ids:
                assert (await agents.task(id)).state == "done"
            for name in names:
                asked = [(prompt, rounds) for prompt, rounds in model.asked if name in prompt]
                assert asked == sorted(asked)
                words = await said(agents, name)
                assert words == [
                    line
                    for number in range(6)
                    for line in (
                        f"user: do pay {number}",
                        f"call: pay {number}",
                        f"result: pay of {number}",
                        f"assistant: heard: do pay {number}",
                    )
                ]
            deeds = lines(home.folder / "deeds")
            assert len(deeds) == len(set(deeds)) == len(ids)
            assert len(model.asked) == 2 * len(ids)  # a database that comes back costs no answer
            for reading in readings:
                assert isinstance((await reading)[-1], Done)
            assert all(worker.is_running for worker in workers)


async def test_a_worker_that_is_asked_to_end_ends_what_it_has_begun(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    gate = asyncio.Event()
    model.held[("x", 0)] = [gate]
    worker = await home.worker()
    ids = [(await agents.submit("a", prompt)).id for prompt in ("x", "y")]
    await server.received(1)
    worker.send(signal.SIGTERM)
    await worker.says("being ended; Ctrl-C once more")
    gate.set()
    assert await worker.ended() == 0
    assert [(await agents.task(id)).state for id in ids] == ["done", "ready"]
    assert await agents.workers() == []
    assert model.asked == [("x", 0)]


async def test_a_worker_that_is_asked_twice_leaves_it_to_others_at_once(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    (home.folder / "hold").touch()
    worker = await home.worker()
    task = await agents.submit("a", "do put x + pay y")
    await until(lambda: len(lines(home.folder / "deeds")) == 2)
    worker.send(signal.SIGTERM)
    await worker.says("being ended; Ctrl-C once more")
    worker.send(signal.SIGINT)
    assert await worker.ended() == 0
    (home.folder / "hold").unlink()
    assert await said(agents, "a") == []
    await home.worker()
    events = await read(agents, task.id)
    assert isinstance(events[-1], Done)
    deeds = lines(home.folder / "deeds")
    assert sorted(deeds) == sorted([f"pay y {task.id}:1:1 1", f"put x {task.id}:1:0 1", f"put x {task.id}:1:0 2"])
    _, _, _, put, pay, _ = await said(agents, "a")
    assert put == "result: put of x"
    assert "so it was not run again" in pay


@pytest.mark.row("C14")
@pytest.mark.parametrize("where", ["stream", "tool"])
async def test_a_process_that_was_given_up_and_comes_back_changes_nothing(
    home: Home, model: Model, server: ScriptedServer, agents: Agents, where: str
) -> None:
    """It stands still, another one takes over, and then it goes on, with what it thinks is its task."""
    await spawn(agents, server, "a")
    gate = asyncio.Event()
    prompt = "x" if where == "stream" else "do put x"
    if where == "stream":
        model.held[(prompt, 0)] = [gate]
    else:
        (home.folder / "hold").touch()
    old = await home.worker()
    task = await agents.submit("a", prompt)
    begun = "heard" if where == "stream" else "tool_running"
    await until(lambda: begun in written(agents, task.id))
    old.send(signal.SIGSTOP)
    agents.database.transact(lambda new: new.run("DELETE FROM aa_workers"))
    # its lock is still held, but nobody asks for it whose row is gone
    gate_of_second = asyncio.Event()
    last = (prompt, 0 if where == "stream" else 1)
    model.held[last] = [gate_of_second]
    if where == "tool":
        (home.folder / "hold").write_text("nothing")
    await home.worker()
    await until(lambda: model.asked.count(last) == (2 if where == "stream" else 1))
    gate.set()
    old.send(signal.SIGCONT)
    assert await old.ended() == 1
    assert "took over its tasks" in old.err
    gate_of_second.set()
    events = await read(agents, task.id)
    assert isinstance(events[-1], Done)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert kinds(events).count("done") == 1
    assert texts(events)[-1] == f"heard: {prompt}"
    expected = [f"user: {prompt}", f"assistant: heard: {prompt}"]
    if where == "tool":
        expected[1:1] = ["call: put x", "result: put of x"]
    assert await said(agents, "a") == expected
    assert (await agents.task(task.id)).state == "done"


@pytest.mark.row("E7", "C16")
async def test_a_tool_that_hangs_is_cancelled_from_another_process(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    await home.worker()
    task, following = await agents.submit("a", "do hang x"), await agents.submit("a", "y")
    await until((home.folder / "hangs").exists)
    await home.run("cancel", task.id)
    events = await read(agents, task.id)
    assert isinstance(events[-1], Failed) and events[-1].error.kind == "aborted"
    assert (home.folder / "cancelled").exists()
    assert (await agents.task(task.id)).state == "cancelled"
    assert isinstance((await read(agents, following.id))[-1], Done)
    words = await said(agents, "a")
    assert words[:2] == ["user: do hang x", "call: hang x"]
    assert "broken off" in words[2]


async def test_long_results_are_read_on_after_a_crash(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    prompt = "do much word"
    model.held[(prompt, 1)] = [HANG]
    worker = await home.worker()
    task = await agents.submit("a", prompt)
    await until(lambda: (prompt, 1) in model.asked)
    worker.kill()
    model.reads_on[(prompt, 1)] = {"handle": "r1", "start": 40000}
    await home.worker()
    assert isinstance((await read(agents, task.id))[-1], Done)
    results = [words for words in await said(agents, "a") if words.startswith("result: ")]
    assert len(results) == 2
    assert results[1].startswith("result: word word")
    assert len(results[1]) > 1000


async def test_a_worker_ends_although_the_database_is_away(
    postgres: Postgres, postgres_url: str, tmp_path: Path
) -> None:
    """Within seconds: otherwise it would wait for the database, time and again, as it does at work."""
    with home_in(tmp_path, postgres_url) as home:
        worker = await home.worker()
        postgres.kill()
        try:
            worker.send(signal.SIGTERM)
            await until(lambda: not worker.is_running, 30)
        finally:
            postgres.start()
        assert "Traceback" not in worker.err
