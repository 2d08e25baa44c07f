"""`any-agent doctor`: what works with a server, what does not, and what to do about it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from any_agent.cli.clean import one_line
from any_agent.cli.connect import Connection, settled
from any_agent.cli.inputs import read_key
from any_agent.orchestration.keys import KeyPlace, wire_profile
from any_agent.profiles import get_profile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from any_agent.adapters.checkup import Check
    from any_agent.orchestration.types import AgentConfig

__all__ = ("doctor_command",)

_STYLES = {"ok": "green", "limited": "yellow", "failed": "bold red", "skipped": "dim", "unknown": "cyan"}


@click.command("doctor")
@click.option("-m", "--model", help="The model to check, or an alias of providers.toml.")
@click.option("--profile", metavar="NAME", help="An alias, or a kind of server: lmstudio, ollama, embedded, …")
@click.option("--base-url", metavar="URL", help="Where the server is; else the first one that runs here.")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the key.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def doctor_command(
    model: str | None, profile: str | None, base_url: str | None, api_key_env: str | None, as_json: bool
) -> int:
    """Check a server step by step: what works, what any_agent does about the rest, and how to mend it."""
    from any_agent.adapters.checkup import BASIC, checkup

    config = settled(Connection(model, profile, base_url, api_key_env))
    show: Callable[[Check], None] = (lambda _: None) if as_json else _shower()
    if config.provider == "embedded" and not config.base_url:
        checks = asyncio.run(_check_embedded(config.model, show))
    else:
        kind = config.provider or None
        if kind and config.base_url:
            kind = wire_profile(get_profile(kind), config.base_url).name
        checking = checkup(config.base_url, config.model, profile=kind, api_key=_key(config))
        checks = asyncio.run(_collect(checking, show))
    healthy = not any(check.state == "failed" for check in checks if check.name in BASIC)
    if as_json:
        report = {"healthy": healthy, "checks": [dataclasses.asdict(check) for check in checks]}
        click.echo(json.dumps(report, ensure_ascii=False, indent=2))
    return 0 if healthy else 1


def _key(config: AgentConfig) -> str | None:
    """The key that was named; without any, the server is asked without one, too, or with that of its own service."""
    if config.api_key_keyring:
        return KeyPlace("keyring", config.api_key_keyring, required=True).read()
    return read_key(config.api_key_env) if config.api_key_env else None


async def _check_embedded(model: str | None, show: Callable[[Check], None]) -> list[Check]:
    from any_agent.adapters.checkup import checkup
    from any_agent.cli.embed import embedded_model
    from any_agent.cli.screen import Screen

    async with embedded_model(model, Screen()) as lease:
        checking = checkup(lease.base_url, lease.model, profile="embedded", api_key=lease.api_key)
        return await _collect(checking, show)


async def _collect(checking: AsyncGenerator[Check, None], show: Callable[[Check], None]) -> list[Check]:
    checks: list[Check] = []
    async with aclosing(checking):
        async for check in checking:
            show(check)
            checks.append(check)
    return checks


def _shower() -> Callable[[Check], None]:
    """How a check is shown as soon as it is done: a row on a terminal, else a line."""
    if not sys.stdout.isatty():
        return lambda check: click.echo(_line(check))
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colours = None if os.environ.get("NO_COLOR") else "auto"
    console = Console(color_system=colours, highlight=False, markup=False, emoji=False)

    def show(check: Check) -> None:
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_column(width=7)
        row.add_column(width=14)
        row.add_column(overflow="fold")
        remedy = (f"\n→ {one_line(check.remedy)}", "dim") if check.remedy else ""
        row.add_row(Text(check.state, _STYLES[check.state]), check.name, Text.assemble(one_line(check.found), remedy))
        console.print(row)

    return show


def _line(check: Check) -> str:
    remedy = f" -> {one_line(check.remedy)}" if check.remedy else ""
    return f"{check.state:<7}  {check.name:<14}  {one_line(check.found)}{remedy}"
