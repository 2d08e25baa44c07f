"""litellm's acompletion."""

from collections.abc import Awaitable, Callable

import litellm


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    async def stream() -> int:
        chunks = await litellm.acompletion(
            model=f"openai/{model}",
            api_base=base_url,
            api_key="none",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        text = [choice.delta.content or "" async for chunk in chunks for choice in chunk.choices]
        return len("".join(text))

    return stream
