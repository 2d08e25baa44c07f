"""Measures what named agents cost: tasks, live events, the start of commands, agents that wait. See README.md."""

import argparse
import asyncio
import json
import os
import platform
import resource
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psycopg
from places import Place, Snapshot
from postgres import Postgres
from processes import HERE, PATIENCE, PeerFailed, Server
from report import digits
from run import progress

from any_agent.orchestration import AgentConfig
from any_agent.orchestration.durable.host import Agents

LATEST = HERE / "results" / "durable.json"
AGENTS = 20
WARM_UP, TASKS = 40, 120  # tasks
ALONE = 10
TOKENS = 250  # of each agent that speaks
LIVE_S = 3.0  # of those 5 in which they do
IDLE_AGENTS = 1_000
IDLE_AFTER_S, IDLE_S = 5.0, 5.0


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    at_most: float | None = None  # the target


ROWS = (
    Row("commits", "commits a second of one row each, one connection: what the disk lets through"),
    Row("rate", f"tasks a second, {AGENTS} agents, a model that answers at once"),
    Row("worker_cpu", "CPU ms of the workers per task"),
    Row("server_cpu", "CPU ms of Postgres per task"),
    Row("transactions", "transactions of Postgres per task, those that only read as well"),
    Row("syncs", "waits for the disk per task, Postgres"),
    Row("submit", "ms to submit a task"),
    Row("wait", "ms from submitting to beginning, nothing else to do"),
    Row("run", "ms from beginning to end, nothing else to do"),
    Row("disk", "kB on the disk per task"),
    Row("grown", "kB of RSS of a worker per task that it did"),
    Row("lag_p50", f"ms from the server's token to the reader's, {AGENTS} agents, 50 tokens a second each: p50"),
    Row("lag_p95", "the same: p95"),
    Row("lag_max", "the same: the worst", at_most=300),
    Row("live_worker", "% of a core that the worker takes for it"),
    Row("live_server", "% of a core that Postgres takes for it, with a reader of each agent"),
    Row("cpu_list", "CPU ms of `any-agent list`"),
    Row("wall_list", "ms of `any-agent list`"),
    Row("cpu_task", "CPU ms of `any-agent task`"),
    Row("wall_task", "ms of `any-agent task`"),
    Row("idle_cpu", "% of a core that a worker takes that has nothing to do"),
    Row("idle_server", "% of a core that Postgres takes for it"),
    Row("idle_transactions", "transactions a second for it"),
    Row("idle_rss", f"MB of RSS of a worker by {IDLE_AGENTS:,} idle agents"),
    Row("rss", "MB of RSS of a worker that has done something"),
)

Sample = dict[str, float]


