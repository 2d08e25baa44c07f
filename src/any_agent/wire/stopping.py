"""Why a model stopped, under all the labels that servers give it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from any_agent.types import StopReason

__all__ = ("stop_reason",)

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
