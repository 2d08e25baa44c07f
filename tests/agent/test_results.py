"""Long results of tools: cut for the model, whole for the program, read on by handle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_agent import AgentOptions, Allow, Client, Deny, Done, Event, Notice, TextBlock, Tool, ToolResult, get_profile
from any_agent.agent.results import LongResults
from any_agent.testing import Received, Reply, ScriptedServer, chat_events

BOOK = "".join(f"line {number}\n" for number in range(20_000))[:200_000]


def call(name: str, arguments: str = "{}") -> Reply:
    return Reply(chat_events(tool_calls=[{"id": "c1", "function": {"name": name, "arguments": arguments}}]))


async def run(*replies: Reply, tools: list[Tool], **more: Any) -> tuple[list[Event], list[Any], Client]:
    async with ScriptedServer(*replies) as server:
        options = AgentOptions("", "m", server.url, tools=tools, auto_execute_tools=True, **more)
        async with Client(options) as client:
            await client.query("go")
            events = [event async for event in client.events()]
            return events, [request.json for request in server.requests if request.method == "POST"], client


def book() -> Tool:
    return Tool("book", "", {"type": "object"}, lambda: BOOK)


@pytest.mark.row("E5")
async def test_long_result_is_cut_and_the_model_reads_on() -> None:
    on = call("read_result", '{"handle": "r1", "start": 400}')
    events, requests, client = await run(
        call("book"), on, Reply(chat_events("Done.")), tools=[book()], max_result_tokens=100
    )
    first, second = [event for event in events if isinstance(event, ToolResult)]
    assert first.output.startswith(BOOK[:400])
    assert 'call read_result with handle "r1" and start 400' in first.output
    assert second.output.startswith(BOOK[400:800])
    assert "start 800" in second.output
    assert client.long_results == {"r1": BOOK}
    told = [event for event in events if isinstance(event, Notice)]
    assert [(notice.kind, notice.data) for notice in told] == [
        ("result_cut", {"handle": "r1", "characters": len(BOOK), "shown": 400})
    ]
    offered = [[item["function"]["name"] for item in body["tools"]] for body in requests]
    assert offered == [["book"], ["book", "read_result"], ["book", "read_result"]]
    assert requests[1]["messages"][-1]["content"] == first.output


@pytest.mark.row("E5")
async def test_results_that_fit_stay_as_they_are_and_no_tool_is_added() -> None:
    events, requests, client = await run(
        call("book"), Reply(chat_events("Done.")), tools=[book()], max_result_tokens=10**6
    )
    assert requests[1]["messages"][-1]["content"] == BOOK
    assert client.long_results == {}
    assert [item["function"]["name"] for item in requests[1]["tools"]] == ["book"]
    assert not [event for event in events if isinstance(event, Notice)]


@pytest.mark.row("E5")
async def test_limit_is_a_share_of_the_window_that_the_server_tells() -> None:
    def answer(request: Received) -> Reply:
        if request.method == "GET":
            return Reply.json({"default_generation_settings": {"n_ctx": 1000}})
        return call("book") if request.json["messages"][-1]["role"] == "user" else Reply(chat_events("Done."))

    async with ScriptedServer(answer) as server:
        options = AgentOptions(
            "", "m", server.url, tools=[book()], auto_execute_tools=True, profile=get_profile("llamacpp")
        )
        async with Client(options) as client:
            await client.query("go")
            events = [event async for event in client.events()]
    cut = next(event for event in events if isinstance(event, Notice) and event.kind == "result_cut")
    assert cut.data is not None
    assert cut.data["shown"] == 1000


@pytest.mark.row("E5", "B11")
async def test_reading_on_needs_no_approval() -> None:
    asked: list[str] = []

    def ask(name: str, arguments: Any, context: Any) -> Allow | Deny:
        asked.append(name)
        return Allow()

    on = call("read_result", '{"handle": "r1", "start": 400}')
    events, _, _ = await run(
        call("book"), on, Reply(chat_events("Done.")), tools=[book()], max_result_tokens=100, can_use_tool=ask
    )
    assert asked == ["book"]
    assert isinstance(events[-1], Done)


@pytest.mark.row("E5", "B6")
async def test_unknown_handle_is_a_result_that_helps() -> None:
    on = call("read_result", '{"handle": "r7", "start": 0}')
    _, requests, _ = await run(call("book"), on, Reply(chat_events("ok")), tools=[book()], max_result_tokens=100)
    assert "no result 'r7'; there are r1" in requests[2]["messages"][-1]["content"]


@pytest.mark.row("E5")
def test_tool_of_the_program_keeps_its_name() -> None:
    assert LongResults(["read_result"]).tool.name == "read_result_"


@pytest.mark.row("E5")
def test_texts_in_lists_are_cut_and_pictures_are_not_touched() -> None:
    results = LongResults()
    blocks, notices = results.fit("t", [TextBlock("word " * 1000), TextBlock("short")], 10)
    assert isinstance(blocks, list)
    assert isinstance(blocks[0], TextBlock)
    assert len(blocks[0].text) < 200
    assert blocks[1] == TextBlock("short")
    assert len(notices) == 1


@pytest.mark.row("E5")
@given(text=st.text(min_size=1, max_size=400), limit=st.integers(1, 50))
async def test_reading_on_gives_every_character_once(text: str, limit: int) -> None:
    results = LongResults()
    shown, notice = results.cut(text, limit)
    if notice is None:
        assert shown == text
        return
    read, start = "", 0
    while True:
        piece = await results.tool.execute({"handle": "r1", "start": start})
        end = piece.rfind("\n(") if "more characters: call" in piece else len(piece)
        read += piece[:end]
        start += end
        if end == len(piece):
            break
    assert read == text
