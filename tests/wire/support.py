"""What the tests of the wire share: a decoder for each protocol, bodies to feed it, and its answer as plain data."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from any_agent.events import (
    Done,
    Event,
    Failed,
    Notice,
    Reset,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolInputStart,
    to_dict,
)
from any_agent.types import LLMResponse, ToolUseBlock, ToolUseError
from any_agent.wire.anthropic import AnthropicDecoder
from any_agent.wire.assembly import DecodeSettings
from any_agent.wire.decoder import Decoder
from any_agent.wire.ollama import OllamaDecoder
from any_agent.wire.openai_chat import OpenAIChatDecoder
from any_agent.wire.responses import ResponsesDecoder

DECODERS: dict[str, type[Decoder]] = {
    "openai": OpenAIChatDecoder,
    "ollama": OllamaDecoder,
    "anthropic": AnthropicDecoder,
    "responses": ResponsesDecoder,
}
_ANY: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS: dict[str, dict[str, Any]] = {"get_weather": _ANY, "read_file": _ANY, "search": _ANY}
SETTINGS = DecodeSettings(tools=TOOLS)


@dataclass
class Told:
    """What a reader of the events has learned when the last one has come."""

    text: str
    thinking: str
    calls: list[tuple[str, dict[str, Any]]]
    ids: list[str]
    tool_errors: int
    stop_reason: str
    usage: dict[str, int] | None
    error: str | None
    message: str
    notices: list[str]


def sse(*payloads: Any, done: bool = True) -> bytes:
    """The payloads as server-sent events; a string is the data as it is."""
    texts = [item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in payloads]
    return "".join(f"data: {text}\n\n" for text in [*texts, *(["[DONE]"] if done else [])]).encode()


def named(*payloads: dict[str, Any]) -> bytes:
    """The payloads as server-sent events that are named after their type."""
    return "".join(f"event: {item['type']}\ndata: {json.dumps(item)}\n\n" for item in payloads).encode()


def ndjson(*payloads: Any) -> bytes:
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in payloads).encode()


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of Chat Completions with one choice; `more` goes into the choice."""
    choice = {"index": 0, **({} if delta is None else {"delta": delta}), "finish_reason": finish, **more}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def chat(*deltas: dict[str, Any], finish: str | None = "stop", usage: Any = None) -> bytes:
    """A whole stream of Chat Completions."""
    end = [chunk({}, finish), *([{"choices": [], "usage": usage}] if usage is not None else [])]
    return sse(*(chunk(delta) for delta in deltas), *end)


def call(arguments: Any = None, name: str | None = None, id: str | None = None, index: Any = 0) -> dict[str, Any]:
    """A delta with a piece of one tool call; what is `None` is absent."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    item = {"index": index, "id": id, "type": "function", "function": function}
    return {"tool_calls": [{key: value for key, value in item.items() if value is not None}]}


def pieces(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


def decode(protocol: str, parts: bytes | Iterable[bytes], settings: DecodeSettings = SETTINGS) -> list[Event]:
    """The events of a body, or of one that comes in parts."""
    decoder = DECODERS[protocol](settings)
    events = [event for part in ([parts] if isinstance(parts, bytes) else parts) for event in decoder.feed(part)]
    return events + decoder.close()


def trouble(protocol: str, parts: bytes | Iterable[bytes], settings: DecodeSettings = SETTINGS) -> str:
    """What is wrong with the events of a body that nobody can read: nothing, as long as they end exactly once."""
    try:
        events = decode(protocol, parts, settings)
    except Exception as error:  # the report of a RecursionError takes seconds, its name does not
        return type(error).__name__
    ends = [isinstance(event, Done | Failed) for event in events]
    return "" if ends[-1:] == [True] and sum(ends) == 1 else f"it ends {sum(ends)} times"


def tell(events: list[Event]) -> Told:
    """What the events say, once it is certain that they do not contradict themselves."""
    last = events[-1]
    assert isinstance(last, Done | Failed), last
    assert sum(isinstance(event, Done | Failed) for event in events) == 1
    response = last.response if isinstance(last, Done) else last.partial
    error = last.error if isinstance(last, Failed) else None
    resets = [place for place, event in enumerate(events) if isinstance(event, Reset)]
    shown = events[resets[-1] + 1 :] if resets else events
    assert "".join(event.text for event in shown if isinstance(event, TextDelta)) == (response.text or "")
    assert "".join(event.text for event in shown if isinstance(event, ThinkingDelta)) == (response.thinking or "")
    blocks = [block for block in response.content if isinstance(block, ToolUseBlock | ToolUseError)]
    assert [event.block for event in shown if isinstance(event, ToolCall)] == blocks
    ids = [block.id for block in response.tool_calls]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= {event.id for event in shown if isinstance(event, ToolInputStart)}
    assert all(identifier for identifier in ids)
    counts = None
    if response.usage is not None:
        counts = {"input": response.usage.input_tokens, "output": response.usage.output_tokens}
    return Told(
        text=response.text or "",
        thinking=response.thinking or "",
        calls=[(block.name, block.input) for block in response.tool_calls],
        ids=ids,
        tool_errors=len(response.tool_errors),
        stop_reason="error" if error is not None else response.stop_reason,
        usage=None if counts is None else {name: count for name, count in counts.items() if count is not None},
        error=error.kind if error is not None else None,
        message=str(error or ""),
        notices=[event.kind for event in events if isinstance(event, Notice)],
    )


def told(protocol: str, parts: bytes | Iterable[bytes], settings: DecodeSettings = SETTINGS) -> Told:
    return tell(decode(protocol, parts, settings))


def done(events: list[Event]) -> LLMResponse:
    """The response with which the events end well."""
    last = events[-1]
    assert isinstance(last, Done), last
    return last.response


def failure(events: list[Event]) -> Failed:
    last = events[-1]
    assert isinstance(last, Failed), last
    return last


def merged(events: list[Event]) -> list[dict[str, Any]]:
    """The events as plain data, neighbouring deltas of one kind joined: the same however the bytes were cut."""
    result: list[dict[str, Any]] = []
    for event in events:
        item = to_dict(event)
        before = result[-1] if result else {}
        if item["type"] in ("text", "thinking") and before.get("type") == item["type"]:
            before["text"] += item["text"]
        elif item["type"] == "tool_input_delta" and (before.get("type"), before.get("id")) == (
            item["type"],
            item["id"],
        ):
            before["partial_json"] += item["partial_json"]
        else:
            result.append(item)
    return result


def nulls(value: Any, path: str = "") -> list[str]:
    """Where in a request body a null stands."""
    if value is None:
        return [path]
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in nulls(item, f"{path}.{key}")]
    if isinstance(value, list):
        return [found for place, item in enumerate(value) for found in nulls(item, f"{path}[{place}]")]
    return []


def seconds(work: Callable[[], Any]) -> float:
    """How long it would keep the processor of an ordinary machine busy, whatever this one is like.

    Bounds leave a factor of ten or more to what is linear, so that only what grows faster than its input is over.
    """
    return _busy(work) / (_busy(lambda: sum(range(1_000_000))) / 0.012)


def _busy(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
