"""OpenAI Responses, both ways, as OpenAI and everybody else speaks it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from any_agent.events import ModelState, TextDelta, ThinkingDelta, ToolInputDelta, ToolInputStart
from any_agent.profiles import get_profile
from any_agent.types import (
    ImageBlock,
    Message,
    Profile,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
    ToolUseError,
    Usage,
)
from any_agent.wire.assembly import DecodeSettings
from any_agent.wire.request import Request
from any_agent.wire.responses import ResponsesDecoder, encode_responses

from .support import decode, done, named, nulls, sse, tell, told, trouble

OPENAI = get_profile("openai")
CREATED = {"type": "response.created", "response": {"id": "resp_1", "model": "m", "status": "in_progress"}}
USAGE = {"input_tokens": 12, "output_tokens": 6, "total_tokens": 18, "output_tokens_details": {"reasoning_tokens": 4}}
TEXT = "response.output_text"
ARGUMENTS = "response.function_call_arguments"


def event(kind: str, index: Any = None, item_id: Any = None, **fields: Any) -> dict[str, Any]:
    places = {"output_index": index, "item_id": item_id}
    return {"type": kind, **{name: value for name, value in places.items() if value is not None}, **fields}


def added(item: dict[str, Any], index: Any = None) -> dict[str, Any]:
    return event("response.output_item.added", index, item=item)


def finished(item: dict[str, Any], index: Any = None) -> dict[str, Any]:
    return event("response.output_item.done", index, item=item)


def message(*texts: str, id: str = "msg_1") -> dict[str, Any]:
    return {"id": id, "type": "message", "content": [{"type": "output_text", "text": text} for text in texts]}


def function(arguments: Any = "", call_id: Any = "call_1", id: str = "fc_1", name: str = "search") -> dict[str, Any]:
    return {"id": id, "type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def end(*output: dict[str, Any], status: str | None = "completed", **fields: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "model": "m", "status": status, "output": list(output), **fields}
    return {"type": f"response.{status}", "response": response}


# ---- replies


@pytest.mark.row("re_baseline", "B12")
def test_words_thoughts_and_calls_are_told_as_they_come() -> None:
    decoder = ResponsesDecoder()
    assert decoder.feed(named(CREATED, added({"id": "rs", "type": "reasoning"}, 0))) == []
    assert decoder.feed(named(event("response.reasoning_text.delta", 0, delta="hm"))) == [ThinkingDelta("hm")]
    assert decoder.feed(named(added(message(), 1), event(f"{TEXT}.delta", 1, delta="Hi"))) == [TextDelta("Hi")]
    assert decoder.feed(named(added(function(), 2))) == [ToolInputStart("call_1", "search")]
    assert decoder.feed(named(event(f"{ARGUMENTS}.delta", 2, delta='{"q": 1}'))) == [
        ToolInputDelta("call_1", '{"q": 1}')
    ]
    answer = done(decoder.feed(named(finished(function('{"q": 1}'), 2), end(usage=USAGE))))
    assert answer.content == [ThinkingBlock("hm"), TextBlock("Hi"), ToolUseBlock("call_1", "search", {"q": 1})]
    assert (answer.id, answer.model, answer.stop_reason) == ("resp_1", "m", "tool_use")
    assert answer.usage == Usage(12, 6, 18, reasoning_tokens=4)


WAYS: dict[str, list[dict[str, Any]]] = {
    "deltas": [
        added(message(), 0),
        event(f"{TEXT}.delta", 0, delta="He"),
        event(f"{TEXT}.delta", 0, delta="llo"),
        added(function(), 1),
        event(f"{ARGUMENTS}.delta", 1, delta='{"q": '),
        event(f"{ARGUMENTS}.delta", 1, delta="1}"),
    ],
    "done events": [
        added(message(), 0),
        event(f"{TEXT}.done", 0, text="Hello"),
        added(function(), 1),
        event(f"{ARGUMENTS}.done", 1, arguments='{"q": 1}'),
    ],
    "done items": [finished(message("Hello"), 0), finished(function('{"q": 1}'), 1)],
    "snapshot": [],
    "no index": [
        added(message()),
        event(f"{TEXT}.delta", None, "msg_1", delta="Hello"),
        added(function()),
        event(f"{ARGUMENTS}.delta", None, "fc_1", delta='{"q": 1}'),
    ],
    "other ids": [
        added(message(id="a"), 0),
        event(f"{TEXT}.delta", 0, "b", delta="Hello"),
        event(f"{TEXT}.done", 0, "c", text="Hello"),
        added(function(id="d"), 1),
        event(f"{ARGUMENTS}.delta", 1, "e", delta='{"q": 1}'),
        finished(function('{"q": 1}', id="f"), 1),
    ],
}
WAYS["all"] = [
    *WAYS["deltas"],
    *(item for item in WAYS["done events"] if item["type"].endswith("done")),
    *WAYS["done items"],
]


@pytest.mark.row("re_args_done_only", "re_snapshot", "re_no_indices", "re_id_rotation")
@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("snapshot", [True, False])
def test_what_is_said_several_times_counts_once(way: str, snapshot: bool) -> None:
    if way == "snapshot" and not snapshot:
        return
    last = end(message("Hello", id="x"), function('{"q": 1}', call_id="other" if WAYS[way] else "call_1", id="y"))
    found = told("responses", named(CREATED, *WAYS[way], last if snapshot else end()))
    assert (found.text, found.calls, found.ids) == ("Hello", [("search", {"q": 1})], ["call_1"])


@pytest.mark.row("re_snapshot")
def test_an_item_that_only_the_snapshot_has_is_filled_in() -> None:
    streamed = WAYS["deltas"][:3]
    found = told("responses", named(CREATED, *streamed, end(message("Hello"), function('{"q": 1}'))))
    assert (found.text, found.calls) == ("Hello", [("search", {"q": 1})])
    second = function('{"q": 2}', call_id="call_2", id="fc_2")
    found = told("responses", named(CREATED, *WAYS["done items"], end(message("Hello"), function('{"q": 1}'), second)))
    assert found.calls == [("search", {"q": 1}), ("search", {"q": 2})]


@pytest.mark.row("D13", "re_snapshot", "re_args_done_only")
@pytest.mark.parametrize("way", ["whole", "snapshot", "item"])
def test_no_part_of_a_message_is_lost(way: str) -> None:
    item = message("One. ", "Two.")
    bodies = {
        "whole": json.dumps({"id": "resp_1", "status": "completed", "output": [item]}).encode(),
        "snapshot": named(CREATED, end(item)),
        "item": named(CREATED, finished(item, 0), end(item)),
    }
    assert told("responses", bodies[way]).text == "One. Two."


@pytest.mark.row("re_baseline")
def test_several_parts_and_messages_are_told_once() -> None:
    events = [
        event(f"{TEXT}.delta", 0, content_index=0, delta="One. "),
        event(f"{TEXT}.done", 0, content_index=0, text="One. "),
        event(f"{TEXT}.delta", 0, content_index=1, delta="Two. "),
        event(f"{TEXT}.done", 0, content_index=1, text="Two. "),
        finished(message("One. ", "Two. "), 0),
        event(f"{TEXT}.delta", 1, content_index=0, delta="Three."),
        finished(message("Three.", id="msg_2"), 1),
    ]
    found = told("responses", named(CREATED, *events, end(message("One. ", "Two. "), message("Three."))))
    assert found.text == "One. Two. Three."


@pytest.mark.row("re_args_done_only", "tc_args_dict", "tc_args_empty", "tc_id_missing")
@pytest.mark.parametrize("arguments", ["", None, "{}", {}])
def test_a_call_may_have_no_arguments(arguments: Any) -> None:
    found = told("responses", named(CREATED, added(function(arguments), 0), finished(function(arguments), 0), end()))
    assert (found.calls, found.ids) == ([("search", {})], ["call_1"])
    found = told("responses", named(finished(function({"q": 1}, call_id=None), 0), end()))
    assert (found.calls, found.ids) == ([("search", {"q": 1})], ["fc_1"])


@pytest.mark.row("tc_baseline")
def test_calls_may_be_interleaved() -> None:
    two = function(call_id="call_2", id="fc_2")
    events = [
        added(function(), 0),
        added(two, 1),
        event(f"{ARGUMENTS}.delta", 0, delta='{"q"'),
        event(f"{ARGUMENTS}.delta", 1, delta='{"q"'),
        event(f"{ARGUMENTS}.delta", 1, delta=": 2}"),
        event(f"{ARGUMENTS}.delta", 0, delta=": 1}"),
    ]
    assert told("responses", named(CREATED, *events, end())).calls == [("search", {"q": 1}), ("search", {"q": 2})]


@pytest.mark.row("re_reasoning", "reasoning_dup")
def test_thoughts_are_told_once_and_their_parts_apart() -> None:
    summary = "response.reasoning_summary_text.delta"
    item = {"id": "rs", "type": "reasoning", "summary": [{"text": "One"}, {"text": "Two"}], "encrypted_content": "x"}
    events = [
        event(summary, 0, summary_index=0, delta="On"),
        event(summary, 0, summary_index=0, delta="e"),
        event("response.reasoning_text.delta", 0, delta="not twice"),
        event(summary, 0, summary_index=1, delta="Two"),
        finished(item, 0),
        event(f"{TEXT}.delta", 1, delta="Hi"),
    ]
    answer = done(decode("responses", named(CREATED, *events, end(item, message("Hi")))))
    thought, words = answer.content
    assert (thought, words) == (ThinkingBlock("One\n\nTwo"), TextBlock("Hi"))
    assert isinstance(thought, ThinkingBlock)
    assert thought.extra == {"reasoning_item": item}


@pytest.mark.row("re_reasoning", "D13")
@pytest.mark.parametrize(
    "fields",
    [
        {"summary": [{"text": "One"}, {"text": "Two"}]},
        {"summary": [], "content": [{"text": "One"}, {"text": "Two"}, {}]},
    ],
)
def test_thoughts_that_come_only_at_the_end_are_told(fields: dict[str, Any]) -> None:
    item = {"id": "rs", "type": "reasoning", **fields}
    for body in (named(CREATED, finished(item, 0), end(item)), named(CREATED, end(item))):
        assert told("responses", body).thinking == "One\n\nTwo"
    empty = {"id": "rs", "type": "reasoning", "summary": []}
    assert done(decode("responses", named(finished(empty, 0), *WAYS["deltas"], end()))).thinking is None


@pytest.mark.row("re_reasoning")
def test_hidden_thoughts_are_kept_for_the_next_request() -> None:
    item = {"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "x"}
    for body in (
        named(finished(item, 0), event(f"{TEXT}.delta", 1, delta="Hi"), end()),
        named(end(item, message("Hi"))),
    ):
        thought, words = done(decode("responses", body)).content
        assert isinstance(thought, ThinkingBlock)
        assert (thought.thinking, thought.extra, words) == ("", {"reasoning_item": item}, TextBlock("Hi"))


@pytest.mark.row("refusal")
@pytest.mark.parametrize("way", ["delta", "done", "item", "snapshot"])
def test_a_refusal_is_told_and_is_the_reason(way: str) -> None:
    item = {"id": "msg_1", "type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    ways = {
        "delta": [event("response.refusal.delta", 0, delta="No."), event("response.refusal.done", 0, refusal="No.")],
        "done": [event("response.refusal.done", 0, refusal="No.")],
        "item": [finished(item, 0)],
        "snapshot": [],
    }
    found = told("responses", named(CREATED, *ways[way], end(item)))
    assert (found.text, found.stop_reason) == ("No.", "refusal")


@pytest.mark.row("re_status", "D2")
@pytest.mark.parametrize(
    ("status", "details", "reason"),
    [
        ("completed", None, "end_turn"),
        ("incomplete", {"reason": "max_output_tokens"}, "max_tokens"),
        ("incomplete", {"reason": "content_filter"}, "content_filter"),
        ("completed", {"reason": None}, "end_turn"),
        (None, None, "end_turn"),
    ],
)
def test_reasons_to_stop(status: str | None, details: Any, reason: str) -> None:
    last = {**end(status=status, incomplete_details=details), "type": f"response.{status or 'done'}"}
    found = told("responses", named(CREATED, event(f"{TEXT}.delta", 0, delta="Hi"), last))
    assert (found.text, found.stop_reason) == ("Hi", reason)


@pytest.mark.row("re_status")
@pytest.mark.parametrize(
    ("limit", "reason"), [(6, "max_tokens"), (5, "max_tokens"), (7, "end_turn"), (None, "end_turn")]
)
def test_a_server_that_always_says_completed_is_not_believed(limit: int | None, reason: str) -> None:
    body = named(CREATED, event(f"{TEXT}.delta", 0, delta="Hi"), end(usage=USAGE))
    assert told("responses", body, DecodeSettings(max_tokens=limit)).stop_reason == reason
    without = named(CREATED, event(f"{TEXT}.delta", 0, delta="Hi"), end())
    assert told("responses", without, DecodeSettings(max_tokens=limit)).stop_reason == "end_turn"


FAULT = {"code": "insufficient_quota", "message": "You exceeded your current quota."}


@pytest.mark.row("re_error", "error_in_stream")
@pytest.mark.parametrize(
    "events",
    [
        [{"type": "error", **FAULT}],
        [{"type": "error", "error": FAULT}],
        [{"type": "response.failed", "response": {"status": "failed", "error": FAULT}}],
        [{"type": "response.completed", "response": {"error": FAULT}}],
        [{"type": "error", "error": FAULT}, {"type": "response.failed", "response": {"error": FAULT}}],
        [{"error": FAULT}],
        [[{"error": FAULT}]],
    ],
)
def test_an_error_is_told_once_in_whatever_form(events: list[Any]) -> None:
    found = told("responses", sse(CREATED, event(f"{TEXT}.delta", 0, delta="Part"), *events))
    assert (found.text, found.error) == ("Part", "quota")
    assert "exceeded" in found.message


@pytest.mark.row("re_error")
def test_a_failure_without_words_still_says_something() -> None:
    found = told("responses", sse(CREATED, end(status="failed", error=None)))
    assert found.error == "server_error"
    assert found.message.strip()


@pytest.mark.row("re_unknown", "an_event_lines")
@pytest.mark.parametrize(
    "odd",
    [
        {"type": "response.in_progress", "response": {"id": "other"}},
        {"type": "response.web_search_call.searching", "output_index": 0},
        {"type": "keepalive", "sequence_number": 3},
        {"type": ["x"]},
        {"type": f"{TEXT}.delta", "delta": None},
        {"type": f"{TEXT}.delta", "delta": {"text": "x"}},
        {"type": f"{TEXT}.annotation.added", "annotation": {}},
        added({"type": "web_search_call", "id": "ws"}, 0),
        added({}, 0),
        {"type": "response.output_item.done"},
        {"type": "response.created"},
        {},
        [],
        5,
    ],
)
def test_odd_events_change_nothing(odd: Any) -> None:
    body = sse(CREATED, odd, *WAYS["deltas"], odd, end(), done=False)
    answer = done(decode("responses", body))
    assert (answer.text, answer.id, answer.model) == ("Hello", "resp_1", "m")
    assert answer.tool_calls == [ToolUseBlock("call_1", "search", {"q": 1})]


@pytest.mark.parametrize("key", [[1], {"a": 1}, "x", 1.5, True])
@pytest.mark.parametrize("name", ["output_index", "item_id"])
def test_an_odd_key_of_an_item_does_not_raise(name: str, key: Any) -> None:
    events = [{**item, name: key} for item in WAYS["all"]]
    bare = [{field: value for field, value in item.items() if field != "output_index"} for item in events]
    for given in (events, bare if name == "item_id" else events):
        assert trouble("responses", sse(CREATED, *given, end())) == ""


@pytest.mark.row("eof_truncated", "E11")
def test_a_stream_without_its_last_event_is_cut() -> None:
    found = told("responses", named(CREATED, *WAYS["deltas"]))
    assert (found.text, found.calls, found.error) == ("Hello", [], "stream_truncated")


@pytest.mark.row("an_event_lines")
def test_the_sentinel_of_another_protocol_may_follow() -> None:
    assert told("responses", sse(CREATED, *WAYS["deltas"], end(), done=True)).text == "Hello"
    found = told("responses", sse(CREATED, *WAYS["deltas"], done=True))
    assert (found.text, found.notices) == ("Hello", ["no_finish_reason"])


@pytest.mark.row("E2", "D4")
def test_the_progress_and_the_speed_that_llamacpp_tells_are_read() -> None:
    progress = {"type": "response.in_progress", "prompt_progress": {"total": 200, "processed": 50}}
    timed = {**end(usage=USAGE), "timings": {"predicted_per_second": 12.5}}
    events = decode("responses", sse(CREATED, progress, *WAYS["deltas"], timed))
    assert ModelState("prefill", 0.25) in events
    usage = done(events).usage
    assert usage is not None
    assert usage.tokens_per_s == 12.5


@pytest.mark.row("D13", "json_not_sse")
def test_a_whole_reply_gives_what_a_stream_gives() -> None:
    thought = {"id": "rs", "type": "reasoning", "summary": [{"text": "hm"}]}
    body = {**end(thought, message("Hi"), function('{"q": 1}'), usage=USAGE)["response"], "error": None}
    events = decode("responses", json.dumps(body).encode())
    found = tell(events)
    assert (found.thinking, found.text, found.calls, found.ids) == ("hm", "Hi", [("search", {"q": 1})], ["call_1"])
    assert (found.stop_reason, found.usage) == ("tool_use", {"input": 12, "output": 6})
    assert done(events).raw == body
    failed = {**body, "status": "failed", "error": {"code": "server_error", "message": "Oops"}}
    assert told("responses", json.dumps(failed).encode()).error == "server_error"
    assert told("responses", b'{"object": "list"}').stop_reason == "error"
    cut = {**body, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    assert told("responses", json.dumps(cut).encode()).stop_reason == "max_tokens"


# ---- requests

HI = Message("user", "hi")
IMAGE = ImageBlock.from_bytes(b"GIF89a")
SEARCH = ToolSpec("search", "Searches.", {"type": "object", "properties": {"q": {"type": "string"}}})
CALL = ToolUseBlock("call_1", "search", {"q": "ü"})
ITEM = {"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "x"}


def encode(*messages: Any, profile: Profile = OPENAI, stream: bool = False, **settings: Any) -> dict[str, Any]:
    return encode_responses(Request("m", list(messages), stream=stream, **settings), profile).body


@pytest.mark.row("A2")
def test_only_what_was_asked_for_is_sent_and_nothing_is_stored() -> None:
    assert encode(HI) == {"model": "m", "input": [{"role": "user", "content": "hi"}], "store": False}
    assert encode(HI, stream=True)["stream"] is True


@pytest.mark.row("D8", "req_max_tokens")
def test_settings_are_sent_under_their_names() -> None:
    body = encode(HI, temperature=0.0, top_p=0.5, max_tokens=9, extra={"truncation": "auto", "store": True})
    assert (body["temperature"], body["top_p"], body["max_output_tokens"], body["truncation"]) == (0.0, 0.5, 9, "auto")
    assert body["store"] is True
    encoded = encode_responses(Request("m", [HI], stop=["x"], seed=1), OPENAI)
    assert not {"stop", "seed"} & set(encoded.body)
    assert {notice.kind for notice in encoded.notices} == {"stop_unsupported", "seed_unsupported"}


@pytest.mark.row("D7")
def test_system_texts_are_instructions() -> None:
    body = encode(Message("system", "a"), HI, Message("system", [TextBlock("b")]))
    assert body["instructions"] == "a\n\nb"
    assert body["input"] == [{"role": "user", "content": "hi"}]
    assert "instructions" not in encode(Message("system", ""), HI)


@pytest.mark.row("D5", "req_empty_text_part")
def test_text_alone_is_a_string_and_images_are_parts_in_order() -> None:
    assert encode(Message("user", [TextBlock("a"), TextBlock(""), TextBlock("b")]))["input"][0]["content"] == "a\n\nb"
    link = ImageBlock.from_url("https://example.org/cat.png")
    assert encode(Message("user", [IMAGE, TextBlock("What?"), link]))["input"][0]["content"] == [
        {"type": "input_image", "image_url": "data:image/gif;base64,R0lGODlh"},
        {"type": "input_text", "text": "What?"},
        {"type": "input_image", "image_url": "https://example.org/cat.png"},
    ]
    with pytest.raises(ValueError, match="from_path"):
        encode(Message("user", [link]), profile=get_profile("llamacpp"))


@pytest.mark.row("D5", "D6", "A21", "req_history_args", "req_tool_content_list")
def test_calls_and_results_are_items() -> None:
    answer = Message("assistant", [ThinkingBlock("", extra={"reasoning_item": ITEM}), TextBlock("Look."), CALL])
    results = Message("tool", [ToolResultBlock("call_1", [TextBlock("see"), IMAGE])])
    assert encode(HI, answer, results, Message("assistant", "Nice."))["input"][1:] == [
        ITEM,
        {"role": "assistant", "content": [{"type": "output_text", "text": "Look."}]},
        {"type": "function_call", "call_id": "call_1", "name": "search", "arguments": '{"q": "ü"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "see"},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/gif;base64,R0lGODlh"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Nice."}]},
    ]


@pytest.mark.row("A24", "req_unanswered_calls")
def test_a_missing_result_is_filled_in_and_told() -> None:
    encoded = encode_responses(Request("m", [HI, Message("assistant", [CALL]), HI]), OPENAI)
    assert [item.get("type") for item in encoded.body["input"]] == [None, "function_call", "function_call_output", None]
    assert [notice.kind for notice in encoded.notices] == ["missing_results"]


@pytest.mark.row("req_empty_assistant")
@pytest.mark.parametrize("content", ["", [], [ThinkingBlock("hm")], [ToolUseError("x")], [IMAGE]])
def test_empty_turns_are_not_sent(content: Any) -> None:
    assert encode(HI, Message("assistant", content))["input"] == [{"role": "user", "content": "hi"}]


@pytest.mark.row("D8")
def test_tools_are_functions() -> None:
    assert encode(HI, tools=[SEARCH])["tools"] == [
        {"type": "function", "name": "search", "description": "Searches.", "parameters": SEARCH.parameters}
    ]
    assert "tools" not in encode(HI)


@pytest.mark.row("D8", "req_tool_choice")
@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("any", "required"),
        ("required", "required"),
        ("search", {"type": "function", "name": "search"}),
        ({"type": "function", "function": {"name": "search"}}, {"type": "function", "name": "search"}),
        ({"type": "web_search"}, {"type": "web_search"}),
    ],
)
def test_the_choice_of_a_tool_is_in_the_words_of_this_protocol(choice: Any, expected: Any) -> None:
    assert encode(HI, tools=[SEARCH], tool_choice=choice)["tool_choice"] == expected


@pytest.mark.row("B20")
def test_the_form_of_the_output_is_asked_for() -> None:
    form = {"type": "json_schema", "name": "output", "schema": SEARCH.parameters}
    assert encode(HI, output_schema=SEARCH.parameters)["text"] == {"format": form}
    assert "text" not in encode(HI)


@pytest.mark.row("re_reasoning")
def test_thinking_is_asked_for_in_the_words_of_this_protocol() -> None:
    body = encode(HI, thinking=True)
    assert body["reasoning"] == {"effort": "medium"}
    assert body["include"] == ["reasoning.encrypted_content"]
    assert "reasoning_effort" not in body
    local = encode(HI, thinking=False, profile=get_profile("llamacpp"))
    assert local["chat_template_kwargs"] == {"enable_thinking": False}
    encoded = encode_responses(Request("m", [HI], thinking=True), Profile("generic"))
    assert [notice.kind for notice in encoded.notices] == ["thinking_unsupported"]


@pytest.mark.row("A2", "req_null_fields")
def test_no_field_is_ever_null() -> None:
    messages = [
        Message("system", "s"),
        HI,
        Message("assistant", [ThinkingBlock("hm", extra={"a": None}), TextBlock("a"), CALL, ToolUseError("x")]),
        Message("tool", [ToolResultBlock("call_1", None)]),
        Message("assistant", [ThinkingBlock("only")]),
    ]
    full: dict[str, Any] = {
        "tools": [SEARCH],
        "temperature": 0,
        "stop": ["x"],
        "thinking": True,
        "output_schema": {},
        "seed": 1,
    }
    for settings in ({}, full):
        for name in ("openai", "llamacpp", "lmstudio", "vllm", "generic"):
            body = encode(*messages, profile=get_profile(name), **settings)
            assert nulls(body) == []
            assert json.loads(json.dumps(body)) == body
