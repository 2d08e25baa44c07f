"""A named agent in this process: a conversation that takes one message after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from any_agent.agent.client import Client
from any_agent.errors import AgentSDKError
from any_agent.events import Done, Event, Failed, ResponseEnd
from any_agent.orchestration.providers.openai.translation import answers, nothing_said
from any_agent.orchestration.types import AgentState

if TYPE_CHECKING:
    from any_agent.agent.options import AgentOptions
    from any_agent.orchestration.types import AgentConfig, Message

__all__ = ("OpenAICompatibleAgent",)


class OpenAICompatibleAgent:
    """One conversation under a name. Messages that come at the same time wait for each other."""

    def __init__(self, config: AgentConfig, options: AgentOptions) -> None:
        self._config = config
        self._client = Client(options)
        self._state = AgentState.IDLE
        self._one_at_a_time = asyncio.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, state={self._state.value!r})"

    @property
    def name(self) -> str:
        """The name under which it is addressed."""
        return self._config.name

    @property
    def agent_type(self) -> str:
        """How it works: it asks a model over its API."""
        return self._config.agent_type

    @property
    def state(self) -> AgentState:
        """What it is doing; after a failure it takes the next message all the same."""
        return self._state

    async def handle_message(self, message: Message) -> AsyncGenerator[Message, None]:
        """The answer: the text of each response of the model, and each call; what goes wrong is raised."""
        async with aclosing(answers(self.stream_message(message), self._config)) as messages:
            async for answer in messages:
                yield answer

    async def stream_message(self, message: Message) -> AsyncGenerator[Event, None]:
        """The same turn as it happens; the last event is `Done` or `Failed`."""
        if not message.content.strip():
            raise AgentSDKError(f"the message for {self.name!r} is empty: there is nothing to answer")
        self._check_takes_messages()
        async with self._one_at_a_time:
            self._check_takes_messages()
            self._state = AgentState.PROCESSING
            try:
                async with aclosing(self._turn(message)) as events:
                    async for event in events:
                        if isinstance(event, Done | Failed):
                            self._end(AgentState.IDLE if isinstance(event, Done) else AgentState.FAILED)
                        yield event
            except Exception:
                self._end(AgentState.FAILED)
                raise
            finally:
                self._end(AgentState.IDLE)  # whoever listened has gone away

    async def shutdown(self) -> None:
        """The end: what goes on is stopped, connections are closed, and no message is taken any more."""
        self._state = AgentState.TERMINATED
        await self._client.aclose()

    async def _turn(self, message: Message) -> AsyncGenerator[Event, None]:
        """The events of a turn; one in which nothing is said is a failed one."""
        has_spoken = False
        await self._client.query(message.content)
        async with aclosing(self._client.events()) as events:
            async for event in events:
                if isinstance(event, ResponseEnd):
                    has_spoken = has_spoken or bool(
                        event.response.text or event.response.tool_calls or event.response.tool_errors
                    )
                elif isinstance(event, Done) and not has_spoken:
                    event = Failed(nothing_said(event.response), event.response, event.seq)
                yield event

    def _end(self, state: AgentState) -> None:
        """The turn has ended, unless it has already, or the agent with it."""
        if self._state is AgentState.PROCESSING:
            self._state = state

    def _check_takes_messages(self) -> None:
        if self._state is AgentState.TERMINATED:
            raise AgentSDKError(f"agent {self.name!r} was shut down: create it anew to go on")
