"""What the tests ask the server, and how they read the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from any_agent import AnthropicAdapter, Done, Message, OpenAIAdapter, ResponsesAdapter

if TYPE_CHECKING:
    from any_agent.adapters.base import BaseAdapter
    from any_agent.adapters.stream import EventStream
    from any_agent.events import Event
    from any_agent.types import LLMResponse
    from real_server.server import LlamaServer

T = TypeVar("T")

ADAPTERS: dict[str, type[BaseAdapter]] = {
    "chat": OpenAIAdapter,
    "anthropic": AnthropicAdapter,
    "responses": ResponsesAdapter,
}
HELLO = [Message("user", "Say hello.")]
STORY = [Message("user", "Tell me a story.")]
OSLO = [Message("user", "How many people live in Oslo?")]
#: the model goes on with this until it is stopped
ENDLESS = [Message("user", "Repeat the word hello for ever: hello hello hello hello hello")]


def prompt_of(tokens: int) -> list[Message]:
    """A prompt of about so many tokens."""
    return [Message("user", "a cat sat, " * (tokens // 4))]


async def events_of(stream: EventStream) -> list[Event]:
    """All events of a stream, whose numbers must count from one."""
    events = [event async for event in stream]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return events


def response_of(events: list[Event]) -> LLMResponse:
    """The response at the end, which must be a good one."""
    last = events[-1]
    assert isinstance(last, Done), last
    return last.response


def only(kind: type[T], events: Iterable[Event]) -> list[T]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]


async def wait_for_slots(llama: LlamaServer, busy: int, seconds: float) -> None:
    """Return when the server works on so many requests; `TimeoutError` if it does not in so many seconds."""
    await asyncio.to_thread(llama.wait_for_slots, busy, seconds)
