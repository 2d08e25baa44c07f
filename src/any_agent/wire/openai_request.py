"""Requests in the form of Chat Completions, as each server wants them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from any_agent.types import Block, ImageBlock, Message, Profile, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from any_agent.wire.history import History, prepare, result_text
from any_agent.wire.request import (
    Encoded,
    Request,
    arguments_text,
    checked_image,
    content_blocks,
    finished,
    function_tools,
    tool_choice_name,
    without_none,
)
from any_agent.wire.schema import tool_schema
from any_agent.wire.values import as_list

__all__ = ("encode_chat", "openai_messages")


def encode_chat(request: Request, profile: Profile) -> Encoded:
    """The body for `/chat/completions`.

    >>> from any_agent.types import Message, Profile
    >>> encode_chat(Request("m", [Message("user", "hi")], stream=False), Profile("generic")).body
    {'model': 'm', 'messages': [{'role': 'user', 'content': 'hi'}]}
    """
    history = prepare(request.messages, profile)
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [item for message in history.messages for item in _encode_message(message, history, profile)],
    }
    if request.tools:
        body["tools"] = function_tools(request.tools, profile)
    body |= without_none(
        {
            profile.max_tokens_field: request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request.seed,
            "stop": list(request.stop) if request.stop else None,
            "tool_choice": _tool_choice(request),
            "response_format": _response_format(request.output_schema, profile),
            "stream": request.stream or None,
            "stream_options": {"include_usage": True} if request.stream and profile.stream_usage else None,
        }
    )
    return finished(body, request, profile, history.notices)


def _tool_choice(request: Request) -> str | dict[str, Any] | None:
    name = tool_choice_name(request)
    if name is not None:
        return {"type": "function", "function": {"name": name}}
    return "required" if request.tool_choice == "any" else request.tool_choice


def _response_format(schema: dict[str, Any] | None, profile: Profile) -> dict[str, Any] | None:
    if schema is None or profile.structured_output == "none":
        return None
    if profile.structured_output == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "output", "schema": tool_schema(schema, profile)}}


def _encode_message(message: Message, history: History, profile: Profile) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [
            without_none(
                {
                    "role": "tool",
                    "tool_call_id": block.tool_use_id,
                    "name": history.tool_name(block) or None if profile.tool_result_name else None,
                    "content": result_text(block.content)[0],
                }
            )
            for block in message.content
            if isinstance(block, ToolResultBlock)
        ]
    if message.role == "assistant":
        return [_encode_assistant(message, profile)]
    return [{"role": message.role, "content": _encode_content(message.content, profile)}]


def _encode_content(content: str | list[Block], profile: Profile) -> str | list[dict[str, Any]]:
    """Text alone goes as a string: some servers lose or refuse lists, and parts without words."""
    blocks = content_blocks(content)
    if not any(isinstance(block, ImageBlock) for block in blocks):
        return "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    return [
        {"type": "text", "text": block.text}
        if isinstance(block, TextBlock)
        else {"type": "image_url", "image_url": {"url": checked_image(block, profile).as_url()}}
        for block in blocks
    ]


def _encode_assistant(message: Message, profile: Profile) -> dict[str, Any]:
    if isinstance(message.content, str):
        return {"role": "assistant", "content": message.content}
    text = "".join(block.text for block in message.content if isinstance(block, TextBlock))
    calls = [block for block in message.content if isinstance(block, ToolUseBlock)]
    # a message that is only begun (a thought to be continued) has words to come, and servers want a string there
    empty = None if calls and profile.empty_assistant_content == "null" else ""
    result: dict[str, Any] = {"role": "assistant", "content": text or empty}
    thoughts = [block for block in message.content if isinstance(block, ThinkingBlock)]
    if profile.replay_thinking and thoughts:
        result |= _replayed(thoughts, profile.replay_thinking)
    if calls:
        result["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_text(call.input)},
                **{key: value for key, value in (call.extra or {}).items() if key == "extra_content"},
            }
            for call in calls
        ]
    return result


def _replayed(thoughts: list[ThinkingBlock], field: str) -> dict[str, Any]:
    """The thoughts, given back under the field in which the server sends them."""
    if field == "reasoning_details":
        details = [item for block in thoughts for item in as_list((block.extra or {}).get(field))]
        return {field: details} if details else {}
    if field == "thinking_blocks":
        signed = [block for block in thoughts if block.signature]
        items = [{"type": "thinking", "thinking": block.thinking, "signature": block.signature} for block in signed]
        return {field: items} if items else {}
    text = "".join(block.thinking for block in thoughts)
    return {field: text} if text else {}


def openai_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """A conversation in OpenAI's format, as it is: nothing merged, filled in or left out.

    >>> openai_messages([Message("user", "hi")])
    [{'role': 'user', 'content': 'hi'}]
    """
    history = History(list(messages), [])
    plain = Profile("openai", replay_thinking="reasoning_content")
    return [item for message in messages for item in _encode_message(message, history, plain)]
