"""Recording an exchange, and playing it back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from any_agent import Done, Failed, Message, Notice, OpenAIAdapter, ToolSpec
from any_agent.testing import Replay, Reply, ScriptedServer, chat_events
from conformance.fixtures import Fixture, differences

HI = [Message("user", "hi, my key is sk-secret-key")]
WEATHER = ToolSpec("get_weather", "Weather", {"type": "object", "properties": {"city": {"type": "string"}}})
CALL = {"id": "c1", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}


async def record(tmp_path: Path, *replies: Reply) -> list[Path]:
    async with ScriptedServer(*replies) as server:
        async with OpenAIAdapter("m", server.url, api_key="sk-secret-key", record_to=tmp_path / "tapes") as adapter:
            for _ in replies:
                events = [event async for event in adapter.stream(HI, [WEATHER], max_tokens=9)]
                assert isinstance(events[-2], Notice)
                assert events[-2].kind == "recorded"
    return sorted((tmp_path / "tapes").glob("*.stream"))


@pytest.mark.row("E8")
async def test_recording_is_a_fixture_and_replays_to_the_same_events(tmp_path: Path) -> None:
    body = chat_events(
        "Let me see. ", tool_calls=[CALL], finish="tool_calls", usage={"prompt_tokens": 3, "completion_tokens": 4}
    )
    [stream] = await record(tmp_path, Reply(body))
    assert stream.read_bytes() == b"".join(body)
    expect = json.loads(stream.with_suffix("").with_suffix(".expect.json").read_text())
    assert expect["text"] == "Let me see. "
    assert expect["tool_calls"] == [{"id": "c1", "name": "get_weather", "input": {"city": "Oslo"}}]
    assert expect["request"]["tool_schemas"]["get_weather"]["properties"] == {"city": {"type": "string"}}
    for size in (1, 7, 100_000):
        replay = Replay(stream, chunk_size=size)
        async with OpenAIAdapter("m", "http://localhost:1", transport=replay) as adapter:
            events = [event async for event in adapter.stream(HI, [WEATHER])]
        fixture = Fixture("tape", stream.read_bytes(), expect, expect["request"])
        assert differences(fixture, events) == []
        assert replay.requests[0]["model"] == "m"


@pytest.mark.row("E8")
async def test_keys_are_never_written(tmp_path: Path) -> None:
    leaky = Reply.json({"error": {"message": "Incorrect API key provided: sk-secret-key"}}, 401)
    await record(tmp_path, Reply(chat_events("your key is sk-secret-key")), leaky)
    for file in (tmp_path / "tapes").iterdir():
        assert b"sk-secret-key" not in file.read_bytes()
        assert b"uthorization" not in file.read_bytes()


@pytest.mark.row("E8")
async def test_errors_are_recorded_and_replayed(tmp_path: Path) -> None:
    [stream] = await record(tmp_path, Reply.json({"error": {"message": "prompt is too long"}}, 400))
    async with OpenAIAdapter("m", "http://localhost:1", transport=Replay(stream)) as adapter:
        events = [event async for event in adapter.stream(HI)]
    assert isinstance(events[-1], Failed)
    assert events[-1].error.kind == "context_length"


async def test_folder_is_replayed_in_order_and_says_when_it_is_used_up(tmp_path: Path) -> None:
    await record(tmp_path, Reply(chat_events("one")), Reply(chat_events("two")))
    async with OpenAIAdapter("m", "http://localhost:1", transport=Replay(tmp_path / "tapes")) as adapter:
        assert (await adapter.invoke(HI)).text == "one"
        last = [event async for event in adapter.stream(HI)][-1]
        assert isinstance(last, Done)
        assert last.response.text == "two"
        with pytest.raises(RuntimeError, match="used up"):
            await adapter.invoke(HI)


def test_missing_recording_is_said_clearly(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no recording"):
        Replay(tmp_path)
    with pytest.raises(FileNotFoundError, match="no recording"):
        Replay(tmp_path / "x.stream")
