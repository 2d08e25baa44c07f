"""`any-agent stop`: ends an agent."""

from __future__ import annotations

import asyncio

import click

from any_agent.orchestration.durable.host import Agents

__all__ = ("stop_command",)


@click.command("stop")
@click.argument("name", metavar="AGENT")
def stop_command(name: str) -> int:
    """End an agent: its tasks are cancelled. What was said can still be read."""

    async def stop() -> None:
        async with Agents() as agents:
            await agents.stop(name)

    asyncio.run(stop())
    click.echo(f"{name} is stopped")
    return 0
