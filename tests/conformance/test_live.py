"""What real servers sent in November 2026: nothing raises, nothing is lost, errors are errors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from any_agent.adapters.discovery import read_models
from any_agent.errors import ProviderError
from any_agent.events import Done, Event, Failed, TextDelta
from any_agent.types import LLMResponse
from any_agent.wire.assembly import DecodeSettings
from any_agent.wire.failures import classify_body
from conformance.fixtures import CHUNKINGS, DECODERS, chunks

LIVE = Path(__file__).parent / "live"
PATHS = {
    "/v1/chat/completions": "openai",
    "/v1/messages": "anthropic",
    "/v1/responses": "responses",
}
#: recorded errors → the kind that says what the user has to do
KINDS = {
    "bad_model": {"model_not_found", "invalid_request"},
    "bad_param": {"invalid_request"},
    "bad_role": {"invalid_request"},
    "bad_tool_choice": {"invalid_request"},
    "overflow": {"context_length"},
    "grammar_with_tools": {"invalid_request"},
    "image_unsupported": {"invalid_request"},
    "invalid_json": {"invalid_request"},
    "no_input": {"invalid_request"},
    "no_messages": {"invalid_request", "server_error"},
    "no_auth": {"auth", "server_error"},
    "peg_500": {"tool_use_failed"},
    "unknown_path": {"invalid_request"},
}


@dataclass
class Recording:
    server: str
    name: str
    path: str
    status: int
    request: dict[str, Any]
    body: bytes

    @property
    def protocol(self) -> str | None:
        return PATHS.get(self.path.partition("?")[0])

    @property
    def is_valid_request(self) -> bool:
        return bool(self.request)


def _load(file: Path) -> Recording:
    beside = {suffix: file.with_suffix(suffix) for suffix in (".path", ".headers", ".request.json")}
    request = beside[".request.json"].read_text("utf-8") if beside[".request.json"].exists() else "{}"
    try:
        parsed = json.loads(request)
    except ValueError:
        parsed = {}
    status = int(beside[".headers"].read_text("latin-1").split(None, 2)[1])
    path = beside[".path"].read_text("utf-8").split()[1]
    return Recording(file.parent.name, file.stem, path, status, parsed, file.read_bytes())


RECORDINGS = [_load(file) for file in sorted(LIVE.glob("*/*.stream"))]
ANSWERS = [recording for recording in RECORDINGS if recording.protocol and recording.status == 200]
FAILURES = [recording for recording in RECORDINGS if recording.status >= 300]


def decode(recording: Recording, how: str = "whole") -> list[Event]:
    assert recording.protocol is not None
    tools = [tool.get("function", tool) for tool in recording.request.get("tools", [])]
    schemas = {tool["name"]: tool.get("parameters", tool.get("input_schema", {})) for tool in tools}
    decoder = DECODERS[recording.protocol](DecodeSettings(tools=schemas))
    events = [event for chunk in chunks(recording.body, how) for event in decoder.feed(chunk)]
    return events + decoder.close()


def response_of(events: list[Event]) -> LLMResponse:
    assert isinstance(events[-1], Done), events[-1]
    return events[-1].response


def identify(recording: Recording) -> str:
    return f"{recording.server}/{recording.name}"


def _merged(events: list[Event]) -> list[Any]:
    """The events without what differs by chunking: made-up ids."""
    return [(event.type, getattr(event, "text", None)) for event in events]


def test_the_recordings_are_here() -> None:
    assert (len(ANSWERS), len(FAILURES)) == (91, 40)


@pytest.mark.parametrize("recording", ANSWERS, ids=identify)
def test_every_answer_decodes_the_same_in_every_chunking(recording: Recording) -> None:
    whole = decode(recording)
    assert sum(isinstance(event, Done | Failed) for event in whole) == 1
    for how in CHUNKINGS[1:]:
        assert _merged(decode(recording, how)) == _merged(whole)


@pytest.mark.parametrize("recording", ANSWERS, ids=identify)
def test_no_text_is_lost(recording: Recording) -> None:
    events = decode(recording)
    if isinstance(events[-1], Failed):
        assert events[-1].error.kind in KINDS["peg_500"]
        return
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    response = response_of(events)
    assert shown == (response.text or "")
    sent = _text_in(recording)
    if not response.tool_calls:
        assert shown == sent
    assert response.content or response.stop_reason == "max_tokens"


def _text_in(recording: Recording) -> str:
    """The plain concatenation of what the server called text, read without any of our decoders."""
    body = recording.body.decode()
    if body.lstrip().startswith("{"):
        payloads = [json.loads(body)]
    else:
        payloads = [
            json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:") and "[DONE]" not in line
        ]
    texts: list[str] = []
    for payload in payloads:
        choices = (payload.get("choices") or [])[:1]
        texts += [(choice.get("delta") or choice.get("message") or {}).get("content") or "" for choice in choices]
        if recording.protocol == "anthropic":
            texts += [block.get("text", "") for block in payload.get("content", [])]
            texts.append((payload.get("delta") or {}).get("text") or "")
        if recording.protocol == "responses":
            if payload.get("type") == "response.output_text.delta":
                texts.append(payload["delta"])
            for item in payload.get("output", []):
                texts += [part.get("text", "") for part in item.get("content", [])]
    return "".join(texts)


PAIRS = [
    (stream, plain)
    for stream in ANSWERS
    for plain in ANSWERS
    if stream.server == plain.server and plain.name == stream.name.replace("_stream", "_nonstream") != stream.name
]


def test_there_are_pairs_to_compare() -> None:
    assert len(PAIRS) >= 8


@pytest.mark.row("D13")
@pytest.mark.parametrize(("stream", "plain"), PAIRS, ids=identify)
def test_streamed_and_plain_reply_agree_in_shape(stream: Recording, plain: Recording) -> None:
    first, second = response_of(decode(stream)), response_of(decode(plain))
    assert [type(block) for block in first.content] == [type(block) for block in second.content]
    assert first.stop_reason == second.stop_reason
    assert [call.name for call in first.tool_calls] == [call.name for call in second.tool_calls]
    assert [set(call.input) for call in first.tool_calls] == [set(call.input) for call in second.tool_calls]
    if stream.request.get("temperature") == 0:
        assert first.text == second.text


@pytest.mark.row("A29", "D11")
@pytest.mark.parametrize("recording", FAILURES, ids=identify)
def test_every_error_reply_is_one_error_of_the_right_kind(recording: Recording) -> None:
    error = classify_body(recording.status, recording.body)
    assert isinstance(error, ProviderError)
    assert error.status_code == recording.status
    assert len(str(error)) > len("HTTP 500")
    expected = next((kinds for name, kinds in KINDS.items() if name in recording.name), None)
    if expected is not None:
        assert error.kind in expected, str(error)


@pytest.mark.parametrize("recording", [r for r in RECORDINGS if r.name == "models"], ids=identify)
def test_lists_of_models_are_read_or_refused_clearly(recording: Recording) -> None:
    if recording.status != 200 or not recording.body.strip():
        with pytest.raises(ProviderError, match="list of models"):
            read_models(recording.body, "http://localhost")
        return
    models = read_models(recording.body, "http://localhost")
    assert models[0].id
    if "llamacpp" in recording.server:
        assert models[0].context_window == 4096
