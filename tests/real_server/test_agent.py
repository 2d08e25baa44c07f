"""The agent loop with a real model: tools run, a failing one is survived, and an interrupt frees the server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from any_agent import (
    AgentOptions,
    Client,
    Done,
    DropOldest,
    Failed,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolInputDelta,
    ToolResult,
    ToolResultBlock,
    ToolRunning,
    ToolUseBlock,
    tool,
)
from real_server.helpers import ENDLESS, only, wait_for_slots
from real_server.server import MODEL, WINDOW, LlamaServer

pytestmark = pytest.mark.real_server


@dataclass
class City:
    name: str
    country: str
    is_capital: bool


@dataclass
class Weather:
    city: str
    celsius: float


@tool
def get_weather(city: str) -> dict[str, Any]:
    """Get the current weather for a city"""
    return {"city": city, "celsius": 18, "sky": "sunny"}


@tool("get_time", "Get the current time in a timezone or city", {"city": str})
def tell_time(city: str) -> str:
    return "12:00"


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


@pytest.mark.row("B1", "A18", "B19")
@pytest.mark.parametrize("mode", ["native", "prompted"])
async def test_conversation_over_two_tools(llama: LlamaServer, mode: str) -> None:
    """The right tool for each question, and an answer; the second request carries the first round."""
    questions = {"get_weather": "What's the weather in Berlin?", "get_time": "What time is it in Tokyo?"}
    # the grammar of a prompted answer would let the model think as long as it likes before it
    more: dict[str, Any] = {"extra_body": {"reasoning_format": "none"}} if mode == "prompted" else {}
    settings = options(llama, tools=[get_weather, tell_time], max_tool_iterations=2, tool_mode=mode, **more)
    async with Client(settings) as client:
        for name, prompt in questions.items():
            await client.query(prompt)
            events = [event async for event in client.events()]
            assert isinstance(events[-1], Done), events[-1]
            assert events[-1].reason == "complete"
            assert events[-1].response.text
            assert '"tool"' not in events[-1].response.text
            assert [running.name for running in only(ToolRunning, events)] == [name]
            assert not only(ToolResult, events)[0].is_error
            assert only(ToolInputDelta, events)
        roles = [message["role"] for message in client.history]
    assert roles == ["user", "assistant", "tool", "assistant"] * 2


@pytest.mark.row("B5")
async def test_parallel_calls_run_together(llama: LlamaServer) -> None:
    """The model calls for two cities at once when it has seen that done before."""
    both = asyncio.Barrier(2)

    @tool
    async def get_weather(city: str) -> dict[str, Any]:
        """Get the current weather for a city"""
        await asyncio.wait_for(both.wait(), 10)
        return {"city": city, "celsius": 18}

    cities = ("Madrid", "Bern")
    async with Client(options(llama, tools=[get_weather], max_tokens=120, max_tool_iterations=1)) as client:
        client.message_history = [
            Message("user", "What is the weather in Madrid and in Bern?"),
            Message("assistant", [ToolUseBlock(f"p{city}", "get_weather", {"city": city}) for city in cities]),
            Message("tool", [ToolResultBlock(f"p{city}", {"city": city, "celsius": 3}) for city in cities]),
            Message("assistant", "It is 3 degrees in both."),
        ]
        await client.query("What is the weather in Paris and in Oslo?")
        events = [event async for event in client.events()]
    assert [running.input for running in only(ToolRunning, events)] == [{"city": "Paris"}, {"city": "Oslo"}]
    assert [result.is_error for result in only(ToolResult, events)] == [False, False]


@pytest.mark.row("B6")
async def test_tool_that_fails_is_told_to_the_model(llama: LlamaServer) -> None:
    @tool
    def get_weather(city: str) -> str:
        """Get the current weather for a city"""
        raise ConnectionError("the weather station is down")

    async with Client(options(llama, tools=[get_weather], max_tool_iterations=2)) as client:
        await client.query("What is the weather in Paris?")
        events = [event async for event in client.events()]
        told = next(message for message in client.history if message["role"] == "tool")
    assert isinstance(events[-1], Done), events[-1]
    assert only(ToolResult, events)[0].is_error
    assert "the weather station is down" in told["content"]


@pytest.mark.row("B20")
@pytest.mark.parametrize("protocol", ["openai", "responses"])
async def test_answer_becomes_a_dataclass(llama: LlamaServer, protocol: str) -> None:
    async with Client(options(llama, output_type=City, protocol=protocol)) as client:
        await client.query("Describe Paris.")
        events = [event async for event in client.events()]
    assert isinstance(events[-1], Done), events[-1]
    assert events[-1].response.output == City("Paris", "France", True)


@pytest.mark.row("B20")
async def test_object_after_a_tool_round(llama: LlamaServer) -> None:
    """The tool runs without the schema, then the schema binds the answer."""
    settings = options(llama, tools=[get_weather], output_type=Weather, max_tokens=120, thinking=False)
    async with Client(settings) as client:
        await client.query("What is the weather in Paris?")
        events = [event async for event in client.events()]
    assert isinstance(events[-1], Done), events[-1]
    assert only(ToolRunning, events)[0].input == {"city": "Paris"}
    assert isinstance(events[-1].response.output, Weather)
    assert events[-1].response.output.city == "Paris"


@pytest.mark.row("B12")
async def test_thoughts_are_a_channel_of_their_own(llama: LlamaServer) -> None:
    """The model goes on with a thought that was begun for it."""
    async with Client(options(llama, extra_body={"reasoning_budget_tokens": 16})) as client:
        thought = "Okay, the user asks for"
        client.message_history = [Message("user", "What is 2+2?"), Message("assistant", [ThinkingBlock(thought)])]
        await client.resume()
        blocks = [block async for block in client.receive_messages()]
    thoughts = "".join(block.thinking for block in blocks if isinstance(block, ThinkingBlock))
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    assert thoughts
    assert text
    assert "think>" not in thoughts + text


@pytest.mark.row("E1", "B17")
async def test_window_is_the_one_that_was_loaded(llama: LlamaServer) -> None:
    async with Client(options(llama, max_tokens=4)) as client:
        assert await client.context_window() == WINDOW
        await client.query("Say hello.")
        async for _ in client.events():
            pass
        used = client.turn_metadata["context_tokens"]
    assert 20 < used < 150


@pytest.mark.row("B16")
async def test_long_conversation_goes_on_with_a_policy(llama: LlamaServer) -> None:
    """Some 6,000 tokens of history do not fit into the window of 4,096."""
    policy = DropOldest(keep=0.1)
    async with Client(options(llama, max_tokens=8, compaction=policy, max_turns=99)) as client:
        for number in range(6):
            client.message_history += [
                Message("user", f"Note {number}: {'a cat sat, ' * 250}"),
                Message("assistant", "ok"),
            ]
        await client.query("Say hello.")
        events = [event async for event in client.events()]
        assert isinstance(events[-1], Done), events[-1]
        await client.query("Say hello again.")
        events = [event async for event in client.events()]
    assert isinstance(events[-1], Done), events[-1]


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
