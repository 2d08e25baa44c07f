"""Requests in the form of Chat Completions, as each server wants them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from any_agent import format_messages
from any_agent.profiles import get_profile, list_profiles
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
)
from any_agent.wire.openai_request import encode_chat
from any_agent.wire.request import Request

from .support import nulls

GENERIC = Profile("generic")
ALL = [get_profile(name) for name in list_profiles()]
HI = Message("user", "hi")
IMAGE = ImageBlock.from_bytes(b"GIF89a")
DATA_URL = "data:image/gif;base64,R0lGODlh"
SEARCH = ToolSpec("search", "Searches.", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})
CALL = ToolUseBlock("call_1", "search", {"q": "Zürich"})
ROUND = [HI, Message("assistant", [CALL]), Message("tool", [ToolResultBlock("call_1", "found")])]


def encode(*messages: Any, profile: Profile = GENERIC, stream: bool = False, **settings: Any) -> dict[str, Any]:
    return encode_chat(Request("m", list(messages), stream=stream, **settings), profile).body


def sent(*messages: Any, profile: Profile = GENERIC) -> list[dict[str, Any]]:
    return encode(*messages, profile=profile)["messages"]


@pytest.mark.row("A2", "A14", "D8")
def test_only_what_was_asked_for_is_sent() -> None:
    assert encode(HI) == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.row("A14", "D8")
def test_settings_are_sent_under_their_names() -> None:
    settings: dict[str, Any] = {"temperature": 0.0, "max_tokens": 0, "top_p": 0.5, "seed": 0, "stop": ["a", "b"]}
    assert encode(HI, **settings) == {"model": "m", "messages": [{"role": "user", "content": "hi"}], **settings}
    assert "stop" not in encode(HI, stop=[])


@pytest.mark.row("A14", "req_stream_options")
def test_a_stream_asks_for_usage_where_that_is_understood() -> None:
    body = encode(HI, stream=True)
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    silent = encode(HI, stream=True, profile=replace(GENERIC, stream_usage=False))
    assert silent["stream"] is True
    assert "stream_options" not in silent
    assert "stream_options" not in encode(HI)
    assert "stream_options" not in encode(HI, stream=True, profile=get_profile("mistral"))


@pytest.mark.row("req_max_tokens")
@pytest.mark.parametrize(
    ("name", "field"), [("generic", "max_tokens"), ("openai", "max_completion_tokens"), ("mistral", "max_tokens")]
)
def test_the_limit_has_the_name_that_the_server_knows(name: str, field: str) -> None:
    body = encode(HI, max_tokens=5, profile=get_profile(name))
    assert {key: value for key, value in body.items() if key.startswith("max")} == {field: 5}


@pytest.mark.row("A7", "D7")
def test_a_system_prompt_is_a_message_and_an_empty_one_is_none() -> None:
    assert sent(*format_messages("Be brief.", "hi"))[0] == {"role": "system", "content": "Be brief."}
    assert sent(*format_messages("", "hi")) == [{"role": "user", "content": "hi"}]


@pytest.mark.row("A7")
def test_messages_in_the_format_of_openai_are_taken_and_not_touched() -> None:
    history: list[dict[str, Any]] = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    before = json.dumps(history)
    given = format_messages("s", "hi", history)
    assert sent(*given) == given
    assert given == [{"role": "system", "content": "s"}, *history, {"role": "user", "content": "hi"}]
    assert json.dumps(history) == before


@pytest.mark.row("D5", "req_empty_text_part")
@pytest.mark.parametrize("content", ["hi", [TextBlock("hi")], [TextBlock(""), TextBlock("hi")]])
def test_text_alone_is_a_string(content: Any) -> None:
    assert sent(Message("user", content)) == [{"role": "user", "content": "hi"}]


def test_several_texts_are_one_string() -> None:
    assert sent(Message("user", [TextBlock("a"), TextBlock("b")])) == [{"role": "user", "content": "a\n\nb"}]


@pytest.mark.row("D5", "A5")
def test_text_and_images_are_parts_in_order() -> None:
    link = ImageBlock.from_url("https://example.org/cat.png")
    assert sent(Message("user", [IMAGE, TextBlock("What?"), TextBlock(""), link]))[0]["content"] == [
        {"type": "image_url", "image_url": {"url": DATA_URL}},
        {"type": "text", "text": "What?"},
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
    ]


@pytest.mark.row("req_image_url")
def test_an_address_of_an_image_is_refused_where_it_would_be() -> None:
    link = Message("user", [ImageBlock.from_url("https://example.org/cat.png")])
    with pytest.raises(ValueError, match="from_path"):
        sent(link, profile=get_profile("llamacpp"))
    assert sent(Message("user", [IMAGE]), profile=get_profile("llamacpp"))[0]["content"][0]["type"] == "image_url"


@pytest.mark.row("D5", "A21", "req_history_args")
def test_words_and_calls_of_the_model_are_one_message() -> None:
    message = sent(HI, Message("assistant", [TextBlock("Look."), CALL]))[1]
    assert message == {
        "role": "assistant",
        "content": "Look.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": '{"q": "Zürich"}'}}
        ],
    }
    assert sent(HI, Message("assistant", "Look."))[1] == {"role": "assistant", "content": "Look."}


@pytest.mark.row("req_history_args")
@pytest.mark.parametrize("arguments", [{}, {"q": None}, {"a": {"b": [1, "ü"]}}])
def test_replayed_arguments_are_a_json_object_in_a_string(arguments: dict[str, Any]) -> None:
    message = sent(HI, Message("assistant", [ToolUseBlock("a", "search", arguments)]))[1]
    text = message["tool_calls"][0]["function"]["arguments"]
    assert isinstance(text, str)
    assert json.loads(text) == arguments


@pytest.mark.row("D5", "req_empty_assistant")
def test_without_words_the_content_is_what_the_server_needs() -> None:
    assert sent(*ROUND)[1]["content"] is None
    assert sent(*ROUND, profile=get_profile("mistral"))[1]["content"] == ""
    assert sent(*ROUND, profile=get_profile("litellm"))[1]["content"] == ""


@pytest.mark.row("req_empty_assistant")
@pytest.mark.parametrize(
    "content",
    ["", [], [ThinkingBlock("hm")], [ToolUseError("x")], [IMAGE], [ThinkingBlock("hm", extra={"a": 1}), IMAGE]],
)
def test_a_turn_of_the_model_without_words_and_calls_is_not_sent_empty(content: Any) -> None:
    for profile in ALL:
        assert all(message["content"] for message in sent(HI, Message("assistant", content), HI, profile=profile))


@pytest.mark.row("D6", "req_tool_name", "req_tool_content_list")
def test_each_result_is_a_message_in_order_with_a_plain_string() -> None:
    two = Message("assistant", [CALL, ToolUseBlock("call_2", "get_weather", {})])
    results = Message(
        "user", [ToolResultBlock("call_2", {"a": "ü"}), ToolResultBlock("call_1", [TextBlock("x"), TextBlock("y")])]
    )
    assert sent(HI, two, results)[2:] == [
        {"role": "tool", "tool_call_id": "call_2", "name": "get_weather", "content": '{"a": "ü"}'},
        {"role": "tool", "tool_call_id": "call_1", "name": "search", "content": "x\ny"},
    ]


@pytest.mark.row("D6", "req_image_url")
def test_images_and_words_beside_results_follow_the_results() -> None:
    results = Message("tool", [TextBlock("and?"), ToolResultBlock("call_1", [TextBlock("see"), IMAGE])])
    assert sent(*ROUND[:2], results)[2:] == [
        {"role": "tool", "tool_call_id": "call_1", "name": "search", "content": "see"},
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": DATA_URL}}, {"type": "text", "text": "and?"}],
        },
    ]


@pytest.mark.row("req_tool_name")
def test_the_name_of_a_result_is_left_out_where_it_is_refused() -> None:
    assert "name" not in sent(*ROUND, profile=get_profile("groq"))[2]
    assert sent(*ROUND, profile=get_profile("gemini"))[2]["name"] == "search"


@pytest.mark.row("req_tool_name", "A22")
def test_the_name_of_a_result_is_that_of_the_call_it_answers_also_if_ids_repeat() -> None:
    rounds = [
        Message("assistant", [ToolUseBlock("call_0", "search", {})]),
        Message("tool", [ToolResultBlock("call_0", "1")]),
        Message("assistant", [ToolUseBlock("call_0", "get_weather", {})]),
        Message("tool", [ToolResultBlock("call_0", "2")]),
    ]
    assert [message["name"] for message in sent(HI, *rounds) if message["role"] == "tool"] == ["search", "get_weather"]


@pytest.mark.row("A24", "req_unanswered_calls")
def test_every_call_is_answered_whatever_happened_before() -> None:
    two = Message("assistant", [CALL, ToolUseBlock("call_2", "search", {})])
    messages = [HI, two, Message("tool", [ToolResultBlock("call_2", "x"), ToolResultBlock("orphan", "y")]), HI]
    for profile in ALL:
        encoded = encode_chat(Request("m", messages, stream=False), profile)
        body = encoded.body["messages"]
        calls = [call["id"] for message in body for call in message.get("tool_calls", [])]
        assert sorted(message["tool_call_id"] for message in body if message["role"] == "tool") == sorted(calls)
        bridged = ["turn_bridged"] if profile.bridge_turns else []
        assert [notice.kind for notice in encoded.notices] == ["orphan_results", "missing_results", *bridged]


@pytest.mark.row("req_alternation", "req_system_first")
@pytest.mark.parametrize("name", ["llamacpp", "lmstudio", "vllm", "mistral", "ollama-openai"])
def test_local_templates_get_one_system_message_first_and_no_neighbours_of_one_role(name: str) -> None:
    system = Message("system", "more")
    messages = [Message("system", "s"), HI, HI, system, Message("assistant", "a"), Message("assistant", "b"), HI]
    roles = [message["role"] for message in sent(*messages, profile=get_profile(name))]
    assert roles == ["system", "user", "assistant", "user"]


@pytest.mark.row("req_developer_role")
def test_instructions_are_a_system_message() -> None:
    for profile in ALL:
        assert sent({"role": "developer", "content": "s"}, HI, profile=profile)[0]["role"] == "system"


@pytest.mark.row("req_mistral_ids")
def test_mistral_gets_ids_of_nine_letters_and_digits() -> None:
    messages = sent(*ROUND, profile=get_profile("mistral"))
    (call,) = messages[1]["tool_calls"]
    assert len(call["id"]) == 9
    assert call["id"].isalnum()
    assert messages[2]["tool_call_id"] == call["id"]
    assert messages[2]["name"] == "search"


THOUGHT = ThinkingBlock("hm", "sig", extra={"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]})


@pytest.mark.row("req_reasoning_replay", "reasoning_details")
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("deepseek", {"reasoning_content": "hmm"}),
        ("moonshot", {"reasoning_content": "hmm"}),
        ("llamacpp", {"reasoning_content": "hmm"}),
        ("vllm", {"reasoning": "hmm"}),
        ("ollama-openai", {"reasoning": "hmm"}),
        ("openrouter", {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}),
        ("litellm", {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "sig"}]}),
        ("generic", {}),
        ("openai", {}),
        ("groq", {}),
        ("mistral", {}),
    ],
)
def test_thoughts_go_back_under_the_field_that_the_server_uses(name: str, fields: dict[str, Any]) -> None:
    answer = Message("assistant", [THOUGHT, ThinkingBlock("m"), TextBlock("a"), CALL])
    message = sent(HI, answer, profile=get_profile(name))[1]
    known = {"role", "content", "tool_calls"}
    assert {key: value for key, value in message.items() if key not in known} == fields
    assert message["content"] == "a"


@pytest.mark.row("req_reasoning_replay")
@pytest.mark.parametrize("name", ["deepseek", "openrouter", "litellm"])
def test_without_a_thought_nothing_of_it_is_sent(name: str) -> None:
    for answer in (Message("assistant", [TextBlock("a")]), Message("assistant", [ThinkingBlock(""), TextBlock("a")])):
        assert sent(HI, answer, profile=get_profile(name))[1] == {"role": "assistant", "content": "a"}


@pytest.mark.row("req_thought_signature", "extra_content")
def test_what_came_with_a_call_goes_back_with_it() -> None:
    extra = {"extra_content": {"google": {"thought_signature": "c2ln"}}, "other": 1}
    message = sent(HI, Message("assistant", [ToolUseBlock("a", "search", {}, extra=extra)]))[1]
    assert message["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "c2ln"}}
    assert "other" not in message["tool_calls"][0]


@pytest.mark.row("D8")
def test_tools_are_functions_and_without_tools_there_is_no_key() -> None:
    assert encode(HI, tools=[SEARCH])["tools"] == [
        {
            "type": "function",
            "function": {"name": "search", "description": "Searches.", "parameters": SEARCH.parameters},
        }
    ]
    assert "tools" not in encode(HI)


@pytest.mark.row("req_schema_ref", "req_schema_additional")
def test_schemas_are_as_the_server_takes_them() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string", "title": "A"}}}
    body = encode(HI, tools=[ToolSpec("t", "", schema)], output_schema=schema, profile=get_profile("gemini"))
    text = json.dumps([body["tools"], body["response_format"]])
    assert "$ref" not in text
    assert "title" not in text


@pytest.mark.row("D8", "req_tool_choice")
@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("any", "required"),
        ("search", {"type": "function", "function": {"name": "search"}}),
        ({"type": "function", "function": {"name": "search"}}, {"type": "function", "function": {"name": "search"}}),
        ({"type": "tool", "name": "search"}, {"type": "function", "function": {"name": "search"}}),
    ],
)
def test_the_choice_of_a_tool_is_in_the_words_of_this_protocol(choice: Any, expected: Any) -> None:
    assert encode(HI, tools=[SEARCH], tool_choice=choice)["tool_choice"] == expected
    assert "tool_choice" not in encode(HI, tools=[SEARCH])


@pytest.mark.row("req_parallel_tool_calls", "req_logprobs_tools")
def test_nothing_is_sent_that_servers_refuse() -> None:
    for profile in ALL:
        body = encode(*ROUND, tools=[SEARCH], stream=True, profile=profile)
        assert not {"parallel_tool_calls", "logprobs", "n"} & set(body)


@pytest.mark.row("B20")
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("json_schema", {"type": "json_schema", "json_schema": {"name": "output", "schema": SEARCH.parameters}}),
        ("json_object", {"type": "json_object"}),
        ("none", None),
    ],
)
def test_the_form_of_the_output_is_asked_for_as_far_as_possible(kind: Any, expected: Any) -> None:
    body = encode(HI, output_schema=SEARCH.parameters, profile=replace(GENERIC, structured_output=kind))
    assert body.get("response_format") == expected
    assert "response_format" not in encode(HI)


def test_thinking_is_asked_for_in_the_words_of_the_server() -> None:
    assert encode(HI, thinking=False, profile=get_profile("llamacpp"))["chat_template_kwargs"] == {
        "enable_thinking": False
    }
    encoded = encode_chat(Request("m", [HI], thinking=True), GENERIC)
    assert [notice.kind for notice in encoded.notices] == ["thinking_unsupported"]


@pytest.mark.row("D8")
def test_further_fields_win_and_objects_are_merged() -> None:
    profile = replace(GENERIC, extra_body={"a": {"x": 1}, "b": 1}, stream_extra_body={"progress": True})
    extra = {"a": {"y": 2}, "model": "other", "temperature": 1}
    body = encode(HI, temperature=0, extra=extra, profile=profile)
    assert (body["a"], body["b"], body["model"], body["temperature"]) == ({"x": 1, "y": 2}, 1, "other", 1)
    assert "progress" not in body
    assert encode(HI, stream=True, profile=profile)["progress"] is True


FULL: dict[str, Any] = {
    "tools": [SEARCH],
    "temperature": 0.5,
    "max_tokens": 9,
    "stop": ["x"],
    "top_p": 1,
    "seed": 1,
    "tool_choice": "search",
    "thinking": True,
    "output_schema": SEARCH.parameters,
    "stream": True,
}
CONVERSATION = [
    Message("system", "s"),
    HI,
    Message("assistant", [THOUGHT, ThinkingBlock("m"), CALL, ToolUseBlock("call_2", "search", {})]),
    Message("tool", [ToolResultBlock("call_1", None)]),
    Message("user", [TextBlock("and"), IMAGE]),
    Message("assistant", [ThinkingBlock("only")]),
    Message("assistant", [TextBlock("a"), ToolUseBlock("call_3", "search", {"q": "x"})]),
]


@pytest.mark.row("A2", "req_null_fields")
@pytest.mark.parametrize("settings", [{}, FULL], ids=["bare", "full"])
def test_no_field_is_ever_null_but_the_content_beside_calls(settings: dict[str, Any]) -> None:
    for profile in ALL:
        body = encode(*CONVERSATION, profile=profile, **settings)
        assert json.loads(json.dumps(body)) == body
        for message in body["messages"]:
            if message["role"] == "assistant" and message["content"] is None:
                assert message.pop("tool_calls")
                del message["content"]
        assert nulls(body) == []


@pytest.mark.row("req_null_fields")
def test_messages_have_no_keys_but_those_that_servers_know() -> None:
    known = {"role", "content", "tool_calls", "tool_call_id", "name"}
    for profile in ALL:
        assert all(
            set(message) <= {*known, profile.replay_thinking} for message in sent(*CONVERSATION, profile=profile)
        )
