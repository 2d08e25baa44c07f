"""Ollama's native `/api/chat`: one JSON object on each line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from any_agent.events import Notice
from any_agent.types import ImageBlock, Message, Profile, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from any_agent.wire.decoder import Decoder
from any_agent.wire.failures import classify_payload
from any_agent.wire.history import History, prepare, result_text
from any_agent.wire.request import (
    Encoded,
    Request,
    checked_image,
    content_blocks,
    finished,
    function_tools,
    without_none,
)
from any_agent.wire.schema import tool_schema
from any_agent.wire.toolcalls import CallPiece
from any_agent.wire.usage import read_usage
from any_agent.wire.values import as_number, as_object, as_objects, as_word, read_json

__all__ = ("OllamaDecoder", "encode_ollama")


class OllamaDecoder(Decoder):
    """Decodes `/api/chat`, streamed or not.

    >>> decoder = OllamaDecoder()
    >>> decoder.feed(b'{"message": {"content": "Hi"}, "done": false}\\n')
    [TextDelta(text='Hi', seq=0)]
    """

    lines = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: lines that are no JSON each: those of one object that somebody wrote over several lines
        self._lines: list[bytes] = []

    def _event(self, data: bytes) -> None:
        if self._lines or (data.strip() in (b"{", b"[") and not self.assembly.begun):
            self._lines.append(data)
        else:
            self._body(read_json(data))

    def _end_of_stream(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            self._whole_body(b"\n".join(lines))
        else:
            super()._end_of_stream()

    def _body(self, payload: Any) -> None:
        assembly = self.assembly
        line = as_object(payload)
        message = line.get("message")
        if line.get("error") or (not isinstance(message, dict) and _error_key(line)):
            assembly.fail(classify_payload(line))
            return
        if not assembly.model and isinstance(line.get("model"), str):
            assembly.model = line["model"]
        if isinstance(message, dict):
            self._message(as_object(line["message"]))
        if line.get("done"):
            self._done(line)

    def _message(self, message: dict[str, Any]) -> None:
        thinking, content = message.get("thinking"), message.get("content")
        if isinstance(thinking, str) and thinking:
            self.assembly.thinking(thinking)
        if isinstance(content, str) and content:
            self.assembly.text(content)
        for call in as_objects(message.get("tool_calls")):
            function = as_object(call.get("function"))
            name = as_word(function.get("name"))
            if name:
                # each item is a whole call: what Ollama sends as its index repeats over the lines
                piece = CallPiece(None, as_word(call.get("id")), name, function.get("arguments") or {})
                self.assembly.call(piece)

    def _done(self, line: dict[str, Any]) -> None:
        assembly = self.assembly
        label = line.get("done_reason")
        assembly.label = label if isinstance(label, str) and label else None
        if "eval_count" in line:
            # zero is left out by the server: the whole prompt was cached
            line.setdefault("prompt_eval_count", 0)
        assembly.usage = read_usage(line, assembly.usage)
        count, nanoseconds = as_number(line.get("eval_count")), as_number(line.get("eval_duration"))
        if count is not None and nanoseconds is not None and nanoseconds > 0:
            assembly.tokens_per_s = count / (nanoseconds / 1e9)
        assembly.raw = line
        assembly.finish()


def _error_key(line: dict[str, Any]) -> bool:
    """Ollama 0.11.3 sent the text of an error as the only key."""
    return len(line) == 1 and next(iter(line)).startswith("error")


#: generation settings that Ollama takes in `options`, beside those that have a name in `Request`
_OPTIONS = frozenset(
    [
        "num_ctx",
        "num_keep",
        "num_gpu",
        "num_thread",
        "num_batch",
        "top_k",
        "min_p",
        "typical_p",
        "repeat_last_n",
        "repeat_penalty",
        "presence_penalty",
        "frequency_penalty",
        "mirostat",
        "mirostat_tau",
        "mirostat_eta",
        "use_mmap",
        "main_gpu",
    ]
)


def encode_ollama(request: Request, profile: Profile) -> Encoded:
    """The body for `/api/chat`.

    >>> from any_agent.types import Message, Profile
    >>> encode_ollama(Request("m", [Message("user", "hi")], max_tokens=5), Profile("ollama")).body["options"]
    {'num_predict': 5}
    """
    profile = replace(profile, image_urls=False)  # the protocol has no place for an address
    history = prepare(request.messages, profile)
    notices = history.notices
    options = without_none(
        {
            "temperature": request.temperature,
            "num_predict": request.max_tokens,
            "top_p": request.top_p,
            "seed": request.seed,
            "stop": list(request.stop) if request.stop else None,
        }
    )
    options |= {name: value for name, value in request.extra.items() if name in _OPTIONS}
    if request.tool_choice not in (None, "auto"):
        notices.append(Notice("tool_choice_unsupported", "Ollama's native protocol has no tool_choice; left out"))
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [item for message in history.messages for item in _encode_message(message, history, profile)],
        "stream": request.stream,
    }
    if request.tools:
        body["tools"] = function_tools(request.tools, profile)
    if request.output_schema is not None:
        body["format"] = tool_schema(request.output_schema, profile)
    body |= {"options": options} if options else {}
    rest = {name: value for name, value in request.extra.items() if name not in _OPTIONS}
    return finished(body, replace(request, extra=rest), profile, notices)


def _encode_message(message: Message, history: History, profile: Profile) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [
            without_none(
                {
                    "role": "tool",
                    "content": result_text(block.content)[0],
                    "tool_name": history.tool_name(block) or None,
                    "tool_call_id": block.tool_use_id or None,
                }
            )
            for block in message.content
            if isinstance(block, ToolResultBlock)
        ]
    blocks = content_blocks(message.content)
    images = [checked_image(block, profile).data for block in blocks if isinstance(block, ImageBlock)]
    result: dict[str, Any] = {
        "role": message.role,
        "content": "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock)),
    }
    thoughts = [block.thinking for block in message.content if isinstance(block, ThinkingBlock)]
    calls = [block for block in message.content if isinstance(block, ToolUseBlock)]
    return [
        without_none(
            {
                **result,
                "images": images or None,
                "thinking": "".join(thoughts) or None,
                "tool_calls": [
                    {"id": call.id, "function": {"name": call.name, "arguments": call.input}} for call in calls
                ]
                or None,
            }
        )
    ]
