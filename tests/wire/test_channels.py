"""Words, thoughts and calls, told apart and kept in their order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from any_agent.wire.assembly import DecodeSettings
from any_agent.wire.channels import Channels, Piece
from any_agent.wire.textcalls import FoundCall

from .support import SETTINGS

PLAIN = DecodeSettings()
MARKUP = '<tool_call>{"name": "search", "arguments": {"q": 1}}</tool_call>'
FOUND = FoundCall("search", {"q": 1})


def joined(*given: list[Piece]) -> list[Piece]:
    """The pieces in order, neighbours of one channel as one."""
    result: list[Piece] = []
    for channel, text in (piece for pieces in given for piece in pieces):
        if result and result[-1][0] == channel:
            result[-1] = (channel, result[-1][1] + text)
        else:
            result.append((channel, text))
    return result


@pytest.mark.parametrize("settings", [PLAIN, SETTINGS])
def test_words_and_thoughts_keep_their_order(settings: DecodeSettings) -> None:
    channels = Channels(settings)
    assert channels.words("a") == [("text", "a")]
    assert channels.thoughts("b") == [("thinking", "b")]
    assert channels.words("c") == [("text", "c")]
    assert channels.close() == []


@pytest.mark.row("B12")
def test_thoughts_in_tags_and_in_channels_are_told_apart() -> None:
    for output, expected in (
        ("<think>a</think>b", [("thinking", "a"), ("text", "b")]),
        ("<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b", [("thinking", "a"), ("text", "b")]),
        ("a<think>b", [("text", "a<think>b")]),
    ):
        for parts in ([output], list(output)):
            channels = Channels(SETTINGS)
            pieces = [channels.words(part) for part in parts]
            assert joined(*pieces, channels.close()) == expected
    opened = Channels(replace(SETTINGS, think_open=True))
    assert joined(opened.words("a</think>b"), opened.close()) == [("thinking", "a"), ("text", "b")]


@pytest.mark.row("E3", "text_tool_calls")
@pytest.mark.parametrize("channel", ["words", "thoughts"])
def test_calls_are_found_in_both(channel: str) -> None:
    channels = Channels(SETTINGS)
    assert joined(getattr(channels, channel)(f"a{MARKUP}"), channels.close())[0][1] == "a"
    assert channels.calls == [FOUND]


@pytest.mark.row("text_tool_calls_guard")
@pytest.mark.parametrize("settings", [PLAIN, replace(SETTINGS, text_calls=False)])
def test_markup_is_text_without_tools_or_without_leave(settings: DecodeSettings) -> None:
    channels = Channels(settings)
    assert joined(channels.words(MARKUP), channels.thoughts(MARKUP)) == [("text", MARKUP), ("thinking", MARKUP)]
    assert channels.calls == []


@pytest.mark.row("text_tool_calls")
def test_calls_of_the_words_count_before_those_of_the_thoughts() -> None:
    channels = Channels(SETTINGS)
    channels.thoughts(MARKUP.replace("search", "read_file"))
    channels.words(MARKUP)
    channels.close()
    assert channels.calls == [FOUND]


def test_what_was_held_back_stands_before_what_follows() -> None:
    channels = Channels(SETTINGS)
    given = [channels.thoughts("a <"), channels.words("b <"), channels.thoughts("c <tool_call>"), channels.words("d")]
    assert joined(*given, channels.close()) == [
        ("thinking", "a <"),
        ("text", "b <"),
        ("thinking", "c <tool_call>"),
        ("text", "d"),
    ]


def test_the_beginning_of_a_tag_that_a_thought_interrupts_is_text() -> None:
    channels = Channels(SETTINGS)
    assert joined(channels.words("<thi"), channels.thoughts("a"), channels.words("nk>")) == [
        ("text", "<thi"),
        ("thinking", "a"),
        ("text", "nk>"),
    ]


@pytest.mark.row("A11")
def test_what_looked_cumulative_can_be_let_go() -> None:
    channels = Channels(PLAIN)
    assert joined(channels.words("1"), channels.words("10")) == [("text", "1")]
    assert channels.release() == [("text", "10")]
    assert channels.release() == []
    assert Channels(PLAIN).close() == []


@pytest.mark.parametrize(
    ("settings", "text", "pass_by"),
    [
        (replace(PLAIN, text_stream="delta"), "Hi", True),
        (PLAIN, "Hi", False),
        (replace(PLAIN, text_stream="delta"), "<", False),
        (replace(PLAIN, text_stream="delta"), "<|channel|>", False),
        (replace(SETTINGS, text_stream="delta"), "Hi", False),
    ],
)
def test_words_may_pass_by_once_nothing_can_be_hidden_in_them(
    settings: DecodeSettings, text: str, pass_by: bool
) -> None:
    channels = Channels(settings)
    assert not channels.pass_by
    channels.words(text)
    assert channels.pass_by is pass_by
