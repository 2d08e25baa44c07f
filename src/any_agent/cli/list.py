"""`any-agent list`: the agents, and what they are doing."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from any_agent.cli.clean import one_line
from any_agent.cli.table import show_table
from any_agent.orchestration.durable.host import Agents

if TYPE_CHECKING:
    from any_agent.orchestration.durable.agents import AgentRecord

__all__ = ("list_command",)

_COLUMNS = ("agent", "state", "tasks", "model")


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def list_command(as_json: bool) -> int:
    """List the agents, what they are doing, and who works for them."""
    return asyncio.run(_list(as_json=as_json))


async def _list(*, as_json: bool) -> int:
    async with Agents() as agents:
        records, workers, abandoned = await agents.list(), await agents.workers(), await agents.abandoned()
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                **record.config.to_dict(),
                "state": record.state,
                "interrupted": record.config.name in abandoned,
                "tasks": record.tasks,
                "waiting": record.waiting,
            }
            for record in records
        ]
        told = {"agents": rows, "workers": [dataclasses.asdict(worker) for worker in workers]}
        click.echo(json.dumps(told, ensure_ascii=False, indent=2))
        return 0
    if not records:
        click.echo("there are no agents: `any-agent spawn --name …` makes one", err=True)
        return 0
    show_table(_COLUMNS, [_row(record, is_abandoned=record.config.name in abandoned) for record in records])
    at_work = [f"{worker.host} (process {worker.pid})" for worker in workers if worker.agents is None]
    if at_work and sys.stdout.isatty():
        click.echo(f"\nworking: {one_line(', '.join(at_work))}", err=True)
    if abandoned:
        words = "nobody works on what was interrupted: `any-agent worker` goes on with all of it"
        click.echo(f"any-agent: {words}, `any-agent attach AGENT` with one", err=True)
    elif not workers and any(record.waiting for record in records):
        click.echo("any-agent: tasks wait, and nobody works on them: `any-agent worker` does", err=True)
    return 0


def _row(record: AgentRecord, *, is_abandoned: bool) -> tuple[str, ...]:
    config = record.config
    state = "interrupted" if is_abandoned else str(record.state)
    tasks = f"{record.tasks} ({record.waiting} waiting)" if record.waiting else str(record.tasks)
    model = f"{one_line(config.model)} of {config.provider}" if config.model else config.provider
    return (config.name, state, tasks, model)
