"""`any-agent worker`: a process that does the tasks of all agents."""

from __future__ import annotations

import asyncio
import contextlib
import signal

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
    async with Agents() as agents, agents.worker(room=concurrency) as worker:
        click.echo(f"any-agent: working on the tasks in {one_line(agents.database.driver.name)}; Ctrl-C ends", err=True)
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C is enough
                loop.add_signal_handler(number, stop.set)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({stopping, worker.failure}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if worker.failure.done():
            worker.failure.result()
        stop.clear()
        stopping = asyncio.create_task(stop.wait())
        ending = asyncio.create_task(worker.finish(_GRACE_S))
        click.echo("any-agent: ending what is being done; Ctrl-C once more leaves it to others", err=True)
        await asyncio.wait({stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, ending):
            task.cancel()
        return 0
