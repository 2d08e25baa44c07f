"""A task on the screen, until it is over or somebody presses Ctrl-C."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from any_agent.cli.view import View, watch, write_json
from any_agent.events import Failed

if TYPE_CHECKING:
    from any_agent.cli.screen import Screen
    from any_agent.orchestration.durable.host import Agents
    from any_agent.orchestration.durable.tasks import Task

__all__ = ("show_task",)

#: how long the end of a task is waited for that was cancelled
_PATIENCE_S = 5.0


async def show_task(
    agents: Agents, task: Task, screen: Screen, *, cancels: bool, after: int = 0, as_json: bool, show_thinking: bool
) -> int:
    """The exit code. With `cancels`, Ctrl-C cancels the task; without, it goes on by itself."""
    if task.state == "waiting" or (task.state == "running" and task.attempts > 1):
        screen.line(f"{task.agent} goes on with what it has begun first")
    events = agents.work_on(task, after)
    showing = write_json(events) if as_json else watch(events, View(screen, show_thinking=show_thinking))
    watching = asyncio.create_task(showing)
    try:
        last = await asyncio.shield(watching)
    except asyncio.CancelledError:
        if cancels:
            await agents.cancel(task.id)
            await asyncio.wait({watching}, timeout=_PATIENCE_S)
            screen.line("cancelled")
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        if not cancels:
            screen.line(await _left(agents, task))
        raise
    if isinstance(last, Failed):
        raise last.error
    return 0 if last.reason == "complete" else 1


async def _left(agents: Agents, task: Task) -> str:
    if (await agents.task(task.id)).is_over:
        return "it is over"
    if await agents.is_served(task.id):
        return f"it goes on: any-agent attach {task.id}"
    return f"nobody works on it now; `any-agent attach {task.id}` or a worker goes on with it where it stopped"
