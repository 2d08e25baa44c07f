"""A named agent of a database in the shape of any other agent: each message to it is a task.

Whoever listens may go away, or die: the task stays, a worker goes on with it, and so does the next who wants something
of the agent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from any_agent.errors import AgentSDKError
from any_agent.orchestration.providers.openai.translation import answers
from any_agent.orchestration.types import AgentState

if TYPE_CHECKING:
    from any_agent.events import Event
    from any_agent.orchestration.durable.host import Agents
    from any_agent.orchestration.types import AgentConfig, Message

__all__ = ("DurableAgent",)


class DurableAgent:
    """For a message bus, and for every program that talks with agents. `Agents.agent(name)` makes it."""

    def __init__(self, agents: Agents, config: AgentConfig) -> None:
        self._agents = agents
        self._config = config
        self._is_shut = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """The name under which it is addressed."""
        return self._config.name

    @property
    def agent_type(self) -> str:
        """How it works."""
        return self._config.agent_type

    @property
    def state(self) -> AgentState:
        """What it is doing, whoever asked it to; the database is asked."""
        return AgentState.TERMINATED if self._is_shut else self._agents.state_of(self.name)

    async def handle_message(self, message: Message) -> AsyncGenerator[Message, None]:
        """The answer: the text of each response of the model, and each call; what goes wrong is raised."""
        async with aclosing(answers(self.stream_message(message), self._config)) as messages:
            async for answer in messages:
                yield answer

    async def stream_message(self, message: Message) -> AsyncGenerator[Event, None]:
        """The task as it is done; the last event is `Done` or `Failed`.

        A message with an `id` in its metadata is delivered once, however often it is sent.
        """
        if not message.content.strip():
            raise AgentSDKError(f"the message for {self.name!r} is empty: there is nothing to answer")
        if self._is_shut:
            raise AgentSDKError(f"agent {self.name!r} was shut down here: ask for it anew to go on")
        id = f"{message.metadata['id']}:{self.name}" if "id" in message.metadata else None
        task = await self._agents.submit(self.name, message.content, id=id, sender=message.sender)
        async with aclosing(self._agents.work_on(task)) as events:
            async for event in events:
                yield event

    async def shutdown(self) -> None:
        """No message is taken here any more. The agent lives on: `Agents.stop` ends it."""
        self._is_shut = True
