"""The command line as a person meets it: real processes, real pipes, a real (pseudo) terminal."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pexpect
import pyte

from any_agent.orchestration import AgentConfig, Agents
from any_agent.testing import Received, Reply, ScriptedServer

COMMAND = [sys.executable, "-m", "any_agent"]
LIMIT_S = 40
CALL = {"id": "c1", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
WEATHER = '''
def get_weather(city: str) -> dict:
    """The weather in a city."""
    return {"city": city, "celsius": 21}

def broken(city: str) -> str:
    """Fails."""
    raise RuntimeError("the station is closed")
'''
#: what would have an effect on a terminal: escapes, bells, the C1 controls
DANGEROUS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
STYLE = re.compile(rb"\x1b\[[0-9;]*m")


class Backend:
    """A scripted server in a thread of its own, to be waited for from a test without an event loop."""

    def __init__(self, server: ScriptedServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.url = server.url
        self._loop = loop

    @property
    def prompts(self) -> list[Any]:
        """The last message of each question."""
        return [request.json["messages"][-1]["content"] for request in self.questions]

    @property
    def questions(self) -> list[Received]:
        return [request for request in self.server.requests if request.method == "POST"]

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(LIMIT_S)

    def set(self, event: asyncio.Event) -> None:
        self._loop.call_soon_threadsafe(event.set)


@contextmanager
def serving(*replies: Reply | Callable[[Received], Reply]) -> Iterator[Backend]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = ScriptedServer(*replies)
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(LIMIT_S)
        try:
            yield Backend(server, loop)
        finally:
            # what went wrong in the script is raised here
            asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(LIMIT_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Home:
    """A folder to work in, and an environment that knows nothing of the machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "weather.py").write_text(WEATHER, "utf-8")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "ANY_AGENT_CACHE": str(folder / "cache"),
            "ANY_AGENT_CONFIG": str(folder / ".config" / "any-agent"),
            "ANY_AGENT_DATA": str(folder / "data"),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }

    @property
    def database(self) -> str:
        """Where its named agents are."""
        return str(self.folder / "data" / "agents.db")

    def spawn(self, backend: Backend, *names: str, **settings: Any) -> None:
        """Agents of a scripted server, without a process for each."""
        self.ask(
            *(
                lambda agents, name=name: agents.spawn(AgentConfig(name, "openai", "scripted", backend.url, **settings))
                for name in names
            )
        )

    def ask(self, *questions: Callable[[Agents], Coroutine[Any, Any, Any]]) -> list[Any]:
        """What a program hears of the agents."""

        async def ask() -> list[Any]:
            async with Agents(self.database) as agents:
                return [await question(agents) for question in questions]

        return asyncio.run(ask())

    def start(self, *arguments: str, stdin: int | IO[bytes] = subprocess.DEVNULL, **variables: str) -> Process:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env={**self.environment, **variables},
        )

    def run(self, *arguments: str, piped: bytes | None = None, **variables: str) -> Result:
        """Run a command to its end, with nothing or with `piped` on its standard input."""
        process = self.start(*arguments, stdin=subprocess.DEVNULL if piped is None else subprocess.PIPE, **variables)
        return Result(process, *process.communicate(piped, timeout=LIMIT_S))

    def open(self, *arguments: str, columns: int = 80, rows: int = 24, **variables: str) -> Terminal:
        return Terminal([*COMMAND, *arguments], {**self.environment, **variables}, self.folder, columns, rows)


Process = subprocess.Popen[bytes]


@contextmanager
def working(home: Home, *arguments: str) -> Iterator[Process]:
    """A worker, as long as this is open."""
    worker = home.start("worker", *arguments)
    assert worker.stderr is not None
    assert b"working on the tasks in" in worker.stderr.readline()
    try:
        yield worker
    finally:
        worker.kill()
        worker.communicate()


class Result:
    def __init__(self, process: Process, out: bytes, err: bytes) -> None:
        self.code = process.returncode
        self.out = out.decode()
        self.err = err.decode()

    @property
    def complaint(self) -> str:
        """The one line that says what is wrong; it must be the only thing that is said."""
        assert self.code == 1
        assert self.out == ""
        [line] = self.err.splitlines()
        return line


class Terminal:
    """A program in a terminal, and what can be seen there."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, columns: int, rows: int) -> None:
        self.raw = b""
        self._screen = pyte.HistoryScreen(columns, rows, history=2000)
        self._stream = pyte.ByteStream(self._screen)
        self._child: Any = pexpect.spawn(
            command[0], command[1:], env=environment, cwd=str(folder), dimensions=(rows, columns), timeout=LIMIT_S
        )
        self._child.delaybeforesend = None
        # a terminal answers when a program asks where the cursor is
        self._screen.write_process_input = lambda data: self._child.send(data)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close(force=True)

    @property
    def lines(self) -> list[str]:
        """All lines, those that have scrolled away too, without the space at their ends."""
        old = ["".join(line[x].data for x in range(self._screen.columns)) for line in self._screen.history.top]
        lines = [line.rstrip() for line in (*old, *self._screen.display)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def text(self) -> str:
        """What can be read, however it is wrapped."""
        return " ".join(" ".join(self.lines).split())

    def type(self, keys: str) -> None:
        self._child.send(keys)

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        self._child.setwinsize(rows, columns)

    def wait_for(self, what: str | re.Pattern[str] | Callable[[], bool]) -> None:
        """Read until a text can be seen on the screen, or until something holds."""
        deadline = time.monotonic() + LIMIT_S
        while not self._holds(what):
            assert time.monotonic() < deadline, f"{what!r} did not come; the screen:\n" + "\n".join(self.lines)
            self._read()

    def ends(self) -> int:
        """Read until the program has ended; its exit code."""
        while self._read():
            pass
        self._child.close()
        return self._child.exitstatus

    def _holds(self, what: str | re.Pattern[str] | Callable[[], bool]) -> bool:
        if isinstance(what, re.Pattern):
            return any(what.search(line) for line in self.lines)
        return what() if callable(what) else what in self.text

    def _read(self) -> bool:
        try:
            data = self._child.read_nonblocking(65536, timeout=LIMIT_S)
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        return True
