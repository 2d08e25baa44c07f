"""Chat Completions as everybody sends them: what of a chunk counts, and what does not."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from any_agent import ToolCallAggregator
from any_agent.events import ModelState
from any_agent.types import ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock, ToolUseError, Usage
from any_agent.wire.openai_chat import OpenAIChatDecoder, read_chunk

from .support import call, chat, chunk, decode, done, pieces, sse, told

WEATHER = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
OSLO = ("get_weather", {"city": "Oslo"})


def whole(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> bytes:
    """A reply that is no stream."""
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps(
        {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": [choice], **more}
    ).encode()


@pytest.mark.row("A9", "B12", "tc_text_and_tool", "D9")
@pytest.mark.parametrize(
    "fields",
    [
        {"tool_calls": [{"index": 0, **WEATHER}]},
        {"function_call": WEATHER["function"]},
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"thinking": "hm"},
        {"thinking_content": "hm"},
        {"thought": "hm"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
@pytest.mark.parametrize("body", [lambda delta: chat(delta), whole], ids=["stream", "whole"])
def test_what_stands_beside_the_text_is_not_lost(fields: dict[str, Any], body: Any) -> None:
    for content in ("Hi", [{"type": "text", "text": "Hi"}]):
        found = told("openai", body({"content": content, **fields}))
        assert found.text == "Hi"
        assert found.thinking == "hm" or found.calls == [OSLO]


@pytest.mark.row("an_signature", "reasoning_details", "images_delta", "refusal")
def test_rare_fields_beside_the_text_are_not_lost() -> None:
    picture = {"image_url": {"url": "data:image/gif;base64," + base64.b64encode(b"GIF89a").decode()}}
    detail = {"type": "reasoning.encrypted", "data": "x"}
    blocks = [{"type": "thinking", "thinking": "", "signature": "sig"}]
    answer = done(decode("openai", chat({"content": "Hi", "images": [picture], "reasoning_details": [detail]})))
    assert any(isinstance(block, ImageBlock) for block in answer.content)
    assert any(
        isinstance(block, ThinkingBlock) and block.extra == {"reasoning_details": [detail]} for block in answer.content
    )
    signed = done(decode("openai", chat({"reasoning_content": "hm"}, {"content": "Hi", "thinking_blocks": blocks})))
    assert signed.content == [ThinkingBlock("hm", "sig"), TextBlock("Hi")]
    refused = told("openai", chat({"content": "Hi. ", "refusal": "No."}))
    assert refused.stop_reason == "refusal"
    assert "Hi." in refused.text
    assert "No." in refused.text


@pytest.mark.row("reasoning_dup")
def test_the_first_field_with_a_thought_counts_and_the_same_thought_is_not_told_twice() -> None:
    delta = {"reasoning_content": "", "reasoning": "hm", "thinking": "hm", "reasoning_details": [{"text": "hm"}]}
    assert told("openai", chat(delta, {"content": "Hi"})).thinking == "hm"


@pytest.mark.row("reasoning_details")
def test_details_are_kept_and_told_if_nothing_else_is() -> None:
    details = [{"type": "reasoning.summary", "summary": "hm"}, {"type": "reasoning.encrypted", "data": "x"}]
    answer = done(
        decode(
            "openai", chat({"reasoning_details": details[:1]}, {"reasoning_details": details[1:]}, {"content": "Hi"})
        )
    )
    (thought, _) = answer.content
    assert isinstance(thought, ThinkingBlock)
    assert (thought.thinking, thought.extra) == ("hm", {"reasoning_details": details})


@pytest.mark.row("reasoning_details")
def test_every_detail_of_a_delta_is_told() -> None:
    details = [{"type": "reasoning.summary", "summary": "one "}, {"type": "reasoning.text", "text": "two"}]
    assert told("openai", chat({"reasoning_details": details}, {"content": "Hi"})).thinking == "one two"


@pytest.mark.row("reasoning_field", "null_fields")
@pytest.mark.parametrize("thought", [None, "", 5, {"a": 1}, ["x"]])
def test_a_thought_that_is_no_text_is_none(thought: Any) -> None:
    assert told("openai", chat({"reasoning_content": thought, "thinking": thought, "content": "Hi"})).thinking == ""


@pytest.mark.row("content_parts")
def test_content_parts_are_told_apart_by_what_they_are() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "a"}, {"type": "odd"}, {"text": "b"}]},
        {"type": "thinking", "thinking": "c"},
        {"type": "text", "text": "Hi"},
        {"type": "output_text", "text": " you"},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": None},
        "!",
        None,
    ]
    found = told("openai", chat({"content": parts}))
    assert (found.thinking, found.text) == ("abc", "Hi you!")
    found = told("openai", chat({"content": {"type": "text", "text": "one"}}))
    assert found.text == "one"


@pytest.mark.row("images_delta", "content_parts")
@pytest.mark.parametrize("place", ["images", "content"])
def test_pictures_are_blocks(place: str) -> None:
    url = "data:image/gif;base64," + base64.b64encode(b"GIF89a").decode()
    for source in ({"url": url}, url):
        answer = done(decode("openai", chat({place: [{"type": "image_url", "image_url": source}]})))
        assert answer.content == [ImageBlock.from_url(url)]
    assert done(decode("openai", chat({"images": [{"image_url": 5}], "content": "Hi"}))).content == [TextBlock("Hi")]


@pytest.mark.row("refusal")
def test_a_refusal_is_told_and_is_the_reason() -> None:
    found = told("openai", chat({"content": None, "refusal": ""}, {"refusal": "I "}, {"refusal": "can't."}))
    assert (found.text, found.stop_reason) == ("I can't.", "refusal")
    assert told("openai", chat({"content": "Hi", "refusal": None})).stop_reason == "end_turn"


@pytest.mark.row("message_not_delta", "D13")
def test_a_message_counts_only_if_no_delta_brought_text() -> None:
    final = {"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]}
    assert told("openai", sse(chunk({"content": "Hel"}), chunk({"content": "lo"}), final)).text == "Hello"
    assert told("openai", sse(final)).text == "Hello"
    both = {
        "choices": [
            {"index": 0, "delta": {"content": "Hello"}, "message": {"content": "Hello"}, "finish_reason": "stop"}
        ]
    }
    assert told("openai", sse(both)).text == "Hello"


@pytest.mark.row("message_not_delta")
def test_messages_may_grow_from_chunk_to_chunk() -> None:
    def message(text: str, finish: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": finish}]}

    assert told("openai", sse(message("Hel"), message("Hello"), message("Hello you", "stop"))).text == "Hello you"
    assert told("openai", sse(message("Hel"), message("lo"), message("!", "stop"))).text == "Hello!"


@pytest.mark.row("message_not_delta", "text_tool_calls_guard")
@pytest.mark.parametrize("number", [1, 2])
def test_calls_that_the_last_message_repeats_are_not_run_twice(number: int) -> None:
    calls = [{**WEATHER, "id": f"c{place}"} for place in range(number)]
    deltas = [chunk({"tool_calls": [{"index": place, **item}]}) for place, item in enumerate(calls)]
    final = {
        "choices": [{"index": 0, "message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}]
    }
    found = told("openai", sse(*deltas, final))
    assert found.calls == [OSLO] * number
    assert found.ids == [item["id"] for item in calls]


@pytest.mark.row("message_not_delta", "B12")
def test_thoughts_that_the_last_message_repeats_are_not_told_twice() -> None:
    final = {
        "choices": [{"index": 0, "message": {"reasoning_content": "hm", "content": "Hi"}, "finish_reason": "stop"}]
    }
    assert told("openai", sse(chunk({"reasoning_content": "hm"}), chunk({"content": "Hi"}), final)).thinking == "hm"
    assert told("openai", sse(chunk({"reasoning_content": "hm"}), final)).thinking == "hm"


@pytest.mark.row("D13", "json_not_sse")
@pytest.mark.parametrize("finish", ["tool_calls", "stop", None])
def test_a_whole_reply_gives_what_a_stream_gives(finish: str | None) -> None:
    message = {"role": "assistant", "content": "Look.", "reasoning_content": "hm", "tool_calls": [WEATHER]}
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    body = whole(message, finish, usage=usage)
    for parts in ([body], pieces(body, 1)):
        found = told("openai", parts)
        assert (found.text, found.thinking, found.calls, found.ids) == ("Look.", "hm", [OSLO], ["c1"])
        assert (found.stop_reason, found.usage) == ("tool_use", {"input": 3, "output": 4})
    answer = done(decode("openai", body))
    assert (answer.id, answer.model, answer.raw["usage"]) == ("chatcmpl-1", "m", usage)


@pytest.mark.row("D13", "done_no_finish")
def test_a_whole_reply_with_calls_alone_is_whole_without_a_label() -> None:
    for message in ({"content": None, "tool_calls": [WEATHER]}, {"content": "", "function_call": WEATHER["function"]}):
        assert told("openai", whole(message, None)).calls == [OSLO]


@pytest.mark.row("D11", "D13")
@pytest.mark.parametrize(
    "message",
    [
        {"content": "Hi", "tool_calls": None},
        {"content": "Hi", "tool_calls": [], "function_call": None, "audio": None, "refusal": None},
        {"content": [{"type": "text", "text": "Hi"}]},
    ],
)
def test_empty_fields_of_a_whole_reply_are_nothing(message: dict[str, Any]) -> None:
    found = told("openai", whole(message))
    assert (found.text, found.calls, found.usage, found.stop_reason) == ("Hi", [], None, "end_turn")


@pytest.mark.row("D11", "E11")
@pytest.mark.parametrize("choices", [[], None])
def test_a_whole_reply_without_choices_is_no_success(choices: Any) -> None:
    assert told("openai", json.dumps({"choices": choices}).encode()).stop_reason == "error"


@pytest.mark.row("D13")
def test_calls_of_a_whole_reply_need_no_ids_and_no_index() -> None:
    calls = [{"function": WEATHER["function"]}, {"function": {"name": "search"}}, {"function": {"name": "search"}}]
    found = told("openai", whole({"content": None, "tool_calls": calls}, "tool_calls"))
    assert found.calls == [OSLO, ("search", {}), ("search", {})]


@pytest.mark.row("null_fields", "role_every_chunk", "content_null", "choices_null", "foreign_event", "empty_event")
@pytest.mark.parametrize(
    "foreign",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [{}]},
        {"choices": [{"index": 0}]},
        {"choices": [{"index": 0, "delta": None, "finish_reason": None, "content_filter_results": {}}]},
        {"choices": [None, 5]},
        {"choices": [{"delta": "text"}]},
        {"choices": [{"delta": {"tool_calls": [None, 5]}}]},
        {"choices": "none", "id": 5},
        {"type": "mcp_tool_result", "result": "x"},
        {"object": "chat.completion", "choices": []},
        [1, 2],
        5,
        chunk({"role": "assistant", "content": None, "tool_calls": None, "function_call": None, "audio": None}),
        chunk({"role": "assistant", "content": ""}),
        {"choices": [], "usage": None},
    ],
)
def test_chunks_that_say_nothing_change_nothing(foreign: Any) -> None:
    body = sse(foreign, chunk({"content": "Hel"}), foreign, chunk({"content": "lo"}, "stop"), foreign)
    found = told("openai", body)
    assert (found.text, found.stop_reason, found.usage, found.notices) == ("Hello", "end_turn", None, [])


@pytest.mark.row("choice_index")
def test_only_the_first_choice_counts() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "uno"}, "finish_reason": "length"}]}
    found = told("openai", sse(chunk({"content": "one"}), other, chunk({}, "stop"), other))
    assert (found.text, found.stop_reason) == ("one", "end_turn")


@pytest.mark.row("chunk_id_changes", "choices_empty_first")
def test_the_first_id_and_model_of_a_chunk_with_choices_count() -> None:
    first = {"choices": [], "id": "filter", "model": "router", "prompt_filter_results": []}
    second = {**chunk({"content": "b"}, "stop"), "id": "other", "model": "other"}
    answer = done(decode("openai", sse(first, chunk({"content": "a"}), second)))
    assert (answer.id, answer.model) == ("chatcmpl-1", "m")


@pytest.mark.row("finish_empty_string", "finish_null_string", "finish_key_absent", "done_no_finish")
@pytest.mark.parametrize("finish", ["", "null", None])
def test_no_label_in_every_form_is_none(finish: str | None) -> None:
    found = told("openai", sse(chunk({"content": "Hi"}, finish)))
    assert (found.stop_reason, found.notices) == ("end_turn", ["no_finish_reason"])
    assert told("openai", sse(chunk({"content": "Hi"}, finish), done=False)).error == "stream_truncated"


@pytest.mark.row("finish_other", "finish_same_chunk")
@pytest.mark.parametrize(
    ("label", "reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "content_filter"), ("eos", "end_turn")],
)
@pytest.mark.parametrize("key", ["finish_reason", "finishReason"])
def test_a_label_counts_after_the_words_of_its_chunk(key: str, label: str, reason: str) -> None:
    body = sse({"choices": [{"index": 0, "delta": {"content": "Hi"}, key: label}]}, done=False)
    found = told("openai", body)
    assert (found.text, found.stop_reason) == ("Hi", reason)
    assert done(decode("openai", body)).raw_stop_reason == label


@pytest.mark.row("finish_every_chunk", "double_finish")
def test_a_label_ends_nothing() -> None:
    found = told("openai", sse(chunk({"content": "a"}, "stop"), chunk({"content": "b"}, "stop"), chunk({}, "stop")))
    assert found.text == "ab"
    found = told(
        "openai", sse(chunk({"content": "a"}, "stop"), chunk(call("{}", "search", "c1"), "stop"), chunk({}, "stop"))
    )
    assert found.calls == [("search", {})]


@pytest.mark.row("finish_error")
@pytest.mark.parametrize(
    ("choice", "kind"),
    [
        ({"finish_reason": "error"}, "server_error"),
        ({"finish_reason": "ERROR"}, "server_error"),
        ({"finish_reason": "network_error"}, "server_error"),
        ({"finish_reason": "abort"}, "aborted"),
        ({"finish_reason": "stop", "native_finish_reason": "error"}, "server_error"),
        ({"finish_reason": "stop", "native_finish_reason": "network_error"}, "server_error"),
    ],
)
def test_some_labels_are_errors(choice: dict[str, Any], kind: str) -> None:
    found = told("openai", sse(chunk({"content": "Part"}), {"choices": [{"index": 0, "delta": {}, **choice}]}))
    assert (found.text, found.error) == ("Part", kind)


@pytest.mark.row("finish_error")
def test_a_native_label_that_is_none_changes_nothing() -> None:
    for native in (None, "stop", "STOP", 5):
        assert (
            told("openai", sse(chunk({"content": "Hi"}, "stop", native_finish_reason=native))).stop_reason == "end_turn"
        )


@pytest.mark.row("finish_stop_reason_field")
@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("stop_reason", "END", "stop_sequence"),
        ("matched_stop", "END", "stop_sequence"),
        ("stop_reason", 151645, "end_turn"),
        ("matched_stop", 151645, "end_turn"),
        ("stop_reason", None, "end_turn"),
    ],
)
def test_a_stop_string_is_told_from_a_stop_token(field: str, value: Any, reason: str) -> None:
    assert told("openai", sse(chunk({"content": "Hi"}, "stop", **{field: value}))).stop_reason == reason


@pytest.mark.row("usage_final_empty_choices", "usage_in_finish_chunk", "usage_after_finish", "usage_every_chunk")
@pytest.mark.parametrize("place", ["own chunk", "finish chunk", "after finish", "every chunk"])
def test_usage_is_read_wherever_it_stands(place: str) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    first, last = chunk({"content": "Hi"}), chunk({}, "stop")
    bodies = {
        "own chunk": [first, last, {"choices": [], "usage": usage}],
        "finish chunk": [first, {**last, "usage": usage}],
        "after finish": [first, last, {**chunk({"content": ""}), "usage": usage}],
        "every chunk": [
            {**first, "usage": {**usage, "completion_tokens": 1, "total_tokens": 4}},
            {**last, "usage": usage},
        ],
    }
    answer = done(decode("openai", sse(*bodies[place])))
    assert answer.usage == Usage(3, 4, 7)
    assert answer.text == "Hi"


@pytest.mark.row("usage_x_groq")
def test_usage_of_groq_is_read_if_there_is_no_other() -> None:
    x_groq = {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    assert told("openai", sse({**chunk({"content": "Hi"}, "stop"), "x_groq": x_groq})).usage == {
        "input": 3,
        "output": 4,
    }
    own = {"prompt_tokens": 5, "completion_tokens": 6}
    both = {**chunk({"content": "Hi"}, "stop"), "x_groq": x_groq, "usage": own}
    assert told("openai", sse(both)).usage == {"input": 5, "output": 6}


@pytest.mark.row("D4", "E2")
def test_the_speed_that_llamacpp_tells_is_kept() -> None:
    for timings, rate in (({"predicted_per_second": 12.5}, 12.5), ({"predicted_per_second": "x"}, None), ([], None)):
        usage = {"prompt_tokens": 3, "completion_tokens": 4}
        answer = done(decode("openai", sse({**chunk({"content": "Hi"}, "stop"), "timings": timings, "usage": usage})))
        assert answer.usage is not None
        assert answer.usage.tokens_per_s == rate


@pytest.mark.row("E2")
@pytest.mark.parametrize(
    ("progress", "states"),
    [
        ({"total": 200, "processed": 50}, [ModelState("prefill", 0.25)]),
        ({"total": 200, "processed": 500}, [ModelState("prefill", 1.0)]),
        ({"total": 200, "processed": -5}, [ModelState("prefill", 0.0)]),
        ({"total": 0, "processed": 0}, []),
        ({"total": "many", "processed": 50}, []),
        ({"total": 200}, []),
        ([1], []),
    ],
)
def test_the_progress_that_llamacpp_tells_is_an_event(progress: Any, states: list[ModelState]) -> None:
    decoder = OpenAIChatDecoder()
    assert decoder.feed(sse({"choices": [], "prompt_progress": progress}, done=False)) == states


@pytest.mark.row("an_signature")
@pytest.mark.parametrize("signature", ["", None, 5])
def test_thinking_blocks_without_a_signature_change_nothing(signature: Any) -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": signature}]
    answer = done(decode("openai", chat({"reasoning_content": "hm", "thinking_blocks": blocks}, {"content": "Hi"})))
    assert answer.content == [ThinkingBlock("hm"), TextBlock("Hi")]


@pytest.mark.row("error_200_json")
def test_a_whole_reply_may_be_an_error() -> None:
    for body in (b'{"error": {"message": "busy", "code": 503}}', b'[{"error": {"message": "busy", "code": 503}}]'):
        assert told("openai", body).error == "overloaded"


@pytest.mark.row("error_in_stream", "error_200_json")
@pytest.mark.parametrize(
    "payload",
    [
        {"error": {"message": "busy", "code": 503}},
        {"error": {"message": "busy", "code": 503}, "choices": []},
        {"error": {"message": "busy", "code": 503}, **chunk({"content": ""}, "error")},
        {"object": "error", "message": "busy", "code": 503},
        {"type": "error", "message": "busy", "code": "503"},
        [{"error": {"message": "busy", "code": 503}}],
        {"error": {"message": "busy", "code": 503}, "choices": "odd"},
    ],
)
def test_an_error_ends_the_stream_and_keeps_the_words(payload: Any) -> None:
    found = told("openai", sse(chunk({"content": "Part"}), payload, chunk({"content": "more"}, "stop")))
    assert (found.text, found.error) == ("Part", "overloaded")
    assert "busy" in found.message


def test_an_error_that_is_empty_is_none() -> None:
    for error in (None, {}, ""):
        assert told("openai", sse({**chunk({"content": "Hi"}, "stop"), "error": error})).text == "Hi"


@pytest.mark.row("done_no_newline", "missing_done")
@pytest.mark.parametrize("end", ["data: [DONE]\n\n", "data: [DONE]", "data:[DONE]\n\n", "data:  [DONE] \n\n", ""])
def test_the_sentinel_may_be_written_otherwise_or_be_missing(end: str) -> None:
    assert told("openai", sse(chunk({"content": "Hi"}, "stop"), done=False) + end.encode()).text == "Hi"


@pytest.mark.row("tc_object_not_list", "finish_function_call")
def test_calls_may_be_an_object_or_of_the_old_form() -> None:
    assert told("openai", chat({"tool_calls": {"index": 0, **WEATHER}})).calls == [OSLO]
    old = [
        {"function_call": {"name": "get_weather", "arguments": '{"city": '}},
        {"function_call": {"arguments": '"Oslo"}'}},
    ]
    assert told("openai", chat(*old, finish="function_call")).calls == [OSLO]
    assert told("openai", chat({"tool_calls": [{"index": 0, "id": "x", **WEATHER["function"]}]})).calls == [OSLO]


@pytest.mark.row("extra_content", "req_thought_signature")
def test_what_is_opaque_is_kept_with_the_call() -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    first = {"tool_calls": [{"index": 0, **WEATHER}]}
    answer = done(decode("openai", chat(first, {"tool_calls": [{"index": 0, "extra_content": extra}]})))
    assert answer.tool_calls[0].extra == {"extra_content": extra}


# ---- the chunks of the OpenAI SDK, and this library's own


def aggregate(*chunks: Any, **settings: Any) -> tuple[str, list[ToolUseBlock | ToolUseError]]:
    aggregator = ToolCallAggregator(**settings)
    texts = [aggregator.process_chunk(item) for item in chunks]
    return "".join(block.text for block in texts if block is not None), aggregator.finalize_tools()


PARIS = [
    chunk(call('{"q": "par', "search", "call_abc")),
    chunk(call('is"}')),
    {"choices": [{"index": 0, "finish_reason": "tool_calls"}]},
]


@pytest.mark.row("A8", "A12")
def test_fragments_of_a_call_are_put_together() -> None:
    expected = ("", [ToolUseBlock("call_abc", "search", {"q": "paris"})])
    assert aggregate(*PARIS) == expected
    assert aggregate(*map(read_chunk, PARIS)) == expected


@pytest.mark.row("A8")
def test_chunks_of_the_openai_sdk_are_read_alike() -> None:
    from openai.types.chat import ChatCompletionChunk

    delta = {**call('{"q": "paris"}', "search", "call_abc"), "content": "Look."}
    known = {"created": 0, "object": "chat.completion.chunk"}
    chunks = [ChatCompletionChunk.model_validate({**chunk(item), **known}) for item in (delta, {})]
    assert aggregate(*chunks) == ("Look.", [ToolUseBlock("call_abc", "search", {"q": "paris"})])


@pytest.mark.row("A8")
def test_each_chunk_gives_its_new_text_or_none() -> None:
    aggregator = ToolCallAggregator()
    assert aggregator.process_chunk(chunk({"content": "Hi"})) == TextBlock("Hi")
    assert aggregator.process_chunk(chunk({"content": ""})) is None
    assert aggregator.process_chunk(chunk({}, "stop")) is None
    aggregator.process_chunk(PARIS[0])
    assert len(aggregator.finalize_tools()) == 1
    assert aggregator.finalize_tools() == []


@pytest.mark.row("A8", "A11")
def test_no_text_is_lost_that_only_looks_cumulative() -> None:
    assert aggregate(chunk({"content": "1"}), chunk({"content": "10"}), chunk({}, "stop"))[0] == "110"


@pytest.mark.row("A9", "A10")
def test_a_call_without_a_name_or_with_bad_json_is_an_error() -> None:
    _, (error,) = aggregate(chunk(call("{}", None, "c1")))
    assert isinstance(error, ToolUseError)
    assert "no name" in error.error
    _, (error,) = aggregate(chunk(call('{"q": ', "search", "c1")))
    assert isinstance(error, ToolUseError)
    assert error.error.startswith("Invalid JSON: ")
    assert error.raw_data == '{"q": '
    _, (block,) = aggregate(chunk(call("{}", "search")))
    assert isinstance(block, ToolUseBlock)
    assert block.id


def test_a_chunk_is_not_changed_by_being_read() -> None:
    given = chunk({"content": "Hi"})
    before = json.dumps(given)
    once = read_chunk(given)
    assert aggregate(once)[0] == "Hi"
    assert aggregate(once)[0] == "Hi"
    assert json.dumps(given) == before
