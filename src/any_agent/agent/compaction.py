"""What may be done when a conversation grows too long for the window. Nothing is done unless a policy is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from any_agent.types import Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from any_agent.wire.history import result_text
from any_agent.wire.request import arguments_text

__all__ = ("POLICIES", "Ask", "Compaction", "Count", "DropOldest", "Summarise")

Count: TypeAlias = Callable[[Sequence[Message]], int]
Ask: TypeAlias = Callable[[Sequence[Message]], Awaitable[str]]

_DROPPED = "(The beginning of this conversation was left out: it does not fit any more.)"
_SUMMARY = "(The beginning of this conversation, summarised because it does not fit any more:)\n\n"
_TASK = (
    "Summarise the conversation above for somebody who has to carry it on. Keep what the user wants, what was decided, "
    "facts, names, numbers and results of tools that may still matter, and what is left to do. Write only the summary."
)


@runtime_checkable
class Compaction(Protocol):
    """A policy for `AgentOptions(compaction=…)`."""

    @property
    def at(self) -> float:
        """How much of the window may be used before something is done."""
        ...

    @property
    def window(self) -> int | None:
        """How many tokens the window has, for servers that do not tell."""
        ...

    async def compact(self, messages: Sequence[Message], window: int, count: Count, ask: Ask) -> list[Message]:
        """A shorter conversation, in which every call still has its result.

        `count` says how many tokens messages have, `ask` asks the model for a text.
        """
        ...


def _checked(at: float, keep: float, window: int | None) -> None:
    if not 0 < keep < at <= 1:
        raise ValueError(f"a compaction needs 0 < keep < at <= 1; keep is {keep!r}, at is {at!r}")
    if window is not None and window <= 0:
        raise ValueError(f"window must be a number of tokens, or None; it is {window!r}")


@dataclass(frozen=True, slots=True)
class DropOldest:
    """Leaves out the oldest rounds: from `at` of the window on, until `keep` of it are left.

    `window` is for servers that do not tell theirs.

    >>> DropOldest().at
    0.8
    """

    at: float = 0.8
    keep: float = 0.5
    window: int | None = None

    def __post_init__(self) -> None:
        _checked(self.at, self.keep, self.window)

    async def compact(self, messages: Sequence[Message], window: int, count: Count, ask: Ask) -> list[Message]:
        """The newest messages, after a word that others went before."""
        start = _start(messages, round(window * self.keep), count)
        return [Message("user", _DROPPED), *_kept(messages, start)] if start else list(messages)


@dataclass(frozen=True, slots=True)
class Summarise:
    """Has the model itself summarise the older part: from `at` of the window on, so that `keep` of it stays as it was.

    >>> Summarise(window=32_000).keep
    0.3
    """

    at: float = 0.8
    keep: float = 0.3
    window: int | None = None

    def __post_init__(self) -> None:
        _checked(self.at, self.keep, self.window)

    async def compact(self, messages: Sequence[Message], window: int, count: Count, ask: Ask) -> list[Message]:
        """The newest messages, after a summary of the others."""
        start = _start(messages, round(window * self.keep), count)
        if not start:
            return list(messages)
        told = [Message("user", _told(message)) for message in messages[:start]]
        # what is summarised must fit as well
        told = told[_start(told, round(window * self.at / 2), count) :]
        transcript = "\n\n".join(str(message.content) for message in told)
        summary = await ask([Message("user", f"{transcript}\n\n---\n{_TASK}")])
        return [Message("user", _SUMMARY + summary), *_kept(messages, start)]


#: by the names that they have in settings and on the command line
POLICIES: dict[str | None, Compaction | None] = {None: None, "drop-oldest": DropOldest(), "summarise": Summarise()}


def _start(messages: Sequence[Message], budget: int, count: Count) -> int:
    """Where the messages begin that are kept: no result without its call, and at a prompt if one is near enough."""
    starts: list[int] = []
    prompts: list[int] = []
    tokens = 0
    for index in range(len(messages) - 1, -1, -1):
        tokens += count(messages[index : index + 1])
        if tokens > budget and starts:
            break
        if messages[index].role != "tool":
            starts.append(index)
        if messages[index].role == "user" and tokens * 2 >= budget:
            prompts.append(index)
    return (prompts or starts or [0])[-1]


def _kept(messages: Sequence[Message], start: int) -> list[Message]:
    """The messages from `start` on, and the prompt that led to them, however many rounds ago."""
    kept = list(messages[start:])
    if any(message.role == "user" for message in kept):
        return kept
    return [*[message for message in messages[:start] if message.role == "user"][-1:], *kept]


def _told(message: Message) -> str:
    """A message as a line of a transcript."""
    if isinstance(message.content, str):
        return f"{message.role}: {message.content}"
    parts: list[str] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            parts.append(block.text)
        elif isinstance(block, ToolUseBlock):
            parts.append(f"[calls {block.name}({arguments_text(block.input)})]")
        elif isinstance(block, ToolResultBlock):
            parts.append(f"[result: {result_text(block.content)[0]}]")
        elif not isinstance(block, ThinkingBlock):
            parts.append(f"[{block.type}]")
    return f"{message.role}: {' '.join(parts)}"
