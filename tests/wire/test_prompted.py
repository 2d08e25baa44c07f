"""Tools told in words: what a model that cannot call any is asked, in each protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from any_agent import (
    AnthropicAdapter,
    ImageBlock,
    Message,
    OllamaAdapter,
    OpenAIAdapter,
    ResponsesAdapter,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    get_profile,
)
from any_agent.types import ToolSpec
from any_agent.wire.prompted import encode_prompted
from any_agent.wire.request import Encoded, Request

ENCODERS = {
    "openai": OpenAIAdapter._encode,
    "ollama": OllamaAdapter._encode,
    "anthropic": AnthropicAdapter._encode,
    "responses": ResponsesAdapter._encode,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"q": {"type": "string", "pattern": "^[a-z]+$"}},
    "required": ["q"],
}
SEARCH = ToolSpec("search", "Search the web", SCHEMA)
WEATHER = ToolSpec("get_weather", "The weather", {"type": "object", "properties": {"city": {"type": "string"}}})
ROUND = [
    Message("system", "Be brief."),
    Message("user", "hi"),
    Message("assistant", [TextBlock("Let me look."), ToolUseBlock("c1", "search", {"q": "é"})]),
    Message("tool", [ToolResultBlock("c1", {"found": 1})]),
]


def encoded(messages: list[Message], profile: str = "llamacpp", protocol: str = "openai", **more: Any) -> Encoded:
    request = Request("m", messages, more.pop("tools", [SEARCH, WEATHER]), **more)
    return encode_prompted(request, get_profile(profile), ENCODERS[protocol])


def contents(body: dict[str, Any]) -> list[Any]:
    return [message["content"] for message in body["messages"]]


def bound(body: dict[str, Any]) -> Any:
    return body["response_format"]["json_schema"]["schema"]


@pytest.mark.row("B19")
@pytest.mark.parametrize("protocol", ENCODERS)
@pytest.mark.parametrize("profile", ["llamacpp", "mlx"])
def test_no_protocol_sends_tools_calls_or_results_but_in_words(protocol: str, profile: str) -> None:
    body = encoded(ROUND, profile, protocol, tool_choice="auto").body
    written = json.dumps(body, ensure_ascii=False)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)
    assert not any(word in written for word in ('"tool_calls"', '"tool_use"', '"function_call"', '"role": "tool"'))
    for told in ("Search the web", "The weather", "^[a-z]+$", "Let me look.", "é", "search returned: "):
        assert json.dumps(told, ensure_ascii=False)[1:-1] in written


@pytest.mark.row("B19")
def test_output_is_bound_to_one_of_the_calls_or_an_answer() -> None:
    call, other, answer = bound(encoded(ROUND[:2]).body)["anyOf"]
    assert call["properties"]["tool"]["enum"] == ["search"]
    assert call["properties"]["arguments"]["required"] == ["q"]
    assert "pattern" not in str(call), "grammars cannot be made of it"
    assert other["properties"]["tool"]["enum"] == ["get_weather"]
    assert answer["properties"] == {"answer": {"type": "string"}}
    assert all(option["additionalProperties"] is False for option in (call, other, answer))


@pytest.mark.row("B19")
def test_server_that_cannot_bind_gets_tags_and_no_schema() -> None:
    body = encoded(ROUND, "mlx").body
    assert "response_format" not in body
    system, _, called, result = contents(body)
    assert "<tool_call>" in system
    assert called == 'Let me look.\n<tool_call>\n{"name": "search", "arguments": {"q": "é"}}\n</tool_call>'
    assert result == 'search returned: {"found": 1}'


@pytest.mark.row("B19")
def test_round_is_told_as_the_model_would_write_it_and_an_answer_is_asked_for_once() -> None:
    body = encoded([*ROUND, Message("assistant", "One."), *ROUND[1:]]).body
    assert [message["role"] for message in body["messages"]] == ["system", *["user", "assistant", "user", "assistant"],
                                                                 *["user", "assistant", "user"]]  # fmt: skip
    assert contents(body)[2] == 'Let me look.\n{"tool": "search", "arguments": {"q": "é"}}'
    assert contents(body)[3] == 'search returned: {"found": 1}'
    assert contents(body)[-1].startswith('search returned: {"found": 1}\n\n')
    assert '"answer"' in contents(body)[-1]


@pytest.mark.row("B19")
@pytest.mark.parametrize(
    ("choice", "offered", "may_answer"),
    [
        ("auto", ["search", "get_weather"], True),
        ("required", ["search", "get_weather"], False),
        ({"type": "function", "function": {"name": "search"}}, ["search"], False),
        ("none", [], True),
    ],
    ids=["auto", "required", "one tool", "none"],
)
def test_choice_among_tools_holds(choice: Any, offered: list[str], may_answer: bool) -> None:
    body = encoded(ROUND, tool_choice=choice).body
    options = bound(body).get("anyOf", [bound(body)]) if offered else []
    names = [option["properties"]["tool"]["enum"][0] for option in options if "tool" in option["properties"]]
    assert names == offered
    assert any("answer" in option["properties"] for option in options) == (may_answer and bool(offered))
    assert ("You can call tools" in contents(body)[0]) == bool(offered)
    assert ("Do call" in contents(body)[0]) == (not may_answer)


@pytest.mark.row("B19", "B20")
def test_object_that_is_asked_for_is_the_answer_in_the_same_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    answer = bound(encoded(ROUND, output_schema=schema).body)["anyOf"][-1]
    assert answer["properties"]["answer"]["required"] == ["n"]
    unbound = encoded(ROUND, "mlx", output_schema=schema)
    assert [notice.kind for notice in unbound.notices] == ["schema_not_sent"]
    assert bound(encoded(ROUND, output_schema=schema, tools=[]).body) == schema


@pytest.mark.row("B19", "D6")
def test_image_in_a_result_follows_it() -> None:
    picture = ToolResultBlock("c1", ImageBlock.from_bytes(b"GIF89a"))
    body = encoded([*ROUND[:3], Message("tool", [picture])]).body
    told = json.dumps(body["messages"][3:])
    assert "search returned: (an image)" in told
    assert "data:image/gif" in told
    assert told.count('\\"answer\\"') == 1


@pytest.mark.row("B19", "A24")
def test_call_without_a_result_is_told_with_an_error() -> None:
    asked = encoded([*ROUND[:3], Message("user", "never mind")])
    assert "search returned: no result" in json.dumps(asked.body)
    assert [notice.kind for notice in asked.notices] == ["missing_results"]
