"""open-agent-sdk's query(), which opens a client for each prompt; its Client keeps one, but hands on whole replies."""

from collections.abc import Awaitable, Callable

from open_agent import AgentOptions, TextBlock, query


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    options = AgentOptions(system_prompt="", model=model, base_url=base_url)

    async def stream() -> int:
        text: list[str] = []
        async for message in query("hi", options):
            text += [block.text for block in message.content if isinstance(block, TextBlock)]
        return len("".join(text))

    return stream
