"""The command line for agents, over processes that come and go."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
from pathlib import Path

import pytest

from any_agent import Done
from any_agent.orchestration.durable.host import Agents
from any_agent.orchestration.durable.schema import VERSION
from any_agent.testing import HANG, ScriptedServer
from orchestration.durable.postgres import Postgres
from orchestration.durable.processes import Home, until
from orchestration.durable.processes import home as home_in
from orchestration.durable.support import DEEDS, Model, lines, read, said, spawn, written


@pytest.mark.row("C12")
async def test_an_agent_lives_from_one_process_to_the_next(home: Home, model: Model, server: ScriptedServer) -> None:
    who = ("--name", "gpt", "--type", "api", "--provider", "openai", "--model", "scripted", "--base-url", server.url)
    await home.run("spawn", *who, "--system-prompt", "Be kind.", "--tool", "deeds:put")
    assert (await home.run("task", "gpt", "Say hello")).out == "heard: Say hello\n"
    assert (await home.run("task", "gpt", "do put x")).out.endswith("heard: do put x\n")
    sent = server.requests[-1].json["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "user", "assistant", "tool"]
    listed = json.loads((await home.run("list", "--json")).out)
    assert [(row["name"], row["state"], row["tasks"]) for row in listed["agents"]] == [("gpt", "idle", 2)]
    history = json.loads((await home.run("history", "gpt", "--json")).out)
    assert [message["role"] for message in history] == [*(message["role"] for message in sent[1:]), "assistant"]
    await home.run("stop", "gpt")
    stopped = home.start("task", "gpt", "x")
    assert await stopped.ended() == 1
    assert stopped.err == "any-agent: the agent 'gpt' is stopped: `any-agent spawn --name gpt …` begins anew with it\n"
    assert len(json.loads((await home.run("history", "gpt", "--json")).out)) == len(history)


@pytest.mark.row("C14")
async def test_two_processes_that_task_one_agent_at_once_do_not_mix(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    prompts = [f"do put {number}" for number in range(4)]
    commands = [home.start("task", "a", prompt) for prompt in prompts]
    for command, prompt in zip(commands, prompts, strict=True):
        assert await command.ended() == 0, command.err
        assert f"heard: {prompt}" in command.out
    tasks = list(reversed(await agents.tasks("a")))
    assert sorted(task.prompt for task in tasks) == prompts
    expected: list[str] = []
    for task in tasks:
        word = task.prompt.split()[-1]
        expected += [
            f"user: {task.prompt}",
            f"call: put {word}",
            f"result: put of {word}",
            f"assistant: heard: {task.prompt}",
        ]
    assert await said(agents, "a") == expected
    assert len(model.asked) == 8
    assert len(lines(home.folder / "deeds")) == 4


@pytest.mark.row("C16")
async def test_ctrl_c_cancels_the_task_and_stops_the_server(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    model.held[("x", 0)] = [HANG]
    command = home.start("task", "a", "x")
    await command.says("heard")
    command.send(signal.SIGINT)
    await server.disconnected()
    assert await command.ended() == 130
    (task,) = await agents.tasks("a")
    assert task.state == "cancelled"
    assert "Traceback" not in command.err
    assert (await home.run("task", "a", "y")).out == "heard: y\n"


@pytest.mark.row("C16")
async def test_ctrl_c_in_task_cancels_what_a_worker_does(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    await home.worker()
    model.held[("x", 0)] = [HANG]
    command = home.start("task", "a", "x")
    await command.says("heard")
    command.send(signal.SIGINT)
    await server.disconnected()
    assert await command.ended() == 130
    assert (await agents.tasks("a"))[0].state == "cancelled"


@pytest.mark.row("C16")
@pytest.mark.parametrize("command", [["task", "a", "x"], ["task", "--all", "x"], ["attach", "a"]], ids=" ".join)
async def test_ctrl_c_leaves_although_the_database_is_away(
    postgres: Postgres, postgres_url: str, tmp_path: Path, model: Model, server: ScriptedServer, command: list[str]
) -> None:
    """Within seconds, and says what it could not do."""
    model.held[("x", 0)] = [HANG]
    async with Agents(postgres_url) as agents:
        with home_in(tmp_path, postgres_url) as home:
            (tmp_path / "deeds.py").write_text(DEEDS, "utf-8")
            await spawn(agents, server, "a")
            if command[0] == "attach":
                await home.worker()
                await agents.submit("a", "x")
            process = home.start(*command)
            await server.received(1)
            if "--all" not in command:
                await process.says("heard")
            postgres.kill()
            try:
                process.send(signal.SIGINT)
                await until(lambda: not process.is_running, 20)
                assert await process.ended() == 130
            finally:
                postgres.start()
            assert "the database does not answer" in process.err
            assert "Traceback" not in process.err


@pytest.mark.row("C16", "E7")
async def test_ctrl_c_in_attach_only_ends_the_reading(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    await home.worker()
    gate = asyncio.Event()
    model.held[("x", 0)] = [gate]
    task_id = (await home.run("task", "a", "x", "--detach")).out.strip()
    command = home.start("attach", task_id)
    await command.says("heard")
    command.send(signal.SIGINT)
    assert await command.ended() == 130
    assert "it goes on" in command.err
    assert server.disconnects == []
    gate.set()
    assert isinstance((await read(agents, task_id))[-1], Done)
    assert (await home.run("attach", "a")).out == "heard: x\n"
    first, *rest = [json.loads(line) for line in (await home.run("attach", "a", "--json")).out.splitlines()]
    later = await home.run("attach", "a", "--json", "--after", str(first["seq"]))
    assert [json.loads(line) for line in later.out.splitlines()] == rest


@pytest.mark.row("C15")
async def test_a_task_whose_process_was_killed_is_gone_on_with_by_attach(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    prompt = "do pay x, put y"
    model.held[(prompt, 1)] = [HANG]
    command = home.start("task", "a", prompt)
    await until(lambda: (prompt, 1) in model.asked)
    command.kill()
    assert "heard: do pay x, put y" in (await home.run("attach", "a")).out
    assert [line.split()[0] for line in lines(home.folder / "deeds")] == ["pay", "put"]


@pytest.mark.row("C15")
async def test_a_batch_that_was_killed_is_gone_on_with(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    names = [f"a{number}" for number in range(5)]
    await spawn(agents, server, *names)
    prompts = [{"prompt": f"p{number}"} for number in range(60)]
    (home.folder / "in.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in prompts))
    arguments = ("task", *names, "--file", "in.jsonl", "--out", "out.jsonl", "--concurrency", "10")
    command = home.start(*arguments)
    await server.received(25)
    command.kill()
    await home.run(*arguments)
    rows = [json.loads(line) for line in lines(home.folder / "out.jsonl")]
    assert sorted(row["line"] for row in rows) == list(range(1, 61))
    assert all(row["text"] == f"heard: {row['prompt']}" for row in rows)
    assert len(set(model.asked)) == 60
    assert len(model.asked) <= 70
    asked = len(model.asked)
    await home.run(*arguments)
    assert len(model.asked) == asked
    assert len(lines(home.folder / "out.jsonl")) == 60


# what goes wrong


async def test_errors_are_one_line(home: Home, server: ScriptedServer, agents: Agents) -> None:
    await spawn(agents, server, "a")
    unknown = home.start("task", "nobody", "x")
    keyless = home.start("spawn", "--name", "k", "--provider", "openai", "--model", "m")
    toolless = home.start(
        *("spawn", "--name", "t", "--provider", "openai", "--model", "m", "--base-url", server.url),
        *("--tool", "nowhere:nothing"),
    )
    for command, words in (
        (unknown, "there is no agent 'nobody': `any-agent spawn --name nobody …` makes one"),
        (keyless, "there is no key for api.openai.com: set the environment variable OPENAI_API_KEY"),
        (toolless, "nowhere:nothing: nowhere fails to import: ModuleNotFoundError"),
    ):
        assert await command.ended() == 1
        (line,) = command.err.splitlines()
        assert words in line
    assert [record.config.name for record in await agents.list()] == ["a"]


async def test_a_database_of_a_newer_version_is_refused_by_every_command(home: Home, agents: Agents) -> None:
    agents.database.transact(lambda new: new.run("UPDATE aa_meta SET value = '99' WHERE name = 'version'"))
    for command in [home.start(*words) for words in (("list",), ("worker",), ("task", "a", "x"))]:
        assert await command.ended() == 1
        (line,) = command.err.splitlines()
        assert f"is of version 99, and this any_agent knows versions up to {VERSION}" in line


async def test_an_agent_whose_tools_or_key_are_missing_in_the_worker_fails_with_the_reason(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    (home.folder / "deeds.py").rename(home.folder / "moved.py")
    await home.worker()
    task = await agents.submit("a", "x")
    await until(lambda: agents._tasks.find(task.id).is_over)
    outcome = await agents.task(task.id)
    assert (outcome.state, model.asked) == ("failed", [])
    assert "deeds fails to import: ModuleNotFoundError" in outcome.outcome["error"]
    again = home.start("attach", task.id)
    assert await again.ended() == 1
    assert "deeds fails to import" in again.err


async def test_a_tool_that_raises_is_an_answer_to_the_model(
    home: Home, model: Model, server: ScriptedServer, agents: Agents
) -> None:
    await spawn(agents, server, "a")
    command = await home.run("task", "a", "do fail x")
    assert command.out.endswith("heard: do fail x\n")
    assert "result: fail failed: RuntimeError: no x" in await said(agents, "a")


async def test_a_full_disk_stops_the_work_and_room_lets_it_go_on(
    tmp_path: Path, model: Model, server: ScriptedServer
) -> None:
    """The file cannot grow: the kernel refuses to write, as it does on a disk that is full."""
    (tmp_path / "deeds.py").write_text(DEEDS, "utf-8")
    async with Agents(str(tmp_path / "agents.db")) as agents:
        with home_in(tmp_path, agents.database.url) as home:
            await spawn(agents, server, "a")
            prompt = "do put x, much y"
            gate = asyncio.Event()
            model.held[(prompt, 1)] = [gate]
            worker = await home.worker()
            task = await agents.submit("a", prompt)
            await until(lambda: (prompt, 1) in model.asked)
            await until(lambda: "put of x" in written(agents, task.id))
            size = (tmp_path / "agents.db-wal").stat().st_size + 30_000
            resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            gate.set()
            assert await worker.ended() == 1
            line = worker.err.splitlines()[-1]
            assert "cannot write to" in line and "make room on the disk, and the task goes on where it stopped" in line
            assert (await agents.task(task.id)).state == "running"
            assert model.asked == [(prompt, 0), (prompt, 1)]
            await home.worker()
            assert isinstance((await read(agents, task.id))[-1], Done)
            assert len(lines(tmp_path / "deeds")) == 1
            assert model.asked in (
                [(prompt, 0), (prompt, 1), (prompt, 2)],
                [(prompt, 0), *[(prompt, 1)] * 2, (prompt, 2)],
            )
