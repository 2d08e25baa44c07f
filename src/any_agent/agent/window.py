"""How full the model's window is: estimated offline, corrected by what the server counts, and what it truncates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from any_agent.agent.context import estimate_tokens
from any_agent.events import Notice

if TYPE_CHECKING:
    from any_agent.types import Message, ToolSpec, Usage

__all__ = ("Window",)

#: shorter requests are not judged: templates and tools weigh too much in them
_JUDGED = 1000
#: from shorter ones it is learned what a template adds to every request, from others how many tokens a word has
_TELLING = 400
#: a server that counts less than this share of what was sent has dropped something: at first, and once it is calibrated
_SUSPICIOUS, _CERTAIN = 0.5, 0.7
_RATIOS = (0.3, 4.0)


class Window:
    """The window of one conversation.

    >>> from any_agent import Message
    >>> window = Window(4096)
    >>> window.tokens([Message("user", "four words are here")])
    9
    """

    def __init__(self, size: int | None = None) -> None:
        #: how many tokens the model was loaded with, as far as anybody said
        self.size = size
        #: the server was asked for it
        self.asked = False
        #: tokens that the server counts for each that is estimated, and those that its template adds
        self._ratio: float | None = None
        self._added = 0.0

    def tokens(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        """About how many tokens these messages have for this model, with the tools told to it."""
        return round(self._estimate(messages, tools) * (self._ratio or 1.0) + self._added)

    def before(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Notice | None:
        """What the user should know before these messages are sent."""
        tokens = self.tokens(messages, tools)
        if self.size is None or tokens <= self.size:
            return None
        message = (
            f"about {tokens} tokens are sent to a window of {self.size}: the server refuses them, or drops the "
            "beginning silently; shorten the conversation, or give the model a larger window"
        )
        return Notice("context_full", message, {"tokens": tokens, "window": self.size})

    def after(self, messages: Sequence[Message], tools: Sequence[ToolSpec], usage: Usage | None) -> Notice | None:
        """Learn from what the server counted; what the user should know if it read less than was sent."""
        if usage is None or not usage.input_tokens:
            return None
        estimate, expected = self._estimate(messages, tools), self.tokens(messages, tools)
        counted = usage.input_tokens + (usage.cached_tokens or 0)
        limit = _SUSPICIOUS if self._ratio is None else _CERTAIN
        if expected > _JUDGED and counted < expected * limit:
            message = (
                f"the server read {counted} tokens of about {expected}: it dropped the beginning of the conversation "
                "without a word; give the model a larger window (with Ollama: num_ctx=…)"
            )
            return Notice("context_truncated", message, {"tokens": expected, "read": counted, "window": self.size})
        if estimate < _TELLING:
            self._added = max(usage.input_tokens - estimate * (self._ratio or 1.0), 0.0)
        else:
            low, high = _RATIOS
            self._ratio = min(max((usage.input_tokens - self._added) / estimate, low), high)
        return None

    def _estimate(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        told = sum(estimate_tokens(f"{tool.name}{tool.description}{tool.parameters}") for tool in tools)
        return estimate_tokens(messages) + told
