"""The model that comes with the package, with a bar for what takes its time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from any_agent.cli.screen import Screen
    from any_agent.embedded import Lease

__all__ = ("embedded_model",)

_BAR = 12


@asynccontextmanager
async def embedded_model(model: str | None, screen: Screen) -> AsyncGenerator[Lease, None]:
    """A server with the model in a GGUF file, or with the small default model, for as long as this is open."""
    from any_agent import embedded

    told: set[str] = set()

    def report(stage: str, fraction: float | None) -> None:
        if screen.is_live:
            screen.live([_bar(stage, fraction)])
        elif stage not in told:
            screen.line(f"{stage} the model")
        told.add(stage)

    try:
        async with embedded.server(model, on_progress=report) as lease:
            screen.erase()
            yield lease
    finally:
        screen.erase()


def _bar(stage: str, fraction: float | None) -> Text:
    """How far it is, in one line; narrow terminals cut the end of it."""
    full = round((fraction or 0) * _BAR)
    done = "" if fraction is None else f"{fraction:.0%} {'█' * full}{'░' * (_BAR - full)} "
    return Text(f"{done}{stage} the model", "dim", no_wrap=True, overflow="ellipsis")
