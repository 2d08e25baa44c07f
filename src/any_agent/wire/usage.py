"""Token counts under the names that servers give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from any_agent.types import Usage
from any_agent.wire.values import as_object

__all__ = ("read_usage",)


def read_usage(raw: Any, known: Usage | None = None) -> Usage | None:
    """The usage in `raw`, over what was known before: a later value wins, and nothing is added up.

    >>> read_usage({"prompt_tokens": 8, "total_tokens": 11}).output_tokens
    3
    """
    data = as_object(raw)
    given = _first(data, "prompt_tokens", "input_tokens", "prompt_eval_count")
    output = _first(data, "completion_tokens", "output_tokens", "eval_count")
    total = _first(data, "total_tokens")
    details = as_object(data.get("completion_tokens_details")) or as_object(data.get("output_tokens_details"))
    reasoning = _first(details, "reasoning_tokens")
    reasoning = reasoning if reasoning is not None else _first(data, "reasoning_tokens")
    input_details = as_object(data.get("prompt_tokens_details")) or as_object(data.get("input_tokens_details"))
    cached = _first(input_details, "cached_tokens")
    cached = cached if cached is not None else _first(data, "cache_read_input_tokens", "prompt_cache_hit_tokens")
    if given is None and output is None and total is None:
        return known
    if output is None and given is not None and total is not None:
        output = max(total - given, 0)
    if reasoning and given is not None and output is not None and total == given + output + reasoning:
        output += reasoning  # xAI leaves the thoughts out of the answer's tokens
    usage = known or Usage()
    usage.input_tokens = given if given is not None else usage.input_tokens
    usage.output_tokens = output if output is not None else usage.output_tokens
    usage.reasoning_tokens = reasoning if reasoning is not None else usage.reasoning_tokens
    usage.cached_tokens = cached if cached is not None else usage.cached_tokens
    if total is None and usage.input_tokens is not None and usage.output_tokens is not None:
        total = usage.input_tokens + usage.output_tokens
    usage.total_tokens = total if total is not None else usage.total_tokens
    return usage


def _first(data: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = data.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        if isinstance(value, float) and value.is_integer() and value >= 0:
            return int(value)
    return None
