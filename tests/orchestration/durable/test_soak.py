"""Everything at once, killed at random: `make soak` does for minutes what a test run does once.

The seed of each round is printed; what happens when, between processes, is never the same twice all the same.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from any_agent import Done, TextDelta
from any_agent.events import Event
from any_agent.orchestration.durable.host import Agents
from any_agent.orchestration.durable.tasks import Task
from any_agent.testing import ScriptedServer
from orchestration.durable.postgres import Postgres
from orchestration.durable.processes import Command, Home, until
from orchestration.durable.support import Model, lines, read, said, spawn, texts

SOAK_S = float(os.environ.get("ANY_AGENT_SOAK", "0")) * 60
_AGENTS, _TASKS, _CRASHES = 6, 30, 6
_WORK = ("put", "pay", "look")


class Chaos:
    """Workers, and what befalls them."""

    def __init__(self, home: Home, dice: random.Random, postgres: Postgres | None) -> None:
        self._home, self._dice, self._postgres = home, dice, postgres
        self._workers: list[Command] = []
        self._stopped: list[Command] = []

    async def strike(self) -> None:
        """Do something bad, and see to it that somebody works."""
        self._workers = [worker for worker in self._workers if worker.is_running]
        while len(self._workers) < 3:
            self._workers.append(self._home.start("worker", "--concurrency", "4"))
        await asyncio.sleep(self._dice.expovariate(2.5))
        worker = self._dice.choice(self._workers)
        with suppress(ProcessLookupError):  # it has ended by itself: it was given up before
            await self._do_to(worker)
        for stopped in self._stopped:
            with suppress(ProcessLookupError):
                stopped.send(signal.SIGCONT)
        self._stopped.clear()

    async def _do_to(self, worker: Command) -> None:
        deed = self._dice.random()
        if deed < 0.6:
            worker.kill()
        elif deed < 0.75:
            worker.send(signal.SIGTERM)
            if self._dice.random() < 0.5:
                await asyncio.sleep(0.05)
                with suppress(ProcessLookupError):
                    worker.send(signal.SIGINT)
        elif deed < 0.9:
            await self._give_up(worker)
        elif self._postgres is not None:
            self._postgres.kill()
            self._postgres.start()

    async def settle(self) -> None:
        """One worker that nothing happens to."""
        await self._home.worker()

    async def _give_up(self, worker: Command) -> None:
        """It stands still, others think that it is dead, and then it comes back."""
        worker.send(signal.SIGSTOP)
        self._stopped.append(worker)
        forget = f"DELETE FROM aa_workers WHERE pid = {worker.pid}"
        if self._postgres is not None:
            # one that stands still in the middle of writing holds others up for some seconds
            with suppress(psycopg.errors.LockNotAvailable):
                self._postgres.run(f"SET lock_timeout = 100; {forget}", "agents")
        else:
            with closing(sqlite3.connect(self._home.folder / "agents.db", timeout=0.1)) as connection:
                # one that stands still in the middle of writing holds all others up, and cannot be given up
                with suppress(sqlite3.OperationalError), connection:
                    connection.execute(forget)
        self._workers.append(self._home.start("worker"))
        await asyncio.sleep(self._dice.expovariate(2))


def prompt_of(dice: random.Random, number: int) -> str:
    calls = [f"{dice.choice(_WORK)} {number}.{n}" for n in range(dice.randrange(4))]
    return f"do {dice.choice([', ', ' + ']).join(calls)}" if calls else f"say {number}"


def conversation(tasks: list[Task]) -> list[str]:
    """What must have been said, if all went well."""
    said: list[str] = []
    for task in tasks:
        said.append(f"user: {task.prompt}")
        for step in task.prompt.removeprefix("do ").split(", ") if task.prompt.startswith("do ") else []:
            calls = step.split(" + ")
            said += [f"call: {call}" for call in calls]
            said += [f"result: {call.replace(' ', ' of ')}" for call in calls]
        said.append(f"assistant: heard: {task.prompt}")
    return said


def check_events(task: Task, events: list[Event]) -> None:
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event for event in events if event.type in ("done", "error")] == events[-1:]
    assert isinstance(events[-1], Done)
    tail = max((number for number, event in enumerate(events) if event.type in ("tool_result", "reset")), default=-1)
    assert (
        "".join(event.text for event in events[tail + 1 :] if isinstance(event, TextDelta)) == f"heard: {task.prompt}"
    )
    assert texts(events)[-1].endswith(f"heard: {task.prompt}")


async def play(
    home: Home, model: Model, server: ScriptedServer, agents: Agents, chaos: Chaos, dice: random.Random, mark: str
) -> None:
    names = [f"{mark}a{number}" for number in range(_AGENTS)]
    await spawn(agents, server, *names)
    ids = [(await agents.submit(dice.choice(names), prompt_of(dice, number))).id for number in range(_TASKS)]
    readings = [asyncio.create_task(read(agents, id)) for id in ids[::5]]
    for _ in range(_CRASHES):
        await chaos.strike()
    await chaos.settle()
    await until(lambda: len(agents._tasks.over(ids)) == len(ids))
    live = dict(zip(ids[::5], [await reading for reading in readings], strict=True))
    for name in names:
        tasks = list(reversed(await agents.tasks(name)))
        assert [task.state for task in tasks] == ["done"] * len(tasks)
        for found, expected in zip(await said(agents, name), conversation(tasks), strict=True):
            assert found == expected or (expected.startswith("result: pay") and "may run only once" in found)
        for task in tasks:
            events = await read(agents, task.id)
            check_events(task, events)
            assert live.get(task.id, events) == events
    deeds = [line for line in lines(home.folder / "deeds") if f" {mark}a" in line]
    assert len(deeds) == len({line for line in deeds if not line.startswith("look")}) + sum(
        line.startswith("look") for line in deeds
    )
    payments = [line.split()[2] for line in deeds if line.startswith("pay")]
    assert len(payments) == len(set(payments))


@pytest.fixture
async def chaos_server(model: Model) -> AsyncIterator[ScriptedServer]:
    model.pace = 0.01
    async with ScriptedServer(model) as server:
        yield server


@pytest.mark.timeout(SOAK_S + 150)
@pytest.mark.row("C14", "C15")
async def test_whatever_is_killed_when_nothing_is_lost(
    home: Home,
    model: Model,
    chaos_server: ScriptedServer,
    agents: Agents,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    postgres: Postgres | None = request.getfixturevalue("postgres") if "postgres" in home.url else None
    end = time.monotonic() + SOAK_S / 2
    rounds = 0
    while rounds == 0 or time.monotonic() < end:
        seed = random.randrange(1_000_000)
        print(f"round {rounds}, seed {seed}", flush=True)  # noqa: T201 - pytest shows it when the test fails
        dice = random.Random(seed)
        await play(home, model, chaos_server, agents, Chaos(home, dice, postgres), dice, f"r{rounds}-")
        home.close()
        rounds += 1
