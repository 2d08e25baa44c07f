"""How much of the window a conversation takes, and how to make it shorter. Pure, and offline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeVar

from any_agent.types import Block, ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from any_agent.wire.history import MessageLike, parse_message, result_text

__all__ = ("estimate_tokens", "is_approaching_limit", "truncate_messages")

M = TypeVar("M", Message, MessageLike)

_PER_MESSAGE = 4
_PER_IMAGE = 800
_ASCII_PER_TOKEN = 4.0
#: other scripts take about a token for each character, and a bit less
_OTHERS_PER_TOKEN = 1.3


def estimate_tokens(history: Sequence[MessageLike] | str) -> int:
    """About how many tokens a conversation (or a text) has, whatever the model.

    >>> estimate_tokens("four characters make a token, more or less")
    11
    """
    if isinstance(history, str):
        return _tokens(history)
    return sum(_PER_MESSAGE + _message_tokens(parse_message(message)) for message in history)


def is_approaching_limit(history: Sequence[MessageLike], limit: int, margin: float = 0.9) -> bool:
    """Whether a conversation takes `margin` of the window, or more.

    >>> is_approaching_limit([Message("user", "word " * 1000)], limit=1300)
    True
    """
    return estimate_tokens(history) >= limit * margin


def truncate_messages(history: Sequence[M], keep: int, preserve_system: bool = True) -> list[M]:
    """The last `keep` messages, and the system message before them; the history given is not touched.

    A tool call and its results stay together: a round that would be split goes as a whole, unless nothing else
    would be left; then it stays as a whole.

    >>> [message.content for message in truncate_messages([Message("user", "a"), Message("user", "b")], 1)]
    ['b']
    """
    if keep < 0:
        raise ValueError(f"keep must not be negative; it is {keep}")
    roles = [parse_message(message).role for message in history]
    system = [message for message, role in zip(history, roles, strict=True) if role == "system" and preserve_system]
    rest = [(message, role) for message, role in zip(history, roles, strict=True) if role != "system"]
    start = max(len(rest) - keep, 0)
    later = start
    while later < len(rest) and rest[later][1] == "tool":
        later += 1
    if later == len(rest) and keep:
        while start > 0 and rest[start][1] == "tool":
            start -= 1
        later = start
    return [*system, *(message for message, _ in rest[later:])]


def _message_tokens(message: Message) -> int:
    if isinstance(message.content, str):
        return _tokens(message.content)
    return sum(_block_tokens(block) for block in message.content)


def _block_tokens(block: Block) -> int:
    match block:
        case TextBlock():
            return _tokens(block.text)
        case ThinkingBlock():
            return _tokens(block.thinking)
        case ToolUseBlock():
            return _tokens(block.name) + _tokens(json.dumps(block.input, ensure_ascii=False)) + _PER_MESSAGE
        case ToolResultBlock():
            text, images = result_text(block.content)
            return _tokens(text) + _PER_IMAGE * len(images)
        case ImageBlock():
            return _PER_IMAGE
        case _:
            return 0


def _tokens(text: str) -> int:
    ascii_count = sum(map(str.isascii, text)) if not text.isascii() else len(text)
    return -int(-(ascii_count / _ASCII_PER_TOKEN + (len(text) - ascii_count) / _OTHERS_PER_TOKEN) // 1)
