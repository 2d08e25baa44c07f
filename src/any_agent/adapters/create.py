"""The adapter that a set of options asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from any_agent.adapters.protocols import AnthropicAdapter, OllamaAdapter, OpenAIAdapter, ResponsesAdapter

if TYPE_CHECKING:
    from pathlib import Path

    from openai import AsyncOpenAI

    from any_agent.adapters.base import BaseAdapter
    from any_agent.types import Profile, RetryConfig, Timeouts
    from any_agent.types import Protocol as WireProtocol
    from any_agent.wire.cumulative import TextStream

__all__ = ("create_adapter",)

_ADAPTERS: dict[str, type[BaseAdapter]] = {
    "openai": OpenAIAdapter,
    "ollama": OllamaAdapter,
    "anthropic": AnthropicAdapter,
    "responses": ResponsesAdapter,
}


class ConnectionOptions(Protocol):
    """What of `AgentOptions` concerns the connection."""

    model: str
    base_url: str
    api_key: str
    protocol: WireProtocol
    profile: str | Profile | None
    client: AsyncOpenAI | None
    timeouts: Timeouts
    retry: RetryConfig
    extra_headers: dict[str, str]
    extra_body: dict[str, Any]
    text_stream: TextStream
    tool_mode: Literal["auto", "native", "prompted"]
    record_to: str | Path | None
    allow_lenient_tool_json: bool | None


def create_adapter(options: ConnectionOptions) -> BaseAdapter:
    """The adapter for `options.protocol`.

    >>> from any_agent import AgentOptions
    >>> create_adapter(AgentOptions("", "qwen3", "http://localhost:11434", protocol="ollama"))
    OllamaAdapter(model='qwen3', base_url='http://localhost:11434/api', profile='ollama')
    """
    if options.protocol not in _ADAPTERS:
        raise ValueError(f"protocol must be one of {', '.join(_ADAPTERS)}; it is {options.protocol!r}")
    return _ADAPTERS[options.protocol](
        options.model,
        options.base_url,
        api_key=options.api_key,
        profile=options.profile,
        retry=options.retry,
        timeouts=options.timeouts,
        client=options.client,
        text_stream=options.text_stream,
        tool_mode=options.tool_mode,
        record_to=options.record_to,
        allow_lenient_tool_json=options.allow_lenient_tool_json,
        extra_headers=options.extra_headers,
        extra_body=options.extra_body,
    )
