"""Carries messages from one agent, or from a person, to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from any_agent.errors import AgentSDKError

if TYPE_CHECKING:
    from any_agent.orchestration.types import Agent, Message

__all__ = ("DeliveryError", "MessageBus")

_EVERYBODY = "all"


class DeliveryError(AgentSDKError):
    """Some of the agents failed to answer; `failures` has the error of each by its name."""

    def __init__(self, failures: dict[str, AgentSDKError]) -> None:
        super().__init__("; ".join(f"{name}: {failure}" for name, failure in failures.items()))
        self.failures = failures


class MessageBus:
    """Delivers messages to agents by their names, or to all. What they reply is handed out, and delivered to nobody.

    >>> bus = MessageBus()
    >>> bus.names
    []
    """

    def __init__(self) -> None:
        self._agents: dict[str, Agent] = {}

    @property
    def names(self) -> list[str]:
        """Who can be reached."""
        return list(self._agents)

    def register(self, agent: Agent) -> None:
        """Make an agent reachable under its name."""
        if agent.name in self._agents:
            raise ValueError(f"there is an agent {agent.name!r} on this bus already")
        self._agents[agent.name] = agent

    def unregister(self, name: str) -> None:
        """Make an agent unreachable; what it is answering goes on."""
        if self._agents.pop(name, None) is None:
            raise ValueError(self._unknown([name]))

    async def send(self, message: Message) -> AsyncGenerator[Message, None]:
        """Deliver a message to all its recipients at once, and yield their replies as they come.

        One that fails does not keep the others from answering: `DeliveryError` is raised after all replies.
        """
        agents = self._recipients(message)
        replies: asyncio.Queue[Message | None] = asyncio.Queue()
        failures: dict[str, AgentSDKError] = {}

        async def deliver(agent: Agent) -> None:
            try:
                async for reply in agent.handle_message(message):
                    replies.put_nowait(reply)
            except AgentSDKError as failure:
                failures[agent.name] = failure
            finally:
                replies.put_nowait(None)

        deliveries = [asyncio.create_task(deliver(agent)) for agent in agents]
        try:
            running = len(deliveries)
            while running:
                reply = await replies.get()
                if reply is None:
                    running -= 1
                else:
                    yield reply
        finally:
            for delivery in deliveries:
                delivery.cancel()
            await asyncio.wait(deliveries)
        for delivery in deliveries:
            delivery.result()  # what is no failure of an agent is one of the program, and is raised as it is
        if failures:
            raise DeliveryError(failures)

    def _recipients(self, message: Message) -> list[Agent]:
        """Who gets a message: never its sender."""
        unknown = [name for name in message.recipients if name != _EVERYBODY and name not in self._agents]
        if unknown:
            raise ValueError(self._unknown(unknown))
        named = self._agents if _EVERYBODY in message.recipients else dict.fromkeys(message.recipients)
        agents = [self._agents[name] for name in named if name != message.sender]
        if not agents:
            raise ValueError("there is nobody to deliver this message to: its recipients are none, or only its sender")
        return agents

    def _unknown(self, names: list[str]) -> str:
        wanted = ", ".join(repr(name) for name in names)
        return f"there is no agent {wanted} on this bus; there are {', '.join(self._agents) or 'none'}"
