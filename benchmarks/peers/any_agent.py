"""This project: an adapter's events."""

from collections.abc import Awaitable, Callable

from any_agent import Message, OpenAIAdapter


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    adapter = OpenAIAdapter(model=model, base_url=base_url)

    async def stream() -> int:
        events = adapter.stream([Message("user", "hi")])
        text = [event.text async for event in events if event.type == "text"]
        return len("".join(text))

    return stream
