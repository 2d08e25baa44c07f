"""Loads the fixtures, cuts them into chunks, and compares what came out with what must."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from any_agent.events import Done, Event, Failed
from any_agent.types import Message, ToolSpec
from any_agent.wire.anthropic import AnthropicDecoder
from any_agent.wire.decoder import Decoder
from any_agent.wire.ollama import OllamaDecoder
from any_agent.wire.openai_chat import OpenAIChatDecoder
from any_agent.wire.responses import ResponsesDecoder

FOLDER = Path(__file__).parent / "fixtures"
DECODERS: dict[str, type[Decoder]] = {
    "openai": OpenAIChatDecoder,
    "ollama": OllamaDecoder,
    "anthropic": AnthropicDecoder,
    "responses": ResponsesDecoder,
}
CHUNKINGS = ("whole", "events", "bytes", "random-1", "random-2", "random-3", "splits")


@dataclass
class Fixture:
    """A body as a server sent it, and what must come out of it."""

    name: str
    body: bytes
    expect: dict[str, Any]
    request: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def protocol(self) -> str:
        return self.expect["protocol"]

    @property
    def status(self) -> int:
        return self.expect["http"]["status"]

    @property
    def tools(self) -> list[ToolSpec]:
        schemas = self.request.get("tool_schemas", {})
        empty: dict[str, Any] = {"type": "object", "properties": {}}
        return [ToolSpec(name, f"The tool {name}", schemas.get(name, empty)) for name in self.request.get("tools", [])]

    @property
    def messages(self) -> list[Message]:
        return [Message("user", "Go on.")]


def load() -> list[Fixture]:
    fixtures: list[Fixture] = []
    for file in sorted(FOLDER.glob("*.expect.json")):
        expect = json.loads(file.read_text("utf-8"))
        body = file.with_name(file.name.replace(".expect.json", ".stream")).read_bytes()
        fixtures.append(Fixture(expect["name"], body, expect, expect.get("request", {})))
    return fixtures


def chunks(body: bytes, how: str) -> list[bytes]:
    """The body in pieces; `splits` cuts inside every multi-byte character and every CRLF."""
    if how == "whole":
        return [body]
    if how == "bytes":
        return [body[i : i + 1] for i in range(len(body))]
    if how == "events":
        return [part + b"\n\n" for part in body.split(b"\n\n")[:-1]] + [body.split(b"\n\n")[-1]]
    if how == "splits":
        cuts = [i for i in range(1, len(body)) if body[i] & 0xC0 == 0x80 or body[i - 1 : i + 1] == b"\r\n"]
    else:
        generator = random.Random(how)
        cuts = sorted(generator.sample(range(1, len(body)), len(body) // 20))
    edges = [0, *cuts, len(body)]
    return [body[a:b] for a, b in itertools.pairwise(edges)]


def differences(fixture: Fixture, events: list[Event]) -> list[str]:
    """What is not as it must be, by the reading among the alternatives that fits best; empty if all is well."""
    assert events, "no events at all"
    assert isinstance(events[-1], Done | Failed), f"the last event is {events[-1]}"
    assert sum(isinstance(event, Done | Failed) for event in events) == 1, "more than one end"
    readings = [{**fixture.expect, **other} for other in [{}, *fixture.expect.get("alternatives", [])]]
    return min((_against(reading, events) for reading in readings), key=len)


def _against(expect: dict[str, Any], events: list[Event]) -> list[str]:
    last = events[-1]
    assert isinstance(last, Done | Failed)
    response = last.response if isinstance(last, Done) else last.partial
    error = last.error if isinstance(last, Failed) else None
    shown: dict[str, str] = {"text": "", "thinking": ""}
    for event in events:
        if event.type in shown:
            shown[event.type] += getattr(event, "text")  # noqa: B009 - narrowed by the key
        elif event.type == "reset":
            shown = dict.fromkeys(shown, "")
    stop_reason = "error" if error is not None else response.stop_reason
    found: list[str] = []

    def check(what: str, wanted: Any, got: Any) -> None:
        if wanted != got:
            found.append(f"{what}: wanted {wanted!r}, got {got!r}")

    check("text", expect["text"], response.text or "")
    check("thinking", expect["thinking"], response.thinking or "")
    check("shown text", expect["text"], shown["text"])
    check("shown thinking", expect["thinking"], shown["thinking"])
    check("stop_reason", expect["stop_reason"], stop_reason)
    check("tool_errors", expect["tool_errors"], len(response.tool_errors))
    calls = [(call.name, call.input) for call in response.tool_calls]
    check("calls", [(call["name"], call["input"]) for call in expect["tool_calls"]], calls)
    for wanted, call in zip(expect["tool_calls"], response.tool_calls, strict=False):
        check("call id", wanted["id"] or call.id or "(some id)", call.id)
    check("unique ids", len(response.tool_calls), len({call.id for call in response.tool_calls}))
    usage = response.usage
    check("usage", expect["usage"] is None, usage is None)
    for name, count in (expect["usage"] or {}).items():
        check(f"usage.{name}", count, getattr(usage, name) or (0 if count == 0 else None))
    check("error", expect["error"] is None, error is None)
    if expect["error"] and error is not None:
        check("error kind", expect["error"]["kind"], error.kind)
        wanted = expect["error"]["message_contains"].lower()
        check("error message", True, wanted in str(error).lower())
    return found
