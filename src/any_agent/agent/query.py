"""One question, one answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import TYPE_CHECKING

from any_agent.agent.client import Client
from any_agent.types import AssistantMessage, Block, LLMResponse

if TYPE_CHECKING:
    from any_agent.agent.options import AgentOptions

__all__ = ("QueryStream", "query")


class QueryStream:
    """What `query()` returns: iterate over it; afterwards `response` is the whole answer."""

    def __init__(self, prompt: str | list[Block], options: AgentOptions) -> None:
        # the generator must not hold on to this object: when nobody holds it any more, the connection closes
        self._ended: list[LLMResponse] = []
        self._messages = _messages(prompt, options, self._ended)

    @property
    def response(self) -> LLMResponse | None:
        """The last response of the model, when the iteration has come to its end."""
        return self._ended[-1] if self._ended else None

    def __aiter__(self) -> QueryStream:
        return self

    def __anext__(self) -> Awaitable[AssistantMessage]:
        return anext(self._messages)

    async def __aenter__(self) -> QueryStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop: the connection is dropped at once."""
        await self._messages.aclose()


def query(prompt: str | list[Block], options: AgentOptions) -> QueryStream:
    """Ask, and get the answer as it comes: an `AssistantMessage` for each piece of text, and for each call.

    >>> from any_agent import AgentOptions
    >>> stream = query("What is 2+2?", AgentOptions("Be brief.", "qwen3", "http://localhost:1234/v1"))
    >>> stream.response is None
    True
    """
    return QueryStream(prompt, options)


async def _messages(
    prompt: str | list[Block], options: AgentOptions, ended: list[LLMResponse]
) -> AsyncGenerator[AssistantMessage, None]:
    async with Client(options) as client:
        await client.query(prompt)
        async with aclosing(client.receive_messages()) as blocks:
            async for block in blocks:
                yield AssistantMessage([block])
        if client.response is not None:
            ended.append(client.response)
