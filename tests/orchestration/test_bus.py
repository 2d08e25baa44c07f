"""Messages between agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from any_agent.errors import AgentSDKError, ProviderAPIError
from any_agent.events import Event
from any_agent.orchestration import Agent, AgentConfig, AgentState, DeliveryError, Message, MessageBus, get_provider
from any_agent.testing import HANG, Reply, ScriptedServer, chat_events


class Echo:
    """An agent that answers in as many messages as it is told, each when it may."""

    agent_type = "api"
    state = AgentState.IDLE

    def __init__(self, name: str, *gates: asyncio.Event | Exception | None) -> None:
        self.name = name
        self.gates = gates or (None,)
        self.heard: list[Message] = []

    async def handle_message(self, message: Message) -> AsyncGenerator[Message, None]:
        self.heard.append(message)
        for number, gate in enumerate(self.gates):
            if isinstance(gate, Exception):
                raise gate
            if gate is not None:
                await gate.wait()
            yield Message(f"{self.name} {number}", self.name)

    def stream_message(self, message: Message) -> AsyncGenerator[Event, None]:
        raise NotImplementedError

    async def shutdown(self) -> None: ...


def bus_with(*agents: Agent) -> MessageBus:
    bus = MessageBus()
    for agent in agents:
        bus.register(agent)
    return bus


async def replies(bus: MessageBus, message: Message) -> list[str]:
    return [reply.content async for reply in bus.send(message)]


@pytest.mark.row("C17")
async def test_a_message_reaches_those_who_are_named() -> None:
    a, b, c = Echo("a"), Echo("b"), Echo("c")
    message = Message("hi", "a", ["b", "b"])
    assert await replies(bus_with(a, b, c), message) == ["b 0"]
    assert [a.heard, b.heard, c.heard] == [[], [message], []]


@pytest.mark.row("C17")
async def test_a_message_to_all_reaches_everybody_once_but_for_its_sender() -> None:
    a, b, c = Echo("a"), Echo("b"), Echo("c")
    assert sorted(await replies(bus_with(a, b, c), Message("hi", "a", ["c", "all"]))) == ["b 0", "c 0"]
    assert sorted(await replies(bus_with(a, b), Message("hi"))) == ["a 0", "b 0"]
    assert [len(agent.heard) for agent in (a, b, c)] == [1, 2, 1]


@pytest.mark.row("C17")
async def test_replies_come_as_they_are_made_and_go_no_further() -> None:
    slow = asyncio.Event()
    a, b = Echo("a", slow), Echo("b", None, slow)
    order: list[str] = []
    async for reply in bus_with(a, b).send(Message("hi")):
        order.append(reply.content)
        slow.set()
    assert order[0] == "b 0"
    assert sorted(order) == ["a 0", "b 0", "b 1"]
    assert len(a.heard) == len(b.heard) == 1


@pytest.mark.row("C17")
@pytest.mark.parametrize(
    ("recipients", "words"),
    [
        (["b", "nix", "user"], "there is no agent 'nix', 'user' on this bus; there are a, b"),
        (["a"], "nobody to deliver this message to"),
        ([], "nobody to deliver this message to"),
    ],
)
async def test_a_message_that_cannot_be_delivered_reaches_nobody(recipients: list[str], words: str) -> None:
    a, b = Echo("a"), Echo("b")
    with pytest.raises(ValueError, match=words):
        await replies(bus_with(a, b), Message("hi", "a", recipients))
    assert a.heard == b.heard == []


@pytest.mark.row("C17")
async def test_one_who_fails_does_not_keep_the_others_from_answering() -> None:
    wrong = ProviderAPIError("no such model")
    bus = bus_with(Echo("a", wrong), Echo("b", None, AgentSDKError("closed")), Echo("c"))
    heard: list[Message] = []
    with pytest.raises(DeliveryError, match=r"^a: no such model; b: closed$") as problem:
        async for reply in bus.send(Message("hi")):
            heard.append(reply)  # noqa: PERF401 - what comes before the error counts
    assert sorted(reply.content for reply in heard) == ["b 0", "c 0"]
    assert problem.value.failures["a"] is wrong


async def test_an_error_of_the_program_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        await replies(bus_with(Echo("a", ZeroDivisionError()), Echo("b")), Message("hi"))


async def test_names_are_taken_once_and_given_back() -> None:
    bus = bus_with(Echo("a"))
    with pytest.raises(ValueError, match="there is an agent 'a' on this bus already"):
        bus.register(Echo("a"))
    bus.unregister("a")
    assert bus.names == []
    with pytest.raises(ValueError, match="there is no agent 'a' on this bus; there are none"):
        bus.unregister("a")


@pytest.mark.row("C17", "C14")
async def test_agents_answer_in_parallel_and_stop_when_nobody_listens() -> None:
    quick = Reply(chat_events("quick"))

    def answer(request: Any) -> Reply:
        return quick if request.json["model"] == "quick" else Reply([HANG])

    async with ScriptedServer(answer) as server:
        provider = get_provider("openai")
        agents = [
            await provider.create_agent(AgentConfig(f"a-{m}", "openai", m, server.url)) for m in ("slow", "quick")
        ]
        bus = bus_with(*agents)
        async with aclosing(bus.send(Message("hi"))) as answers:
            async for reply in answers:
                assert reply.content == "quick"
                await server.received(2)
                break
        await server.disconnected()
        assert [agent.state for agent in agents] == ["idle", "idle"]
        for agent in agents:
            await agent.shutdown()
