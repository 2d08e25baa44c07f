"""Tool results that are too long for the window: cut where the model sees them, kept whole, and read on by handle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from any_agent.agent.context import estimate_tokens
from any_agent.events import Notice
from any_agent.tools.define import Tool
from any_agent.types import ImageBlock, TextBlock

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ("LongResults",)

#: what a result may take of the window, and what it may take where nobody knows the window
_SHARE, _UNKNOWN = 0.25, 12_500


class LongResults:
    """The results of one conversation that were cut.

    >>> results = LongResults()
    >>> results.cut("word " * 1000, limit=10)[0].splitlines()[-1]
    '(4960 more characters: call read_result with handle "r1" and start 40 to read on)'
    >>> len(results.whole["r1"])
    5000
    """

    def __init__(self, taken: Collection[str] = ()) -> None:
        #: the whole results, by handle
        self.whole: dict[str, str] = {}
        name = "read_result"
        while name in taken:
            name += "_"
        schema = {
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "the handle that stands where the result was cut"},
                "start": {"type": "integer", "minimum": 0, "description": "the character to go on from"},
            },
            "required": ["handle", "start"],
        }
        #: how the model reads on; it is offered once something was cut
        self.tool = Tool(name, "Read on in a tool result that was cut because it is long.", schema, self._read)
        self._limit = 0

    def fit(
        self, name: str, content: str | list[TextBlock | ImageBlock], limit: int
    ) -> tuple[str | list[TextBlock | ImageBlock], list[Notice]]:
        """A result of the tool `name` as the model will see it, with at most `limit` tokens for each text in it."""
        if name == self.tool.name:
            return content, []
        if isinstance(content, str):
            text, notice = self.cut(content, limit)
            return text, [notice] if notice else []
        blocks: list[TextBlock | ImageBlock] = []
        notices: list[Notice] = []
        for block in content:
            if isinstance(block, TextBlock):
                text, notice = self.cut(block.text, limit)
                notices += [notice] if notice else []
                block = TextBlock(text)
            blocks.append(block)
        return blocks, notices

    def cut(self, text: str, limit: int) -> tuple[str, Notice | None]:
        """The beginning of a text that has more than `limit` tokens, and where to read on."""
        # no text has more tokens than characters, so most need not be estimated
        if len(text) <= limit or (tokens := estimate_tokens(text)) <= limit:
            return text, None
        self._limit = len(text) * limit // tokens
        handle = f"r{len(self.whole) + 1}"
        self.whole[handle] = text
        message = f"a result of {len(text)} characters was cut after {self._limit}; the model can read on"
        data = {"handle": handle, "characters": len(text), "shown": self._limit}
        return self._piece(handle, 0), Notice("result_cut", message, data)

    def restore(self, whole: Mapping[str, str], limit: int) -> None:
        """Results that were cut before, by another process; pieces of them have about `limit` tokens.

        >>> results = LongResults()
        >>> results.restore({"r1": "word " * 1000}, limit=10)
        >>> results.cut("word " * 500, limit=10)[0].splitlines()[-1]
        '(2460 more characters: call read_result with handle "r2" and start 40 to read on)'
        """
        self.whole.update(whole)
        for text in list(whole.values())[-1:]:
            self._limit = max(1, len(text) * limit // max(1, estimate_tokens(text)))

    @staticmethod
    def limit(window: int | None, given: int | None) -> int:
        """How many tokens a result may have: as many as the user says, else a quarter of the window."""
        if given is not None:
            return given
        return round(window * _SHARE) if window is not None else _UNKNOWN

    async def _read(self, handle: str, start: int) -> str:
        if handle not in self.whole:
            raise ValueError(f"there is no result {handle!r}; there are {', '.join(self.whole)}")
        return self._piece(handle, max(start, 0))

    def _piece(self, handle: str, start: int) -> str:
        text = self.whole[handle]
        end = start + self._limit
        if end >= len(text):
            return text[start:]
        rest = f'call {self.tool.name} with handle "{handle}" and start {end} to read on'
        return f"{text[start:end]}\n({len(text) - end} more characters: {rest})"
