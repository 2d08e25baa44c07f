"""The channels of gpt-oss where a server passes them on as text."""

from __future__ import annotations

import pytest

from any_agent.wire.harmony import HarmonySplitter
from any_agent.wire.textcalls import FoundCall

from .support import TOOLS, seconds


def run(*parts: str) -> tuple[str, str, list[FoundCall]]:
    splitter = HarmonySplitter(TOOLS)
    found = [*(splitter.feed(part) for part in parts), splitter.close()]
    return "".join(thinking for thinking, _ in found), "".join(text for _, text in found), splitter.calls


def assert_read(output: str, expected: tuple[str, str, list[FoundCall]]) -> None:
    """Whole, letter by letter, and cut in two at every place."""
    assert run(output) == expected
    assert run(*output) == expected
    for cut in range(1, len(output)):
        assert run(output[:cut], output[cut:]) == expected, cut


ANALYSIS = "<|channel|>analysis<|message|>Simple < sum.<|end|>"
FINAL = "<|start|>assistant<|channel|>final<|message|>Four.<|return|>"
WEATHER = (
    '<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"a": 1}<|call|>'
)


@pytest.mark.row("B12", "harmony_raw")
def test_analysis_is_thinking_and_final_is_text() -> None:
    assert_read(ANALYSIS + FINAL, ("Simple < sum.", "Four.", []))


@pytest.mark.row("harmony_raw")
def test_commentary_without_a_recipient_is_text() -> None:
    assert_read("<|channel|>commentary<|message|>Wait.<|end|>" + FINAL, ("", "Wait.Four.", []))


@pytest.mark.row("E3", "text_tool_calls", "harmony_raw")
def test_commentary_to_a_declared_tool_is_a_call_and_not_shown() -> None:
    assert_read(ANALYSIS + WEATHER, ("Simple < sum.", "", [FoundCall("get_weather", '{"a": 1}')]))


@pytest.mark.row("harmony_raw")
def test_the_recipient_may_stand_before_the_channel() -> None:
    output = '<|start|>assistant to=functions.search<|channel|>commentary json<|message|>{"q": 1}<|call|>'
    assert_read(output, ("", "", [FoundCall("search", '{"q": 1}')]))


@pytest.mark.row("text_tool_calls")
def test_several_calls_and_text_between_are_told_apart() -> None:
    second = WEATHER.replace("get_weather", "search")
    expected = [FoundCall("get_weather", '{"a": 1}'), FoundCall("search", '{"a": 1}')]
    assert_read(WEATHER + second + FINAL, ("", "Four.", expected))


@pytest.mark.row("text_tool_calls_guard")
def test_commentary_to_another_recipient_is_text() -> None:
    thinking, text, calls = run(WEATHER.replace("get_weather", "unknown"))
    assert (thinking, text, calls) == ("", '{"a": 1}', [])


@pytest.mark.row("tc_truncated")
def test_a_call_that_is_cut_keeps_what_came() -> None:
    assert run(WEATHER.removesuffix("}<|call|>"))[2] == [FoundCall("get_weather", '{"a": 1')]


@pytest.mark.row("think_unclosed")
@pytest.mark.parametrize("tail", ["", "<", "<|en"])
def test_what_is_cut_goes_where_its_channel_goes(tail: str) -> None:
    assert_read(f"<|channel|>analysis<|message|>Hm{tail}", (f"Hm{tail}", "", []))
    assert_read(f"<|channel|>final<|message|>Fo{tail}", ("", f"Fo{tail}", []))


@pytest.mark.parametrize("output", ["<|channel|>final", "<|start|>assistant", ANALYSIS + "<|start|>assistant<|chan"])
def test_a_header_without_a_message_is_markup(output: str) -> None:
    assert run(output)[1:] == ("", [])


def test_messages_pass_by_as_they_come() -> None:
    splitter = HarmonySplitter(TOOLS)
    assert splitter.feed("<|channel|>final<|message|>One") == ("", "One")
    assert splitter.feed(" two <") == ("", " two ")
    assert splitter.feed("b") == ("", "<b")


def test_the_raw_text_of_a_call_is_kept() -> None:
    splitter = HarmonySplitter(TOOLS)
    splitter.feed(WEATHER)
    assert splitter.withheld == [WEATHER.removesuffix("<|call|>")]


def test_a_long_call_takes_time_in_proportion() -> None:
    splitter = HarmonySplitter(TOOLS)
    splitter.feed(WEATHER.removesuffix("}<|call|>"))

    def feed() -> None:
        for _ in range(15_000):
            splitter.feed("abcd")

    assert seconds(feed) < 0.4
