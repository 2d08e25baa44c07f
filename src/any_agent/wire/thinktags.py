"""Separates thoughts from text where a model writes both into its text.

Tags count only at the very start of the output, since later they may be quoted. A server whose template
opens the tag itself sends only the closing one: `think_open` says so. Text is held back only as long as it
may still become a tag. White space right after a closing tag belongs to neither side, and goes.
"""

from __future__ import annotations

__all__ = ("HARMONY_STARTS", "ThinkSplitter", "held_back")

_PAIRS: dict[str, str] = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "[THINK]": "[/THINK]",
    "<mm:think>": "</mm:think>",
    "<seed:think>": "</seed:think>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "◁think▷": "◁/think▷",
}
HARMONY_STARTS = ("<|channel|>", "<|start|>")
#: so much white space before a tag is no longer waited for
_MAX_BLANKS = 1000
_OPENERS = (*_PAIRS, *HARMONY_STARTS)


def held_back(text: str, markers: tuple[str, ...]) -> int:
    """How many characters at the end of `text` may be the beginning of one of `markers`.

    >>> held_back("so </th", ("</think>",))
    4
    """
    longest = max(map(len, markers))
    for size in range(min(longest - 1, len(text)), 0, -1):
        tail = text[-size:]
        if any(marker.startswith(tail) for marker in markers):
            return size
    return 0


class ThinkSplitter:
    """Feed it text; it returns what is thought and what is text.

    When the output begins with channels of the harmony format, `harmony` becomes true and the text so far
    is returned as it is: another splitter takes over.
    """

    def __init__(self, *, think_open: bool = False) -> None:
        #: nothing is held back and nothing will be: text may pass by
        self.settled = False
        self.harmony = False
        self._closers: tuple[str, ...] = tuple(_PAIRS.values()) if think_open else ()
        self._held = ""
        self._after_close = False

    @property
    def is_holding(self) -> bool:
        """Something other than white space waits to become a tag."""
        return bool(self._held.strip())

    def feed(self, text: str) -> tuple[str, str]:
        """(thinking, text) that is certain by now."""
        if self.settled:
            return "", text
        if self._closers:
            return self._thinking(self._held + text)
        if self._after_close:
            return "", self._trimmed(text)
        return self._start(self._held + text)

    def close(self) -> tuple[str, str]:
        """(thinking, text) that was held back."""
        held, self._held = self._held, ""
        self.settled = True
        return (held, "") if self._closers else ("", held)

    def _start(self, text: str) -> tuple[str, str]:
        begin = text.lstrip()
        for opener in _OPENERS:
            if begin.startswith(opener):
                self._held = ""
                if opener in HARMONY_STARTS:
                    self.harmony = self.settled = True
                    return "", begin
                self._closers = (_PAIRS[opener],)
                return self._thinking(begin[len(opener) :])
        if len(text) < _MAX_BLANKS and any(opener.startswith(begin) for opener in _OPENERS):
            self._held = text
            return "", ""
        self.settled = True
        self._held = ""
        return "", text

    def _thinking(self, text: str) -> tuple[str, str]:
        found = [(position, closer) for closer in self._closers if (position := text.find(closer)) >= 0]
        if found:
            position, closer = min(found)
            self._held = ""
            self._closers = ()
            self._after_close = True
            return text[:position], self._trimmed(text[position + len(closer) :])
        keep = held_back(text, self._closers)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], ""

    def _trimmed(self, text: str) -> str:
        rest = text.lstrip()
        if rest:
            self.settled = True
        return rest
