"""One peer's process, `python worker.py PEER BASE_URL`: each line that it reads is work, each it writes the cost."""

import asyncio
import gc
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from resource import RUSAGE_SELF, getpagesize, getrusage
from types import ModuleType
from typing import Any

from work import Work

Stream = Callable[[], Awaitable[int]]  # one request, read to its end: the number of characters received

IDLE_S = 6  # longer than a client keeps a connection that nobody uses


class Adder:
    """The tool of the turns. It counts, so that no peer is faster by not calling it."""

    def __init__(self) -> None:
        self.calls = 0

    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        self.calls += 1
        return a + b


async def do(stream: Stream, work: Work, adder: Adder) -> dict[str, Any]:
    received: list[int] = []
    adder.calls = 0
    gc.collect()
    slept, clock, cpu = getrusage(RUSAGE_SELF).ru_nvcsw, time.monotonic(), time.process_time()
    while not received or time.monotonic() - clock < work.seconds:
        if work.at_once:
            received += await asyncio.gather(*(stream() for _ in range(work.requests)))
        else:
            received += [await stream() for _ in range(work.requests)]
    await asyncio.sleep(0.05)  # what a peer leaves for later costs as well
    cpu, usage = time.process_time() - cpu, getrusage(RUSAGE_SELF)
    check(received, work)
    if adder.calls != work.rounds * len(received):
        raise ValueError(f"made {adder.calls} tool calls of {work.rounds * len(received)}")
    return {
        "cpu_s": cpu,
        "life_cpu_s": time.process_time(),
        "requests": len(received),
        "wakeups": usage.ru_nvcsw - slept,
        "peak_rss_mb": usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
    }


async def keep(make: Callable[[], Stream], work: Work) -> dict[str, Any]:
    """What clients hold that wait: made only, and with one answered request behind them."""
    files = open_files()
    check([await make()()], work)  # what is imported and cached at the first request belongs to no client
    before = rss_kb()
    streams = [make() for _ in range(work.requests)]
    made = rss_kb()
    check([await stream() for stream in streams], work)
    opened = open_files()
    await asyncio.sleep(IDLE_S)
    return {
        "made_kb": (made - before) / work.requests,
        "idle_kb": (rss_kb() - before) / work.requests,
        "files": opened - files,
        "kept": open_files() - files,
    }


def check(received: list[int], work: Work) -> None:
    if wrong := [count for count in received if count != work.characters]:
        raise ValueError(f"received {wrong[0]} characters of {work.characters}")


def rss_kb() -> int:
    """The memory that this process holds now."""
    gc.collect()
    if sys.platform == "linux":
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * getpagesize() // 1024
    return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(os.getpid())]))


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


class Connections:
    """What a peer has connected so far: one stream for each model."""

    def __init__(self, peer: str, base_url: str) -> None:
        self.peer = peer
        self.base_url = base_url
        self.adder = Adder()
        self.streams: dict[str, Stream] = {}

    async def do(self, work: Work) -> dict[str, Any]:
        peer = importlib.import_module(f"peers.{self.peer}")
        if work.kept:
            return await keep(await peer.connect_idle(self.base_url, work.model), work)
        if work.model not in self.streams:
            self.streams[work.model] = await self.connect(peer, work)
        return await do(self.streams[work.model], work, self.adder)

    async def connect(self, peer: ModuleType, work: Work) -> Stream:
        if work.rounds:
            return await peer.connect_rounds(self.base_url, work.model, self.adder.add)
        return await peer.connect(self.base_url, work.model)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a peer prints is no answer
    connections = Connections(*sys.argv[1:])
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            try:
                answer = runner.run(connections.do(Work(**json.loads(line))))
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers, flush=True)
        os._exit(0)  # a peer's clients need not be closed in good order


if __name__ == "__main__":
    main()
