"""Real processes that run `any-agent`, to be killed at any moment.

They are forked from one that has imported everything already, since the imports would take longer than the tests.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from any_agent.cli.main import main
from orchestration.durable.support import LIMIT_S

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "aiohttp",
        "openai",
        "rich.progress",
        "any_agent.cli.main",
        "any_agent.cli.task",
        "any_agent.cli.worker",
        "any_agent.orchestration.durable.engine",
        "any_agent.orchestration.durable.worker",
        "any_agent.orchestration.providers.openai.agent",
        "dbos._sys_db_postgres",
        "dbos._sys_db_sqlite",
        "psycopg",
        "sqlalchemy.dialects.postgresql.psycopg",
        "sqlalchemy.dialects.sqlite",
    ]
)


class Command:
    """A process that runs `any-agent` with some arguments."""

    def __init__(self, folder: Path, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        self._process: Any = _CONTEXT.Process(
            target=_run, args=(arguments, environment, str(folder), str(self._out), str(self._err))
        )
        self._process.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def out(self) -> str:
        return self._out.read_text() if self._out.exists() else ""

    @property
    def err(self) -> str:
        return self._err.read_text() if self._err.exists() else ""

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as nobody ends by themselves."""
        self._process.kill()
        self._process.join()

    async def ended(self) -> int:
        """Wait until it has ended; its exit code."""
        await until(lambda: not self.is_running)
        self._process.join()
        return self._process.exitcode

    async def says(self, words: str) -> None:
        """Wait until it has said something."""
        await until(lambda: words in self.err + self.out)


class Home:
    """A folder where processes work for one database."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "ANY_AGENT_DATA": os.environ["ANY_AGENT_DATA"],
            "ANY_AGENT_DB": url,
        }
        self._commands: list[Command] = []

    def start(self, *arguments: str, **environment: str) -> Command:
        name = f"{len(self._commands)}-{arguments[0]}"
        command = Command(self.folder, name, list(arguments), {**self.environment, **environment})
        self._commands.append(command)
        return command

    async def worker(self, *arguments: str, **environment: str) -> Command:
        """A worker that is ready to work."""
        worker = self.start("worker", *arguments, **environment)
        await worker.says("working on the tasks")
        return worker

    async def run(self, *arguments: str, **environment: str) -> Command:
        """A command that has succeeded."""
        command = self.start(*arguments, **environment)
        assert await command.ended() == 0, command.err
        return command

    def close(self) -> None:
        for command in self._commands:
            if command.is_running:
                command.kill()


@contextmanager
def home(folder: Path, url: str) -> Iterator[Home]:
    place = Home(folder, url)
    try:
        yield place
    finally:
        place.close()


async def until(condition: Callable[[], Any], seconds: float = LIMIT_S) -> None:
    """Return as soon as something holds that happens elsewhere."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        await asyncio.sleep(0.01)


def _run(arguments: list[str], environment: dict[str, str], folder: str, out: str, err: str) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: nothing is left of tests that are killed
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, out, os.O_WRONLY | os.O_CREAT),
        (2, err, os.O_WRONLY | os.O_CREAT),
    ):
        descriptor = os.open(path, flags, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - what multiprocessing had put there is another one
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(arguments)
