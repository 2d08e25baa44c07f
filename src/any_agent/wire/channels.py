"""Tells apart what models mix: words, thoughts, and calls written as either.

A server gives text, and perhaps thinking of its own. The text may be cumulative, may begin with a thought in
tags or in channels, and may hold calls in markup; so may the thinking. What comes out is pieces of words and
thoughts in order, and the calls that were found; those of a prompted model come as pieces too. Nothing is held
back longer than a marker could be long, but what may be a call: that is withheld until it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from any_agent.wire.cumulative import CumulativeText
from any_agent.wire.harmony import HarmonySplitter
from any_agent.wire.jsoncalls import PromptedReader
from any_agent.wire.textcalls import FoundCall, TextCallScanner
from any_agent.wire.thinktags import ThinkSplitter

if TYPE_CHECKING:
    from any_agent.wire.assembly import DecodeSettings
    from any_agent.wire.toolcalls import CallPiece

__all__ = ("Channel", "Channels", "Piece")

Channel = Literal["text", "thinking"]
Piece: TypeAlias = "tuple[Channel, str] | CallPiece"


class Channels:
    """Feed it what the server calls text (`words`) and what it calls thinking (`thoughts`)."""

    def __init__(self, settings: DecodeSettings) -> None:
        scan = settings.text_calls and bool(settings.tools)
        self._settings = settings
        self._cumulative = CumulativeText(settings.text_stream)
        self._thinker = ThinkSplitter(think_open=settings.think_open)
        self._harmony: HarmonySplitter | None = None
        self._scanner = TextCallScanner(settings.tools) if scan else None
        self._thought_scanner = TextCallScanner(settings.tools, bare_json=False) if scan else None
        self._reader = PromptedReader(settings.tools, self._scanner) if settings.prompted else None

    @property
    def pass_by(self) -> bool:
        """Words are words from now on: they need not be fed any more."""
        finders = (self._scanner, self._harmony, self._reader)
        return self._thinker.settled and self._cumulative.settled and all(finder is None for finder in finders)

    @property
    def calls(self) -> list[FoundCall]:
        """The calls that were found, in one of the channels."""
        finders = (self._harmony, self._scanner, self._thought_scanner)
        found = [finder.calls for finder in finders if finder is not None and finder.calls]
        return found[0] if found else []

    def words(self, text: str) -> list[Piece]:
        """Some more of what the server calls text."""
        before = self.end_thought()
        text = text if self._cumulative.settled else self._cumulative.feed(text)
        return before + self._split(text) if text else before

    def thoughts(self, text: str) -> list[Piece]:
        """Some more of what the server calls thinking."""
        pieces = self._end_words()
        if self._thought_scanner is not None:
            text = self._thought_scanner.feed(text)
        return _with(pieces, "thinking", text)

    def end_thought(self) -> list[Piece]:
        """What was held back of a thought: it stands before what follows."""
        scanner = self._thought_scanner
        return _with([], "thinking", scanner.close() if scanner is not None and scanner.is_holding else "")

    def release(self) -> list[Piece]:
        """No more text follows: what looked cumulative once and was not repeated is text of its own."""
        held = self._cumulative.close()
        return self._split(held) if held else []

    def close(self) -> list[Piece]:
        """Everything that was held back in case something followed."""
        pieces = self.release()
        splitter = self._harmony or self._thinker
        pieces += self._sorted(*splitter.close())
        if self._reader is not None:
            pieces += self._reader.close()
        if self._scanner is not None:
            pieces = _with(pieces, "text", self._scanner.close())
        return pieces + self.end_thought()

    def _split(self, text: str) -> list[Piece]:
        thinking = ""
        if not self._thinker.settled:
            thinking, text = self._thinker.feed(text)
            if self._thinker.harmony:
                self._harmony = HarmonySplitter(self._settings.tools)
        if self._harmony is not None:
            thinking, text = self._harmony.feed(text)
        return self._sorted(thinking, text)

    def _sorted(self, thinking: str, text: str) -> list[Piece]:
        pieces = _with([], "thinking", thinking)
        if text and self._reader is not None:
            return [*pieces, *self._reader.feed(text)]
        if text and self._scanner is not None:
            text = self._scanner.feed(text)
        return _with(pieces, "text", text)

    def _end_words(self) -> list[Piece]:
        """What was held back of the words: it stands before the thought that follows."""
        pieces = self._sorted(*self._thinker.close()) if self._thinker.is_holding else []
        return _with(pieces, "text", self._scanner.release() if self._scanner is not None else "")


def _with(pieces: list[Piece], channel: Channel, text: str) -> list[Piece]:
    return [*pieces, (channel, text)] if text else pieces
