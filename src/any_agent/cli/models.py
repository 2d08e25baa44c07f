"""`any-agent models`: which model servers run here, and what they have."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from any_agent.cli.clean import one_line
from any_agent.cli.inputs import read_key
from any_agent.orchestration.overview import overview
from any_agent.orchestration.settings import load_own_settings

if TYPE_CHECKING:
    from any_agent.adapters.probe import FoundModel, FoundServer

__all__ = ("models_command",)

#: how long each question to a server may take: to one that was named now, and to one of the settings
_NAMED_S, _CONFIGURED_S = 5.0, 2.0
#: why a server lists nothing
_SILENT = {
    "needs_key": "(wants a key: --base-url … --api-key-env NAME)",
    "loading": "(is still loading its model)",
    "ready": "(has no model)",
}


@click.command("models")
@click.option("--base-url", "addresses", multiple=True, metavar="URL", help="A server to ask; may be given repeatedly.")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the key for these servers.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def models_command(addresses: tuple[str, ...], api_key_env: str | None, as_json: bool) -> int:
    """List the models of the servers that run on this machine and of those in providers.toml, or at --base-url."""
    from any_agent.adapters.discovery import START_ONE

    if api_key_env and not addresses:
        raise click.UsageError("--api-key-env needs --base-url: a key goes only to servers that are named")
    key = read_key(api_key_env) if api_key_env else None
    servers, silent = asyncio.run(_named(dict.fromkeys(addresses, key)) if addresses else _known())
    if as_json:
        found = [dataclasses.asdict(server) for server in servers]
        click.echo(json.dumps({"servers": found}, ensure_ascii=False, indent=2))
    elif servers:
        _show(servers)
    for address in silent:
        why = f"`any-agent doctor --base-url {address}` says why"
        click.echo(one_line(f"any-agent: no model server answers at {address}: {why}"), err=True)
    if not servers and not addresses:
        raise click.ClickException(f"no model server runs here; {START_ONE}")
    return 0 if servers else 1


async def _known() -> tuple[list[FoundServer], list[str]]:
    """The servers at the usual addresses, and at those that the user has written down."""
    from any_agent.adapters.probe import find_servers

    # what is in the current folder may be somebody else's, who would be sent a key before anybody has asked for it
    entries = [entry for entry in overview(load_own_settings()) if entry.alias.base_url and not entry.problem]
    keys = {str(entry.base_url): entry.key.read() for entry in entries}
    here, (configured, silent) = await asyncio.gather(find_servers(), _named(keys, _CONFIGURED_S))
    servers = {server.base_url: server for server in (*here, *configured)}  # with a key there is more to see
    return list(servers.values()), silent


async def _named(keys: Mapping[str, str | None], limit: float = _NAMED_S) -> tuple[list[FoundServer], list[str]]:
    """The servers that were found at some addresses, each with its key, and the addresses at which none was."""
    from any_agent.adapters.probe import find_servers

    asking = (find_servers([address], api_key=key, limit=limit) for address, key in keys.items())
    found = dict(zip(keys, await asyncio.gather(*asking), strict=True))
    servers = [server for servers in found.values() for server in servers]
    return servers, [address for address, servers in found.items() if not servers]


def _show(servers: list[FoundServer]) -> None:
    tables = [_rows(server) for server in servers]
    rows = [row for table in tables for row in table]
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    colours = None if os.environ.get("NO_COLOR") else "auto"
    console = Console(color_system=colours, highlight=False, markup=False, emoji=False)
    widest = max(len(row[2]) for row in rows)
    for server, found in zip(servers, tables, strict=True):
        console.print(Text.assemble((server.profile, "bold"), f"  {one_line(server.base_url)}"))
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(overflow="fold", min_width=min(widest, console.width // 2))
        for row in found:
            table.add_row(*row[2:])
        console.print(Padding(table, (0, 0, 0, 2)))


def _rows(server: FoundServer) -> list[tuple[str, ...]]:
    where = (server.profile, one_line(server.base_url))
    if not server.models:
        return [(*where, _SILENT[server.state], "", "")]
    return [(*where, one_line(model.id), _window(model), _abilities(model)) for model in server.models]


def _window(model: FoundModel) -> str:
    if model.context_window is None:
        return f"up to {model.longest} tokens" if model.longest else "?"
    more = f" of {model.longest}" if model.longest and model.longest > model.context_window else ""
    return f"{model.context_window}{more} tokens"


def _abilities(model: FoundModel) -> str:
    return "?" if model.abilities is None else ", ".join(model.abilities) or "-"
