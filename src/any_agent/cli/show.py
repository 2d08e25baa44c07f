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
from any_agent.cli.table import show_table
from any_agent.orchestration.durable.host import Agents

if TYPE_CHECKING:
    from any_agent.orchestration.durable.tasks import Task

__all__ = ("show_command",)

_TASKS = 10
_PROMPT = 60


@click.command("show")
@click.argument("name", metavar="AGENT")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def show_command(name: str, as_json: bool) -> int:
    """Show what an agent is, and what became of its last tasks."""
    return asyncio.run(_show(name, as_json=as_json))


async def _show(name: str, *, as_json: bool) -> int:
    async with Agents() as agents:
        record, tasks = await agents.find(name), await agents.tasks(name, _TASKS)
    if as_json:
        told = {
            **record.config.to_dict(),
            "state": record.state,
            "created": record.created,
            "tasks": [dataclasses.asdict(task) for task in tasks],
        }
        click.echo(json.dumps(told, ensure_ascii=False, indent=2))
        return 0
    for field, value in {**record.config.to_dict(), "state": record.state}.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        click.echo(f"{field:<14} {one_line(shown)}")
    if tasks:
        click.echo()
        show_table(("task", "state", "took", "prompt"), [_row(task) for task in tasks])
    return 0


def _row(task: Task) -> tuple[str, ...]:
    took = elapsed((task.finished or time.time()) - task.started) if task.started is not None else ""
    error = f" ({task.outcome['error']})" if "error" in task.outcome else ""
    return (task.id, f"{task.state}{one_line(str(error))}", took, cut(str(task.prompt), _PROMPT))
