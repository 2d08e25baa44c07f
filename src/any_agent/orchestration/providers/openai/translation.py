"""Responses of a model as messages of an agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from any_agent.errors import ProviderAPIError
from any_agent.events import Failed, ResponseEnd
from any_agent.orchestration.types import Message, MessageType
from any_agent.types import LLMResponse, ToolUseBlock, ToolUseError
from any_agent.wire.request import arguments_text

if TYPE_CHECKING:
    from any_agent.events import Event
    from any_agent.orchestration.types import AgentConfig

__all__ = ("answers", "nothing_said", "to_messages")


def to_messages(response: LLMResponse, *, sender: str, provider: str, model: str) -> list[Message]:
    """The text as one message, then each call as one.

    >>> from any_agent.types import TextBlock
    >>> to_messages(LLMResponse(content=[TextBlock("Hello")]), sender="gpt", provider="openai", model="m")[0].content
    'Hello'
    """
    messages: list[Message] = []
    if response.text:
        messages.append(Message(response.text, sender, metadata={"provider": provider, "model": model}))
    messages += [
        _call_message(block, sender, provider)
        for block in response.content
        if isinstance(block, ToolUseBlock | ToolUseError)
    ]
    return messages


async def answers(events: AsyncGenerator[Event, None], config: AgentConfig) -> AsyncGenerator[Message, None]:
    """A turn of an agent in whole messages; what goes wrong is raised."""
    async with aclosing(events):
        async for event in events:
            if isinstance(event, ResponseEnd):
                model = config.model or ""
                for message in to_messages(event.response, sender=config.name, provider=config.provider, model=model):
                    yield message
            elif isinstance(event, Failed):
                raise event.error


def nothing_said(response: LLMResponse) -> ProviderAPIError:
    """The failure of a turn in which the model neither said nor called anything."""
    return ProviderAPIError(
        f"The model ended its answer ({response.stop_reason}) and had said nothing by then",
        kind="invalid_response",
        retryable=True,
    )


def _call_message(call: ToolUseBlock | ToolUseError, sender: str, provider: str) -> Message:
    name = call.name or "unknown"
    metadata = {
        "provider": provider,
        "type": "tool_call",
        "tool_call_id": call.id or "",
        "tool_name": name,
        "tool_arguments": _raw_arguments(call),
    }
    return Message(f"Tool call: {name}", sender, message_type=MessageType.SYSTEM, metadata=metadata)


def _raw_arguments(call: ToolUseBlock | ToolUseError) -> str:
    """The arguments as the model wrote them, or as JSON where they did not come as text."""
    if isinstance(call, ToolUseError):
        return call.raw_data or ""
    return call.arguments or arguments_text(call.input)
