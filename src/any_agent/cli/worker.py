"""`any-agent worker`: a process that does the tasks of all agents."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable

import click

from any_agent.cli.clean import one_line
from any_agent.orchestration.durable.host import Agents

__all__ = ("worker_command",)

_GRACE_S = 10.0


@click.command("worker")
@click.option("--concurrency", type=click.IntRange(1), default=10, show_default=True, help="How many tasks at once.")
def worker_command(concurrency: int) -> int:
    """Do the tasks of all agents of the database, until Ctrl-C.

    Any number of workers may share a database; ANY_AGENT_DB=postgresql://… lets them be on many machines. What a
    worker leaves behind, another one goes on with.
    """
    return asyncio.run(_work(concurrency))


async def _work(concurrency: int) -> int:
    loop = asyncio.get_running_loop()
    stop, stop_at_once = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends at once
            loop.add_signal_handler(number, lambda: (stop_at_once if stop.is_set() else stop).set())
    async with Agents() as agents, agents.worker(room=concurrency) as worker:
        _tell(f"working on the tasks in {one_line(agents.database.driver.name)}; Ctrl-C ends")
        await _first(stop.wait(), asyncio.shield(worker.failure))
        if worker.failure.done():
            worker.failure.result()
        if worker.busy:
            tasks = "1 task is" if worker.busy == 1 else f"{worker.busy} tasks are"
            _tell(f"{tasks} being ended; Ctrl-C once more leaves {'it' if worker.busy == 1 else 'them'} to others")
            await _first(stop_at_once.wait(), worker.finish(_GRACE_S))
        return 0


async def _first(*works: Awaitable[object]) -> None:
    """Wait for the first of some things; the others are given up."""
    waiting = [asyncio.ensure_future(work) for work in works]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for work in waiting:
        work.cancel()


def _tell(words: str) -> None:
    click.echo(f"any-agent: {words}", err=True)
