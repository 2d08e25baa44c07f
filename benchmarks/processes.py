"""The processes of a run: the server, a worker for each peer, and fresh ones whose whole life is measured."""

import json
import os
import select
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any, Self

from work import Work

HERE = Path(__file__).parent
PATIENCE = 60  # seconds for one answer
ENVIRONMENT = {
    **os.environ,
    # litellm would fetch a list of prices at import; nobody should go through a proxy to the loopback
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "NO_PROXY": "*",
    "no_proxy": "*",
    # asyncio asks for 256 kB at each read; whether they come from the kernel each time, for 20 µs, would depend on
    # what the process did before
    "MALLOC_MMAP_THRESHOLD_": "4000000",
}


class PeerFailed(Exception):
    """A peer could not do what was asked; the message goes into the table."""


class Server:
    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, HERE / "server.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.base_url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


class Worker:
    """One peer in a process of its own, that keeps its client between two requests for work."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
            text=True,
        )

    def do(self, work: Work) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            print(json.dumps(asdict(work)), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise PeerFailed(self.end()) from None
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            self.process.kill()
            raise PeerFailed(f"not done in {PATIENCE} s")
        line = self.process.stdout.readline()
        if not line:
            raise PeerFailed(self.end())
        answer = json.loads(line)
        if "error" in answer:
            raise PeerFailed(answer["error"])
        return answer

    def end(self) -> str:
        return f"its process ended with code {self.process.wait()}"

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def life(command: list[str]) -> float:
    """The CPU seconds of a process from its start to its end."""
    before = getrusage(RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise PeerFailed(f"not done in {PATIENCE} s") from None
    after = getrusage(RUSAGE_CHILDREN)
    if done.returncode:
        raise PeerFailed((done.stderr.strip() or f"its process ended with code {done.returncode}").splitlines()[-1])
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
