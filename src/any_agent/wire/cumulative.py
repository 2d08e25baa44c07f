"""Text of servers that send, in each delta, all the text so far."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ("CumulativeText", "TextStream")

TextStream: TypeAlias = Literal["auto", "delta", "cumulative"]


class CumulativeText:
    """Recognises servers that send all the text so far in each delta.

    Two strict extensions in a row prove it; the first is held until the next delta decides.
    """

    def __init__(self, mode: TextStream) -> None:
        self.settled = mode == "delta"
        self._known = mode == "cumulative"
        self._total = ""
        self._held = ""

    def feed(self, text: str) -> str:
        so_far = self._held or self._total
        extends = len(text) > len(so_far) > 0 and text.startswith(so_far)
        if self._known:
            if not extends and not so_far.startswith(text):
                self._total += text
                return text
            fresh, self._total = text[len(self._total) :], text if extends else self._total
            return fresh
        if not self._total:
            self._total = text
            return text
        if extends and self._held:
            self._known = True
            fresh, self._total, self._held = text[len(self._total) :], text, ""
            return fresh
        if extends:
            self._held = text
            return ""
        self.settled = True
        return self.close() + text

    def close(self) -> str:
        held, self._held = self._held, ""
        return held
