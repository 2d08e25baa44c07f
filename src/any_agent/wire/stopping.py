"""Why a model stopped, under all the labels that servers give it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from any_agent.events import Notice
from any_agent.types import TextBlock

if TYPE_CHECKING:
    from any_agent.types import Block, StopReason

__all__ = ("odd_endings", "stop_reason")

_STOP_REASONS: dict[str, StopReason] = {
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "model_length": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "context_length": "max_tokens",
    "token_limit": "max_tokens",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "guardrail_intervened": "content_filter",
    "refusal": "refusal",
    "stop_sequence": "stop_sequence",
}


def stop_reason(label: str | None) -> StopReason:
    """The reason that a server's label means; what is not known is a normal end.

    >>> stop_reason("MAX_TOKENS"), stop_reason("eos")
    ('max_tokens', 'end_turn')
    """
    return _STOP_REASONS.get((label or "").strip().lower().replace("-", "_"), "end_turn")


def odd_endings(
    label: str | None, blocks: Sequence[Block], calls: Sequence[Block], *, must_call: bool
) -> Iterator[Notice]:
    """What a reader of a response could not see: that a label, the calls, or the content is missing."""
    if label is None:
        yield Notice("no_finish_reason", "the server ended the response without saying why")
    elif label.lower() in ("tool_calls", "tool_use", "function_call") and not calls:
        yield Notice("lost_tool_call", "the server said that the model calls a tool, and sent no call")
    if must_call and not calls:
        yield Notice("required_call_missing", "a tool call was demanded, and the model made none")
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    if not text and not calls:
        what = "nothing but thoughts" if blocks else "nothing"
        yield Notice("empty_response", f"the model answered with {what}", {"label": label})
    if text.startswith("analysis") and "assistantfinal" in text:
        yield Notice("harmony_stripped", "the text looks like channels of gpt-oss whose markers the server removed")
