"""The floor under any_agent: the raw byte stream of AsyncOpenAI with aiohttp, decoded exactly as the limit does it."""

from collections.abc import Awaitable, Callable
from typing import cast

import httpx2
from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient
from peers.limit import text_of


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    # Without a read timeout, whose timer would be set anew for each piece of the reply.
    client = AsyncOpenAI(base_url=base_url, api_key="none", http_client=DefaultAioHttpClient(), timeout=None)
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True}

    async def stream() -> int:
        reply = await client.post(
            "/chat/completions",
            cast_to=httpx2.Response,
            body=body,
            stream=True,
            stream_cls=AsyncStream[httpx2.Response],
        )
        response = cast("httpx2.Response", reply)  # which is what it is, asked for like this
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        text: list[str] = []
        unfinished = b""
        async for data in response.stream:
            *events, unfinished = (unfinished + data).split(b"\n\n")
            text += text_of(events)
        await response.aclose()
        return len("".join(text))

    return stream
