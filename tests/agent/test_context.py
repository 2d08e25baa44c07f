"""Estimating and shortening conversations."""

from __future__ import annotations

from typing import Any

import pytest

from any_agent import (
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
    estimate_tokens,
    is_approaching_limit,
    truncate_messages,
)

SYSTEM = Message("system", "s")
USER = Message("user", "u")
CALL = Message("assistant", [ToolUseBlock("a", "search", {"q": "x"}), ToolUseBlock("b", "search", {"q": "y"})])
RESULT_A = Message("tool", [ToolResultBlock("a", "one")])
RESULT_B = Message("tool", [ToolResultBlock("b", "two")])
ANSWER = Message("assistant", "done")


@pytest.mark.row("B16")
def test_estimate_grows_with_everything_that_is_sent() -> None:
    parts: list[Any] = [
        TextBlock("word " * 10),
        ThinkingBlock("hm " * 10),
        ToolUseBlock("a", "search", {"q": "x" * 40}),
        ToolResultBlock("a", "y" * 40),
        ImageBlock.from_bytes(b"GIF89a"),
    ]
    sizes = [estimate_tokens([Message("user", parts[:count])]) for count in range(len(parts) + 1)]
    assert sizes == sorted(set(sizes))
    assert estimate_tokens([Message("user", [ToolUseError("x")])]) == sizes[0]
    assert sizes[-1] - sizes[-2] > 500


@pytest.mark.row("B16")
@pytest.mark.parametrize(
    ("text", "least", "most"),
    [("The quick brown fox jumps over the lazy dog. " * 20, 180, 260), ("日本語のテキスト" * 20, 100, 200), ("", 0, 0)],
)
def test_estimate_is_near_what_tokenizers_say(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most


@pytest.mark.row("B16")
def test_typed_messages_and_dicts_are_estimated_alike() -> None:
    typed = [Message("user", "hello there"), Message("tool", [ToolResultBlock("a", "found")])]
    dicts = [{"role": "user", "content": "hello there"}, {"role": "tool", "tool_call_id": "a", "content": "found"}]
    assert estimate_tokens(typed) == estimate_tokens(dicts)


@pytest.mark.row("B16")
def test_approaching_the_limit() -> None:
    history = [Message("user", "word " * 400)]
    size = estimate_tokens(history)
    assert is_approaching_limit(history, int(size / 0.95))
    assert not is_approaching_limit(history, size * 2)
    assert is_approaching_limit(history, size * 2, margin=0.4)


@pytest.mark.row("B16")
@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (0, [SYSTEM]),
        (1, [SYSTEM, ANSWER]),
        (2, [SYSTEM, ANSWER]),
        (3, [SYSTEM, ANSWER]),
        (4, [SYSTEM, CALL, RESULT_A, RESULT_B, ANSWER]),
        (5, [SYSTEM, USER, CALL, RESULT_A, RESULT_B, ANSWER]),
        (99, [SYSTEM, USER, CALL, RESULT_A, RESULT_B, ANSWER]),
    ],
)
def test_truncation_never_splits_a_round(keep: int, kept: list[Message]) -> None:
    history = [SYSTEM, USER, CALL, RESULT_A, RESULT_B, ANSWER]
    assert truncate_messages(history, keep) == kept
    assert len(history) == 6


@pytest.mark.row("B16")
def test_round_at_the_end_stays_whole() -> None:
    assert truncate_messages([USER, CALL, RESULT_A, RESULT_B], 1) == [CALL, RESULT_A, RESULT_B]


@pytest.mark.row("B16")
def test_system_may_go_and_dicts_stay_dicts() -> None:
    history = [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    assert truncate_messages(history, 1) == [history[0], history[2]]
    assert truncate_messages(history, 1, preserve_system=False) == [history[2]]
    with pytest.raises(ValueError, match="keep"):
        truncate_messages(history, -1)
