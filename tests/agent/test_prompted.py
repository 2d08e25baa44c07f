"""Agents whose model cannot call tools: the same events, blocks and history, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from any_agent import (
    AgentOptions,
    Client,
    Done,
    Event,
    Failed,
    Notice,
    Profile,
    TextBlock,
    ToolResult,
    ToolResultBlock,
    ToolUseBlock,
    get_profile,
    tool,
)
from any_agent.testing import Received, Reply, ScriptedServer, chat_events

CALL = '{"tool": "add", "arguments": {"a": 1, "b": 2}}'
TAGS = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'
REFUSED = {"error": {"message": "registry.ollama.ai/library/m does not support tools", "type": "api_error"}}
WITHOUT_TOOLS = Profile("no tools", native_tools=False)


@tool
def add(a: float, b: float) -> float:
    """Add."""
    return a + b


def writes(text: str, size: int = 3) -> Reply:
    """The model writes this, in pieces."""
    return Reply(chat_events(*(text[at : at + size] for at in range(0, len(text), size))))


async def run(
    *replies: Reply | Callable[[Received], Reply], prompts: int = 1, **more: Any
) -> tuple[list[Event], list[Any], Client]:
    """Turns with these replies: the events of all, the bodies of the requests, and the client."""
    settings: dict[str, Any] = {"tools": [add], "auto_execute_tools": True, "max_turns": 9, **more}
    async with ScriptedServer(*replies) as server, Client(AgentOptions("", "m", server.url, **settings)) as client:
        events: list[Event] = []
        for _ in range(prompts):
            await client.query("go")
            events += [event async for event in client.events()]
        return events, [request.json for request in server.requests if request.method == "POST"], client


@pytest.mark.row("B19", "B1", "B2")
@pytest.mark.parametrize(
    ("profile", "call", "answer"),
    [("llamacpp", CALL, '{"answer": "It is 3."}'), ("mlx", TAGS, "It is 3.")],
    ids=["bound to JSON", "between tags"],
)
async def test_prompted_run_looks_like_a_native_one(profile: str, call: str, answer: str) -> None:
    replies = [writes(call), writes(answer)]
    props = Reply.json({"default_generation_settings": {"n_ctx": 4096}})

    def reply(request: Received) -> Reply:
        return props if request.method == "GET" else replies.pop(0)

    events, bodies, client = await run(reply, tool_mode="prompted", profile=get_profile(profile))
    passing = ("tool_input_delta", "text", "notice")  # that a call was found between tags is told
    kinds = [event.type for event in events if event.type not in passing]
    assert kinds == [
        "tool_input_start", "tool_use", "response", "tool_running", "tool_result", "response", "done",
    ]  # fmt: skip
    [result] = [event for event in events if isinstance(event, ToolResult)]
    assert (result.name, result.output, result.is_error) == ("add", "3.0", False)
    assert "".join(event.text for event in events if event.type == "text") == "It is 3."
    used, answered, said = (message.content for message in client.message_history[1:])
    assert isinstance(used[0], ToolUseBlock)
    assert (used[0].name, used[0].input) == ("add", {"a": 1, "b": 2})
    assert answered == [ToolResultBlock(used[0].id, "3.0")]
    assert said == [TextBlock("It is 3.")]
    assert not [body for body in bodies if "tools" in body]
    assert ("response_format" in bodies[0]) == (profile == "llamacpp")
    assert "add returned: 3.0" in bodies[1]["messages"][-1]["content"]


@pytest.mark.row("B19")
async def test_answer_of_a_prompted_model_is_streamed() -> None:
    gate = asyncio.Event()
    first, last = chat_events('{"answer": "Hel')[:2], chat_events('lo"}')[1:]
    async with ScriptedServer(Reply([*first, gate, *last])) as server:
        options = AgentOptions("", "m", server.url, tools=[add], tool_mode="prompted")
        async with Client(options) as client:
            await client.query("go")
            blocks = client.receive_messages()
            assert await anext(blocks) == TextBlock("Hel")
            gate.set()
            assert [block async for block in blocks] == [TextBlock("lo")]


@pytest.mark.row("B19", "B5")
async def test_several_calls_of_a_prompted_model_run_and_are_answered_in_order() -> None:
    both = CALL + "\n" + CALL.replace("2", "5")
    events, bodies, _ = await run(writes(both), writes('{"answer": "3 and 6"}'), tool_mode="prompted")
    assert [event.output for event in events if isinstance(event, ToolResult)] == ["3.0", "6.0"]
    assert bodies[1]["messages"][-1]["content"].startswith("add returned: 3.0\n\nadd returned: 6.0")


@pytest.mark.row("B19", "B6")
async def test_call_that_a_prompted_model_broke_off_is_told_to_it() -> None:
    events, bodies, _ = await run(writes(CALL[:-9]), writes('{"answer": "sorry"}'), tool_mode="prompted")
    assert isinstance(events[-1], Done)
    assert "add returned: The call was not understood" in bodies[1]["messages"][-1]["content"]


@pytest.mark.row("B19")
async def test_profile_without_native_tools_prompts_from_the_first_request_on() -> None:
    events, bodies, _ = await run(writes(CALL), writes('{"answer": "3"}'), profile=WITHOUT_TOOLS)
    assert isinstance(events[-1], Done)
    assert [body.get("tools") for body in bodies] == [None, None]
    assert not [event for event in events if isinstance(event, Notice)]


@pytest.mark.row("B19")
async def test_server_that_refuses_tools_is_prompted_from_then_on_and_a_notice_says_so() -> None:
    def answer(request: Received) -> Reply:
        if request.json.get("tools"):
            return Reply.json(REFUSED, 400)
        return writes('{"answer": "3"}' if "add returned" in json.dumps(request.json["messages"][-1]) else CALL)

    events, bodies, _ = await run(answer, prompts=2)
    told = [event for event in events if isinstance(event, Notice)]
    assert [notice.kind for notice in told] == ["tools_refused"]
    assert "prompted" in told[0].message
    assert told[0].data is not None
    assert "does not support tools" in told[0].data["error"]
    assert ["tools" in body for body in bodies] == [True, False, False, False, False], "the refusal is remembered"
    assert [event.output for event in events if isinstance(event, ToolResult)] == ["3.0", "3.0"]


@pytest.mark.row("B19")
@pytest.mark.parametrize(
    ("mode", "status", "message"),
    [
        ("native", 400, "m does not support tools"),
        ("auto", 400, "temperature is too hot"),
        ("auto", 400, "the tool 'add' is not allowed to have this schema"),
        ("auto", 401, "does not support tools without a key"),
    ],
)
async def test_nothing_else_switches(mode: str, status: int, message: str) -> None:
    refused = Reply.json({"error": {"message": message}}, status)
    events, bodies, _ = await run(refused, tool_mode=mode)
    assert isinstance(events[-1], Failed)
    assert message in str(events[-1].error)
    assert ["tools" in body for body in bodies] == [True]
    assert not [event for event in events if isinstance(event, Notice) and event.kind == "tools_refused"]


@pytest.mark.row("B19", "E3")
async def test_call_that_a_server_passes_on_as_text_is_recovered_in_native_mode() -> None:
    events, bodies, client = await run(writes(f"So. {TAGS}"), writes("It is 3."))
    assert [event.output for event in events if isinstance(event, ToolResult)] == ["3.0"]
    assert "".join(event.text for event in events if event.type == "text").strip() == "So. It is 3."
    assert "tools" in bodies[1]
    assert bodies[1]["messages"][-1]["role"] == "tool"
    assert "<tool_call>" not in json.dumps(client.history)


@pytest.mark.row("B19", "B20")
async def test_object_and_tools_are_asked_for_in_one_schema() -> None:
    kind = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
    replies = [writes(CALL), writes('{"answer": {"sum": 3}}')]
    events, bodies, _ = await run(*replies, tool_mode="prompted", output_type=kind)
    assert isinstance(events[-1], Done)
    assert events[-1].response.output == {"sum": 3}
    for body in bodies:
        options = body["response_format"]["json_schema"]["schema"]["anyOf"]
        assert options[-1]["properties"]["answer"]["required"] == ["sum"]
