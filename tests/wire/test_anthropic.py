"""Anthropic Messages, both ways, as Anthropic and everybody else speaks it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from any_agent.events import Reset, TextDelta, ThinkingDelta, ToolInputDelta, ToolInputStart
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
from any_agent.wire.anthropic import AnthropicDecoder, encode_anthropic
from any_agent.wire.request import Request

from .support import SETTINGS, decode, done, named, nulls, pieces, sse, tell, told, trouble

ANTHROPIC = get_profile("anthropic")


def start(id: str | None = "msg_1", **usage: int) -> dict[str, Any]:
    message = {"id": id, "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage or None}
    return {"type": "message_start", "message": message}


def block(index: int, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index: int, **fields: Any) -> dict[str, Any]:
    kinds = {
        "text": "text_delta",
        "thinking": "thinking_delta",
        "partial_json": "input_json_delta",
        "signature": "signature_delta",
    }
    return {"type": "content_block_delta", "index": index, "delta": {"type": kinds[next(iter(fields))], **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None = "end_turn", sequence: str | None = None, **usage: int) -> list[dict[str, Any]]:
    last = {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": sequence},
        "usage": usage or None,
    }
    return [last, {"type": "message_stop"}]


def words(text: str, index: int = 0) -> list[dict[str, Any]]:
    return [block(index, type="text", text=""), delta(index, text=text), stop(index)]


def tool(index: int, *parts: str, id: str = "toolu_1", **content: Any) -> list[dict[str, Any]]:
    opening = block(index, type="tool_use", id=id, name="search", **content)
    return [opening, *(delta(index, partial_json=part) for part in parts), stop(index)]


# ---- replies


@pytest.mark.row("B12", "an_ping", "an_input_json_delta")
def test_words_thoughts_and_calls_are_told_as_they_come() -> None:
    decoder = AnthropicDecoder()
    ping = {"type": "ping"}
    events = decoder.feed(
        named(start(), ping, block(0, type="thinking", thinking=""), delta(0, thinking="hm"), stop(0))
    )
    assert events == [ThinkingDelta("hm")]
    assert decoder.feed(named(*words("Hi", 1), ping)) == [TextDelta("Hi")]
    assert decoder.feed(named(block(2, type="tool_use", id="t", name="search", input={}))) == [
        ToolInputStart("t", "search")
    ]
    assert decoder.feed(named(delta(2, partial_json=""), delta(2, partial_json='{"q": 1}'))) == [
        ToolInputDelta("t", '{"q": 1}')
    ]
    events = decoder.feed(named(stop(2), *end("tool_use")))
    assert done(events).content == [ThinkingBlock("hm"), TextBlock("Hi"), ToolUseBlock("t", "search", {"q": 1})]
    assert done(events).stop_reason == "tool_use"


@pytest.mark.row("an_input_json_delta", "an_input_in_start", "an_no_input_key", "tc_args_braces_prefix")
@pytest.mark.parametrize(
    ("parts", "content", "expected"),
    [
        (['{"q"', ": 1}"], {"input": {}}, {"q": 1}),
        (['{"q": 1}'], {}, {"q": 1}),
        (['{"q": 1}'], {"input": {"q": 2}}, {"q": 1}),
        ([], {"input": {"q": 2}}, {"q": 2}),
        ([""], {"input": {"q": 2}}, {"q": 2}),
        ([], {"input": {}}, {}),
        ([""], {"input": {}}, {}),
        ([], {}, {}),
        ([], {"input": None}, {}),
        ([], {"input": "odd"}, {}),
        (["{}", '{"q": 1}'], {"input": {}}, {"q": 1}),
    ],
)
def test_the_input_of_a_call_comes_in_pieces_or_at_its_start(parts: list[str], content: Any, expected: Any) -> None:
    body = named(start(), *tool(0, *parts, **content), *end("tool_use"))
    for given in ([body], pieces(body, 1)):
        found = told("anthropic", given)
        assert (found.calls, found.ids) == ([("search", expected)], ["toolu_1"])


@pytest.mark.row("an_overlapping_blocks", "an_empty_signature", "an_missing_stop")
def test_blocks_are_told_apart_by_their_index_alone() -> None:
    body = [
        start(),
        block(0, type="thinking", thinking=""),
        delta(0, thinking="h"),
        block(1, type="text", text=""),
        block(2, type="tool_use", id="a", name="search"),
        block(3, type="tool_use", id="b", name="search"),
        delta(2, partial_json='{"q"'),
        delta(3, partial_json='{"q"'),
        delta(2, partial_json=": 1}"),
        delta(3, partial_json=": 2}"),
        delta(0, signature=""),
        *map(stop, range(4)),
        *end("tool_use"),
    ]
    found = told("anthropic", named(*body))
    assert (found.thinking, found.calls) == ("h", [("search", {"q": 1}), ("search", {"q": 2})])
    without_stops = [event for event in body if event["type"] != "content_block_stop"]
    assert told("anthropic", named(*without_stops)).calls == found.calls


@pytest.mark.row("an_signature")
@pytest.mark.parametrize("where", ["delta", "start"])
def test_a_signature_is_kept_wherever_it_stands(where: str) -> None:
    signature = {"signature": "sig"} if where == "start" else {}
    opening = block(0, type="thinking", thinking="", **signature)
    signed = [delta(0, signature="sig")] if where == "delta" else []
    body = named(start(), opening, delta(0, thinking="hm"), *signed, stop(0), *words("Hi", 1), *end())
    assert done(decode("anthropic", body)).content == [ThinkingBlock("hm", "sig"), TextBlock("Hi")]


@pytest.mark.row("an_signature", "an_missing_stop")
@pytest.mark.parametrize("more", [[], words("Hi", 1)], ids=["thought alone", "thought and words"])
def test_a_signature_at_the_start_needs_no_stop(more: list[dict[str, Any]]) -> None:
    opening = block(0, type="thinking", thinking="", signature="sig")
    answer = done(decode("anthropic", named(start(), opening, delta(0, thinking="hm"), *more, *end())))
    assert answer.content == [ThinkingBlock("hm", "sig"), *([TextBlock("Hi")] if more else [])]


@pytest.mark.row("an_signature", "an_dup_start")
def test_a_signature_of_a_first_attempt_is_forgotten() -> None:
    first = [start("a"), block(0, type="thinking", thinking="", signature="sig"), delta(0, thinking="hm")]
    answer = done(decode("anthropic", named(*first, start("b"), *words("Hi"), *end())))
    assert answer.content == [TextBlock("Hi")]


@pytest.mark.row("an_redacted")
def test_hidden_thoughts_are_kept_and_not_shown() -> None:
    hidden = [block(0, type="redacted_thinking", data="x"), stop(0)]
    answer = done(decode("anthropic", named(start(), *hidden, *words("Hi", 1), *end())))
    thought = answer.content[0]
    assert isinstance(thought, ThinkingBlock)
    assert (thought.thinking, thought.extra, answer.text) == ("", {"redacted": "x"}, "Hi")


@pytest.mark.row("an_server_tool", "an_unknown_block")
def test_tools_of_the_server_and_unknown_blocks_are_passed_over() -> None:
    body = [
        start(),
        block(0, type="server_tool_use", id="srv", name="web_search", input={}),
        delta(0, partial_json='{"query": "x"}'),
        stop(0),
        block(1, type="web_search_tool_result", tool_use_id="srv", content=[{"type": "web_search_result"}]),
        stop(1),
        block(2, type="fallback"),
        stop(2),
        *words("Hi", 3),
        {
            "type": "content_block_delta",
            "index": 3,
            "delta": {"type": "citations_delta", "citation": {"cited_text": "x"}},
        },
        {"type": "content_block_delta", "index": 3},
        {"type": "brand_new"},
        *end(),
    ]
    found = told("anthropic", named(*body))
    assert (found.text, found.calls, found.stop_reason) == ("Hi", [], "end_turn")


@pytest.mark.row("an_usage", "E12", "an_unknown_block")
def test_later_counts_win() -> None:
    body = named(start(input_tokens=43, output_tokens=1), *words("Hi"), *end(input_tokens=61, output_tokens=2))
    assert done(decode("anthropic", body)).usage == Usage(61, 2, 63)
    body = named(
        start(input_tokens=25, output_tokens=1, cache_read_input_tokens=7), *words("Hi"), *end(output_tokens=15)
    )
    assert done(decode("anthropic", body)).usage == Usage(25, 15, 40, cached_tokens=7)
    assert done(decode("anthropic", named(start(), *words("Hi"), *end()))).usage is None


@pytest.mark.row("an_stop_reasons", "refusal", "D2")
@pytest.mark.parametrize(
    ("label", "sequence", "reason"),
    [
        ("end_turn", None, "end_turn"),
        ("stop_sequence", "END", "stop_sequence"),
        ("end_turn", "END", "stop_sequence"),
        ("max_tokens", None, "max_tokens"),
        ("model_context_window_exceeded", None, "max_tokens"),
        ("refusal", None, "refusal"),
        ("pause_turn", None, "end_turn"),
        ("brand_new", None, "end_turn"),
        ("", None, "end_turn"),
        (None, None, "end_turn"),
    ],
)
def test_reasons_to_stop(label: str | None, sequence: str | None, reason: str) -> None:
    found = told("anthropic", named(start(), *words("Hi"), *end(label, sequence)))
    assert found.stop_reason == reason
    assert found.notices == ([] if label else ["no_finish_reason"])


@pytest.mark.row("an_missing_stop", "eof_truncated", "an_event_lines")
def test_the_reason_to_stop_is_an_end_and_silence_is_not() -> None:
    events = [start(), *tool(0, '{"q": 1}'), *end("tool_use")]
    assert told("anthropic", named(*events[:-1])).calls == [("search", {"q": 1})]
    assert told("anthropic", named(*events[:-2])).error == "stream_truncated"
    assert told("anthropic", named(start(), *words("Hi"))).error == "stream_truncated"
    assert told("anthropic", sse(*events[:-1], done=True)).calls == [("search", {"q": 1})]
    assert told("anthropic", sse(*events[:-2], done=True)).error == "stream_truncated"
    assert told("anthropic", sse(*events, done=True)).calls == [("search", {"q": 1})]


@pytest.mark.row("an_missing_stop", "an_input_in_start")
@pytest.mark.parametrize("sentinel", [True, False])
def test_an_input_at_the_start_counts_also_without_a_last_event(sentinel: bool) -> None:
    body = sse(start(), *tool(0, input={"q": 1}), end("tool_use")[0], done=sentinel)
    assert told("anthropic", body).calls == [("search", {"q": 1})]


@pytest.mark.row("an_dup_start")
def test_the_same_start_twice_is_one_message() -> None:
    events = decode("anthropic", named(start(), start(), *words("Hi"), start(), *words("!", 1), *end()))
    assert tell(events).text == "Hi!"
    assert not any(isinstance(event, Reset) for event in events)


@pytest.mark.row("an_dup_start", "sse_reconnect")
def test_another_start_begins_again() -> None:
    first = [start("a"), *words("First"), *tool(1, '{"q": ', id="x", input={"q": 9})[:-1]]
    events = decode("anthropic", named(*first, start("b"), *tool(0, '{"q": 1}', id="y"), *end("tool_use")))
    found = tell(events)
    assert (found.text, found.calls, found.ids) == ("", [("search", {"q": 1})], ["y"])
    assert done(events).id == "b"
    assert sum(isinstance(event, Reset) for event in events) == 1


@pytest.mark.row("an_error_event", "error_in_stream")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "overloaded"),
        ({"type": "error", "error": {"type": "api_error", "message": "busy"}}, "server_error"),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "busy"}}, "rate_limit"),
        ({"error": {"message": "busy", "type": "None", "code": "503"}}, "overloaded"),
        ({"type": "error", "message": "busy", "delta": "odd"}, "server_error"),
    ],
)
def test_an_error_ends_the_message(error: dict[str, Any], kind: str) -> None:
    found = told("anthropic", sse(start(), *words("Part"), error, *end()))
    assert (found.text, found.error) == ("Part", kind)
    assert "busy" in found.message


@pytest.mark.row("an_error_event", "error_200_json")
def test_a_whole_reply_may_be_an_error() -> None:
    body = b'{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}'
    assert told("anthropic", body).error == "overloaded"


@pytest.mark.row("an_error_event")
def test_a_bare_error_is_known_by_its_event() -> None:
    body = named(start(), *words("Part")) + b'event: error\ndata: {"code":500,"message":"Compute error."}\n\n'
    found = told("anthropic", body)
    assert (found.text, found.error) == ("Part", "server_error")


@pytest.mark.row("D13", "json_not_sse")
def test_a_whole_reply_gives_what_a_stream_gives() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "Hi"},
        {"type": "text", "text": " you"},
        {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"q": 5}},
        {"type": "tool_use", "id": "a", "name": "search", "input": {"q": 1}},
        {"type": "tool_use", "id": "b", "name": "search", "input": {}},
    ]
    usage = {"input_tokens": 3, "output_tokens": 4}
    body = {
        "id": "msg_1",
        "type": "message",
        "model": "m",
        "content": content,
        "stop_reason": "tool_use",
        "usage": usage,
    }
    events = decode("anthropic", json.dumps(body).encode())
    answer = done(events)
    assert tell(events).text == "Hi you"
    assert answer.content[0] == ThinkingBlock("hm", "sig")
    assert answer.tool_calls == [ToolUseBlock("a", "search", {"q": 1}), ToolUseBlock("b", "search", {})]
    assert (answer.id, answer.model, answer.usage, answer.raw) == ("msg_1", "m", Usage(3, 4, 7), body)
    sequence = {**body, "content": content[2:3], "stop_reason": "stop_sequence", "stop_sequence": "END"}
    assert told("anthropic", json.dumps(sequence).encode()).stop_reason == "stop_sequence"


@pytest.mark.row("refusal", "an_stop_reasons")
def test_a_whole_reply_may_be_empty() -> None:
    body = {"id": "msg_1", "type": "message", "content": [], "stop_reason": "refusal"}
    assert told("anthropic", json.dumps(body).encode()).stop_reason == "refusal"
    assert told("anthropic", b'{"content": [{"type": "text", "text": "Hi"}]}').text == "Hi"
    assert told("anthropic", b'{"status": "ok"}').stop_reason == "error"


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "content_block_start"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": None}},
        {"type": "content_block_start", "index": [1], "content_block": {"type": "text"}},
        {"type": "content_block_delta", "index": 0, "delta": "text"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "input_json_delta", "partial_json": "{"}},
        {"type": "content_block_stop"},
        {"type": "message_delta"},
        {"type": "message_delta", "delta": {"stop_reason": 5, "stop_sequence": 5}, "usage": "x"},
        {"type": ["message_start"]},
        {},
        [],
    ],
)
def test_odd_events_change_nothing(odd: Any) -> None:
    found = told("anthropic", sse(start(), odd, *words("Hi"), odd, *end(), done=False))
    assert (found.text, found.calls, found.tool_errors, found.stop_reason) == ("Hi", [], 0, "end_turn")


@pytest.mark.parametrize("index", [[1], {"a": 1}, None, "x", 1.5])
def test_an_odd_index_does_not_raise(index: Any) -> None:
    events = [*tool(0, '{"q": 1}'), *words("Hi", 1)]
    assert trouble("anthropic", sse(start(), *({**event, "index": index} for event in events), *end())) == ""


def test_textual_calls_are_found_here_too() -> None:
    markup = '<tool_call>{"name": "search", "arguments": {"q": 1}}</tool_call>'
    assert told("anthropic", named(start(), *words(markup), *end()), SETTINGS).calls == [("search", {"q": 1})]


# ---- requests

HI = Message("user", "hi")
IMAGE = ImageBlock.from_bytes(b"GIF89a")
SEARCH = ToolSpec("search", "Searches.", {"type": "object", "properties": {"q": {"type": "string"}}})
CALL = ToolUseBlock("toolu_1", "search", {"q": "ü"})
ROUND = [HI, Message("assistant", [CALL]), Message("tool", [ToolResultBlock("toolu_1", {"n": 1})])]


def encode(*messages: Any, profile: Profile = ANTHROPIC, stream: bool = False, **settings: Any) -> dict[str, Any]:
    return encode_anthropic(Request("m", list(messages), stream=stream, **settings), profile).body


def sent(*messages: Any, profile: Profile = ANTHROPIC) -> list[dict[str, Any]]:
    return encode(*messages, profile=profile)["messages"]


@pytest.mark.row("A2")
def test_only_what_was_asked_for_is_sent_and_the_limit_that_must_be() -> None:
    assert encode(HI) == {"model": "m", "max_tokens": 4096, "messages": [{"role": "user", "content": "hi"}]}
    assert encode(HI, max_tokens=5)["max_tokens"] == 5
    assert encode(HI, stream=True)["stream"] is True


@pytest.mark.row("D8")
def test_settings_are_sent_under_their_names() -> None:
    body = encode(HI, temperature=0.0, top_p=0.5, stop=["x"], extra={"top_k": 5})
    assert (body["temperature"], body["top_p"], body["stop_sequences"], body["top_k"]) == (0.0, 0.5, ["x"], 5)
    encoded = encode_anthropic(Request("m", [HI], seed=0), ANTHROPIC)
    assert "seed" not in encoded.body
    assert [notice.kind for notice in encoded.notices] == ["seed_unsupported"]


@pytest.mark.row("D7", "req_system_first")
def test_system_texts_are_taken_out_of_the_messages() -> None:
    body = encode(Message("system", "a"), HI, Message("system", [TextBlock("b")]))
    assert body["system"] == "a\n\nb"
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert "system" not in encode(Message("system", ""), HI)


@pytest.mark.row("D5", "A5")
def test_images_are_blocks_with_their_source() -> None:
    link = ImageBlock.from_url("https://example.org/cat.png")
    assert sent(Message("user", [IMAGE, TextBlock("What?"), link]))[0]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lGODlh"}},
        {"type": "text", "text": "What?"},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}},
    ]
    with pytest.raises(ValueError, match="from_path"):
        sent(Message("user", [link]), profile=get_profile("llamacpp"))


@pytest.mark.row("D5", "D6", "req_empty_text_part")
def test_calls_and_results_are_blocks_and_results_are_plain_strings() -> None:
    assert sent(HI, Message("assistant", [TextBlock("Look."), TextBlock(""), CALL]), ROUND[2])[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Look."},
                {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"q": "ü"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": '{"n": 1}'}]},
    ]


@pytest.mark.row("D6")
def test_results_stand_before_what_is_beside_them_in_one_message() -> None:
    two = Message("assistant", [CALL, ToolUseBlock("toolu_2", "search", {})])
    results = Message(
        "user",
        [
            TextBlock("and?"),
            ToolResultBlock("toolu_1", [TextBlock("see"), IMAGE]),
            ToolResultBlock("toolu_2", "no", is_error=True),
        ],
    )
    (*_, message) = sent(HI, two, results, HI)
    assert [item["type"] for item in message["content"]] == ["tool_result", "tool_result", "image", "text", "text"]
    assert message["content"][0]["content"] == "see"
    assert [item.get("is_error") for item in message["content"][:2]] == [None, True]


@pytest.mark.row("A24", "req_unanswered_calls")
def test_a_missing_result_is_an_error_in_the_next_message() -> None:
    encoded = encode_anthropic(Request("m", [*ROUND[:2], HI]), ANTHROPIC)
    (result, text) = encoded.body["messages"][-1]["content"]
    assert (result["type"], result["tool_use_id"], result["is_error"], text["text"]) == (
        "tool_result",
        "toolu_1",
        True,
        "hi",
    )
    assert [notice.kind for notice in encoded.notices] == ["missing_results"]


@pytest.mark.row("req_alternation")
def test_neighbours_of_one_role_are_one_message() -> None:
    assert sent(HI, HI, Message("assistant", "a"), Message("assistant", "b")) == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ]


@pytest.mark.row("an_signature", "an_redacted", "an_empty_signature", "req_reasoning_replay")
def test_only_what_anthropic_signed_goes_back_to_it() -> None:
    thoughts = [ThinkingBlock("a", "sig"), ThinkingBlock("b"), ThinkingBlock("", extra={"redacted": "x"})]
    answer = Message("assistant", [*thoughts, TextBlock("Hi")])
    signed = {"type": "thinking", "thinking": "a", "signature": "sig"}
    hidden = {"type": "redacted_thinking", "data": "x"}
    assert sent(HI, answer)[1]["content"] == [signed, hidden, {"type": "text", "text": "Hi"}]
    assert sent(HI, answer, profile=replace(ANTHROPIC, replay_thinking=None))[1]["content"][-1] == {
        "type": "text",
        "text": "Hi",
    }
    assert sent(HI, Message("assistant", [ThinkingBlock("b"), TextBlock("Hi")]))[1]["content"] == "Hi"


@pytest.mark.row("req_empty_assistant")
@pytest.mark.parametrize("content", ["", [], [ThinkingBlock("hm")], [ThinkingBlock("hm", "sig")], [ToolUseError("x")]])
def test_empty_turns_are_not_sent(content: Any) -> None:
    assert sent(HI, Message("assistant", content), HI) == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "hi"}]}
    ]


@pytest.mark.row("tc_id_format")
@pytest.mark.parametrize("identifier", ["functions.search:0", "call.1", "toolu_01AbC-d"])
def test_ids_of_other_servers_are_made_such_as_this_one_takes(identifier: str) -> None:
    messages = sent(
        HI,
        Message("assistant", [ToolUseBlock(identifier, "search", {})]),
        Message("tool", [ToolResultBlock(identifier, "x")]),
    )
    (use,), (result,) = messages[1]["content"], messages[2]["content"]
    assert use["id"] == result["tool_use_id"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", use["id"])


@pytest.mark.row("D8")
def test_tools_have_an_input_schema() -> None:
    assert encode(HI, tools=[SEARCH])["tools"] == [
        {"name": "search", "description": "Searches.", "input_schema": SEARCH.parameters}
    ]
    assert "tools" not in encode(HI)


@pytest.mark.row("D8", "req_tool_choice")
@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("any", {"type": "any"}),
        ("required", {"type": "any"}),
        ("search", {"type": "tool", "name": "search"}),
        ({"type": "function", "function": {"name": "search"}}, {"type": "tool", "name": "search"}),
        ({"type": "auto"}, {"type": "auto"}),
        ({"type": "any", "disable_parallel_tool_use": True}, {"type": "any", "disable_parallel_tool_use": True}),
    ],
)
def test_the_choice_of_a_tool_is_in_the_words_of_this_protocol(choice: Any, expected: Any) -> None:
    assert encode(HI, tools=[SEARCH], tool_choice=choice)["tool_choice"] == expected
    assert "tool_choice" not in encode(HI, tools=[SEARCH])


@pytest.mark.row("B20")
def test_the_form_of_the_output_is_asked_for() -> None:
    body = encode(HI, output_schema=SEARCH.parameters)
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": SEARCH.parameters}}


def test_thinking_is_asked_for_or_forbidden() -> None:
    assert encode(HI, thinking=True)["thinking"]["type"] == "enabled"
    assert encode(HI, thinking=False)["thinking"] == {"type": "disabled"}


@pytest.mark.row("A2", "req_null_fields")
def test_no_field_is_ever_null() -> None:
    messages = [
        Message("system", "s"),
        HI,
        Message(
            "assistant",
            [ThinkingBlock("hm", "sig", extra={"a": None}), ThinkingBlock("b"), CALL, ToolUseError("x"), IMAGE],
        ),
        Message("tool", [ToolResultBlock("toolu_1", None)]),
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
        for name in ("anthropic", "litellm", "openrouter"):
            body = encode(*messages, profile=get_profile(name), **settings)
            assert nulls(body) == []
            assert json.loads(json.dumps(body)) == body
