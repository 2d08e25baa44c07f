"""Anthropic Messages, also as llama.cpp, Ollama, vLLM and gateways speak it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from any_agent.events import Notice
from any_agent.types import Block, ImageBlock, Message, Profile, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from any_agent.wire.decoder import Decoder
from any_agent.wire.failures import classify_payload, is_error_payload
from any_agent.wire.history import prepare, result_text
from any_agent.wire.request import (
    Encoded,
    Request,
    checked_image,
    finished,
    tool_choice_name,
    without_none,
)
from any_agent.wire.schema import tool_schema
from any_agent.wire.toolcalls import CallPiece
from any_agent.wire.usage import read_usage
from any_agent.wire.values import as_key, as_list, as_object, as_word, read_json

__all__ = ("AnthropicDecoder", "encode_anthropic")


class _Delta(msgspec.Struct):
    text: Any = None
    thinking: Any = None
    partial_json: Any = None
    signature: Any = None
    stop_reason: Any = None
    stop_sequence: Any = None


class _Event(msgspec.Struct):
    type: Any = None
    index: Any = None
    delta: _Delta | None = None
    content_block: Any = None
    message: Any = None
    usage: Any = None
    error: Any = None


_decode_event = msgspec.json.Decoder(_Event).decode


class AnthropicDecoder(Decoder):
    """Decodes `/v1/messages`, streamed or not; blocks are told apart by their index alone.

    >>> decoder = AnthropicDecoder()
    >>> decoder.feed(b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Hi"}}\\n\\n')
    [TextDelta(text='Hi', seq=0)]
    """

    def _event(self, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            if self.may_end:
                self._complete()
            return
        try:
            event = _decode_event(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            payload = read_json(data)
            if is_error_payload(payload):
                self.assembly.fail(classify_payload(payload))
            return
        if event.type == "error" or event.error:
            self.assembly.fail(classify_payload(read_json(data)))
        elif event.type == "content_block_delta":
            self._delta(as_key(event.index), event.delta or _Delta())
        elif event.type == "content_block_start":
            self._start_block(as_key(event.index), as_object(event.content_block))
        elif event.type == "content_block_stop":
            if as_key(event.index) not in self._tools:
                self.assembly.end_block(signature=self._signatures.pop(as_key(event.index), ""))
        elif event.type == "message_delta":
            self._message_delta(event.delta or _Delta(), event.usage)
        elif event.type == "message_start":
            self._start_message(as_object(event.message))
        elif event.type == "message_stop":
            self._complete()

    def _body(self, payload: Any) -> None:
        if is_error_payload(payload):
            self.assembly.fail(classify_payload(payload))
            return
        message = as_object(payload)
        self.assembly.raw = message
        self._start_message(message)
        content = as_list(message.get("content"))
        for index, item in enumerate(content):
            block = as_object(item)
            self._start_block(index, block)
            self.assembly.end_block(signature=self._signatures.pop(index, ""))
        stop = _Delta(stop_reason=message.get("stop_reason"), stop_sequence=message.get("stop_sequence"))
        self._message_delta(stop, None)
        if message.get("type") == "message" or content:
            self._complete()

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: the blocks that are calls of ours, and the input with which each began
        self._tools: dict[Any, dict[str, Any]] = {}
        self._with_deltas: set[Any] = set()
        #: of thoughts whose signature came at their beginning
        self._signatures: dict[Any, str] = {}

    def _start_message(self, message: dict[str, Any]) -> None:
        assembly = self.assembly
        identifier = str(message.get("id") or "")
        if assembly.id and identifier != assembly.id:
            self._tools.clear()
            self._with_deltas.clear()
            self._signatures.clear()
            assembly.restart("the server began the message again")
        assembly.id = identifier or assembly.id
        assembly.model = assembly.model or str(message.get("model") or "")
        assembly.usage = read_usage(message.get("usage"), assembly.usage)

    def _start_block(self, index: Any, block: dict[str, Any]) -> None:
        assembly = self.assembly
        kind = block.get("type")
        if kind == "tool_use":
            self._tools[index] = as_object(block.get("input"))
            assembly.call(CallPiece(index, as_word(block.get("id")), as_word(block.get("name"))))
        elif kind == "redacted_thinking":
            assembly.end_block()
            assembly.end_block(extra={"redacted": block.get("data")})
        elif kind == "text" and isinstance(block.get("text"), str) and block["text"]:
            assembly.text(block["text"])
        elif kind == "thinking":
            signature = as_word(block.get("signature"))
            if signature is not None:
                self._signatures[index] = signature
            if isinstance(block.get("thinking"), str) and block["thinking"]:
                assembly.thinking(block["thinking"])

    def _delta(self, index: Any, delta: _Delta) -> None:
        assembly = self.assembly
        if isinstance(delta.text, str) and delta.text:
            if self._signatures:
                self._sign()
            assembly.text(delta.text)
        elif isinstance(delta.thinking, str) and delta.thinking:
            assembly.thinking(delta.thinking)
        elif delta.partial_json and index in self._tools:
            self._with_deltas.add(index)
            assembly.call(CallPiece(index, arguments=delta.partial_json))
        elif isinstance(delta.signature, str) and delta.signature:
            self._signatures.pop(index, None)
            assembly.end_block(signature=delta.signature)

    def _sign(self) -> None:
        """A thought that was signed at its beginning and whose end nobody told."""
        for signature in self._signatures.values():
            self.assembly.end_block(signature=signature)
        self._signatures.clear()

    def _message_delta(self, delta: _Delta, usage: Any) -> None:
        if isinstance(delta.stop_reason, str) and delta.stop_reason:
            self.assembly.label = delta.stop_reason
        if isinstance(delta.stop_sequence, str) and delta.stop_sequence:
            self.assembly.stopped_by_sequence = True
        self.assembly.usage = read_usage(usage, self.assembly.usage)

    def _complete(self) -> None:
        self._sign()
        for index, given in self._tools.items():
            if given and index not in self._with_deltas:
                self.assembly.call(CallPiece(index, arguments=given))
        self._tools.clear()
        self.assembly.finish()

    def _end_of_stream(self) -> None:
        if self.may_end:
            self._complete()
        else:
            super()._end_of_stream()


#: the protocol wants a limit in every request
_DEFAULT_MAX_TOKENS = 4096


def encode_anthropic(request: Request, profile: Profile) -> Encoded:
    """The body for `/v1/messages`.

    >>> from any_agent.types import Message, Profile
    >>> messages = [Message("system", "Be brief."), Message("user", "hi")]
    >>> encode_anthropic(Request("m", messages), Profile("anthropic")).body["system"]
    'Be brief.'
    """
    history = prepare(request.messages, replace(profile, system_first=True, tool_call_id="word"))
    notices = history.notices
    messages = [message for message in history.messages if message.role != "system"]
    system = next((message.content for message in history.messages if message.role == "system"), None)
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": _DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens,
        "messages": _encode_messages(messages, profile),
    }
    if request.tools:
        body["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool_schema(tool.parameters, profile),
            }
            for tool in request.tools
        ]
    if request.seed is not None:
        notices.append(Notice("seed_unsupported", "the Anthropic protocol has no seed; left out"))
    body |= without_none(
        {
            "system": system,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "stop_sequences": list(request.stop) if request.stop else None,
            "tool_choice": _tool_choice(request),
            "stream": request.stream or None,
        }
    )
    if request.output_schema is not None:
        body["output_config"] = {
            "format": {"type": "json_schema", "schema": tool_schema(request.output_schema, profile)}
        }
    return finished(body, request, profile, notices)


def _tool_choice(request: Request) -> dict[str, Any] | None:
    name = tool_choice_name(request)
    if name is not None:
        return {"type": "tool", "name": name}
    choice = request.tool_choice
    if choice is None or isinstance(choice, dict):
        return choice
    return {"type": "any" if choice == "required" else choice}


def _encode_messages(messages: list[Message], profile: Profile) -> list[dict[str, Any]]:
    """Results travel in messages of the user, and neighbours of one role are one message."""
    result: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [TextBlock(message.content)] if isinstance(message.content, str) else message.content
        content = [item for block in blocks if (item := _encode_block(block, profile)) is not None]
        if result and result[-1]["role"] == role:
            result[-1]["content"] += content
        elif content:
            result.append({"role": role, "content": content})
    for item in result:
        if len(item["content"]) == 1 and item["content"][0]["type"] == "text":
            item["content"] = item["content"][0]["text"]
    return result


def _encode_block(block: Block, profile: Profile) -> dict[str, Any] | None:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ImageBlock(url=str()):
            return {"type": "image", "source": {"type": "url", "url": checked_image(block, profile).url}}
        case ImageBlock():
            source = {"type": "base64", "media_type": block.media_type, "data": block.data}
            return {"type": "image", "source": source}
        case ToolUseBlock():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
        case ToolResultBlock():
            result = {"type": "tool_result", "tool_use_id": block.tool_use_id, "content": result_text(block.content)[0]}
            return {**result, "is_error": True} if block.is_error else result
        case ThinkingBlock():
            return _encode_thought(block, profile)
        case _:
            return None


def _encode_thought(block: ThinkingBlock, profile: Profile) -> dict[str, Any] | None:
    """Anthropic takes back only what it signed itself."""
    redacted = (block.extra or {}).get("redacted")
    if redacted is not None:
        return {"type": "redacted_thinking", "data": redacted}
    if not block.signature or profile.replay_thinking != "signed":
        return None
    return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
