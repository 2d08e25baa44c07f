"""Reads the channels of gpt-oss where a server passes them on as text.

    <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>

`analysis` is thinking, `final` and plain `commentary` are text, `commentary to=functions.NAME` is a call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from any_agent.wire.textcalls import FoundCall
from any_agent.wire.thinktags import held_back
from any_agent.wire.toolcalls import clean_name

__all__ = ("HarmonySplitter",)

_MESSAGE = "<|message|>"
_ENDS = ("<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>")
_RECIPIENT = re.compile(r"to=([\w.\-]+)")


class HarmonySplitter:
    """Feed it text; it returns what is thought and what is text, and gathers `calls` of declared tools."""

    def __init__(self, tools: Mapping[str, Any]) -> None:
        self.calls: list[FoundCall] = []
        self.withheld: list[str] = []
        self._tools = tools
        self._held = ""
        #: the header so far, `None` inside a message
        self._header: str | None = ""
        self._kind: Literal["thinking", "text", "call"] = "text"
        self._name = ""
        self._raw = ""
        self._call: list[str] = []

    def feed(self, text: str) -> tuple[str, str]:
        """(thinking, text) that is certain by now."""
        self._held += text
        thinking, shown = "", ""
        while self._held:
            if self._header is None:
                more, ended = self._take_content()
                if self._kind == "thinking":
                    thinking += more
                else:
                    shown += more
                if not ended:
                    break
            elif _MESSAGE in self._held:
                self._header, _, self._held = self._held.partition(_MESSAGE)
                self._begin(self._header)
            else:
                break
        return thinking, shown

    def close(self) -> tuple[str, str]:
        """(thinking, text) that was held back; headers without a message are markup, and go."""
        held, self._held = self._held, ""
        if self._header is not None:
            return "", ""
        if self._kind == "call":
            self._end_call(held, is_cut=True)
            return "", ""
        return (held, "") if self._kind == "thinking" else ("", held)

    def _begin(self, header: str) -> None:
        recipient = _RECIPIENT.search(header)
        self._name = clean_name(recipient.group(1), self._tools) if recipient else ""
        self._raw = header + _MESSAGE
        self._header = None
        if recipient and self._name in self._tools:
            self._kind = "call"
        else:
            self._kind = "thinking" if "analysis" in header else "text"

    def _take_content(self) -> tuple[str, bool]:
        """(what may be shown, whether the message has ended)."""
        found = [position for end in _ENDS if (position := self._held.find(end)) >= 0]
        if found:
            content, self._held = self._held[: min(found)], self._held[min(found) :]
            # the marker that ended the message belongs to the header of the next one
            self._header = ""
            if self._kind == "call":
                self._end_call(content)
                return "", True
            return content, True
        if self._kind == "call":
            keep = held_back(self._held, _ENDS)
            self._call.append(self._held[: len(self._held) - keep])
            self._held = self._held[len(self._held) - keep :]
            return "", False
        keep = held_back(self._held, _ENDS)
        content, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return content, False

    def _end_call(self, content: str, *, is_cut: bool = False) -> None:
        content = "".join((*self._call, content))
        self._call = []
        self.calls.append(FoundCall(self._name, content.strip(), is_cut))
        self.withheld.append(self._raw + content)
