"""A program as users write it; pyright checks it in strict mode, and nothing runs it."""

from __future__ import annotations

from typing import assert_type

from any_agent import (
    Done,
    Event,
    Failed,
    LLMResponse,
    Message,
    OpenAIAdapter,
    ProviderError,
    TextDelta,
    Tool,
    ToolUseBlock,
    Usage,
    create_adapter,
    tool,
)


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


assert_type(add, Tool)


async def main() -> None:
    async with OpenAIAdapter("qwen3", "http://localhost:1234") as model:
        async for event in model.stream([Message("user", "hi")], [add], temperature=0):
            assert_type(event, Event)
            match event:
                case TextDelta(text=text):
                    assert_type(text, str)
                case Done(response=response):
                    assert_type(response.usage, Usage | None)
                    assert_type(response.tool_calls, list[ToolUseBlock])
                case Failed(error=error):
                    assert_type(error, ProviderError)
                case _:
                    pass
            if event.type == "text":
                assert_type(event.text, str)
        answer = await model.invoke([{"role": "user", "content": "hi"}])
        assert_type(answer, LLMResponse)
    assert_type(create_adapter.__name__, str)
