"""Responses of a model as messages of an agent."""

from __future__ import annotations

import pytest

from any_agent import LLMResponse, TextBlock, ThinkingBlock, ToolUseBlock, ToolUseError
from any_agent.orchestration import Message, MessageType
from any_agent.orchestration.providers.openai.translation import nothing_said, to_messages
from any_agent.types import Block


def messages(*content: Block) -> list[Message]:
    return to_messages(LLMResponse(content=list(content)), sender="gpt", provider="openai", model="m")


def call(id: str, name: str, arguments: str) -> Message:
    metadata = {
        "provider": "openai",
        "type": "tool_call",
        "tool_call_id": id,
        "tool_name": name,
        "tool_arguments": arguments,
    }
    return Message(f"Tool call: {name}", "gpt", ["all"], MessageType.SYSTEM, metadata)


@pytest.mark.row("C9")
def test_the_text_is_one_message_and_thoughts_are_none() -> None:
    expected = Message("Hello", "gpt", ["all"], MessageType.CHAT, {"provider": "openai", "model": "m"})
    assert messages(ThinkingBlock("hm"), TextBlock("Hel"), TextBlock("lo")) == [expected]


@pytest.mark.row("C9")
def test_each_call_is_one_message_after_the_text_in_order() -> None:
    found = messages(
        ToolUseBlock("c1", "search", {"q": "Zürich"}, arguments='{"q":"Zürich"}'),
        TextBlock("Let me see"),
        ToolUseBlock("c2", "add", {"a": 1}),
        ToolUseError("Invalid JSON", '{"q": "par', "c3", "search"),
        ToolUseError("The tool call has no name"),
    )
    assert found[0].content == "Let me see"
    assert found[1:] == [
        call("c1", "search", '{"q":"Zürich"}'),
        call("c2", "add", '{"a": 1}'),
        call("c3", "search", '{"q": "par'),
        call("", "unknown", ""),
    ]


@pytest.mark.row("C9")
def test_nothing_is_no_message() -> None:
    assert messages(ThinkingBlock("hm")) == []
    assert "(max_tokens)" in str(nothing_said(LLMResponse(stop_reason="max_tokens")))
