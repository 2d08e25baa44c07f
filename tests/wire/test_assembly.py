"""One response out of words, thoughts and calls: its events, its blocks, its end."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from any_agent.errors import ProviderAPIError
from any_agent.events import (
    Done,
    Event,
    Failed,
    ModelState,
    Notice,
    Reset,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolInputStart,
)
from any_agent.types import ImageBlock, LLMResponse, TextBlock, ThinkingBlock, ToolUseBlock, ToolUseError, Usage
from any_agent.wire.assembly import Assembly, DecodeSettings
from any_agent.wire.toolcalls import CallPiece

from .support import SETTINGS, done, failure, seconds, tell

PLAIN = DecodeSettings()
CALL = CallPiece(0, "c1", "search", '{"q": 1}')
BROKEN = CallPiece(0, "c1", "search", '{"q": ')
MARKUP = '<tool_call>{"name": "search", "arguments": {"q": 1}}</tool_call>'


def finished(assembly: Assembly, label: str | None = "stop") -> list[Event]:
    """All events up to a good end."""
    assembly.label = label
    assembly.finish()
    return assembly.take()


def response(assembly: Assembly, label: str | None = "stop") -> LLMResponse:
    events = finished(assembly, label)
    tell(events)
    return done(events)


def notices(events: list[Event]) -> list[str]:
    return [event.kind for event in events if isinstance(event, Notice)]


def written(*deltas: str, settings: DecodeSettings = SETTINGS) -> Assembly:
    assembly = Assembly(settings)
    for delta in deltas:
        assembly.text(delta)
    return assembly


@pytest.mark.parametrize("settings", [PLAIN, SETTINGS])
def test_words_are_shown_as_they_come_and_are_one_block(settings: DecodeSettings) -> None:
    assembly = written("Hel", "lo", " you", settings=settings)
    assert assembly.take() == [TextDelta("Hel"), TextDelta("lo"), TextDelta(" you")]
    assert done(finished(assembly)).content == [TextBlock("Hello you")]


@pytest.mark.row("B12")
@pytest.mark.parametrize("settings", [PLAIN, SETTINGS])
def test_thoughts_and_words_are_blocks_in_their_order(settings: DecodeSettings) -> None:
    assembly = Assembly(settings)
    for show, text in ((assembly.thinking, "a"), (assembly.text, "b"), (assembly.thinking, "c"), (assembly.text, "d")):
        show(text)
    assert assembly.take() == [ThinkingDelta("a"), TextDelta("b"), ThinkingDelta("c"), TextDelta("d")]
    expected = [ThinkingBlock("a"), TextBlock("b"), ThinkingBlock("c"), TextBlock("d")]
    assert done(finished(assembly)).content == expected


@pytest.mark.row("B12")
def test_words_that_pass_by_begin_a_block_of_their_own_after_a_thought() -> None:
    assembly = written("a", "b", "c", settings=PLAIN)
    assembly.thinking("d")
    assembly.text("e")
    assembly.text("f")
    assert done(finished(assembly)).content == [TextBlock("abc"), ThinkingBlock("d"), TextBlock("ef")]


@pytest.mark.row("B12", "think_inline")
def test_thoughts_inside_the_text_are_told_apart() -> None:
    assert response(written("<thi", "nk>a</think>\n", "\nb")).content == [ThinkingBlock("a"), TextBlock("b")]


@pytest.mark.row("think_missing_open")
def test_a_template_may_open_the_thought() -> None:
    assembly = written("a</think>b", settings=replace(SETTINGS, think_open=True))
    assert response(assembly).content == [ThinkingBlock("a"), TextBlock("b")]


@pytest.mark.row("A11", "content_cumulative")
@pytest.mark.parametrize("settings", [PLAIN, SETTINGS])
def test_cumulative_text_is_shown_once(settings: DecodeSettings) -> None:
    assembly = written("Hello", "Hello wor", "Hello world", "Hello world", settings=settings)
    assert response(assembly).text == "Hello world"


@pytest.mark.row("A11", "content_cumulative")
@pytest.mark.parametrize("deltas", [["ha", "ha"], ["1", "10"], ["ha", "haha", "!"], ["x"]])
def test_text_that_only_looks_cumulative_is_whole(deltas: list[str]) -> None:
    assert response(written(*deltas)).text == "".join(deltas)


@pytest.mark.row("A11")
def test_the_kind_of_stream_may_be_known() -> None:
    deltas = ["a", "ab", "abc"]
    assert response(written(*deltas, settings=replace(PLAIN, text_stream="delta"))).text == "aababc"
    assert response(written(*deltas[:2], settings=replace(PLAIN, text_stream="cumulative"))).text == "ab"
    assert response(written(*deltas, settings=replace(PLAIN, text_stream="auto"))).text == "abc"


@pytest.mark.row("whitespace_only_text")
@pytest.mark.parametrize("settings", [PLAIN, SETTINGS])
@pytest.mark.parametrize("blank", ["\n\n", " "])
def test_white_space_before_a_call_is_dropped(blank: str, settings: DecodeSettings) -> None:
    assembly = written(blank, blank, settings=settings)
    assembly.thinking("hm")
    assembly.text(blank)
    assembly.call(CALL)
    answer = response(assembly)
    assert answer.text is None
    assert answer.content[0] == ThinkingBlock("hm")


@pytest.mark.row("whitespace_only_text")
def test_white_space_that_is_followed_by_words_or_by_nothing_is_kept() -> None:
    assert response(written("\n", " ", "Hi", " ")).text == "\n Hi "
    assert response(written("\n", " ")).text == "\n "


@pytest.mark.row("D3")
def test_words_stand_before_calls() -> None:
    assembly = Assembly(SETTINGS)
    assembly.call(CALL)
    assembly.text("Done.")
    assert response(assembly).content == [TextBlock("Done."), ToolUseBlock("c1", "search", {"q": 1})]


def test_a_thought_that_was_held_back_stands_before_the_words_that_follow() -> None:
    assembly = Assembly(SETTINGS)
    assembly.thinking("is a <")
    assembly.text("No.")
    assert response(assembly).content == [ThinkingBlock("is a <"), TextBlock("No.")]


@pytest.mark.row("an_signature")
def test_a_signature_belongs_to_the_whole_thought() -> None:
    assembly = Assembly(SETTINGS)
    assembly.thinking("is a <")
    assembly.end_block(signature="sig")
    assembly.text("No.")
    assert response(assembly).content == [ThinkingBlock("is a <", "sig"), TextBlock("No.")]


def test_words_that_were_held_back_stand_before_the_thought_that_follows() -> None:
    assembly = written("is a <")
    assembly.thinking("hm")
    assembly.text("b")
    assert response(assembly).content == [TextBlock("is a <"), ThinkingBlock("hm"), TextBlock("b")]


@pytest.mark.row("an_signature", "an_redacted")
def test_a_thought_may_carry_things_to_be_sent_back() -> None:
    assembly = Assembly(SETTINGS)
    assembly.thinking("a")
    assembly.end_block(signature="sig")
    assembly.thinking("b")
    assembly.end_block()
    assembly.end_block(extra={"redacted": "x"})
    assembly.end_block()
    assembly.text("c")
    first, second, third, words = response(assembly).content
    assert (first, second, words) == (ThinkingBlock("a", "sig"), ThinkingBlock("b"), TextBlock("c"))
    assert isinstance(third, ThinkingBlock)
    assert third.extra == {"redacted": "x"}


@pytest.mark.row("reasoning_details")
def test_opaque_items_go_to_the_first_thought() -> None:
    assembly = Assembly(SETTINGS)
    for show, text in ((assembly.thinking, "hm"), (assembly.text, "a"), (assembly.thinking, "later")):
        show(text)
    assembly.keep_thought("details", 1)
    assembly.keep_thought("details", 2)
    first, _, last = response(assembly).content
    assert isinstance(first, ThinkingBlock)
    assert isinstance(last, ThinkingBlock)
    assert (first.extra, last.extra) == ({"details": [1, 2]}, None)


@pytest.mark.row("reasoning_details")
def test_opaque_items_without_a_thought_make_an_empty_one() -> None:
    assembly = written("a")
    assembly.keep_thought("details", 1)
    assert response(assembly).content == [ThinkingBlock(""), TextBlock("a")]


@pytest.mark.row("images_delta")
def test_an_image_is_a_block_in_its_place_and_is_told() -> None:
    url = "data:image/gif;base64," + base64.b64encode(b"GIF89a").decode()
    assembly = written("a", settings=PLAIN)
    assembly.image(url)
    assembly.text("b")
    events = finished(assembly)
    assert done(events).content == [TextBlock("a"), ImageBlock.from_url(url), TextBlock("b")]
    assert notices(events) == ["image"]


@pytest.mark.row("images_delta")
def test_an_image_that_cannot_be_read_is_told() -> None:
    assembly = written("a")
    assembly.image("file:///etc/passwd")
    events = finished(assembly)
    assert done(events).content == [TextBlock("a")]
    assert notices(events) == ["image"]


def test_what_the_server_does_is_an_event() -> None:
    assembly = Assembly(SETTINGS)
    assembly.state("prefill", 0.5)
    assert assembly.take() == [ModelState("prefill", 0.5)]
    assert assembly.take() == []


def test_the_response_says_whose_it_is_and_how_it_ended() -> None:
    assembly = written("a")
    assembly.id, assembly.model, assembly.raw = "id", "m", {"raw": 1}
    assembly.usage, assembly.tokens_per_s = Usage(3, 4, 7), 12.5
    answer = response(assembly, "STOP")
    assert (answer.id, answer.model, answer.raw, answer.raw_stop_reason) == ("id", "m", {"raw": 1}, "STOP")
    assert answer.usage == Usage(3, 4, 7, tokens_per_s=12.5)


@pytest.mark.row("A11")
def test_what_looked_cumulative_once_can_be_let_go() -> None:
    assembly = written("1", "10", settings=PLAIN)
    assert assembly.take() == [TextDelta("1")]
    assembly.release()
    assert assembly.take() == [TextDelta("10")]


@pytest.mark.row("E2")
@pytest.mark.parametrize(
    ("progress", "states"),
    [
        ({"total": 200, "processed": 50}, [ModelState("prefill", 0.25)]),
        ({"total": 200, "processed": 500}, [ModelState("prefill", 1.0)]),
        ({"total": 200, "processed": -5}, [ModelState("prefill", 0.0)]),
        ({"total": 0, "processed": 0}, []),
        ({"total": 200}, []),
        ([1], []),
    ],
)
def test_the_progress_of_a_prompt_is_an_event(progress: object, states: list[Event]) -> None:
    assembly = Assembly(SETTINGS)
    assembly.read_progress(progress)
    assert assembly.take() == states


def test_the_last_speed_that_was_told_counts() -> None:
    assembly = Assembly(SETTINGS)
    for timings in ({"predicted_per_second": 12.5}, {"predicted_per_second": "x"}, {}, None, [1]):
        assembly.read_timings(timings)
    assert assembly.tokens_per_s == 12.5


@pytest.mark.row("D4", "usage_absent")
def test_usage_is_not_invented() -> None:
    assembly = written("a")
    assembly.tokens_per_s = 3.0
    events = finished(assembly)
    assert done(events).usage is None
    assert isinstance(events[-1], Done)
    assert events[-1].usage is None


@pytest.mark.row("D9")
def test_there_is_one_end_and_nothing_after_it() -> None:
    assembly = written("a")
    assert isinstance(finished(assembly)[-1], Done)
    assembly.finish()
    assembly.fail(ProviderAPIError("late"))
    assembly.cut("late")
    assert assembly.take() == []
    assert assembly.ended


@pytest.mark.row("D9")
def test_there_is_one_failure_and_nothing_after_it() -> None:
    assembly = written("a")
    assembly.fail(ProviderAPIError("first"))
    assembly.fail(ProviderAPIError("second"))
    assembly.finish()
    ends = [event for event in assembly.take() if isinstance(event, Done | Failed)]
    assert [str(end.error) for end in ends if isinstance(end, Failed)] == ["first"]


@pytest.mark.row("A25", "eof_truncated", "tc_truncated")
def test_a_failure_shows_the_words_that_were_held_back_and_no_calls() -> None:
    assembly = written("see <tool")
    assembly.call(CALL)
    assembly.cut("the connection broke")
    events = assembly.take()
    partial = failure(events).partial
    assert partial.content == [TextBlock("see <tool")]
    assert tell(events).error == "stream_truncated"
    assert "the connection broke" in str(failure(events).error)


def test_a_failure_after_textual_markup_has_no_calls() -> None:
    assembly = written("a " + MARKUP)
    assembly.cut("the connection broke")
    assert tell(assembly.take()).calls == []


@pytest.mark.row("an_dup_start", "sse_reconnect")
def test_a_restart_forgets_what_came_before() -> None:
    assembly = Assembly(SETTINGS)
    assembly.thinking("first")
    assembly.text("a " + MARKUP)
    assembly.call(BROKEN)
    assembly.keep_thought("details", 1)
    assembly.label = "stop"
    assembly.restart("again")
    assert isinstance(assembly.take()[-1], Reset)
    assert assembly.label is None
    assembly.text("second")
    assembly.call(CALL)
    answer = response(assembly)
    assert answer.content == [TextBlock("second"), ToolUseBlock("c1", "search", {"q": 1})]


@pytest.mark.row("an_dup_start")
def test_a_restart_forgets_why_the_first_attempt_stopped() -> None:
    assembly = written("a")
    assembly.refused = assembly.stopped_by_sequence = True
    assembly.restart("again")
    assembly.text("b")
    assert response(assembly).stop_reason == "end_turn"


@pytest.mark.row("D2", "B4", "finish_stop_with_tools", "content_filter", "refusal")
@pytest.mark.parametrize(
    ("label", "calls", "sequence", "refused", "reason"),
    [
        ("stop", None, False, False, "end_turn"),
        (None, None, False, False, "end_turn"),
        ("tool_calls", None, False, False, "end_turn"),
        ("stop", CALL, False, False, "tool_use"),
        (None, CALL, False, False, "tool_use"),
        ("stop", BROKEN, False, False, "tool_use"),
        ("stop_sequence", None, False, False, "stop_sequence"),
        ("stop", None, True, False, "stop_sequence"),
        ("stop", CALL, True, False, "tool_use"),
        ("length", None, False, False, "max_tokens"),
        ("length", CALL, True, True, "max_tokens"),
        ("length", BROKEN, False, False, "max_tokens"),
        ("content_filter", None, False, False, "content_filter"),
        ("content_filter", CALL, True, True, "content_filter"),
        ("refusal", CALL, False, False, "refusal"),
        ("stop", None, False, True, "refusal"),
        ("stop", CALL, False, True, "refusal"),
    ],
)
def test_reasons_to_stop_have_an_order(
    label: str | None, calls: CallPiece | None, sequence: bool, refused: bool, reason: str
) -> None:
    assembly = Assembly(SETTINGS)
    if calls is not None:
        assembly.call(calls)
    assembly.stopped_by_sequence, assembly.refused = sequence, refused
    answer = response(assembly, label)
    assert answer.stop_reason == reason
    assert answer.raw_stop_reason == label


@pytest.mark.row("tc_truncated_tool_calls")
@pytest.mark.parametrize(
    ("piece", "limit", "output", "reason"),
    [
        (BROKEN, 64, 64, "max_tokens"),
        (BROKEN, 64, 63, "tool_use"),
        (BROKEN, None, 64, "tool_use"),
        (BROKEN, 64, None, "tool_use"),
        (CALL, 64, 64, "tool_use"),
    ],
)
def test_a_call_that_breaks_off_where_the_tokens_ran_out_was_cut(
    piece: CallPiece, limit: int | None, output: int | None, reason: str
) -> None:
    assembly = Assembly(replace(SETTINGS, max_tokens=limit))
    assembly.call(piece)
    assembly.usage = Usage(output_tokens=output)
    assert response(assembly, "tool_calls").stop_reason == reason


def test_without_usage_nothing_is_known_of_a_limit() -> None:
    assembly = Assembly(replace(SETTINGS, max_tokens=5))
    assembly.call(BROKEN)
    assert response(assembly, "tool_calls").stop_reason == "tool_use"


@pytest.mark.row("E11", "done_no_finish", "tc_none", "empty_success", "reasoning_only", "harmony_stripped")
@pytest.mark.parametrize(
    ("text", "thinking", "label", "kinds"),
    [
        ("a", "", "stop", []),
        ("a", "", None, ["no_finish_reason"]),
        ("a", "", "tool_calls", ["lost_tool_call"]),
        ("a", "", "TOOL_USE", ["lost_tool_call"]),
        ("a", "", "function_call", ["lost_tool_call"]),
        ("", "", "stop", ["empty_response"]),
        ("", "hm", "stop", ["empty_response"]),
        ("analysisWe need 4.assistantfinalFour.", "", "stop", ["harmony_stripped"]),
        ("analysis of the data", "", "stop", []),
    ],
)
def test_odd_endings_are_told(text: str, thinking: str, label: str | None, kinds: list[str]) -> None:
    assembly = Assembly(SETTINGS)
    assembly.thinking(thinking)
    assembly.text(text)
    events = finished(assembly, label)
    assert notices(events) == kinds
    assert [notice.kind for notice in done(events).notices] == kinds


def test_an_empty_response_with_a_call_is_not_odd() -> None:
    assembly = Assembly(SETTINGS)
    assembly.call(CALL)
    assert notices(finished(assembly, "tool_calls")) == []


@pytest.mark.row("B18", "E9")
@pytest.mark.parametrize(
    "pieces",
    [
        [CallPiece(0, "a", "search", "{'q': 1}")],
        [CallPiece(0, "a", "search", "{}"), CallPiece(1, "a", "search", "{}")],
        [CALL, CallPiece(1)],
    ],
    ids=["repair", "duplicate id", "phantom"],
)
def test_every_notice_is_also_in_the_response(pieces: list[CallPiece]) -> None:
    assembly = Assembly(SETTINGS)
    for piece in pieces:
        assembly.call(piece)
    events = finished(assembly)
    assert len(notices(events)) == 1
    assert [notice.kind for notice in done(events).notices] == notices(events)


@pytest.mark.row("E3", "text_tool_calls")
def test_calls_that_were_written_as_text_are_calls() -> None:
    assembly = written("Look. ", MARKUP)
    events = finished(assembly)
    assert done(events).content == [TextBlock("Look. "), ToolUseBlock("call_1", "search", {"q": 1})]
    assert ToolInputStart("call_1", "search") in events
    assert ToolInputDelta("call_1", '{"q": 1}') in events
    assert "text_tool_calls" in notices(events)
    assert tell(events).stop_reason == "tool_use"


@pytest.mark.row("E3")
def test_made_up_ids_begin_as_the_settings_say() -> None:
    assembly = written(MARKUP, settings=replace(SETTINGS, id_prefix="call_ab12"))
    assembly.call(CallPiece(0, None, "search"))
    assert response(assembly).tool_calls[0].id == "call_ab12_1"


@pytest.mark.row("tc_truncated")
def test_a_textual_call_that_cannot_be_read_is_an_error() -> None:
    answer = response(written('<tool_call>{"name": "search", "arguments": {"q": "x'), "length")
    (error,) = answer.content
    assert isinstance(error, ToolUseError)
    assert error.error.startswith("Invalid JSON: ")
    assert (error.id, error.name) == ("call_1", "search")
    assert answer.stop_reason == "max_tokens"


@pytest.mark.row("tc_truncated")
@pytest.mark.parametrize(
    "output", ["<function=search>", "<function=search>\n<parameter=q>\nfjo", "<tool_call>search\n"]
)
def test_a_textual_call_that_breaks_off_is_an_error_and_never_runs(output: str) -> None:
    answer = response(written(output), "length")
    assert (answer.tool_calls, len(answer.tool_errors)) == ([], 1)


@pytest.mark.row("E3", "tc_args_double_encoded")
def test_arguments_of_textual_calls_are_what_the_schema_says() -> None:
    tools = {"search": {"properties": {"n": {"type": "integer"}}}}
    output = "<function=search><parameter=n>5</parameter><parameter=q>5</parameter></function>"
    for lenient in (True, False):
        settings = DecodeSettings(tools=tools, lenient=lenient)
        assert response(written(output, settings=settings)).tool_calls[0].input == {"n": 5, "q": "5"}


@pytest.mark.row("tc_args_concat", "E3")
def test_a_textual_call_with_several_objects_loses_none() -> None:
    answer = response(written('<function=search>{"q": 1}{"q": 2}</function>'))
    assert [block.input for block in answer.tool_calls] == [{"q": 1}, {"q": 2}]


@pytest.mark.row("text_tool_calls")
def test_calls_inside_thoughts_are_found_and_their_markup_is_not_shown() -> None:
    assembly = Assembly(SETTINGS)
    assembly.thinking("Hm. " + MARKUP)
    events = finished(assembly)
    assert tell(events).thinking == "Hm. "
    assert tell(events).calls == [("search", {"q": 1})]


@pytest.mark.row("text_tool_calls_guard")
@pytest.mark.parametrize("where", ["text", "thinking"])
def test_textual_calls_are_dropped_if_a_structured_one_came(where: str) -> None:
    assembly = Assembly(SETTINGS)
    getattr(assembly, where)(MARKUP)
    assembly.call(CallPiece(0, "c1", "get_weather", "{}"))
    events = finished(assembly)
    assert tell(events).calls == [("get_weather", {})]
    assert notices(events) == ["text_tool_calls_dropped"]


@pytest.mark.row("text_tool_calls_guard")
def test_the_same_call_in_thought_and_text_is_one_call() -> None:
    assembly = Assembly(SETTINGS)
    assembly.thinking(MARKUP)
    assembly.text(MARKUP)
    assert tell(finished(assembly)).calls == [("search", {"q": 1})]


@pytest.mark.row("text_tool_calls_guard")
@pytest.mark.parametrize("settings", [PLAIN, replace(SETTINGS, text_calls=False)])
def test_markup_is_text_without_tools_or_without_leave(settings: DecodeSettings) -> None:
    answer = response(written("a ", MARKUP, settings=settings))
    assert answer.text == "a " + MARKUP
    assert answer.tool_calls == []


@pytest.mark.row("harmony_raw", "text_tool_calls")
def test_harmony_is_read_from_text() -> None:
    output = (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Look.<|end|>"
        '<|start|>assistant<|channel|>commentary to=functions.search<|message|>{"q": 1}<|call|>'
    )
    for parts in ([output], list(output)):
        told = tell(finished(written(*parts)))
        assert (told.thinking, told.text, told.calls) == ("Hm.", "Look.", [("search", {"q": 1})])


@pytest.mark.row("text_tool_calls_guard", "harmony_raw")
def test_text_after_harmony_that_quotes_other_markup_runs_it_no_more_than_elsewhere() -> None:
    output = "<|channel|>final<|message|>" + MARKUP.replace("search", "unknown")
    assert tell(finished(written(output))).text == MARKUP.replace("search", "unknown")


@pytest.mark.parametrize("settings", [PLAIN, SETTINGS])
def test_long_answers_take_time_in_proportion(settings: DecodeSettings) -> None:
    assembly = Assembly(settings)

    def write() -> None:
        for _ in range(50_000):
            assembly.text("word ")
        assembly.finish()

    assert seconds(write) < 1.5
