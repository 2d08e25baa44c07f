"""any_agent's Client, whose loop reads from the adapter in a task of its own."""

from collections.abc import Awaitable, Callable

from any_agent import AgentOptions, Client, TextBlock


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    options = AgentOptions("", model, base_url)
    idle: list[Client] = []

    async def stream() -> int:
        client = idle.pop() if idle else Client(options)
        client.message_history = []
        client.options.max_turns += 1
        await client.query("hi")
        text = [block.text async for block in client.receive_messages() if isinstance(block, TextBlock)]
        idle.append(client)
        return len("".join(text))

    return stream
