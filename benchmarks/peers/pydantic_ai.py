"""pydantic-ai: an agent's text, delta by delta, without its default debouncing."""

from collections.abc import Awaitable, Callable

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

Add = Callable[[int, int], Awaitable[int]]


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    return make(base_url, model)


async def connect_rounds(base_url: str, model: str, add: Add) -> Callable[[], Awaitable[int]]:
    return make(base_url, model, add)


def make(base_url: str, model: str, *tools: Add) -> Callable[[], Awaitable[int]]:
    agent = Agent(OpenAIChatModel(model, provider=OpenAIProvider(base_url=base_url, api_key="none")), tools=tools)

    async def stream() -> int:
        async with agent.run_stream("hi") as result:
            text = [delta async for delta in result.stream_text(delta=True, debounce_by=None)]
        return len("".join(text))

    return stream
