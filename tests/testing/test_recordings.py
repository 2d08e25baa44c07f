"""A real conversation, recorded once and replayed for ever."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from any_agent import AgentOptions, Client, Done, Event, Failed, tool
from any_agent.testing import Received, Reply, ScriptedServer, chat_events, recorded

KEY = "sk-very-secret-4711"


@tool
def add(a: float, b: float) -> float:
    """Add."""
    return a + b


def model(request: Received) -> Reply:
    """Something like a model: it calls the tool, then says what it gave."""
    if request.method == "GET":
        return Reply.json({"error": {"message": "nothing here"}}, 404)
    last = request.json["messages"][-1]
    if last["role"] == "tool":
        return Reply(chat_events("It is ", str(last["content"])))
    if "fail" in last["content"]:
        return Reply.json({"error": {"message": f"bad key {KEY}"}}, 401)
    call = {"id": "", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    return Reply(chat_events(tool_calls=[call], finish="tool_calls"), headers={"Server": "llama.cpp"})


async def converse(server: ScriptedServer, prompts: list[str], **more: Any) -> list[Event]:
    options = AgentOptions(
        more.pop("system", "Be brief."), "m", server.url, tools=[add], auto_execute_tools=True, max_turns=9, **more
    )
    events: list[Event] = []
    async with Client(options) as client:
        for prompt in prompts:
            await client.query(prompt)
            events += [event async for event in client.events()]
    return events


def written(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def told(events: list[Event]) -> list[tuple[str, Any]]:
    return [(event.type, getattr(event, "text", getattr(event, "output", None))) for event in events]


@pytest.mark.row("E8")
async def test_recorded_conversation_is_replayed_through_the_same_program(tmp_path: Path) -> None:
    prompts = ["add 1 and 2", "again"]
    async with ScriptedServer(model) as server:
        first = await converse(server, prompts, record_to=tmp_path, api_key=KEY)
    async with ScriptedServer(recorded(tmp_path)) as server:
        second = await converse(server, prompts, system="Be polite.")
    assert isinstance(second[-1], Done)
    assert told(second) == [item for item in told(first) if item[0] != "notice"]


@pytest.mark.row("E8")
async def test_long_conversation_is_replayed_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any_agent.transport.tape._counter", itertools.count(8))
    prompts = [f"prompt {number}" for number in range(8)]
    async with ScriptedServer(model) as server:
        first = await converse(server, prompts, record_to=tmp_path)
    async with ScriptedServer(recorded(tmp_path)) as server:
        second = await converse(server, prompts)
    assert told(second) == [item for item in told(first) if item[0] != "notice"]


@pytest.mark.row("E8")
async def test_errors_are_replayed_too_and_keys_are_not_there(tmp_path: Path) -> None:
    async with ScriptedServer(model) as server:
        await converse(server, ["fail"], record_to=tmp_path, api_key=KEY)
    assert KEY.encode() not in written(tmp_path)
    async with ScriptedServer(recorded(tmp_path)) as server:
        events = await converse(server, ["fail"])
    assert isinstance(events[-1], Failed)
    assert events[-1].error.kind == "auth"


@pytest.mark.row("E8")
@pytest.mark.parametrize(
    ("prompts", "says"),
    [(["add 2 and 3"], "made for other messages"), (["add 1 and 2", "more"], "used up after 2 requests")],
)
async def test_other_requests_than_recorded_are_refused(tmp_path: Path, prompts: list[str], says: str) -> None:
    async with ScriptedServer(model) as server:
        await converse(server, ["add 1 and 2"], record_to=tmp_path)
    async with ScriptedServer(recorded(tmp_path)) as server:
        events = await converse(server, prompts)
    assert isinstance(events[-1], Failed)
    assert says in str(events[-1].error)


def test_folder_without_recordings_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no recording"):
        recorded(tmp_path)
