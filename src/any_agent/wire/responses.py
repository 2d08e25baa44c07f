"""OpenAI Responses, also as llama.cpp, LM Studio, vLLM and gateways speak it.

Three things say the same: deltas, the `done` of an item, and the snapshot at the end. Whatever comes first
counts, and what it left out is filled in from the others. Items are told apart by `output_index`, or by
their id where there is none; ids change between events on some servers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from any_agent.events import Notice
from any_agent.types import ImageBlock, Message, Profile, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from any_agent.wire.decoder import Decoder
from any_agent.wire.failures import classify_payload, is_error_payload
from any_agent.wire.history import prepare, result_text
from any_agent.wire.request import (
    Encoded,
    Request,
    arguments_text,
    checked_image,
    content_blocks,
    finished,
    thinking_fields,
    tool_choice_name,
    without_none,
)
from any_agent.wire.schema import tool_schema
from any_agent.wire.toolcalls import CallPiece
from any_agent.wire.usage import read_usage
from any_agent.wire.values import as_key, as_object, as_objects, as_word, read_json

__all__ = ("ResponsesDecoder", "encode_responses")


class _Event(msgspec.Struct):
    type: Any = None
    delta: Any = None
    output_index: Any = None
    item_id: Any = None
    content_index: Any = None
    item: Any = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    summary_index: Any = None
    response: Any = None
    error: Any = None
    timings: Any = None
    prompt_progress: Any = None


_decode_event = msgspec.json.Decoder(_Event).decode


class ResponsesDecoder(Decoder):
    """Decodes `/v1/responses`, streamed or not.

    >>> decoder = ResponsesDecoder()
    >>> decoder.feed(b'data: {"type":"response.output_text.delta","item_id":"m","delta":"Hi"}\\n\\n')
    [TextDelta(text='Hi', seq=0)]
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: (item, what) of which something has come already: text, thinking, arguments, call
        self._seen: set[tuple[Any, ...]] = set()
        self._thought_kind: dict[Any, str] = {}

    def _event(self, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            self.assembly.finish()
            return
        try:
            event = _decode_event(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            payload = read_json(data)
            if is_error_payload(payload):
                self.assembly.fail(classify_payload(payload))
            return
        kind = event.type if isinstance(event.type, str) else ""
        if event.prompt_progress:
            self.assembly.read_progress(event.prompt_progress)
        if event.timings:
            self.assembly.read_timings(event.timings)
        if kind == "error" or (event.error and not kind):
            self.assembly.fail(classify_payload(read_json(data)))
        elif kind in ("response.completed", "response.incomplete", "response.failed", "response.done"):
            self._end(as_object(event.response))
        elif kind == "response.created":
            self._identify(as_object(event.response))
        else:
            self._item_event(kind, event)

    def _body(self, payload: Any) -> None:
        if is_error_payload(payload):
            self.assembly.fail(classify_payload(payload))
            return
        response = as_object(payload)
        self.assembly.raw = response
        self.assembly.read_timings(response.get("timings"))
        if response.get("output") is not None or response.get("status"):
            self._end(response)

    def _item_event(self, kind: str, event: _Event) -> None:
        key = as_key(event.output_index if event.output_index is not None else event.item_id)
        if kind == "response.output_text.delta":
            self._text(key, event.content_index, event.delta)
        elif kind == "response.output_text.done":
            self._text(key, event.content_index, event.text, only_if_unseen=True)
        elif kind == "response.refusal.delta":
            self._text(key, event.content_index, event.delta, refused=True)
        elif kind == "response.refusal.done":
            self._text(key, event.content_index, event.refusal, only_if_unseen=True, refused=True)
        elif kind in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
            self._thought(key, kind, event)
        elif kind == "response.function_call_arguments.delta":
            self._arguments(key, event.delta)
        elif kind == "response.function_call_arguments.done":
            self._arguments(key, event.arguments, only_if_unseen=True)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            item = as_object(event.item)
            key = as_key(event.output_index if event.output_index is not None else item.get("id"))
            self._item(key, item, done=kind.endswith("done"))

    def _text(self, key: Any, part: Any, text: Any, *, only_if_unseen: bool = False, refused: bool = False) -> None:
        """Words of one part of an item; a server that does not number the parts has told all of them, or none."""
        seen = {(key, "text", as_key(part)), (key, "text", None)} & self._seen
        if isinstance(text, str) and text and not (only_if_unseen and seen):
            self._seen |= {(key, "text"), (key, "text", as_key(part))}
            self.assembly.refused = self.assembly.refused or refused
            self.assembly.text(text)

    def _thought(self, key: Any, kind: str, event: _Event) -> None:
        """A server may send both the thoughts and a summary of them: the first kind counts."""
        if isinstance(event.delta, str) and event.delta and self._thought_kind.setdefault(key, kind) == kind:
            part = (key, f"summary {event.summary_index}")
            if isinstance(event.summary_index, int) and event.summary_index > 0 and part not in self._seen:
                self.assembly.thinking("\n\n")
            self._seen |= {part, (key, "thinking")}
            self.assembly.thinking(event.delta)

    def _arguments(self, key: Any, arguments: Any, *, only_if_unseen: bool = False) -> None:
        if arguments and not (only_if_unseen and (key, "arguments") in self._seen):
            self._seen.add((key, "arguments"))
            self.assembly.call(CallPiece(key, arguments=arguments))

    def _item(self, key: Any, item: dict[str, Any], *, done: bool) -> None:
        kind = item.get("type")
        if kind == "function_call":
            if (key, "call") not in self._seen:
                self._seen.add((key, "call"))
                identifier = as_word(item.get("call_id")) or as_word(item.get("id"))
                self.assembly.call(CallPiece(key, identifier, as_word(item.get("name"))))
            self._arguments(key, item.get("arguments"), only_if_unseen=True)
        elif kind == "message":
            for number, part in enumerate(as_objects(item.get("content"))):
                self._text(key, number, part.get("text"), only_if_unseen=True)
                self._text(key, number, part.get("refusal"), only_if_unseen=True, refused=True)
            if done:
                self.assembly.end_block()
        elif kind == "reasoning":
            if (key, "thinking") not in self._seen:
                parts = as_objects(item.get("summary")) or as_objects(item.get("content"))
                thought = "\n\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
                if thought:
                    self._seen.add((key, "thinking"))
                    self.assembly.thinking(thought)
            if done:
                encrypted = bool(item.get("encrypted_content"))
                self.assembly.end_block(extra={"reasoning_item": item} if encrypted else None)

    def _identify(self, response: dict[str, Any]) -> None:
        self.assembly.id = self.assembly.id or str(response.get("id") or "")
        self.assembly.model = self.assembly.model or str(response.get("model") or "")

    def _end(self, response: dict[str, Any]) -> None:
        assembly = self.assembly
        self._identify(response)
        assembly.usage = read_usage(response.get("usage"), assembly.usage)
        status = response.get("status")
        if status == "failed" or response.get("error"):
            assembly.fail(classify_payload(response.get("error") or response))
            return
        self._fill_in(as_objects(response.get("output")))
        reason = as_word(as_object(response.get("incomplete_details")).get("reason"))
        if reason is None and status in ("incomplete", "cancelled"):
            assembly.cut(f"the server ended it as {status!r} without saying why")
            return
        assembly.label = reason or str(status or "completed")
        # llama.cpp says `completed` in any case
        assembly.ran_out = assembly.label == "completed" and assembly.used_all_tokens()
        assembly.finish()

    def _fill_in(self, output: list[dict[str, Any]]) -> None:
        """Items of the snapshot beyond those of their kind that have come: positions and ids are not reliable."""
        marks = {"message": "text", "reasoning": "thinking", "function_call": "call"}
        missing = {mark: sum(1 for seen in self._seen if seen[1:] == (mark,)) for mark in marks.values()}
        for position, item in enumerate(output):
            mark = marks.get(str(item.get("type")), "")
            if missing.get(mark, 0) > 0:
                missing[mark] -= 1
            else:
                self._item(("snapshot", position), item, done=True)


def encode_responses(request: Request, profile: Profile) -> Encoded:
    """The body for `/v1/responses`. Nothing is stored at the provider: the whole conversation is sent.

    >>> from any_agent.types import Message, Profile
    >>> encode_responses(Request("m", [Message("user", "hi")]), Profile("generic")).body["input"]
    [{'role': 'user', 'content': 'hi'}]
    """
    history = prepare(request.messages, replace(profile, system_first=True))
    notices = history.notices
    system = next((message.content for message in history.messages if message.role == "system"), None)
    rest = [message for message in history.messages if message.role != "system"]
    # servers that people run themselves take these here too, though the protocol has no place for them
    beyond = without_none(
        {
            "stop": list(request.stop) if request.stop else None,
            "seed": request.seed,
            "response_format": _response_format(request.output_schema, profile),
        }
    )
    if not profile.local:
        for name in beyond.keys() - {"response_format"}:
            notices.append(Notice(f"{name}_unsupported", f"the Responses protocol has no {name}; left out"))
        beyond = {}
    body: dict[str, Any] = {
        "model": request.model,
        "input": [item for message in rest for item in _encode_message(message, profile)],
        "store": False,
    }
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool_schema(tool.parameters, profile),
            }
            for tool in request.tools
        ]
    body |= without_none(
        {
            "instructions": system,
            "max_output_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "tool_choice": _tool_choice(request),
            "text": _text_format(request.output_schema, profile),
            "stream": request.stream or None,
        }
    )
    return finished({**body, **beyond}, request, profile, notices, thinking=_reasoning(request, profile, notices))


