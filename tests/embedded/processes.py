"""Processes that hold leases, and a look at all that belong to one cache folder."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from any_agent.embedded import Lease
from any_agent.embedded.folder import ServerFolder, Status
from any_agent.folders import user_folder

STUB = Path(__file__).with_name("stub")

_HOLDER = """
import json, sys
from any_agent import embedded
model, = json.loads(sys.argv[1])
sys.stdin.readline()
lease = embedded.lease(model)
print(json.dumps([lease.base_url, lease.api_key]), flush=True)
sys.stdin.read()
"""


class Address(NamedTuple):
    """Where a server is, and its key."""

    base_url: str
    api_key: str

    @classmethod
    def of(cls, lease: Lease) -> Address:
        return cls(lease.base_url, lease.api_key)

    def ask(self, key: str | None = None) -> int:
        """What the server says to a request with its key, or another one: an HTTP status; 0 if nobody listens."""
        connection = http.client.HTTPConnection(urlsplit(self.base_url).netloc, timeout=10)
        try:
            connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key or self.api_key}"})
            return connection.getresponse().status
        except ConnectionError:
            return 0
        finally:
            connection.close()


@dataclass
class Holder:
    """A process that takes a lease when it is told to go, and keeps it until it is ended."""

    process: subprocess.Popen[str]

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def address(self) -> Address:
        """The server on which it has its lease; waits for that."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the holder ended without a lease"
        return Address(*json.loads(line))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def holder(model: str | None = None) -> Iterator[Holder]:
    """A process in a session of its own, as if it had a terminal of its own."""
    command = [sys.executable, "-c", _HOLDER, json.dumps([model])]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        try:
            yield Holder(process)
        finally:
            process.kill()


def folder() -> ServerFolder:
    """The folder of the only server that there was in this cache."""
    (path,) = (user_folder("cache") / "servers").iterdir()
    return ServerFolder(path)


def status() -> Status | None:
    """What the only server says of itself, if it says something."""
    places = list((user_folder("cache") / "servers").glob("*"))
    return ServerFolder(places[0]).read() if places else None


def wait_for_stage(stage: str) -> Status:
    """The status of the only server, once it is there."""
    return wait_until(lambda: now if (now := status()) is not None and now.stage == stage else None)


def servers(program: str = "any_agent.embedded.") -> list[int]:
    """The processes that run such a program with this cache."""
    cache = f"ANY_AGENT_CACHE={user_folder('cache')}".encode()
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            environment = (place / "environ").read_bytes().split(b"\0")
            words = (place / "cmdline").read_bytes().decode()
        except OSError:
            continue
        if cache in environment and program in words and int(place.name) != os.getpid():
            found.append(int(place.name))
    return found


def wait_until(condition: Callable[[], Any], seconds: float = 20) -> Any:
    """What `condition` gives as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.01)
    return value


def starts() -> int:
    """How often the stub was started in this cache."""
    return (user_folder("cache") / "starts").read_text().count("\n")


def open_leases() -> int:
    """How many leases this process has."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing itself needed one
            found += os.readlink(f"/proc/self/fd/{number}").endswith("/leases")
    return found


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
