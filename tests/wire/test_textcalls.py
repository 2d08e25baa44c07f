"""Tool calls that are written as text: found where they are meant, and left alone where they are quoted."""

from __future__ import annotations

from typing import Any

import pytest

from any_agent.wire.textcalls import FoundCall, TextCallScanner

from .support import TOOLS, seconds

WEATHER = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
OSLO = FoundCall("get_weather", {"city": "Oslo"})


def scan(*parts: str, bare_json: bool = True) -> tuple[str, list[FoundCall]]:
    """What is shown of an output, and the calls that were in it."""
    scanner = TextCallScanner(TOOLS, bare_json=bare_json)
    return "".join([*(scanner.feed(part) for part in parts), scanner.close()]), scanner.calls


def assert_scan(output: str, text: str, *calls: FoundCall) -> None:
    """Whole, letter by letter, and cut in two at every place."""
    assert scan(output) == (text, list(calls))
    assert scan(*output) == (text, list(calls))
    for cut in range(1, len(output)):
        assert scan(output[:cut], output[cut:]) == (text, list(calls)), cut


@pytest.mark.row("E3", "text_tool_calls")
@pytest.mark.parametrize(
    "output",
    [
        WEATHER,
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}',
        '<tool_call>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]</tool_call>',
        '<tool_call>{"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}</tool_call>',
        '<tool_call>{"tool_name": "get_weather", "params": {"city": "Oslo"}}</tool_call>',
        '<tool_call>{"name": "functions.get_weather", "input": {"city": "Oslo"}}</tool_call>',
        '<tool_calls>{"name": "get_weather", "args": {"city": "Oslo"}}</tool_calls>',
        '<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]</TOOLCALL>',
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
        "<function=get_weather><parameter=city>Oslo</parameter></function>",
        '<function_calls><invoke name="get_weather"><parameter name="city">Oslo</parameter></invoke></function_calls>',
        '<invoke name="get_weather"><parameter name="city" type="string">Oslo</parameter></invoke>',
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Oslo</parameter>\n</invoke>\n'
        "</minimax:tool_call>",
        '<｜DSML｜function_calls><｜DSML｜invoke name="get_weather"><｜DSML｜parameter name="city" string="true">Oslo'
        "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>",
        '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]<|/tool_call|>',
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Oslo"}}]'
        "<|END_ACTION|>",
        '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Oslo"}}<|eom_id|>',
        '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Oslo"}}',
        '[TOOL_REQUEST]{"name": "get_weather", "arguments": {"city": "Oslo"}}[END_TOOL_REQUEST]',
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Oslo"}}]',
        '{"name": "get_weather", "parameters": {"city": "Oslo"}}',
        '[{"name": "get_weather", "arguments": {"city": "Oslo"}}]',
        '```json\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n```',
        ' \n{"type": "function", "name": "get_weather", "arguments": {"city": "Oslo"}}',
        '{"id": "1", "function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}',
        '{"function": "get_weather", "arguments": {"city": "Oslo"}}',
        '{"parameters": {"city": "Oslo"}, "name": "get_weather"}',
    ],
)
def test_each_notation_is_understood(output: str) -> None:
    assert_scan(output, "", OSLO)


@pytest.mark.row("E3", "text_tool_calls")
@pytest.mark.parametrize(
    "output",
    [
        "<function=get_weather>{}</function>",
        "[TOOL_CALLS]get_weather[ARGS]{}",
        "[TOOL_CALLS]get_weather{}",
        "[TOOL_CALLS]get_weather[CALL_ID]a1B2[ARGS]{}",
        "<|tool_call>call:get_weather{}<tool_call|>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>",
        "<|tool_call_begin|> get_weather <|tool_call_argument_begin|> {} <|tool_call_end|>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{}\n```<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
    ],
)
def test_arguments_that_are_text_are_handed_on_as_text(output: str) -> None:
    assert_scan(output.replace("{}", '{"city": "Oslo"}'), "", FoundCall("get_weather", '{"city": "Oslo"}'))


