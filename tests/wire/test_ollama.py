"""Ollama's native protocol, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from any_agent.events import TextDelta, ThinkingDelta
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
)
from any_agent.wire.ollama import OllamaDecoder, encode_ollama
from any_agent.wire.request import Request

from .support import decode, done, failure, ndjson, nulls, pieces, told

OLLAMA = get_profile("ollama")
END: dict[str, Any] = {
    "model": "q",
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "done_reason": "stop",
}
COUNTS = {"prompt_eval_count": 26, "eval_count": 9}


def line(content: str = "", **message: Any) -> dict[str, Any]:
    return {"model": "q", "message": {"role": "assistant", "content": content, **message}, "done": False}


def tool(arguments: Any = None, name: Any = "search", **more: Any) -> dict[str, Any]:
    return {**more, "function": {"name": name, **({} if arguments is None else {"arguments": arguments})}}


# ---- replies


@pytest.mark.row("B12", "ol_thinking")
def test_thoughts_come_before_the_words_of_their_line() -> None:
    decoder = OllamaDecoder()
    assert decoder.feed(ndjson(line("Hi", thinking="hm"))) == [ThinkingDelta("hm"), TextDelta("Hi")]


@pytest.mark.row("D13", "json_not_sse")
def test_a_reply_that_is_no_stream_is_read_alike() -> None:
    body = {**END, **COUNTS, "message": {"content": "Hi", "thinking": "hm", "tool_calls": [tool({"q": 1}, id="a")]}}
    for text in (json.dumps(body), json.dumps(body, indent=1)):
        found = told("ollama", text.encode())
        assert (found.text, found.thinking, found.calls, found.ids) == ("Hi", "hm", [("search", {"q": 1})], ["a"])
        assert found.usage == {"input": 26, "output": 9}


@pytest.mark.row("ol_tool_dict_no_id", "ol_parallel", "ol_done_stop_with_tools", "req_ollama_args_object")
def test_each_item_is_a_call_on_whatever_line_and_under_whatever_index() -> None:
    first = line(tool_calls=[tool({"q": 1}, id="a"), tool({"q": 2})])
    second = line(tool_calls=[{"function": {"index": 0, "name": "search", "arguments": {"q": 3}}}])
    last = {**END, "message": {"content": "", "tool_calls": [{"id": "d", "function": {"index": 0, "name": "search"}}]}}
    found = told("ollama", ndjson(first, second, last))
    assert found.calls == [("search", {"q": 1}), ("search", {"q": 2}), ("search", {"q": 3}), ("search", {})]
    assert (found.ids[0], found.ids[3], found.stop_reason) == ("a", "d", "tool_use")


@pytest.mark.row("ol_parallel")
def test_two_calls_that_are_equal_are_two() -> None:
    found = told("ollama", ndjson(line(tool_calls=[tool({"q": 1}), tool({"q": 1})]), END))
    assert found.calls == [("search", {"q": 1}), ("search", {"q": 1})]


@pytest.mark.row("ol_args_string", "tc_args_empty", "tc_args_null")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"q": 1}, {"q": 1}),
        ('{"q": 1}', {"q": 1}),
        ("", {}),
        ({}, {}),
        (None, {}),
        ("null", {}),
        ('"{\\"q\\": 1}"', {"q": 1}),
    ],
)
def test_arguments_come_in_every_form(arguments: Any, expected: dict[str, Any]) -> None:
    assert told("ollama", ndjson(line(tool_calls=[tool(arguments)]), END)).calls == [("search", expected)]
    explicit = {"function": {"name": "search", "arguments": arguments}}
    assert told("ollama", ndjson(line(tool_calls=[explicit]), END)).calls == [("search", expected)]


@pytest.mark.parametrize(
    "odd", [None, 5, [None], [{}], [{"function": None}], [{"function": {"name": ""}}], [tool({}, None)]]
)
def test_calls_without_a_name_are_none(odd: Any) -> None:
    found = told("ollama", ndjson(line("Hi", tool_calls=odd), END))
    assert (found.text, found.calls, found.tool_errors) == ("Hi", [], 0)


@pytest.mark.row("ol_done_reasons")
@pytest.mark.parametrize(
    ("label", "reason", "notices"),
    [
        ("stop", "end_turn", []),
        ("length", "max_tokens", []),
        ("load", "end_turn", []),
        ("unload", "end_turn", []),
        (None, "end_turn", ["no_finish_reason"]),
        ("", "end_turn", ["no_finish_reason"]),
        (5, "end_turn", ["no_finish_reason"]),
    ],
)
def test_reasons_to_end(label: Any, reason: str, notices: list[str]) -> None:
    found = told("ollama", ndjson(line("Hi"), {**END, "done_reason": label}))
    assert (found.stop_reason, found.notices) == (reason, notices)


@pytest.mark.row("E11", "ol_done_reasons")
@pytest.mark.parametrize("label", ["load", "unload"])
def test_a_model_that_was_only_loaded_said_nothing(label: str) -> None:
    found = told("ollama", ndjson({**END, "done_reason": label}))
    assert (found.text, found.usage, found.notices) == ("", None, ["empty_response"])


@pytest.mark.row("ol_usage_missing", "D4")
@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (COUNTS, {"input": 26, "output": 9}),
        ({"eval_count": 9}, {"input": 0, "output": 9}),
        ({"prompt_eval_count": 26}, {"input": 26}),
        ({}, None),
    ],
)
def test_counts_are_those_of_the_server(counts: dict[str, int], usage: Any) -> None:
    assert told("ollama", ndjson(line("Hi"), {**END, **counts})).usage == usage


@pytest.mark.row("D4")
@pytest.mark.parametrize(("duration", "rate"), [(900_000_000, 10.0), (0, None), (-1, None), ("x", None), (None, None)])
def test_the_speed_comes_from_count_and_duration(duration: Any, rate: float | None) -> None:
    usage = done(decode("ollama", ndjson(line("Hi"), {**END, **COUNTS, "eval_duration": duration}))).usage
    assert usage is not None
    assert usage.tokens_per_s == rate


@pytest.mark.row("ol_error_line", "ol_tool_parse_error")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"error": "an error was encountered while running the model: unexpected EOF"}, "server_error"),
        ({"error": "error parsing tool call: raw='{', err=unexpected end of JSON input"}, "tool_use_failed"),
        ({"error parsing tool call: raw='{', err=unexpected end of JSON input": None}, "tool_use_failed"),
        ({"error": {"message": "server busy"}}, "overloaded"),
        ({"error": "server busy", "done": True}, "overloaded"),
    ],
)
def test_an_error_on_a_line_ends_the_stream(error: dict[str, Any], kind: str) -> None:
    found = told("ollama", ndjson(line("Part"), error, END))
    assert (found.text, found.error) == ("Part", kind)
    assert found.message


@pytest.mark.row("ol_extra")
def test_lines_and_fields_that_are_foreign_change_nothing() -> None:
    foreign = [
        {},
        {"status": "pulling"},
        [],
        None,
        5,
        {"message": None},
        {"message": "x"},
        {"created": 1, "done": False},
    ]
    odd = {**line("b"), "remote_model": "x", "logprobs": [{}], "message": {"content": "b", "images": None}}
    assert told("ollama", ndjson(line("a"), *foreign, odd, END)).text == "ab"
    found = told("ollama", ndjson(line("a", thinking=5, tool_calls="x"), {**line(), "message": {"content": 5}}, END))
    assert (found.text, found.thinking) == ("a", "")


@pytest.mark.row("ol_eof", "E11")
@pytest.mark.parametrize("tail", [b"", b'{"message":', b'{"done":', b"\n\n"])
def test_a_stream_without_its_last_line_is_cut(tail: bytes) -> None:
    found = told("ollama", ndjson(line("Cut")) + tail)
    assert (found.text, found.error) == ("Cut", "stream_truncated")


@pytest.mark.row("ol_eof")
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n"])
def test_the_last_line_may_end_as_it_likes(end: bytes) -> None:
    body = ndjson(line("é"), END).replace(b"\n", b"\r\n").rstrip() + end
    for size in (1, 2, 7, 10_000):
        assert told("ollama", pieces(body, size)).text == "é"


def test_the_model_and_the_last_line_are_kept() -> None:
    answer = done(decode("ollama", ndjson(line("Hi"), {**END, "model": "other", "total_duration": 5})))
    assert answer.model == "q"
    assert answer.raw["total_duration"] == 5
    assert done(decode("ollama", ndjson({**END, "model": 5}))).model == ""


@pytest.mark.row("http_404")
def test_an_error_alone_is_an_error() -> None:
    error = failure(decode("ollama", b'{"error":"model \'x\' not found"}')).error
    assert error.kind == "model_not_found"


# ---- requests


def encode(*messages: Any, profile: Profile = OLLAMA, **settings: Any) -> dict[str, Any]:
    return encode_ollama(Request("m", list(messages), **settings), profile).body


HI = Message("user", "hi")
IMAGE = ImageBlock.from_bytes(b"GIF89a")
SEARCH = ToolSpec(
    "search", "Searches.", {"type": "object", "properties": {"q": {"$ref": "#/$defs/Q"}}, "$defs": {"Q": {}}}
)
CALL = ToolUseBlock("a", "search", {"q": "ü"})
ROUND = [HI, Message("assistant", [CALL]), Message("tool", [ToolResultBlock("a", {"n": 1})])]


@pytest.mark.row("A2")
def test_only_what_was_asked_for_is_sent() -> None:
    assert encode(HI) == {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    assert encode(HI, stream=False)["stream"] is False


@pytest.mark.row("D8", "ol_num_ctx", "req_ollama_defaults")
def test_settings_are_options_under_their_names() -> None:
    settings: dict[str, Any] = {"temperature": 0.0, "max_tokens": 9, "top_p": 0.5, "seed": 0, "stop": ["x"]}
    body = encode(HI, **settings, extra={"num_ctx": 8192, "top_k": 5, "keep_alive": "5m", "options": {"min_p": 0.1}})
    assert body["options"] == {
        "temperature": 0.0,
        "num_predict": 9,
        "top_p": 0.5,
        "seed": 0,
        "stop": ["x"],
        "num_ctx": 8192,
        "top_k": 5,
        "min_p": 0.1,
    }
    assert body["keep_alive"] == "5m"
    assert "options" not in encode(HI, stop=[])


@pytest.mark.row("req_ollama_images", "D5")
def test_images_are_bare_base64_beside_the_words() -> None:
    message = encode(Message("user", [TextBlock("What?"), IMAGE, TextBlock("And?"), IMAGE]))["messages"][0]
    assert message == {"role": "user", "content": "What?\n\nAnd?", "images": ["R0lGODlh", "R0lGODlh"]}
    with pytest.raises(ValueError, match="from_path"):
        encode(Message("user", [ImageBlock.from_url("https://example.org/cat.png")]))


@pytest.mark.row("req_image_url")
def test_an_image_that_would_be_empty_is_never_sent() -> None:
    """This protocol has no addresses of images, whatever the profile of the server says."""
    link = Message("user", [ImageBlock.from_url("https://example.org/cat.png")])
    with pytest.raises(ValueError, match="from_path"):
        encode(link, profile=Profile("mine", protocol="ollama"))


@pytest.mark.row("req_ollama_args_object", "req_tool_name", "req_tool_content_list", "D6")
def test_calls_have_objects_and_results_have_the_name_of_their_tool() -> None:
    assert encode(*ROUND)["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "a", "function": {"name": "search", "arguments": {"q": "ü"}}}],
        },
        {"role": "tool", "content": '{"n": 1}', "tool_name": "search", "tool_call_id": "a"},
    ]


@pytest.mark.row("req_tool_name", "A22")
def test_the_name_of_a_result_is_that_of_its_own_turn() -> None:
    again = [Message("assistant", [ToolUseBlock("a", "get_weather", {})]), Message("tool", [ToolResultBlock("a", "x")])]
    names = [message["tool_name"] for message in encode(*ROUND, *again)["messages"] if message["role"] == "tool"]
    assert names == ["search", "get_weather"]


@pytest.mark.row("D6", "req_image_url")
def test_images_of_a_result_follow_in_a_user_message() -> None:
    body = encode(*ROUND[:2], Message("tool", [ToolResultBlock("a", [TextBlock("see"), IMAGE])]))
    assert body["messages"][2:] == [
        {"role": "tool", "content": "see", "tool_name": "search", "tool_call_id": "a"},
        {"role": "user", "content": "", "images": ["R0lGODlh"]},
    ]


@pytest.mark.row("req_reasoning_replay", "ol_thinking")
def test_thoughts_go_back_under_their_own_name() -> None:
    message = encode(HI, Message("assistant", [ThinkingBlock("a"), TextBlock("Hi"), ThinkingBlock("b")]))["messages"][1]
    assert message == {"role": "assistant", "content": "Hi", "thinking": "ab"}


@pytest.mark.row("A24")
def test_what_is_missing_is_filled_in_and_told() -> None:
    encoded = encode_ollama(Request("m", [HI, Message("assistant", [CALL]), HI]), OLLAMA)
    assert [message["role"] for message in encoded.body["messages"]][:3] == ["user", "assistant", "tool"]
    assert [notice.kind for notice in encoded.notices] == ["missing_results"]


@pytest.mark.row("D8", "req_schema_ref")
def test_tools_and_the_form_of_the_output_have_simple_schemas() -> None:
    body = encode(HI, tools=[SEARCH], output_schema=SEARCH.parameters)
    schema = {"type": "object", "properties": {"q": {}}}
    assert body["tools"] == [
        {"type": "function", "function": {"name": "search", "description": "Searches.", "parameters": schema}}
    ]
    assert body["format"] == schema
    assert not {"tools", "format"} & set(encode(HI))


@pytest.mark.row("req_tool_choice")
@pytest.mark.parametrize(("choice", "kinds"), [(None, []), ("auto", []), ("required", ["tool_choice_unsupported"])])
def test_the_choice_of_a_tool_cannot_be_told_and_that_is_said(choice: Any, kinds: list[str]) -> None:
    encoded = encode_ollama(Request("m", [HI], tools=[SEARCH], tool_choice=choice), OLLAMA)
    assert [notice.kind for notice in encoded.notices] == kinds
    assert "tool_choice" not in encoded.body


@pytest.mark.row("req_think_unsupported")
@pytest.mark.parametrize("thinking", [True, False])
def test_thinking_is_asked_for_or_forbidden(thinking: bool) -> None:
    assert encode(HI, thinking=thinking)["think"] is thinking
    assert "think" not in encode(HI)


@pytest.mark.row("A2", "req_null_fields")
def test_no_field_is_ever_null() -> None:
    messages = [
        Message("system", "s"),
        *ROUND[:1],
        Message("assistant", [ThinkingBlock("hm", "sig", extra={"a": None}), CALL, ToolUseBlock("b", "search", {})]),
        Message("tool", [ToolResultBlock("a", None)]),
        Message("user", [IMAGE]),
        Message("assistant", [ThinkingBlock("only")]),
    ]
    full: dict[str, Any] = {"tools": [SEARCH], "temperature": 0, "stop": ["x"], "thinking": True, "output_schema": {}}
    for settings in ({}, full):
        body = encode(*messages, **settings)
        assert nulls(body) == []
        assert json.loads(json.dumps(body)) == body


@pytest.mark.row("D7", "req_system_first")
def test_one_system_message_stands_first() -> None:
    body = encode(HI, Message("system", "a"), Message("assistant", "b"), Message("system", "c"))
    assert body["messages"] == [
        {"role": "system", "content": "a\n\nc"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "b"},
    ]
