"""Named agents with a real model: they remember, over each protocol, and a bus reaches them all."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from any_agent import ProviderError, TextDelta
from any_agent.orchestration import Agent, AgentConfig, AgentState, Message, MessageBus, MessageType, get_provider
from real_server.helpers import wait_for_slots
from real_server.server import MODEL, LlamaServer

pytestmark = pytest.mark.real_server


async def made(llama: LlamaServer, name: str, provider: str, **more: object) -> Agent:
    config = AgentConfig(name, provider, MODEL, llama.address, llama.key, temperature=0, max_tokens=20)
    for field, value in more.items():
        setattr(config, field, value)
    return await get_provider(provider).create_agent(config)


@pytest.fixture(params=["openai", "llamacpp", "anthropic"])
async def agent(request: pytest.FixtureRequest, llama: LlamaServer) -> AsyncIterator[Agent]:
    agent = await made(llama, "smol", request.param)
    yield agent
    await agent.shutdown()


@pytest.mark.row("C3", "C8", "C10")
async def test_an_agent_answers_and_remembers(agent: Agent) -> None:
    [first] = [message async for message in agent.handle_message(Message("Say hello."))]
    assert first.content.strip()
    assert (first.sender, first.message_type, first.metadata["model"]) == ("smol", MessageType.CHAT, MODEL)
    [second] = [message async for message in agent.handle_message(Message("Say it again."))]
    assert second.content.strip()
    assert agent.state is AgentState.IDLE


@pytest.mark.row("C10")
async def test_who_stops_listening_frees_the_server(agent: Agent, llama: LlamaServer) -> None:
    async for event in agent.stream_message(Message("Tell me a story.")):
        if isinstance(event, TextDelta):
            break
    await wait_for_slots(llama, 0, 5)


@pytest.mark.row("C11")
async def test_a_wrong_key_is_an_error_of_the_provider(llama: LlamaServer) -> None:
    agent = await made(llama, "smol", "openai", api_key="wrong")
    with pytest.raises(ProviderError) as problem:
        async for _ in agent.handle_message(Message("Say hello.")):
            pass
    assert problem.value.kind == "auth"
    assert "wrong" not in str(problem.value)
    await agent.shutdown()


@pytest.mark.row("C17")
async def test_a_bus_reaches_agents_of_different_protocols(llama: LlamaServer) -> None:
    bus = MessageBus()
    agents = [await made(llama, name, provider) for name, provider in (("a", "openai"), ("b", "anthropic"))]
    for agent in agents:
        bus.register(agent)
    replies = [reply async for reply in bus.send(Message("Say hello."))]
    assert sorted(reply.sender for reply in replies) == ["a", "b"]
    assert all(reply.content.strip() for reply in replies)
    for agent in agents:
        await agent.shutdown()
