"""Every notation in which models write calls as text, in all the places and pieces in which it comes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from any_agent.wire.assembly import DecodeSettings

from .notations import NOTATIONS, SEARCH, SETTINGS, UNDECLARED, WEATHER, Call
from .support import Told, chat, decode, merged, tell, told

ALL = pytest.mark.parametrize("notation", list(NOTATIONS))
INLINE = pytest.mark.parametrize("notation", [name for name, item in NOTATIONS.items() if item.anywhere])


def read(*deltas: str, finish: str = "stop", field: str = "content") -> Told:
    return tell(decode("openai", chat(*({field: delta} for delta in deltas), finish=finish), SETTINGS))


def words(text: str) -> str:
    return " ".join(text.split())


def surrounded(notation: str, calls: list[Call]) -> str:
    item = NOTATIONS[notation]
    markup = item.write(calls)
    return f"Let me look.\n\n{markup}{'Back soon.' * item.has_end}" if item.anywhere else markup


@pytest.mark.row("E3", "text_tool_calls")
@ALL
def test_one_call_and_two_calls_are_found_and_not_shown(notation: str) -> None:
    for calls in ([WEATHER], [WEATHER, SEARCH], [SEARCH, SEARCH]):
        found = read(NOTATIONS[notation].write(calls))
        assert (found.calls, found.tool_errors, found.text, found.stop_reason) == (calls, 0, "", "tool_use")
        assert "text_tool_calls" in found.notices


@pytest.mark.row("E3", "text_tool_calls")
@INLINE
def test_the_words_around_the_calls_stay(notation: str) -> None:
    found = read(surrounded(notation, [WEATHER, SEARCH]))
    assert found.calls == [WEATHER, SEARCH]
    assert words(found.text) in ("Let me look.", "Let me look. Back soon.", "Let me look.Back soon.")
    assert ("Back soon." in found.text) is NOTATIONS[notation].has_end


@pytest.mark.row("E3", "text_tool_calls")
@ALL
def test_it_does_not_matter_where_the_output_is_cut(notation: str) -> None:
    output = surrounded(notation, [WEATHER, SEARCH])
    whole = merged(decode("openai", chat({"content": output}), SETTINGS))
    for cut in range(1, len(output)):
        deltas = [{"content": output[:cut]}, {"content": output[cut:]}]
        assert merged(decode("openai", chat(*deltas), SETTINGS)) == whole, (output[:cut], output[cut:])
    for size in (1, 2, 3, 5, 7):
        deltas = [{"content": output[place : place + size]} for place in range(0, len(output), size)]
        assert merged(decode("openai", chat(*deltas), SETTINGS)) == whole, size


@pytest.mark.row("text_tool_calls_guard")
@ALL
def test_calls_of_tools_that_nobody_declared_are_text(notation: str) -> None:
    output = surrounded(notation, [UNDECLARED])
    found = read(output)
    assert (found.calls, found.tool_errors, found.stop_reason) == ([], 0, "end_turn")
    if notation != "harmony":
        assert found.text == output
    assert json.dumps(UNDECLARED[1])[1:-1] in found.text or "Oslo" in found.text
    for size in (1, 3):
        assert read(*(output[place : place + size] for place in range(0, len(output), size))).text == found.text


@pytest.mark.row("text_tool_calls_guard")
@ALL
def test_without_tools_nothing_is_a_call(notation: str) -> None:
    output = NOTATIONS[notation].write([WEATHER])
    found = told("openai", chat({"content": output}), DecodeSettings())
    assert (found.calls, found.tool_errors) == ([], 0)
    assert found.text == output or notation == "harmony"


@pytest.mark.row("tc_truncated", "B4", "text_tool_calls")
@ALL
def test_a_call_that_the_limit_cuts_is_never_run_with_what_came(notation: str) -> None:
    """Whatever is delivered as a call is one of those that the model meant, whole; the rest is an error or text."""
    calls = [SEARCH, WEATHER]
    output = NOTATIONS[notation].write(calls)
    wrong: list[tuple[str, list[Call]]] = []
    for end in range(1, len(output)):
        found = read(output[:end], finish="length")
        assert found.stop_reason == "max_tokens"
        if found.calls != calls[: len(found.calls)]:
            wrong.append((output[:end], found.calls))
    assert wrong == []


@pytest.mark.row("tc_truncated_tool_calls", "text_tool_calls")
@pytest.mark.parametrize("notation", ["hermes", "function", "glm", "minimax", "mistral v11"])
def test_a_call_that_the_limit_cuts_is_not_run_under_another_label(notation: str) -> None:
    """Some servers say `stop` also where the tokens ran out; the count of tokens tells."""
    output = NOTATIONS[notation].write([WEATHER])
    usage = {"prompt_tokens": 9, "completion_tokens": 64}
    limited = replace(SETTINGS, max_tokens=64)
    for end in range(1, len(output), 2):
        found = told("openai", chat({"content": output[:end]}, usage=usage), limited)
        assert found.stop_reason != "tool_use" or found.calls == [WEATHER], output[:end]


@pytest.mark.row("text_tool_calls", "B12")
@INLINE
def test_calls_inside_thoughts_are_found(notation: str) -> None:
    output = surrounded(notation, [WEATHER, SEARCH])
    whole = read(output, field="reasoning_content")
    assert whole.calls == [WEATHER, SEARCH]
    assert whole.text == ""
    assert words(whole.thinking) in ("Let me look.", "Let me look. Back soon.", "Let me look.Back soon.")
    for size in (1, 2, 3, 5, 7):
        deltas = [output[place : place + size] for place in range(0, len(output), size)]
        assert read(*deltas, field="reasoning_content") == whole, size


@pytest.mark.row("text_tool_calls_guard")
@INLINE
def test_undeclared_calls_inside_thoughts_stay_thoughts(notation: str) -> None:
    output = surrounded(notation, [UNDECLARED])
    found = read(output, field="reasoning_content")
    assert (found.calls, found.tool_errors, found.thinking) == ([], 0, output)


@pytest.mark.row("text_tool_calls", "D13")
@ALL
def test_a_reply_that_is_no_stream_is_read_alike(notation: str) -> None:
    output = surrounded(notation, [WEATHER, SEARCH])
    body = {"choices": [{"message": {"role": "assistant", "content": output}, "finish_reason": "stop"}]}
    assert told("openai", json.dumps(body).encode(), SETTINGS) == read(output)


@pytest.mark.row("tc_name_contaminated", "E3")
@pytest.mark.parametrize(
    "notation", ["hermes", "qwen coder", "glm", "minimax", "deepseek v3.1", "mistral v11", "gemma"]
)
def test_a_prefix_of_the_name_is_understood(notation: str) -> None:
    prefixed = NOTATIONS[notation].write([("functions.search", SEARCH[1])])
    assert read(prefixed).calls == [SEARCH]
