"""`any-agent attach`: reads along with a task, from its beginning or from now on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from any_agent.cli.screen import Screen
from any_agent.cli.tasking import show_task
from any_agent.errors import AgentSDKError
from any_agent.orchestration.durable.errors import UnknownTask
from any_agent.orchestration.durable.host import Agents

if TYPE_CHECKING:
    from any_agent.orchestration.durable.tasks import Task

__all__ = ("attach_command",)


@click.command("attach")
@click.argument("what", metavar="AGENT|TASK")
@click.option("--live", is_flag=True, help="Only what happens from now on.")
@click.option("--after", type=click.IntRange(0), metavar="SEQ", help="Only what comes after this event.")
@click.option("--json", "as_json", is_flag=True, help="Print the events as lines of JSON.")
@click.option("--show-thinking", is_flag=True, help="Show what the model thinks before it answers.")
def attach_command(what: str, live: bool, after: int | None, as_json: bool, show_thinking: bool) -> int:
    """Read along with a task, or with the last one of an agent. A task that was interrupted goes on.

    Ctrl-C only ends the reading.
    """
    shown = {"as_json": as_json, "show_thinking": show_thinking}
    return asyncio.run(_attach(what, live=live, after=after, **shown))


async def _attach(what: str, *, live: bool, after: int | None, as_json: bool, show_thinking: bool) -> int:
    screen = Screen()
    async with Agents() as agents:
        task = await _task(agents, what)
        position = after or 0
        if live:
            position = max(position, await agents.position(task.id))
        if not as_json and not position:
            screen.line(f"{task.sender} → {task.agent} ({task.id}): {task.prompt}")
        if screen.is_live and not as_json and not task.is_over:
            reads = "Ctrl-C ends the reading; the task goes on"
            works = "nobody else works on it, so this does; Ctrl-C leaves it where it is"
            screen.line(reads if await agents.is_served(task.id) else works)
        return await show_task(
            agents, task, screen, cancels=False, after=position, as_json=as_json, show_thinking=show_thinking
        )


async def _task(agents: Agents, what: str) -> Task:
    """The task of that id, or of an agent the one it does, or will do next, or did last."""
    try:
        return await agents.task(what)
    except UnknownTask:
        tasks = await agents.tasks((await agents.find(what)).config.name)
    if not tasks:
        raise AgentSDKError(f'{what} has had no task yet: any-agent task {what} "…"')
    return next((task for task in reversed(tasks) if not task.is_over), tasks[0])
