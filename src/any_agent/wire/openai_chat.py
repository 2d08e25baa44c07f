"""Chat Completions, as OpenAI defined it and as everybody else sends it."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from any_agent.errors import ProviderAPIError, StreamInterrupted
from any_agent.wire.decoder import Decoder
from any_agent.wire.failures import classify_payload, is_error_payload
from any_agent.wire.toolcalls import CallPiece
from any_agent.wire.usage import read_usage
from any_agent.wire.values import as_list, as_object, as_objects, as_word, read_json

__all__ = ("Chunk", "OpenAIChatDecoder", "read_chunk")

_REASONING = ("reasoning_content", "reasoning", "thinking", "thinking_content", "thought")
_BROKEN = {"error": "server_error", "network_error": "server_error", "abort": "aborted"}


class Delta(msgspec.Struct, gc=False):
    """What of a delta is read. `Any`, since no field has the same type everywhere."""

    content: Any = None
    tool_calls: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    thinking: Any = None
    thinking_content: Any = None
    thinking_blocks: Any = None
    thought: Any = None
    refusal: Any = None
    function_call: Any = None
    images: Any = None


class Choice(msgspec.Struct, gc=False):
    """What of a choice is read."""

    delta: Delta | None = None
    finish_reason: Any = None
    index: Any = 0
    message: Delta | None = None
    native_finish_reason: Any = None
    camel_finish_reason: Any = msgspec.field(default=None, name="finishReason")
    stop_reason: Any = None
    matched_stop: Any = None


class Chunk(msgspec.Struct, gc=False):
    """What of a chunk is read."""

    choices: list[Choice] | None = None
    id: Any = None
    model: Any = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None
    timings: Any = None
    prompt_progress: Any = None


_NOTHING_ELSE = Delta()
_decode_chunk = msgspec.json.Decoder(Chunk).decode
_FIELDS: dict[type[msgspec.Struct], dict[str, str]] = {
    cls: {item.encode_name: item.name for item in msgspec.structs.fields(cls)} for cls in (Delta, Choice, Chunk)
}


def _picked(cls: type[Any], data: Any) -> Any:
    """A struct from whatever of `data` fits; servers put strings where objects belong."""
    if not isinstance(data, dict):
        return cls()
    values = cast("dict[str, Any]", data)
    return cls(**{name: values[key] for key, name in _FIELDS[cls].items() if key in values})


def read_chunk(payload: Any) -> Chunk:
    """A chunk from JSON that was decoded already, or from an object of the OpenAI SDK."""
    if isinstance(payload, Chunk):
        payload = msgspec.to_builtins(payload)
    if hasattr(payload, "model_dump"):
        payload = payload.model_dump()
    chunk: Chunk = _picked(Chunk, payload)
    raw: Any = chunk.choices
    chunk.choices = [_picked(Choice, item) for item in as_list(raw)]
    for choice in chunk.choices or ():
        choice.delta = _picked(Delta, choice.delta) if choice.delta is not None else None
        choice.message = _picked(Delta, choice.message) if choice.message is not None else None
    return chunk


class OpenAIChatDecoder(Decoder):
    """Decodes `/chat/completions`, streamed or not.

    >>> decoder = OpenAIChatDecoder()
    >>> decoder.feed(b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\\n\\n')
    [TextDelta(text='Hi', seq=0)]
    >>> decoder.close()[-1].response.stop_reason
    'end_turn'
    """

    #: what deltas have brought; a `message` that says it once more is not listened to
    _delta_text = False
    _delta_rest = False
    _message_text = ""

    def _event(self, data: bytes) -> None:
        try:
            chunk = _decode_chunk(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._odd_event(data)
            return
        if chunk.choices is None or chunk.error:
            self._odd_event(data)
        else:
            self.chunk(chunk)

    def _odd_event(self, data: bytes) -> None:
        """The end, an error, something foreign, or a chunk with types of its own."""
        if data.strip() == b"[DONE]":
            self.assembly.finish()
            return
        payload = read_json(data)
        if is_error_payload(payload):
            self.assembly.fail(classify_payload(payload))
        else:
            self.chunk(read_chunk(payload))

    def _body(self, payload: Any) -> None:
        if is_error_payload(payload):
            self.assembly.fail(classify_payload(payload))
            return
        self.assembly.raw = payload
        self.chunk(read_chunk(payload))
        if not self.assembly.ended and self.assembly.label is None and self.assembly.begun:
            self.assembly.finish()  # a whole reply is whole, with or without a label

    def chunk(self, chunk: Chunk) -> None:
        """Take one decoded chunk in. This runs for every token, so the usual case comes first."""
        assembly = self.assembly
        choices = chunk.choices
        if choices:
            for choice in choices:
                if choice.index:
                    continue
                delta = choice.delta
                if delta is not None:
                    content = delta.content
                    delta.content = None
                    if content.__class__ is str and content and delta == _NOTHING_ELSE:
                        self._delta_text = True
                        assembly.text(content)
                    else:
                        self._delta(content, delta)
                if choice.message is not None:
                    self._message(choice.message)
                if choice.finish_reason or choice.camel_finish_reason:
                    self._finish_label(choice)
            if not assembly.id and chunk.id:
                assembly.id = str(chunk.id)
            if not assembly.model and chunk.model:
                assembly.model = str(chunk.model)
        if chunk.usage:
            assembly.usage = read_usage(chunk.usage, assembly.usage)
        elif chunk.x_groq:
            assembly.usage = read_usage(as_object(chunk.x_groq).get("usage"), assembly.usage)
        if chunk.timings:
            assembly.read_timings(chunk.timings)
        if chunk.prompt_progress:
            assembly.read_progress(chunk.prompt_progress)

    def _delta(self, content: Any, delta: Delta) -> None:
        self._delta_rest = self._delta_rest or delta != _NOTHING_ELSE
        self._rest_of(delta)
        if isinstance(content, str):
            self.assembly.text(content)
        elif content:
            self._content_parts(content)
        self._delta_text = self._delta_text or bool(content)
        if delta.tool_calls:
            self._tool_calls(delta.tool_calls)

    def _rest_of(self, delta: Delta) -> None:
        """The fields of a delta that are seldom there."""
        thought = next((value for name in _REASONING if isinstance(value := getattr(delta, name), str) and value), "")
        if delta.reasoning_details:
            thought = self._reasoning_details(delta.reasoning_details, thought)
        if thought:
            self.assembly.thinking(thought)
        if delta.thinking_blocks:
            self._thinking_blocks(delta.thinking_blocks)
        if delta.refusal and isinstance(delta.refusal, str):
            self.assembly.refused = True
            self.assembly.text(delta.refusal)
        if delta.function_call:
            self._call({"index": "function_call", "function": delta.function_call})
        if delta.images:
            self._images(delta.images)

    def _message(self, message: Delta) -> None:
        """A `message` where a delta belongs: the whole answer so far, which counts if no delta brought any."""
        if not self._delta_text:
            if isinstance(message.content, str):
                known = self._message_text
                fresh = message.content.removeprefix(known)
                self._message_text = message.content
            else:
                fresh = ""
                self._content_parts(message.content)
            if not self._delta_rest:
                self._rest_of(message)
            if fresh:
                self.assembly.text(fresh)
        if message.tool_calls and not (self._delta_rest and self.assembly.calls):
            self._tool_calls(message.tool_calls)

    def _finish_label(self, choice: Choice) -> None:
        label = as_word(choice.finish_reason) or as_word(choice.camel_finish_reason)
        if label is None:
            return
        self.assembly.release()
        native = choice.native_finish_reason
        broken = _BROKEN.get(label.lower()) or (_BROKEN.get(native.lower()) if isinstance(native, str) else None)
        if broken == "aborted":
            self.assembly.fail(StreamInterrupted("The server aborted the answer", kind="aborted", retryable=False))
        elif broken:
            self.assembly.fail(ProviderAPIError(f"The server stopped with {native or label!r}", kind="server_error"))
        else:
            self.assembly.label = label
            if isinstance(choice.stop_reason, str) or isinstance(choice.matched_stop, str):
                self.assembly.stopped_by_sequence = True

    def _content_parts(self, parts: Any) -> None:
        for part in as_list(parts) or [parts]:
            piece = {"type": "text", "text": part} if isinstance(part, str) else as_object(part)
            text, thought = piece.get("text"), piece.get("thinking")
            if piece.get("type") in ("text", "output_text") and isinstance(text, str):
                self.assembly.text(text)
            elif piece.get("type") == "image_url":
                self._images([piece])
            elif isinstance(thought, str):
                self.assembly.thinking(thought)
            else:
                for item in as_objects(thought):
                    if isinstance(item.get("text"), str):
                        self.assembly.thinking(item["text"])

    def _reasoning_details(self, details: Any, thought: str) -> str:
        """Keep OpenRouter's details for replay; what they say counts only if no plain field said it."""
        said = ""
        for detail in as_objects(details):
            self.assembly.keep_thought("reasoning_details", detail)
            said += as_word(detail.get("text")) or as_word(detail.get("summary")) or ""
        return thought or said

    def _thinking_blocks(self, blocks: Any) -> None:
        for block in as_objects(blocks):
            signature = as_word(block.get("signature"))
            if signature:
                self.assembly.end_block(signature=signature)

    def _tool_calls(self, calls: Any) -> None:
        for call in as_objects(calls if isinstance(calls, list) else [calls]):
            self._call(call)

    def _call(self, call: dict[str, Any]) -> None:
        source = as_object(call.get("function")) or call
        extra = call.get("extra_content")
        self.assembly.call(
            CallPiece(
                call.get("index"),
                as_word(call.get("id")),
                as_word(source.get("name")),
                source.get("arguments"),
                {"extra_content": extra} if extra else None,
            )
        )

    def _images(self, images: Any) -> None:
        for image in as_objects(images):
            source = image.get("image_url")
            url = as_object(source).get("url") or source
            if isinstance(url, str):
                self.assembly.image(url)