def test_a_call_without_arguments_has_none() -> None:
    assert_scan('<tool_call>{"name": "search"}</tool_call>', "", FoundCall("search", {}))
    assert_scan('<tool_call>{"name": "search", "arguments": null}</tool_call>', "", FoundCall("search", {}))
    assert scan("<function=search>\n</function>")[1][0].name == "search"


def test_arguments_may_be_a_string() -> None:
    assert_scan('<tool_call>{"name": "search", "arguments": "{}"}</tool_call>', "", FoundCall("search", "{}"))


@pytest.mark.row("tc_truncated")
@pytest.mark.parametrize("opener", ["<tool_call>", "<|python_tag|>", "[TOOL_REQUEST]", "[TOOL_CALLS]"])
def test_a_call_whose_json_is_cut_keeps_what_came(opener: str) -> None:
    cut = '{"name": "search", "arguments": {"q": "x'
    assert scan(opener + cut) == ("", [FoundCall("search", cut)])


@pytest.mark.row("text_tool_calls_guard")
@pytest.mark.parametrize(
    "output",
    [
        WEATHER.replace("get_weather", "other"),
        "<tool_call></tool_call>",
        "<tool_call>nonsense here</tool_call>",
        "<tool_call>{}</tool_call>",
        "<tool_call>[1]</tool_call>",
        '<tool_call>{"name": 5}</tool_call>',
        "<tool_call>",
        "Write <tool_call> and a name.",
        "[TOOL_CALLS] are listed",
        "[TOOL_CALLS] [1, 2]",
        "a [ b < c",
        '{"answer": 42}',
        '{"name": "Ada", "age": 36}',
        '{"name": "other", "arguments": {}}',
        '{"name": "get_weather", "city": "Oslo"}',
        '{"name": "get_weather", "arguments": {}} is how I would call it.',
        "[1, 2]",
        "[{",
        "```json\n{}\n```",
        "```",
        '{"name": "get_weather", "arguments": {"city": "Os',
        "{'name': 'other'}",
        " \n",
    ],
)
def test_what_is_no_call_of_a_declared_tool_is_text(output: str) -> None:
    assert_scan(output, output)


def test_bare_json_counts_only_from_the_start_and_only_if_allowed() -> None:
    call = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
    assert_scan(f"Sure: {call}", f"Sure: {call}")
    assert scan(call, bare_json=False) == (call, [])


@pytest.mark.row("text_tool_calls")
@pytest.mark.parametrize("between", ["", "\n", ", ", "; ", " ;\n"])
def test_bare_json_may_hold_several_calls(between: str) -> None:
    call = '{"name": "search", "parameters": {"q": 1}}'
    output = f"[{call}, {call}]" if between == ", " else f"{call}{between}{call}"
    assert_scan(output, "", FoundCall("search", {"q": 1}), FoundCall("search", {"q": 1}))


@pytest.mark.row("text_tool_calls_guard")
def test_a_block_with_an_undeclared_name_among_others_is_text() -> None:
    output = '<tool_call>[{"name": "search"}, {"name": "other"}]</tool_call>'
    assert_scan(output, output)


@pytest.mark.row("E3")
def test_text_around_a_call_is_shown_and_its_markup_is_not() -> None:
    assert_scan(f"Let me look.{WEATHER}Done.", "Let me look.Done.", OSLO)
    assert_scan(f"Let me look.\n\n{WEATHER} Done.", "Let me look.\n\n Done.", OSLO)


@pytest.mark.row("text_tool_calls")
@pytest.mark.parametrize("tail", ["\n", "\n</tool_call>", "</tool_call>\n", " \n </function>\n"])
def test_closing_tags_and_white_space_after_the_last_call_go(tail: str) -> None:
    assert_scan(WEATHER + tail, "", OSLO)


@pytest.mark.parametrize("tail", ["\n", "\n\n", "\n</tool_call>\n"])
def test_what_is_left_after_text_and_call_does_not_depend_on_where_it_is_cut(tail: str) -> None:
    output = f"Let me look.\n{WEATHER}{tail}"
    assert_scan(output, scan(output)[0], OSLO)


