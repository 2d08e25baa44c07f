"""The agent loop with a real model: tools run, a failing one is survived, and an interrupt frees the server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from any_agent import AgentOptions, Client, Done, Failed, ToolResult, ToolRunning, tool
from real_server.helpers import ENDLESS, only, wait_for_slots
from real_server.server import MODEL, LlamaServer

pytestmark = pytest.mark.real_server


@tool
def get_weather(city: str) -> dict[str, Any]:
    """Get the current weather for a city"""
    return {"city": city, "celsius": 18, "sky": "sunny"}


@tool(timeout=0.2)
async def get_time(city: str) -> str:
    """Get the current time in a city"""
    await asyncio.sleep(60)
    return "never"


def options(llama: LlamaServer, **more: Any) -> AgentOptions:
    settings: dict[str, Any] = {"temperature": 0, "max_tokens": 60, "auto_execute_tools": True, "max_turns": 5, **more}
    return AgentOptions("", MODEL, llama.address, api_key=llama.key, profile="llamacpp", **settings)


@pytest.mark.row("B1", "B4")
@pytest.mark.parametrize("protocol", ["openai", "anthropic", "responses"])
async def test_tool_is_called_and_the_answer_comes(llama: LlamaServer, protocol: str) -> None:
    async with Client(options(llama, tools=[get_weather], protocol=protocol, max_tool_iterations=3)) as client:
        await client.query("What is the weather in Paris?")
        events = [event async for event in client.events()]
    assert isinstance(events[-1], Done), events[-1]
    assert only(ToolRunning, events)[0].input == {"city": "Paris"}
    assert "sunny" in only(ToolResult, events)[0].output
    assert events[-1].usage is not None
    assert (events[-1].usage.output_tokens or 0) > 0


@pytest.mark.row("B6", "B15")
async def test_tool_that_never_returns_is_given_up_and_the_run_goes_on(llama: LlamaServer) -> None:
    async with Client(options(llama, tools=[get_time], max_tool_iterations=2)) as client:
        await client.query("What time is it in Tokyo?")
        events = [event async for event in client.events()]
        history = client.history
    assert isinstance(events[-1], Done), events[-1]
    assert "did not finish within 0.2 seconds" in only(ToolResult, events)[0].output
    calls = {call["id"] for message in history for call in message.get("tool_calls", [])}
    assert calls == {message["tool_call_id"] for message in history if message["role"] == "tool"}


@pytest.mark.row("A27", "B13")
async def test_interrupt_frees_the_slot_and_the_client_goes_on(llama: LlamaServer) -> None:
    async with Client(options(llama, max_tokens=400)) as client:
        prompt = ENDLESS[-1].content
        assert isinstance(prompt, str)
        await client.query(prompt)
        async for event in client.events():
            if event.type == "text":
                asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(client.interrupt()))
        assert isinstance(event, Failed)
        assert event.error.kind == "aborted"
        await wait_for_slots(llama, 0, 5)
        client.options.max_tokens = 8
        await client.query("Say hello.")
        assert [block async for block in client.receive_messages()]
