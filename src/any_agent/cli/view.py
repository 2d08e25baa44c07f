"""How events look: a fold over the stream that writes to a `Screen`, or lines of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from rich.text import Text

from any_agent.cli.cards import Card, elapsed, result_card
from any_agent.cli.clean import cut, one_line
from any_agent.events import (
    Done,
    Event,
    Failed,
    ModelState,
    Notice,
    Reset,
    ResponseEnd,
    Retry,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
    ToolProgress,
    ToolResult,
    ToolRunning,
    to_dict,
)
from any_agent.types import ToolUseBlock

if TYPE_CHECKING:
    from any_agent.cli.screen import Screen

__all__ = ("View", "doing", "watch", "write_json")

_TICK_S = 0.25
_PROGRESS = 40
_WAITING = "waiting for the model"
_STATES = {
    "queued": "queued at the server",
    "loading": "loading the model",
    "prefill": "reading the prompt",
    "generating": "generating",
}
_ENDINGS = {
    "max_iterations": "ended after as many rounds of tools as are allowed, without an answer",
    "loop_guard": "ended, since the model made the same call with the same result again and again",
    "blocked": "ended, since a call was blocked",
}
_STOPS = {
    "max_tokens": "cut off: the answer reached its limit (--max-tokens)",
    "content_filter": "cut off by the server's content filter",
    "refusal": "the model refused to answer",
}


async def watch(events: AsyncGenerator[Event, None], view: View) -> Done | Failed:
    """Show a turn until it ends; its last event."""
    last: Event | None = None
    ticking = asyncio.create_task(_tick(view))
    try:
        async with aclosing(events):
            async for event in events:
                view.show(event)
                last = event
    finally:
        ticking.cancel()
        view.close()
    assert isinstance(last, Done | Failed)
    return last


async def write_json(events: AsyncGenerator[Event, None]) -> Done | Failed:
    event: Event | None = None
    async with aclosing(events):
        async for event in events:
            # everything beyond ASCII is escaped: no terminal obeys it, and every line is one line
            sys.stdout.write(f"{json.dumps(to_dict(event))}\n")
            sys.stdout.flush()
    assert isinstance(event, Done | Failed)
    return event


def doing(event: Event) -> str:
    """What goes on after an event, in a few words; "" if nothing does.

    >>> doing(ToolRunning("c1", "get_weather", {}))
    'get_weather runs'
    """
    if isinstance(event, TextDelta):
        return "writing the answer"
    if isinstance(event, ThinkingDelta):
        return "thinking"
    if isinstance(event, ToolInputStart | ToolInputDelta | ToolCall):
        return "writing a call"
    if isinstance(event, ToolRunning):
        return f"{event.name} runs"
    if isinstance(event, ToolProgress):
        return f"a tool runs: {cut(str(event.data), _PROGRESS)}"
    if isinstance(event, ModelState):
        return _STATES[event.state]
    return "" if isinstance(event, Done | Failed) else _WAITING


async def _tick(view: View) -> None:
    while True:
        view.draw()
        await asyncio.sleep(_TICK_S)


class View:
    """Shows the events of one turn."""

    def __init__(self, screen: Screen, *, show_thinking: bool = False) -> None:
        self._screen = screen
        self._show_thinking = show_thinking
        self._cards: dict[str, Card] = {}
        self._status = _WAITING
        self._percent = ""
        self._since = time.monotonic()
        #: told when something comes of it; if nothing does, the error at the end says the same
        self._retries: list[str] = []
        #: words are coming: the live lines stay away, so that each token costs one write and no more
        self._streams = False

    def show(self, event: Event) -> None:
        """Show one event."""
        if self._retries and not isinstance(event, Retry | Failed):
            self._tell_retries()
        if isinstance(event, TextDelta):
            self._streams = True
            self._screen.answer(event.text)
        elif isinstance(event, ThinkingDelta):
            self._think(event.text)
        elif not isinstance(event, ToolInputDelta):
            self._streams = False
            if isinstance(event, ToolInputStart | ToolCall | ToolRunning | ToolProgress | ToolResult):
                self._show_tool(event)
            else:
                self._show_state(event)
            self.draw()

    def draw(self) -> None:
        """Draw what is live: calls without a result, and what the model is doing."""
        if self._streams or not self._screen.is_live:
            return
        lines = [card.line() for card in self._cards.values()]
        if self._status and not lines:
            parts = (self._status, self._percent, elapsed(time.monotonic() - self._since))
            line = " ".join(part for part in parts if part)
            lines.append(Text(line, "dim", no_wrap=True, overflow="ellipsis"))
        self._screen.live(lines)

    def close(self) -> None:
        """The turn is over, however it ended: nothing stays live."""
        self._screen.erase()
        self._screen.end_answer()
        for card in self._cards.values():
            card.become("stopped", card.input or {})
            self._screen.line(card.line(with_time=False))
        self._cards.clear()
        self._status = ""

    def _think(self, text: str) -> None:
        if self._show_thinking:
            self._streams = True
            self._screen.thought(text)
        elif self._status != "thinking…":
            self._streams = False
            self._set_status("thinking…")
            self.draw()

    def _tell_retries(self) -> None:
        retries, self._retries = self._retries, []
        for retry in retries:
            self._screen.line(retry)
        self._set_status(_WAITING)

    def _set_status(self, status: str, percent: str = "") -> None:
        if status != self._status:
            self._status, self._since = status, time.monotonic()
        self._percent = percent

    def _show_tool(self, event: ToolInputStart | ToolCall | ToolRunning | ToolProgress | ToolResult) -> None:
        cards = self._cards
        if isinstance(event, ToolInputStart):
            cards[event.id] = Card(event.name)
        elif isinstance(event, ToolCall):
            block = event.block
            if isinstance(block, ToolUseBlock):
                cards.setdefault(block.id, Card(block.name)).become("ready", block.input)
            else:
                cards.pop(block.id or "", None)
        elif isinstance(event, ToolRunning):
            card = cards.setdefault(event.id, Card(event.name))
            card.become("waiting" if event.waiting_for_approval else "running", event.input)
            if not self._screen.is_live:
                self._screen.line(card.line(with_time=False))
        elif isinstance(event, ToolProgress):
            if event.id in cards:
                cards[event.id].progress = cut(str(event.data), _PROGRESS)
        else:
            self._screen.line(result_card(event, cards.pop(event.id, None)))
            if not cards:
                self._set_status(_WAITING)

    def _show_state(self, event: ModelState | Reset | Retry | Notice | ResponseEnd | Done | Failed) -> None:
        screen = self._screen
        if isinstance(event, ModelState):
            status = _STATES[event.state]
            if not screen.is_live and event.state in ("queued", "loading") and status != self._status:
                screen.line(status)
            self._set_status(status, "" if event.progress is None else f"{event.progress:.0%}")
        elif isinstance(event, Reset):
            self._cards.clear()
            screen.end_answer()
            screen.line(f"the answer begins again: {one_line(event.reason)}")
        elif isinstance(event, Retry):
            problem = one_line(event.error.message)
            self._retries.append(f"trying again in {elapsed(event.delay_s)} (attempt {event.attempt}): {problem}")
            self._set_status(self._retries[-1])
        elif isinstance(event, Notice):
            screen.line(one_line(event.message))
        elif isinstance(event, ResponseEnd):
            self._set_status("")
            screen.end_answer()
        elif isinstance(event, Done):
            ending = _ENDINGS.get(event.reason) or _STOPS.get(event.response.stop_reason)
            if ending:
                screen.line(ending)
