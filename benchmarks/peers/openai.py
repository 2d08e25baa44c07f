"""The OpenAI SDK with its aiohttp client, as its README shows for many streams."""

from collections.abc import Awaitable, Callable
from functools import partial

from openai import AsyncOpenAI, DefaultAioHttpClient


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    return make(base_url, model)


async def connect_idle(base_url: str, model: str) -> Callable[[], Callable[[], Awaitable[int]]]:
    return partial(make, base_url, model)


def make(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    client = AsyncOpenAI(base_url=base_url, api_key="none", http_client=DefaultAioHttpClient())

    async def stream() -> int:
        chunks = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        text = [choice.delta.content or "" async for chunk in chunks for choice in chunk.choices]
        return len("".join(text))

    return stream
