"""What a client keeps between two turns: messages, results that wait to be sent, and how full the window is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from any_agent.types import Message, ToolResultBlock, ToolUseBlock

if TYPE_CHECKING:
    from any_agent.agent.results import LongResults
    from any_agent.agent.window import Window

__all__ = ("Conversation",)


@dataclass(slots=True)
class Conversation:
    """The state of a conversation. It is valid, and can be sent, at any moment."""

    window: Window
    long_results: LongResults
    messages: list[Message] = field(default_factory=list[Message])
    #: results that were added by hand and wait to be sent
    waiting: list[ToolResultBlock] = field(default_factory=list[ToolResultBlock])

    def everything(self) -> list[Message]:
        """The messages, and the results that wait."""
        return [*self.messages, *([Message("tool", list(self.waiting))] if self.waiting else [])]

    def open_calls(self) -> set[str]:
        """The calls of the last answer, if that is where the conversation stands."""
        last = self.messages[-1] if self.messages else None
        if last is None or last.role != "assistant":
            return set()
        return {block.id for block in last.content if isinstance(block, ToolUseBlock)}

    def append(self, messages: Sequence[Message]) -> None:
        """Add what belongs together, after the results that waited for it."""
        self.replace([*self.everything(), *messages])

    def replace(self, messages: Sequence[Message]) -> None:
        """Put other messages in the place of all that there are."""
        self.messages[:] = messages
        self.waiting.clear()
