"""openai-agents over chat completions, with tracing disabled: the raw text deltas of a streamed run."""

from collections.abc import Awaitable, Callable

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

Add = Callable[[int, int], Awaitable[int]]


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    return make(base_url, model)


async def connect_rounds(base_url: str, model: str, add: Add) -> Callable[[], Awaitable[int]]:
    return make(base_url, model, add)


def make(base_url: str, model: str, *tools: Add) -> Callable[[], Awaitable[int]]:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=base_url, api_key="none")
    chat = OpenAIChatCompletionsModel(model=model, openai_client=client)
    agent = Agent(name="bench", model=chat, tools=[function_tool(tool) for tool in tools])

    async def stream() -> int:
        events = Runner.run_streamed(agent, "hi", max_turns=100).stream_events()
        raw = [event.data async for event in events if event.type == "raw_response_event"]
        text = [event.delta for event in raw if event.type == "response.output_text.delta"]
        return len("".join(text))

    return stream