class Bench:
    """Takes samples. Each measure gives a number for each row that it fills."""

    def __init__(self, base_url: str, postgres: Postgres) -> None:
        self.base_url = base_url
        self.postgres = postgres

    def place(self, kind: str) -> Place:
        return Place(self.postgres if kind == "postgres" else None)

    def commits(self, kind: str) -> Sample:
        with self.place(kind) as place:
            if kind == "postgres":
                connection: Any = psycopg.connect(place.database, autocommit=True)
            else:
                connection = sqlite3.connect(place.database, isolation_level=None)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
            with closing(connection):
                connection.execute("CREATE TABLE rows (value INTEGER)")
                made, began = 0, time.monotonic()
                while time.monotonic() - began < 0.5:
                    connection.execute("INSERT INTO rows VALUES (1)")
                    made += 1
                return {"commits": made / (time.monotonic() - began)}

    def tasks(self, kind: str, workers: int, rounds: int) -> Sample:
        with self.place(kind) as place:
            submitted = asyncio.run(self.prepared(place, rounds))
            place.start(workers)
            place.wait(over, WARM_UP)
            before = place.snapshot()
            place.wait(over, WARM_UP + TASKS)
            after = place.snapshot()
            sample = {**costs(place, before, after), "submit": submitted}
            if workers == 1:
                sample |= asyncio.run(alone(place))
            if kind == "sqlite":
                del sample["server_cpu"], sample["transactions"], sample["syncs"]
            return sample

    async def prepared(self, place: Place, rounds: int) -> float:
        """Agents with tasks: the ms of CPU and waiting that submitting one took."""
        async with Agents(place.database) as agents:
            await self.spawn(agents, AGENTS, f"words-10-0-{rounds}", ["calculator:add"] if rounds else [])
            began = time.monotonic()
            for number in range(WARM_UP + TASKS):
                await agents.submit(f"agent{number % AGENTS}", "hi")
            return (time.monotonic() - began) * 1000 / (WARM_UP + TASKS)

    async def spawn(self, agents: Agents, number: int, model: str, tools: Sequence[str] = (), first: int = 0) -> None:
        for each in range(first, first + number):
            config = AgentConfig(f"agent{each}", "lmstudio", model, base_url=self.base_url, tools=list(tools))
            await agents.spawn(config)

    def lag(self, kind: str) -> Sample:
        with self.place(kind) as place:
            ids = asyncio.run(self.speeches(place))
            command = [sys.executable, str(HERE / "reader.py"), place.database, *ids]
            with subprocess.Popen(command, env=place.environment, stdout=subprocess.PIPE, text=True) as reader:
                assert reader.stdout is not None
                reader.stdout.readline()  # it reads; now somebody may speak
                place.start(1, concurrency=AGENTS)
                place.wait(speaking, AGENTS)
                before = place.snapshot()
                time.sleep(LIVE_S)
                after = place.snapshot()
                lags = json.loads(reader.communicate(timeout=PATIENCE)[0])
            if len(lags) != AGENTS * TOKENS:
                raise PeerFailed(f"read {len(lags)} tokens of {AGENTS * TOKENS}")
            passed = (after.time - before.time) / 100
            sample = {
                "lag_p50": median(lags) * 1000,
                "lag_p95": quantiles(lags, n=20)[-1] * 1000,
                "lag_max": max(lags) * 1000,
                "live_worker": (after.worker_cpu - before.worker_cpu) / passed,
            }
            if kind == "postgres":
                sample["live_server"] = (after.server_cpu - before.server_cpu) / passed
            return sample

    async def speeches(self, place: Place) -> list[str]:
        async with Agents(place.database) as agents:
            await self.spawn(agents, AGENTS, f"stamps-{TOKENS}-20-0")
            return [(await agents.submit(f"agent{number}", "speak")).id for number in range(AGENTS)]

    def start(self, kind: str, workers: int) -> Sample:
        with self.place(kind) as place:
            asyncio.run(self.spawned(place, AGENTS))
            place.start(workers)
            asyncio.run(self.first_answer(place))
            cpu_list, wall_list = cost(place, "list")
            cpu_task, wall_task = cost(place, "task", "agent1", "hi")
            return {"cpu_list": cpu_list, "wall_list": wall_list, "cpu_task": cpu_task, "wall_task": wall_task}

    def idle(self, kind: str) -> Sample:
        with self.place(kind) as place:
            asyncio.run(self.spawned(place, 1))
            place.start(1)
            asyncio.run(self.first_answer(place))
            time.sleep(IDLE_AFTER_S)
            first = place.snapshot()
            asyncio.run(self.spawned(place, IDLE_AGENTS, 1))
            before = place.snapshot()
            time.sleep(IDLE_S)
            after = place.snapshot()
            passed = after.time - before.time
            sample = {
                "idle_cpu": (after.worker_cpu - before.worker_cpu) / passed * 100,
                "idle_rss": (after.rss_kb - first.rss_kb) / 1024,
                "rss": after.rss_kb / 1024,
            }
            if kind == "postgres":
                sample["idle_server"] = (after.server_cpu - before.server_cpu) / passed * 100
                sample["idle_transactions"] = (after.commits - before.commits) / passed
            return sample

    async def spawned(self, place: Place, number: int, first: int = 0) -> None:
        async with Agents(place.database) as agents:
            await self.spawn(agents, number, "words-10-0-0", first=first)

    async def first_answer(self, place: Place) -> None:
        """One task, by a worker or here: what is made once is made then."""
        async with Agents(place.database) as agents:
            task = await agents.submit("agent0", "hi")
            async with asyncio.timeout(PATIENCE):
                async for _ in agents.work_on(task):
                    pass


def over(agents: Agents) -> list[object]:
    return list(agents.database.read("SELECT id FROM aa_tasks WHERE finished IS NOT NULL"))


def speaking(agents: Agents) -> list[object]:
    return list(agents.database.read("SELECT DISTINCT task FROM aa_events"))


def costs(place: Place, before: Snapshot, after: Snapshot) -> Sample:
    """What a task cost between two moments. The rate is that of the tasks' own times."""
    done = after.done - before.done
    agents = Agents(place.database)
    with closing(agents.database) as database:
        rows = database.read("SELECT finished FROM aa_tasks WHERE state = 'done' ORDER BY finished")
    times = [finished for (finished,) in rows]
    if len(times) != WARM_UP + TASKS:
        raise PeerFailed(f"{len(times)} tasks of {WARM_UP + TASKS} were done")
    return {
        "rate": (len(times) - WARM_UP) / (times[-1] - times[WARM_UP - 1]),
        "worker_cpu": (after.worker_cpu - before.worker_cpu) * 1000 / done,
        "server_cpu": (after.server_cpu - before.server_cpu) * 1000 / done,
        "transactions": (after.commits - before.commits) / done,
        "syncs": (after.synced - before.synced) / done,
        "disk": (after.size - before.size) / 1024 / done,
        "grown": (after.rss_kb - before.rss_kb) / done * len(place.workers),
    }


