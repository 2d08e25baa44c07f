"""One peer's process, `python worker.py PEER BASE_URL`: each line that it reads is work, each it writes the cost."""

import asyncio
import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from resource import RUSAGE_SELF, getrusage
from typing import Any

from work import Work

Stream = Callable[[], Awaitable[int]]  # one request, read to its end: the number of characters received


async def do(stream: Stream, work: Work) -> dict[str, Any]:
    received: list[int] = []
    gc.collect()
    slept, clock, cpu = getrusage(RUSAGE_SELF).ru_nvcsw, time.monotonic(), time.process_time()
    while not received or time.monotonic() - clock < work.seconds:
        if work.at_once:
            received += await asyncio.gather(*(stream() for _ in range(work.requests)))
        else:
            received += [await stream() for _ in range(work.requests)]
    await asyncio.sleep(0.05)  # what a peer leaves for later costs as well
    cpu, usage = time.process_time() - cpu, getrusage(RUSAGE_SELF)
    if wrong := [count for count in received if count != work.characters]:
        raise ValueError(f"received {wrong[0]} characters of {work.characters}")
    return {
        "cpu_s": cpu,
        "life_cpu_s": time.process_time(),
        "requests": len(received),
        "wakeups": usage.ru_nvcsw - slept,
        "peak_rss_mb": usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
    }


def main() -> None:
    name, base_url = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a peer prints is no answer
    streams: dict[str, Stream] = {}
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            work = Work(**json.loads(line))
            try:
                if work.model not in streams:
                    peer = importlib.import_module(f"peers.{name}")
                    streams[work.model] = runner.run(peer.connect(base_url, work.model))
                answer = runner.run(do(streams[work.model], work))
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers, flush=True)
        os._exit(0)  # a peer's clients need not be closed in good order


if __name__ == "__main__":
    main()
