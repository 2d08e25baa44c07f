"""any_agent's query(), which makes a client, and so a connection, for each prompt."""

from collections.abc import Awaitable, Callable

from any_agent import AgentOptions, TextBlock, query


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    options = AgentOptions("", model, base_url)

    async def stream() -> int:
        text: list[str] = []
        async for message in query("hi", options):
            text += [block.text for block in message.content if isinstance(block, TextBlock)]
        return len("".join(text))

    return stream
