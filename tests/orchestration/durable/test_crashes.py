"""kill -9 at every place: nothing is lost, and nothing is repeated but the step that was interrupted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from any_agent import Done, Notice, ToolResult
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
