"""`any-agent show`: one agent, and its last tasks."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from typing import TYPE_CHECKING

import click

from any_agent.cli.cards import elapsed
from any_agent.cli.clean import cut, one_line
from any_agent.cli.view import doing
from any_agent.orchestration.durable.host import Agents

if TYPE_CHECKING:
    from any_agent.events import Event
    from any_agent.orchestration.durable.tasks import Task

__all__ = ("show_command",)

_TASKS = 10
_PROMPT = 100


@click.command("show")
@click.argument("name", metavar="AGENT")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def show_command(name: str, as_json: bool) -> int:
    """Show what an agent is, and what became of its last tasks."""
    return asyncio.run(_show(name, as_json=as_json))


async def _show(name: str, *, as_json: bool) -> int:
    async with Agents() as agents:
        record, tasks = await agents.find(name), await agents.tasks(name, _TASKS)
        is_abandoned = name in await agents.abandoned()
        now = {task.id: await agents.last_event(task.id) for task in tasks if task.state == "running"}
    if as_json:
        told = {
            **record.config.to_dict(),
            "state": record.state,
            "interrupted": is_abandoned,
            "created": record.created,
            "tasks": [dataclasses.asdict(task) for task in tasks],
        }
        click.echo(json.dumps(told, ensure_ascii=False, indent=2))
        return 0
    state = "interrupted: `any-agent attach` goes on with it, or a worker" if is_abandoned else record.state
    fields = {**record.config.to_dict(), "created": f"{elapsed(time.time() - record.created)} ago", "state": state}
    for field, value in fields.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        click.echo(f"{field:<14} {one_line(shown)}")
    for task in tasks:
        click.echo()
        for line in _lines(task, now.get(task.id)):
            click.echo(line)
    return 0


def _lines(task: Task, now: Event | None) -> list[str]:
    """When a task was asked and how far it is, the prompt, and what is wrong."""
    state = f"{task.state}: {words}" if now is not None and (words := doing(now)) else task.state
    took = f", took {elapsed((task.finished or time.time()) - task.started)}" if task.started is not None else ""
    lines = [f"{one_line(task.id)}  {state}{took}, asked {elapsed(time.time() - task.submitted)} ago"]
    lines.append(f"  {cut(str(task.prompt), _PROMPT)}")
    error = task.outcome.get("error")
    return [*lines, f"  {one_line(str(error))}"] if error else lines
