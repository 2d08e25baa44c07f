"""openai-agents over chat completions, with tracing disabled: the raw text deltas of a streamed run."""

from collections.abc import Awaitable, Callable

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=base_url, api_key="none")
    agent = Agent(name="bench", model=OpenAIChatCompletionsModel(model=model, openai_client=client))

    async def stream() -> int:
        events = Runner.run_streamed(agent, "hi").stream_events()
        raw = [event.data async for event in events if event.type == "raw_response_event"]
        text = [event.delta for event in raw if event.type == "response.output_text.delta"]
        return len("".join(text))

    return stream
