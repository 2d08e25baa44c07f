"""open-agent-sdk's query(), which opens a client for each prompt; its Client keeps one, but hands on whole replies."""

from collections.abc import Awaitable, Callable
from typing import Any

from open_agent import AgentOptions, Client, TextBlock, query, tool

Add = Callable[[int, int], Awaitable[int]]


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    options = AgentOptions(system_prompt="", model=model, base_url=base_url)

    async def stream() -> int:
        text: list[str] = []
        async for message in query("hi", options):
            text += [block.text for block in message.content if isinstance(block, TextBlock)]
        return len("".join(text))

    return stream


async def connect_rounds(base_url: str, model: str, add: Add) -> Callable[[], Awaitable[int]]:
    @tool("add", "Add two numbers", {"a": int, "b": int})
    async def adding(arguments: dict[str, Any]) -> str:
        return str(await add(**arguments))

    options = AgentOptions(
        system_prompt="",
        model=model,
        base_url=base_url,
        tools=[adding],
        auto_execute_tools=True,
        max_tool_iterations=100,
    )
    client = Client(options)

    async def turn() -> int:
        client.message_history.clear()
        return await answer(client)

    return turn


async def connect_idle(base_url: str, model: str) -> Callable[[], Callable[[], Awaitable[int]]]:
    options = AgentOptions(system_prompt="", model=model, base_url=base_url)

    def make() -> Callable[[], Awaitable[int]]:
        client = Client(options)
        return lambda: answer(client)

    return make


async def answer(client: Client) -> int:
    await client.query("hi")
    text = [block.text async for block in client.receive_messages() if isinstance(block, TextBlock)]
    return len("".join(text))
