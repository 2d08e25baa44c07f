"""`any-agent profiles`: the names of models in the settings, and the providers."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import click

from any_agent.cli.clean import one_line
from any_agent.cli.table import show_table
from any_agent.orchestration.overview import Entry, overview
from any_agent.orchestration.settings import load_settings

__all__ = ("profiles_command",)

_COLUMNS = ("name", "provider", "model", "address", "key", "from")


@click.command("profiles")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def profiles_command(as_json: bool) -> None:
    """List the names in providers.toml and ./any-agent.toml, and the providers that need none.

    Of a key it is said where it is and whether it is there, and nothing else.
    """
    entries = overview(load_settings())
    if as_json:
        click.echo(json.dumps({"profiles": [_as_dict(entry) for entry in entries]}, indent=2))
    else:
        show_table(_COLUMNS, [_row(entry) for entry in entries])


def _as_dict(entry: Entry) -> dict[str, Any]:
    alias = entry.alias
    return {
        "name": alias.name,
        "provider": alias.provider,
        "model": alias.model,
        "base_url": entry.base_url,
        "key": {**dataclasses.asdict(entry.key), "found": entry.has_key},
        "file": None if alias.file is None else str(alias.file),
        "problem": entry.problem,
    }


def _row(entry: Entry) -> list[str]:
    alias = entry.alias
    where = "built in" if alias.file is None else str(alias.file)
    cells = (alias.name, alias.provider, alias.model or "-", entry.base_url or "-", _key(entry), where)
    return [one_line(cell) for cell in cells]


def _key(entry: Entry) -> str:
    if entry.problem is not None:
        return entry.problem
    place = entry.key
    if place.kind == "none":
        return "missing: api_key_env_var names it" if place.required else "none needed"
    found = "is there" if entry.has_key else "is missing" if place.required else "is not there, and not needed"
    return f"{place.name} {found}"
