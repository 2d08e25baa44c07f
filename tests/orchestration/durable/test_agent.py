"""Agents of a database in the shape of any other agent, and on a bus."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from any_agent.errors import AgentSDKError, ProviderAPIError
from any_agent.events import Done
from any_agent.orchestration import (
    Agent,
    AgentConfig,
    Agents,
    AgentState,
    DeliveryError,
    Message,
    MessageBus,
    MessageType,
    get_provider,
)
from any_agent.testing import HANG, Received, Reply, ScriptedServer, chat_events

CALL = {"id": "c1", "function": {"name": "dedent", "arguments": "{}"}}
SENDER = """
import asyncio, sys
from any_agent.orchestration import Agents, Message, MessageBus

async def main():
    async with Agents(sys.argv[1]) as agents:
        bus = MessageBus()
        for name in ("a", "b"):
            bus.register(await agents.agent(name))
        async for reply in bus.send(Message("hi", "boss", metadata={"id": "order 1"})):
            print(reply.content, flush=True)

asyncio.run(main())
"""


@pytest.fixture
async def durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Agents]:
    monkeypatch.setenv("ANY_AGENT_DATA", str(tmp_path / "data"))
    async with Agents(str(tmp_path / "agents.db")) as agents:
        yield agents


def echo(request: Received) -> Reply:
    return Reply(chat_events(f"{request.json['model']} heard {request.json['messages'][-1]['content']}"))


async def spawn(agents: Agents, server: ScriptedServer, *names: str) -> list[Agent]:
    for name in names:
        await agents.spawn(AgentConfig(name, "openai", name, server.url))
    return [await agents.agent(name) for name in names]


def bus_with(*agents: Agent) -> MessageBus:
    bus = MessageBus()
    for agent in agents:
        bus.register(agent)
    return bus


@pytest.mark.row("C8", "C9", "C10")
async def test_it_is_an_agent_that_answers_in_whole_messages_and_remembers(durable: Agents) -> None:
    rounds = iter([Reply(chat_events("Let me ", "see", tool_calls=[CALL], finish="tool_calls"))])
    async with ScriptedServer(lambda request: next(rounds, None) or echo(request)) as server:
        [agent] = await spawn(durable, server, "gpt")
        assert isinstance(agent, Agent)
        assert (agent.name, agent.agent_type, agent.state) == ("gpt", "api", AgentState.IDLE)
        said, called = [message async for message in agent.handle_message(Message("hi", "boss", ["gpt"]))]
        assert said == Message("Let me see", "gpt", metadata={"provider": "openai", "model": "gpt"})
        assert (called.content, called.message_type) == ("Tool call: dedent", MessageType.SYSTEM)
        assert called.metadata["tool_arguments"] == "{}"
        [task] = await durable.tasks("gpt")
        assert (task.sender, task.prompt, task.state) == ("boss", "hi", "done")
        events = [event async for event in agent.stream_message(Message("more", "boss"))]
        assert isinstance(events[-1], Done)
        assert len(await durable.history("gpt")) > 2


@pytest.mark.row("C10")
async def test_a_failure_is_raised_and_the_next_message_is_taken(durable: Agents) -> None:
    async with ScriptedServer(Reply.json({"error": {"message": "no such thing"}}, 400), echo) as server:
        [agent] = await spawn(durable, server, "gpt")
        with pytest.raises(ProviderAPIError, match="no such thing"):
            await anext(aiter(agent.handle_message(Message("hi"))))
        assert agent.state == AgentState.FAILED
        assert [answer.content async for answer in agent.handle_message(Message("hi"))] == ["gpt heard hi"]
        assert agent.state == AgentState.IDLE


async def test_after_shutdown_no_message_is_taken_here_and_the_agent_lives_on(durable: Agents) -> None:
    async with ScriptedServer(echo) as server:
        [agent] = await spawn(durable, server, "gpt")
        with pytest.raises(AgentSDKError, match="the message for 'gpt' is empty"):
            await anext(aiter(agent.handle_message(Message(" "))))
        await agent.shutdown()
        assert agent.state == AgentState.TERMINATED
        with pytest.raises(AgentSDKError, match="agent 'gpt' was shut down here: ask for it anew to go on"):
            await anext(aiter(agent.handle_message(Message("hi"))))
        assert (await durable.find("gpt")).state == AgentState.IDLE
        assert [answer.content async for answer in (await durable.agent("gpt")).handle_message(Message("hi"))]


@pytest.mark.row("C17")
async def test_one_bus_delivers_to_agents_of_both_kinds_at_once(durable: Agents) -> None:
    both = asyncio.Event()

    def answer(request: Received) -> Reply:
        return Reply([both, *echo(request).steps])

    async with ScriptedServer(answer) as server:
        config = AgentConfig("plain", "openai", "plain", server.url)
        plain = await get_provider("openai").create_agent(config)
        bus = bus_with(plain, *await spawn(durable, server, "a", "b"))

        async def replies() -> list[str]:
            return [reply.content async for reply in bus.send(Message("hi", "boss"))]

        sending = asyncio.create_task(replies())
        await server.received(3)
        both.set()
        assert sorted(await sending) == ["a heard hi", "b heard hi", "plain heard hi"]
        await plain.shutdown()


@pytest.mark.row("C17")
async def test_one_that_was_stopped_does_not_keep_the_others_from_answering(durable: Agents) -> None:
    async with ScriptedServer(echo) as server:
        bus = bus_with(*await spawn(durable, server, "a", "b"))
        await durable.stop("a")
        heard: list[str] = []
        with pytest.raises(DeliveryError, match="the agent 'a' is stopped"):
            async for reply in bus.send(Message("hi")):
                heard.append(reply.content)  # noqa: PERF401 - what comes before the error counts
        assert heard == ["b heard hi"]


@pytest.mark.row("C17", "C15")
async def test_a_delivery_survives_the_death_of_the_sender_and_is_made_once(durable: Agents, tmp_path: Path) -> None:
    def answer(request: Received) -> Reply:
        is_first = request.json["model"] == "b" and len(server.requests) <= 2
        return Reply([HANG]) if is_first else echo(request)

    async with ScriptedServer(answer) as server:
        await spawn(durable, server, "a", "b")
        command = [sys.executable, "-c", SENDER, str(tmp_path / "agents.db")]
        sender = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert sender.stdout is not None
        assert await sender.stdout.readline() == b"a heard hi\n"
        await server.received(2)
        sender.kill()
        await sender.wait()
        [task] = await durable.tasks("b")
        assert (task.id, task.sender, task.state) == ("order 1:b", "boss", "running")
        again = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True)
        assert sorted(again.stdout.splitlines()) == [b"a heard hi", b"b heard hi"]
        assert [request.json["model"] for request in server.requests].count("a") == 1
        assert [len(await durable.tasks(name)) for name in ("a", "b")] == [1, 1]


async def test_who_stops_listening_leaves_the_task_to_be_gone_on_with(durable: Agents) -> None:
    async with ScriptedServer(Reply([*chat_events("Once", finish=None)[:2], HANG]), echo) as server:
        [agent] = await spawn(durable, server, "gpt")
        async with aclosing(agent.stream_message(Message("hi"))) as events:
            async for event in events:
                if event.type == "text":
                    break
        await server.disconnected()
        assert await durable.abandoned() == {"gpt"}
        assert [answer.content async for answer in agent.handle_message(Message("more"))] == ["gpt heard more"]
        assert [task.state for task in await durable.tasks("gpt")] == ["done", "done"]
