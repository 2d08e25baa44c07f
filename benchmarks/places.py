"""Where tasks are done: a new database, and the processes that work on it. Linux only, for what /proc tells."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Self

import psycopg
from postgres import Postgres
from processes import HERE, PATIENCE, PeerFailed

from any_agent.orchestration.durable.host import Agents

TICKS = os.sysconf("SC_CLK_TCK")
NUMBERS = count()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was spent so far."""

    time: float
    done: int  # tasks
    worker_cpu: float  # seconds, of all workers
    server_cpu: float  # seconds, of Postgres
    commits: int  # transactions of Postgres, those that only read as well
    synced: int  # how often Postgres waited for the disk
    size: int  # bytes of the database
    rss_kb: float  # of one worker


class Place:
    """A new database of a kind. Use it with `with`."""

    def __init__(self, postgres: Postgres | None) -> None:
        self.postgres = postgres
        self.workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aa-bench-")))
            if self.postgres is None:
                self.database = str(self.folder / "agents.db")
            else:
                name = f"bench{next(NUMBERS)}"
                with psycopg.connect(self.postgres.url("postgres"), autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {name}")
                self.database = self.postgres.url(name)
            self.environment = {
                **os.environ,
                "ANY_AGENT_DB": self.database,
                "ANY_AGENT_DATA": str(self.folder),
                "PYTHONPATH": str(HERE),
            }
            os.environ["ANY_AGENT_DATA"] = str(self.folder)  # where this process looks for the workers' locks
            stack.callback(self.end_workers)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def command(self, *arguments: str) -> list[str]:
        return [shutil.which("any-agent", path=str(Path(sys.executable).parent)) or "any-agent", *arguments]

    def start(self, number: int, concurrency: int = 10) -> None:
        """Start workers, and return when all are there."""
        for _ in range(number):
            command = self.command("worker", "--concurrency", str(concurrency))
            log = (self.folder / "worker.log").open("ab")
            self.workers.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))
        self.wait(lambda agents: asyncio.run(agents.workers()), number)

    def end_workers(self) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.wait()
        self.workers.clear()

    def wait(self, what: "Callable[[Agents], list[object]]", number: int) -> None:
        """Return when there are so many of something."""
        began = time.monotonic()
        agents = Agents(self.database)
        with closing(agents.database):
            while len(what(agents)) < number:
                if time.monotonic() - began > PATIENCE or any(worker.poll() is not None for worker in self.workers):
                    raise PeerFailed(f"not done in {PATIENCE} s: {(self.folder / 'worker.log').read_text()[-300:]}")
                time.sleep(0.05)

    def snapshot(self) -> Snapshot:
        agents = Agents(self.database)
        with closing(agents.database) as database:
            ((done,),) = database.read("SELECT COUNT(*) FROM aa_tasks WHERE state = 'done'")
        used = [usage(worker.pid) for worker in self.workers]
        server, commits, synced = 0.0, 0, 0
        if self.postgres is None:
            with closing(sqlite3.connect(self.database)) as connection:
                ((size,),) = connection.execute(
                    "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
                ).fetchall()
        else:
            server = tree_cpu(self.postgres.process.pid)
            with psycopg.connect(self.database) as connection:
                row = connection.execute(
                    "SELECT xact_commit, (SELECT wal_sync FROM pg_stat_wal), pg_database_size(current_database()) "
                    "FROM pg_stat_database WHERE datname = current_database()"
                ).fetchone()
            assert row is not None
            commits, synced, size = row
        cpu, rss = sum(cpu for cpu, _ in used), max((rss for _, rss in used), default=0.0)
        return Snapshot(time.monotonic(), done, cpu, server, commits, synced, size, rss)


def usage(pid: int) -> tuple[float, float]:
    """(CPU seconds, kB of RSS) of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS, int(fields[21]) * os.sysconf("SC_PAGESIZE") / 1024


def tree_cpu(pid: int) -> float:
    """The CPU seconds of a process, of its children, and of those that have ended."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended just now
        if stat.parent.name == str(pid):
            total += sum(int(field) for field in fields[11:15])
        elif fields[1] == str(pid):
            total += int(fields[11]) + int(fields[12])
    return total / TICKS
