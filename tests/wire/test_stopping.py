"""Labels under which servers stop, and what they mean."""

from __future__ import annotations

import pytest

from any_agent.types import Block, TextBlock, ThinkingBlock, ToolUseBlock, ToolUseError
from any_agent.wire.stopping import odd_endings, stop_reason


@pytest.mark.row("D2", "finish_other")
@pytest.mark.parametrize(
    ("label", "reason"),
    [
        (None, "end_turn"),
        ("", "end_turn"),
        ("stop", "end_turn"),
        ("eos", "end_turn"),
        ("eos_token", "end_turn"),
        ("end_turn", "end_turn"),
        ("tool_calls", "end_turn"),
        ("load", "end_turn"),
        ("something new", "end_turn"),
        ("length", "max_tokens"),
        ("LENGTH", "max_tokens"),
        (" length\n", "max_tokens"),
        ("MAX_TOKENS", "max_tokens"),
        ("max-tokens", "max_tokens"),
        ("max_output_tokens", "max_tokens"),
        ("model_length", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("refusal", "refusal"),
        ("stop_sequence", "stop_sequence"),
    ],
)
def test_a_label_means_a_reason_and_an_unknown_one_a_normal_end(label: str | None, reason: str) -> None:
    assert stop_reason(label) == reason


CALL = ToolUseBlock("a", "search", {})
BROKEN = ToolUseError("x")
WORDS = TextBlock("Hi")


@pytest.mark.row("E11", "done_no_finish", "tc_none", "empty_success", "reasoning_only", "harmony_stripped")
@pytest.mark.parametrize(
    ("label", "blocks", "calls", "must_call", "kinds"),
    [
        ("stop", [WORDS], [], False, []),
        (None, [WORDS], [], False, ["no_finish_reason"]),
        ("tool_calls", [WORDS], [], False, ["lost_tool_call"]),
        ("TOOL_USE", [WORDS], [], False, ["lost_tool_call"]),
        ("function_call", [WORDS], [], False, ["lost_tool_call"]),
        ("tool_calls", [WORDS], [CALL], False, []),
        ("tool_calls", [WORDS], [BROKEN], False, []),
        ("stop", [], [], False, ["empty_response"]),
        ("stop", [], [CALL], False, []),
        ("stop", [ThinkingBlock("hm")], [], False, ["empty_response"]),
        (None, [], [], False, ["no_finish_reason", "empty_response"]),
        ("stop", [TextBlock("analysisWe need 4.assistantfinalFour.")], [], False, ["harmony_stripped"]),
        ("stop", [TextBlock("analysis of data")], [], False, []),
    ],
)
def test_what_a_reader_could_not_see_is_told(
    label: str | None, blocks: list[Block], calls: list[Block], must_call: bool, kinds: list[str]
) -> None:
    assert [notice.kind for notice in odd_endings(label, blocks, calls, must_call=must_call)] == kinds


@pytest.mark.row("req_tool_choice")
@pytest.mark.parametrize(("calls", "kinds"), [([], ["required_call_missing"]), ([CALL], []), ([BROKEN], [])])
def test_a_call_that_was_demanded_is_missed(calls: list[Block], kinds: list[str]) -> None:
    assert [notice.kind for notice in odd_endings("stop", [WORDS], calls, must_call=True)] == kinds


@pytest.mark.parametrize(("blocks", "what"), [([], "nothing"), ([ThinkingBlock("hm")], "nothing but thoughts")])
def test_what_an_empty_answer_had_is_told(blocks: list[Block], what: str) -> None:
    (notice,) = odd_endings("length", blocks, [], must_call=False)
    assert notice.message.endswith(what)
    assert notice.data == {"label": "length"}