async def alone(place: Place) -> Sample:
    """Tasks one at a time."""
    times: list[tuple[float, float, float]] = []
    async with Agents(place.database) as agents, asyncio.timeout(PATIENCE):
        for _ in range(ALONE):
            task = await agents.submit("agent0", "hi")
            while not (task := await agents.task(task.id)).is_over:
                await asyncio.sleep(0.02)
            times.append((task.submitted, task.started or 0, task.finished or 0))
    return {
        "wait": median((started - submitted) * 1000 for submitted, started, _ in times),
        "run": median((finished - started) * 1000 for _, started, finished in times),
    }


def cost(place: Place, *arguments: str) -> tuple[float, float]:
    """(CPU ms, ms) of a command from its start to its end."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = place.command(*arguments)
    done = subprocess.run(command, env=place.environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise PeerFailed(f"any-agent {arguments[0]}: {done.stderr.strip()[-300:]}")
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000, wall * 1000


def plan(bench: Bench) -> dict[str, tuple[str, Callable[[], Sample]]]:
    """What is measured, by its name in the table: (its measure, how a sample is taken)."""
    wanted: dict[str, tuple[str, Callable[[], Sample]]] = {}
    for kind in ("sqlite", "postgres"):
        wanted[kind] = ("limit", partial(bench.commits, kind))
        for rounds in (0, 1):
            for workers in (1, 2):
                name = f"{kind}, {workers} worker{'s' * (workers > 1)}{', a tool' * rounds}"
                wanted[name] = ("tasks", partial(bench.tasks, kind, workers, rounds))
        wanted[f"{kind}, live"] = ("lag", partial(bench.lag, kind))
        wanted[f"{kind}, in the process"] = ("start", partial(bench.start, kind, 0))
        wanted[f"{kind}, with a worker"] = ("start", partial(bench.start, kind, 1))
        wanted[f"{kind}, idle"] = ("idle", partial(bench.idle, kind))
    return wanted


def run(bench: Bench, only: Sequence[str], times: int) -> tuple[dict[str, dict[str, list[float]]], dict[str, str]]:
    """Again and again through all that is measured: (samples by row and name, why there are none)."""
    samples: defaultdict[str, dict[str, list[float]]] = defaultdict(dict)
    failures: dict[str, str] = {}
    for number in range(times):
        for name, (measure, take) in plan(bench).items():
            if measure not in only or name in failures:
                continue
            progress(f"sample {number + 1}: {measure} {name}")
            try:
                for row, value in take().items():
                    samples[row].setdefault(name, []).append(value)
            except PeerFailed as error:
                failures[name] = f"failed: {error}"
    progress("")
    return dict(samples), failures


def table(samples: dict[str, dict[str, list[float]]], failures: dict[str, str]) -> str:
    lines: list[str] = []
    for row in ROWS:
        found = samples.get(row.name)
        if not found:
            continue
        lines += [f"{row.name}: {row.title}", f"  {'':30}{'median':>9}{'lowest':>9}{'highest':>9}{'x first':>9}"]
        first = median(next(iter(found.values())))
        for name, values in found.items():
            numbers = [median(values), min(values), max(values), median(values) / first if first else None]
            verdict = ""
            if row.at_most is not None:
                verdict = f"   at most {row.at_most:g}: {'pass' if numbers[0] <= row.at_most else 'FAIL'}"
            lines.append(f"  {name:30}{''.join(f'{digits(number):>9}' for number in numbers)}{verdict}".rstrip())
        lines.append("")
    return "\n".join([*lines, *(f"{name}: {reason}" for name, reason in failures.items())])


def main() -> None:
    measures = ["limit", "tasks", "lag", "start", "idle"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=measures, default=measures, help="some of the measures")
    parser.add_argument("--samples", type=int, default=1, metavar="N", help="how many of each")
    parser.add_argument("--json", type=Path, default=LATEST, metavar="PATH", help="where the numbers go")
    options = parser.parse_args()
    with Server() as server, Postgres() as postgres:
        samples, failures = run(Bench(server.base_url, postgres), options.only, options.samples)
    medians = {row: {name: median(values) for name, values in found.items()} for row, found in samples.items()}
    about = {"python": platform.python_version(), "processors": os.cpu_count()}
    told = {**about, "medians": medians, "samples": samples, "failures": failures}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(told, indent=1) + "\n")
    print(table(samples, failures))


if __name__ == "__main__":
    main()
