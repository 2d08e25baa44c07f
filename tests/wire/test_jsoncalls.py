"""What a prompted model writes: calls and answers in JSON, read while they come, however they are cut."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_agent.events import TextDelta, ToolInputDelta, ToolInputStart
from any_agent.wire.assembly import DecodeSettings
from any_agent.wire.jsoncalls import PromptedReader
from any_agent.wire.textcalls import TextCallScanner
from any_agent.wire.toolcalls import CallPiece

from .support import TOOLS, chat, decode, done, seconds, told

PROMPTED = DecodeSettings(tools=TOOLS, prompted=True)
SEARCH = '{"tool": "search", "arguments": {"q": "paris"}}'
PARIS = ("search", {"q": "paris"})
WEATHER = '{"tool": "get_weather", "arguments": {"city": "Oslo"}}'
OSLO = ("get_weather", {"city": "Oslo"})


def read(*parts: str) -> tuple[str, list[tuple[str | None, str]]]:
    """What is shown of an output, and the calls in it: the name, and the arguments as they were passed on."""
    scanner = TextCallScanner(TOOLS)
    reader = PromptedReader(TOOLS, scanner)
    found = [item for part in parts for item in reader.feed(part)] + reader.close()
    text = "".join(item[1] for item in found if not isinstance(item, CallPiece)) + scanner.close()
    calls: dict[Any, tuple[str | None, str]] = {}
    for piece in found:
        if isinstance(piece, CallPiece):
            name, arguments = calls.get(piece.index, (None, ""))
            calls[piece.index] = (piece.name or name, arguments + (piece.arguments or ""))
    written = [(call.name, json.dumps(call.arguments)) for call in scanner.calls]
    return text, [*calls.values(), *written]


def assert_read(output: str, text: str, *calls: tuple[str, dict[str, Any]]) -> None:
    """Whole, letter by letter, and cut in two at every place."""
    for parts in ([output], list(output), *([output[:at], output[at:]] for at in range(1, len(output)))):
        shown, found = read(*parts)
        assert (shown, [(name, json.loads(arguments or "{}")) for name, arguments in found]) == (text, list(calls)), (
            parts
        )


@pytest.mark.row("B19")
@pytest.mark.parametrize(
    ("output", "calls"),
    [
        (SEARCH, [PARIS]),
        (f"{SEARCH}{WEATHER}", [PARIS, OSLO]),
        (f"{SEARCH},\n{WEATHER}\n", [PARIS, OSLO]),
        (f"[{SEARCH}, {WEATHER}]", [PARIS, OSLO]),
        (f"```json\n{SEARCH}\n```", [PARIS]),
        ('{"arguments": {"q": "paris"}, "tool": "search"}', [PARIS]),
        ('{"name": "search", "parameters": {"q": "paris"}}', [PARIS]),
        ('{"tool": "functions.search", "arguments": {"q": "paris"}}', [("functions.search", {"q": "paris"})]),
        ('{"tool": "search"}', [("search", {})]),
        ('{"tool": "search", "arguments": {"q": "a {b} \\"c\\" [d", "n": {"m": []}}}',
         [("search", {"q": 'a {b} "c" [d', "n": {"m": []}})]),
        ('{"tool": "unheard_of", "arguments": {"q": 1}}', [("unheard_of", {"q": 1})]),
        ('<tool_call>{"name": "search", "arguments": {"q": "paris"}}</tool_call>', [PARIS]),
    ],
    ids=[
        "one", "two", "with a comma", "in a list", "in a fence", "the other way round", "other keys", "with a prefix",
        "without arguments", "nested", "an unknown tool", "in tags",
    ],
)  # fmt: skip
def test_calls_are_found_and_nothing_of_them_is_shown(output: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    assert_read(output, "", *calls)


@pytest.mark.row("B19")
@pytest.mark.parametrize(
    ("output", "text"),
    [
        ('{"answer": "It is 21 °C."}', "It is 21 °C."),
        (r'{"answer": "two\nlines, \"quoted\" \\ \u00e9"}', 'two\nlines, "quoted" \\ é'),
        (r'{"answer": "\ud83d\ude00, and a half: \ud83d"}', "😀, and a half: \ufffd"),
        ('{"answer": "he said "hi" to me"}', 'he said "hi" to me'),
        ('{"answer": {"city": "Oslo", "list": [1, 2]}}', '{"city": "Oslo", "list": [1, 2]}'),
        ('{"answer": "3", "confidence": 0.9}', "3"),
        ('{"answer": "cut of', "cut of"),
        ('{"answer": ""}', ""),
        ('{"city": "Oslo"}', '{"city": "Oslo"}'),
        ("words {with braces} and `code`", "words {with braces} and `code`"),
        ('An example: {"tool": "unheard_of", "arguments": {}}', 'An example: {"tool": "unheard_of", "arguments": {}}'),
        ("", ""),
    ],
)
def test_answer_is_shown_as_it_is_meant(output: str, text: str) -> None:
    assert_read(output, text)


@pytest.mark.row("B19")
@pytest.mark.parametrize(
    ("output", "text"),
    [
        (f"Let me look. {SEARCH}", "Let me look. "),
        ('{"answer": "Let me look.", "tool": "search", "arguments": {"q": "paris"}}', "Let me look."),
        ('{"tool": "search", "arguments": {"q": "paris"}, "answer": "Let me look."}', "Let me look."),
        (f'{{"answer": "Let me look."}}\n{SEARCH}', "Let me look."),
    ],
)
def test_words_beside_a_call_are_kept(output: str, text: str) -> None:
    assert_read(output, text, PARIS)


@pytest.mark.row("B19", "D9")
def test_answer_and_arguments_are_passed_on_as_they_come() -> None:
    reader = PromptedReader(TOOLS)
    assert reader.feed('{"answer": "It is ') == [("text", "It is ")]
    assert reader.feed("warm.") == [("text", "warm.")]
    reader = PromptedReader(TOOLS)
    [call, *_] = reader.feed('{"tool": "search", "arguments": {')
    assert isinstance(call, CallPiece)
    assert call.name == "search"
    more = reader.feed('"q": "pa')
    assert "".join(str(piece.arguments) for piece in more if isinstance(piece, CallPiece)) == '"q": "pa'


@pytest.mark.row("B19", "B12")
def test_whole_response_of_a_prompted_model() -> None:
    """With a thought before it, in deltas of odd sizes: the events and blocks are those of a native call."""
    output = f"<think>A city. {SEARCH}</think>{SEARCH}"
    events = decode("openai", chat(*({"content": output[at : at + 7]} for at in range(0, len(output), 7))), PROMPTED)
    response = done(events)
    assert [block.type for block in response.content] == ["thinking", "tool_use"]
    assert [(call.name, call.input) for call in response.tool_calls] == [PARIS]
    assert response.stop_reason == "tool_use"
    [start] = [event for event in events if isinstance(event, ToolInputStart)]
    written = [event.partial_json for event in events if isinstance(event, ToolInputDelta) and event.id == start.id]
    assert json.loads("".join(written)) == {"q": "paris"}
    assert len(written) > 1
    assert not [event for event in events if isinstance(event, TextDelta)]


@pytest.mark.row("B19", "B4")
@pytest.mark.parametrize("output", [SEARCH[:-8], '{"tool": "sea', '{"tool": "search", "arg'])
def test_call_that_was_cut_is_an_error_and_no_text(output: str) -> None:
    answer = told("openai", chat({"content": output}, finish="length"), PROMPTED)
    assert (answer.text, answer.calls, answer.tool_errors, answer.stop_reason) == ("", [], 1, "max_tokens")


_OUTPUTS = [
    SEARCH,
    WEATHER,
    '{"answer": "a \\"b\\" {c}"}',
    "words ",
    "```json\n",
    "```",
    "{",
    "}",
    ", ",
    '"',
    "\\",
    "[",
    "é",
]


@pytest.mark.row("B19")
@given(st.lists(st.sampled_from(_OUTPUTS), max_size=6), st.lists(st.integers(0, 150), max_size=8))
def test_whatever_is_written_gives_the_same_wherever_it_is_cut(outputs: list[str], places: list[int]) -> None:
    output = "".join(outputs)
    edges = [0, *sorted(place for place in places if place < len(output)), len(output)]
    assert read(*(output[start:end] for start, end in itertools.pairwise(edges))) == read(output)


@pytest.mark.row("B19")
@pytest.mark.parametrize("output", ['{"answer": "' + "x" * 300_000, '{"tool": ' * 20_000, "{" * 200_000, "`" * 200_000])
def test_long_outputs_take_a_time_that_grows_with_their_length(output: str) -> None:
    assert seconds(lambda: read(*(output[at : at + 50] for at in range(0, len(output), 50)))) < 3