def _tool_choice(request: Request) -> str | dict[str, Any] | None:
    name = tool_choice_name(request)
    if name is not None:
        return {"type": "function", "name": name}
    return "required" if request.tool_choice == "any" else request.tool_choice


def _text_format(schema: dict[str, Any] | None, profile: Profile) -> dict[str, Any] | None:
    if schema is None:
        return None
    return {"format": {"type": "json_schema", "name": "output", "schema": tool_schema(schema, profile)}}


def _response_format(schema: dict[str, Any] | None, profile: Profile) -> dict[str, Any] | None:
    """llama.cpp reads the schema where Chat Completions has it, and silently ignores it elsewhere."""
    if schema is None:
        return None
    return {"type": "json_schema", "json_schema": {"name": "output", "schema": tool_schema(schema, profile)}}


def _reasoning(request: Request, profile: Profile, notices: list[Notice]) -> dict[str, Any]:
    """`reasoning_effort` has another place here than in Chat Completions."""
    fields = thinking_fields(request, profile, notices)
    if "reasoning_effort" in fields:
        return {"reasoning": {"effort": fields["reasoning_effort"]}, "include": ["reasoning.encrypted_content"]}
    return fields


def _encode_message(message: Message, profile: Profile) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [
            {"type": "function_call_output", "call_id": block.tool_use_id, "output": result_text(block.content)[0]}
            for block in message.content
            if isinstance(block, ToolResultBlock)
        ]
    if message.role == "user":
        return [{"role": "user", "content": _encode_content(message, profile)}]
    items: list[dict[str, Any]] = []
    for block in [TextBlock(message.content)] if isinstance(message.content, str) else message.content:
        if isinstance(block, TextBlock):
            items.append({"role": "assistant", "content": [{"type": "output_text", "text": block.text}]})
        elif isinstance(block, ToolUseBlock):
            call = {"call_id": block.id, "name": block.name, "arguments": arguments_text(block.input)}
            items.append({"type": "function_call", **call})
        elif isinstance(block, ThinkingBlock) and "reasoning_item" in (block.extra or {}):
            items.append(as_object(block.extra)["reasoning_item"])
    return items


def _encode_content(message: Message, profile: Profile) -> str | list[dict[str, Any]]:
    blocks = content_blocks(message.content)
    if not any(isinstance(block, ImageBlock) for block in blocks):
        return "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    return [
        {"type": "input_text", "text": block.text}
        if isinstance(block, TextBlock)
        else {"type": "input_image", "image_url": checked_image(block, profile).as_url()}
        for block in blocks
    ]
