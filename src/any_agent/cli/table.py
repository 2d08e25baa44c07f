"""A table on a terminal; elsewhere a line for each row, with tabs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

__all__ = ("show_table",)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write the rows to standard output; each cell is one line of harmless text."""
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table

    colours = None if os.environ.get("NO_COLOR") else "auto"
    table = Table(*columns, box=None, padding=(0, 2, 0, 0))
    for column in table.columns:
        column.overflow = "fold"
    table.columns[0].no_wrap = True  # what a row is called is what one copies
    for row in rows:
        table.add_row(*row)
    Console(color_system=colours, highlight=False, markup=False, emoji=False).print(table)
