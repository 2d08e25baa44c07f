"""LangChain's ChatOpenAI."""

from collections.abc import Awaitable, Callable

from langchain_openai import ChatOpenAI
from pydantic import SecretStr


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    chat = ChatOpenAI(model=model, base_url=base_url, api_key=SecretStr("none"), stream_usage=True)

    async def stream() -> int:
        text = [str(chunk.text) async for chunk in chat.astream("hi")]
        return len("".join(text))

    return stream