@pytest.mark.row("text_tool_calls")
@pytest.mark.parametrize("between", ["", "\n", "\n\n", "\n</tool_call>\n"])
def test_two_blocks_are_two_calls_wherever_they_are_cut(between: str) -> None:
    for text in ("", "Let me look."):
        output = f"{text}{WEATHER}{between}{WEATHER}"
        shown = scan(output)[0]
        assert shown.strip() == text
        assert_scan(output, shown, OSLO, OSLO)


@pytest.mark.row("text_tool_calls")
def test_a_closing_marker_inside_the_arguments_does_not_end_the_call() -> None:
    written = '<tool_call>{"name": "search", "arguments": {"q": "use </tool_call> here"}}</tool_call> Done.'
    assert_scan(written, " Done.", FoundCall("search", {"q": "use </tool_call> here"}))


def test_text_is_held_back_only_while_it_may_become_a_marker() -> None:
    scanner = TextCallScanner(TOOLS)
    assert scanner.feed("One") == "One"
    assert scanner.feed(" two <tool") == " two "
    assert scanner.feed("box>") == "<toolbox>"
    assert scanner.feed("[T") == ""
    assert scanner.feed("x") == "[Tx"
    assert scanner.feed("plain") == "plain"
    assert scanner.feed("<tool_call>{") == ""
    assert scanner.feed("still inside") == ""


def test_the_beginning_of_a_marker_can_be_let_go() -> None:
    scanner = TextCallScanner(TOOLS, bare_json=False)
    assert not scanner.is_holding
    assert scanner.feed("a <tool") == "a "
    assert scanner.is_holding
    assert scanner.release() == "<tool"
    assert not scanner.is_holding
    assert scanner.feed("_call>") == "_call>"


@pytest.mark.parametrize("started", ["<tool_call>{", '{"name": "search"', WEATHER + "\n"])
def test_what_may_still_be_a_call_is_not_let_go(started: str) -> None:
    scanner = TextCallScanner(TOOLS)
    assert scanner.feed(started) == ""
    assert scanner.is_holding
    assert scanner.release() == ""


def test_the_raw_text_of_the_calls_is_kept() -> None:
    scanner = TextCallScanner(TOOLS)
    scanner.feed(f"a{WEATHER}b{WEATHER}c")
    assert scanner.withheld == [WEATHER, WEATHER]


def fed(*parts: str) -> Any:
    def feed() -> None:
        scanner = TextCallScanner(TOOLS)
        for part in parts:
            scanner.feed(part)
        scanner.close()

    return feed


@pytest.mark.parametrize(
    "parts",
    [
        ["<tool_call>", *["abcd"] * 25_000],
        ["{", *["\n"] * 3000],
        ['{"name": "search", "arguments": {"q": "', *["abcd"] * 25_000],
        ["\n" * 4000 + "x"],
        ["```" + "\n" * 4000 + "x"],
        ["x", "[TOOL_CALLS]" + "a" * 3000],
        ["x", "[TOOL_CALLS]a" + " " * 4000 + "b"],
        ["x", "<function=" * 2000],
        ["x", "<tool_call></tool_call>" * 5000],
        ["x", "<tool_call>" + '{"name": "' * 5000],
        ["x", '<tool_call>{"name": "search", "arguments": {"q": "' + '\\"x' * 2000],
        ["x", '<|tool_call_begin|>search<|tool_call_argument_begin|>{"q": 1' + "\n" * 12_000 + "}<|tool_call_end|>"],
        ["x", *[" <", "b"] * 5000],
    ],
    ids=[
        "long block",
        "brace and newlines",
        "long bare JSON",
        "newlines",
        "fence and newlines",
        "mistral and a word",
        "mistral and spaces",
        "openers",
        "empty blocks",
        "names",
        "cut quotes",
        "newlines in arguments",
        "angle brackets",
    ],
)
def test_scanning_takes_time_in_proportion(parts: list[str]) -> None:
    assert seconds(fed(*parts)) < 0.15
