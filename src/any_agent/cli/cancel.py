"""`any-agent cancel`: stops a task, or all that an agent has to do."""

from __future__ import annotations

import asyncio

import click

from any_agent.orchestration.durable.errors import UnknownTask
from any_agent.orchestration.durable.host import Agents

__all__ = ("cancel_command",)


@click.command("cancel")
@click.argument("what", metavar="AGENT|TASK")
def cancel_command(what: str) -> int:
    """Stop a task, or everything that an agent does and has before it. The agent lives on."""
    return asyncio.run(_cancel(what))


async def _cancel(what: str) -> int:
    async with Agents() as agents:
        try:
            tasks = [await agents.task(what)]
        except UnknownTask:
            record = await agents.find(what)
            tasks = await agents.tasks(what, limit=record.tasks + 1)
        open_tasks = [task for task in tasks if not task.is_over]
        # what comes last goes first, so that nothing begins in between
        for task in sorted(open_tasks, key=lambda task: -task.seq):
            await agents.cancel(task.id)
        click.echo(f"{len(open_tasks)} cancelled" if open_tasks else "there was nothing to cancel")
        return 0
