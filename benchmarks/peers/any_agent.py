"""This project: an adapter's events; in turns with tools, and idle, its Client."""

from collections.abc import Awaitable, Callable

from any_agent import AgentOptions, Client, Message, OpenAIAdapter, TextBlock, tool

Add = Callable[[int, int], Awaitable[int]]


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    adapter = OpenAIAdapter(model=model, base_url=base_url)

    async def stream() -> int:
        events = adapter.stream([Message("user", "hi")])
        text = [event.text async for event in events if event.type == "text"]
        return len("".join(text))

    return stream


async def connect_rounds(base_url: str, model: str, add: Add) -> Callable[[], Awaitable[int]]:
    options = AgentOptions("", model, base_url, tools=[tool(add)], auto_execute_tools=True, max_tool_iterations=100)
    client = Client(options)

    async def turn() -> int:
        client.message_history = []
        options.max_turns += 1
        await client.query("hi")
        text = [event.text async for event in client.events() if event.type == "text"]
        return len("".join(text))

    return turn


async def connect_idle(base_url: str, model: str) -> Callable[[], Callable[[], Awaitable[int]]]:
    options = AgentOptions("", model, base_url)

    def make() -> Callable[[], Awaitable[int]]:
        client = Client(options)

        async def ask() -> int:
            await client.query("hi")
            text = [block.text async for block in client.receive_messages() if isinstance(block, TextBlock)]
            return len("".join(text))

        return ask

    return make
