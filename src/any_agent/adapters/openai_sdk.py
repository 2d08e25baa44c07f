"""For programs that use the OpenAI SDK themselves: its client, its messages, its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from any_agent.adapters.checks import checked_address
from any_agent.events import TextDelta
from any_agent.transport.http import make_client
from any_agent.types import TextBlock, ToolUseBlock, ToolUseError
from any_agent.wire.assembly import DecodeSettings
from any_agent.wire.openai_chat import OpenAIChatDecoder, read_chunk

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from any_agent.adapters.create import ConnectionOptions

__all__ = ("ToolCallAggregator", "create_client", "format_messages")


def create_client(options: ConnectionOptions) -> AsyncOpenAI:
    """An `openai.AsyncOpenAI` for the address and the key of the options.

    >>> from any_agent import AgentOptions
    >>> str(create_client(AgentOptions("", "qwen3", "http://localhost:1234/v1")).base_url)
    'http://localhost:1234/v1/'
    """
    return make_client(checked_address(options.base_url, "/v1", "/chat/completions"), options.api_key)


def format_messages(
    system_prompt: str, user_prompt: str, history: Sequence[dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """The messages of a request: the system prompt if there is one, the history, and the new prompt.

    >>> format_messages("Be brief.", "hi")
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'hi'}]
    """
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return [*system, *(history or ()), {"role": "user", "content": user_prompt}]


class ToolCallAggregator:
    """Puts the chunks of a Chat Completions stream together: this library's chunks, and those of the OpenAI SDK.

    >>> aggregator = ToolCallAggregator()
    >>> aggregator.process_chunk({"choices": [{"delta": {"content": "Hi"}}]})
    TextBlock(text='Hi', type='text')
    >>> aggregator.finalize_tools()
    []
    """

    def __init__(self, *, allow_lenient_tool_json: bool = False) -> None:
        self._settings = DecodeSettings(lenient=allow_lenient_tool_json)
        self._decoder = OpenAIChatDecoder(self._settings)

    def process_chunk(self, chunk: Any) -> TextBlock | None:
        """Take one chunk in; returns the text that it brought, if any."""
        assembly = self._decoder.assembly
        self._decoder.chunk(read_chunk(chunk))
        text = "".join(event.text for event in assembly.take() if isinstance(event, TextDelta))
        return TextBlock(text) if text else None

    def finalize_tools(self) -> list[ToolUseBlock | ToolUseError]:
        """The calls in the chunks so far; begins anew."""
        calls = self._decoder.assembly.calls.finish([])
        self._decoder = OpenAIChatDecoder(self._settings)
        return calls
