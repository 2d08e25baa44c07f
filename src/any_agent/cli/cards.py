"""A tool call as it looks on a terminal, from its first word to its result."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rich.text import Text

from any_agent.cli.clean import cut, one_line
from any_agent.wire.history import result_text

if TYPE_CHECKING:
    from any_agent.events import ToolResult

__all__ = ("Card", "elapsed", "result_card")

_VALUE = 60
_RESULT = 200
_ERROR = 600
#: from the largest down: what it is called, how long it is, and the next smaller one
_UNITS = (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))
#: how each state is shown: a sign, what is said of it, and its style
_LOOKS = {
    "writing": ("…", "writing the call", "dim"),
    "ready": ("…", "", "dim"),
    "waiting": ("?", "waiting for approval", "yellow"),
    "running": ("●", "", "cyan"),
    "stopped": ("✗", "stopped", "red"),
}


def elapsed(seconds: float) -> str:
    """How long something took, as short as it can be said.

    >>> elapsed(1.23), elapsed(75), elapsed(7300), elapsed(200_000)
    ('1.2 s', '1 min 15 s', '2 h 1 min', '2 d 7 h')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for name, length, smaller, share in _UNITS:
        if whole >= length:
            return f"{whole // length} {name} {whole % length // share} {smaller}"
    return f"{whole} s"


@dataclass(slots=True)
class Card:
    """A call that has no result yet."""

    name: str
    input: Mapping[str, Any] | None = None
    state: Literal["writing", "ready", "waiting", "running", "stopped"] = "writing"
    progress: str = ""
    since: float = field(default_factory=time.monotonic)

    def become(self, state: Literal["ready", "waiting", "running", "stopped"], input: Mapping[str, Any]) -> None:
        """The next state, whose time begins now."""
        self.state, self.input, self.since = state, input, time.monotonic()

    def line(self, *, with_time: bool = True) -> Text:
        """The call in one line: what matters most comes first, since narrow terminals cut the rest."""
        sign, words, style = _LOOKS[self.state]
        time_ = elapsed(time.monotonic() - self.since) if with_time else ""
        line = _line(sign, time_, self.name, words, self.progress, _arguments(self.input or {}))
        return Text(line, style, no_wrap=True, overflow="ellipsis")


def result_card(event: ToolResult, card: Card | None) -> Text:
    """A call that has ended: how long it took, and what came out, cut short."""
    sign, style = ("✗", "red") if event.is_error else ("✓", "green")
    line = _line(sign, elapsed(event.duration_s), event.name, _arguments((card and card.input) or {}))
    text, images = result_text(event.output)
    shown = cut(text, _ERROR if event.is_error else _RESULT)
    more = f" and {len(images)} image(s)" if images and text else ""
    return Text.assemble((line, style), (f"\n  {shown}{more}", style if event.is_error else "dim"))


def _line(sign: str, *parts: str) -> str:
    return f"{sign} {'  '.join(one_line(part) for part in parts if part)}"


def _arguments(values: Mapping[str, Any]) -> str:
    written = (f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in values.items())
    return cut(" ".join(cut(argument, _VALUE) for argument in written), _RESULT)
