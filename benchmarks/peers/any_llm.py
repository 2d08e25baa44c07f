"""Mozilla's any-llm with its OpenAI provider."""

from collections.abc import Awaitable, Callable

from any_llm import AnyLLM


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    llm = AnyLLM.create("openai", api_key="none", api_base=base_url)

    async def stream() -> int:
        chunks = await llm.acompletion(model=model, messages=[{"role": "user", "content": "hi"}], stream=True)
        text = [choice.delta.content or "" async for chunk in chunks for choice in chunk.choices]
        return len("".join(text))

    return stream
