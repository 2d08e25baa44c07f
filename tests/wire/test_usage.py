"""Token counts, under whichever names servers give them."""

from __future__ import annotations

from typing import Any

import pytest

from any_agent.types import Usage
from any_agent.wire.usage import read_usage


@pytest.mark.row("D4", "usage_shape", "usage_xai")
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"prompt_tokens": 8, "completion_tokens": 3, "total_tokens": 11}, Usage(8, 3, 11)),
        ({"prompt_tokens": 8, "completion_tokens": 3}, Usage(8, 3, 11)),
        ({"input_tokens": 8, "output_tokens": 3}, Usage(8, 3, 11)),
        ({"prompt_eval_count": 8, "eval_count": 3}, Usage(8, 3, 11)),
        ({"prompt_tokens": 8, "input_tokens": 9, "completion_tokens": 3}, Usage(8, 3, 11)),
        ({"prompt_tokens": 8, "total_tokens": 11}, Usage(8, 3, 11)),
        ({"prompt_tokens": 8, "completion_tokens": None, "total_tokens": 11}, Usage(8, 3, 11)),
        ({"prompt_tokens": 11, "total_tokens": 8}, Usage(11, 0, 8)),
        ({"total_tokens": 11}, Usage(None, None, 11)),
        ({"prompt_tokens": 8}, Usage(8)),
        ({"completion_tokens": 3}, Usage(None, 3)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0, 0)),
        ({"prompt_tokens": 8.0, "completion_tokens": 3.0}, Usage(8, 3, 11)),
        (
            {"prompt_tokens": 8, "completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 2}},
            Usage(8, 3, 11, reasoning_tokens=2),
        ),
        (
            {"input_tokens": 8, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 2}},
            Usage(8, 3, 11, reasoning_tokens=2),
        ),
        ({"prompt_tokens": 8, "completion_tokens": 3, "reasoning_tokens": 2}, Usage(8, 3, 11, reasoning_tokens=2)),
        (
            {"prompt_tokens": 8, "completion_tokens": 3, "total_tokens": 13, "reasoning_tokens": 2},
            Usage(8, 5, 13, reasoning_tokens=2),
        ),
        (
            {"prompt_tokens": 8, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(8, 3, 11, cached_tokens=4),
        ),
        (
            {"input_tokens": 8, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 0}},
            Usage(8, 3, 11, cached_tokens=0),
        ),
        ({"input_tokens": 8, "output_tokens": 3, "cache_read_input_tokens": 4}, Usage(8, 3, 11, cached_tokens=4)),
        ({"prompt_tokens": 8, "completion_tokens": 3, "prompt_cache_hit_tokens": 4}, Usage(8, 3, 11, cached_tokens=4)),
    ],
)
def test_counts_have_many_names(raw: dict[str, Any], expected: Usage) -> None:
    assert read_usage(raw) == expected


@pytest.mark.row("usage_absent", "D4")
@pytest.mark.parametrize(
    "raw",
    [
        None,
        {},
        [],
        "x",
        {"prompt_tokens": None},
        {"prompt_tokens": "8"},
        {"prompt_tokens": True},
        {"prompt_tokens": -1},
        {"prompt_tokens": 1.5},
        {"prompt_tokens": float("inf")},
        {"prompt_tokens": float("nan")},
        {"reasoning_tokens": 5},
        {"completion_tokens_details": {"reasoning_tokens": 5}},
    ],
)
def test_what_is_no_count_is_no_usage(raw: Any) -> None:
    assert read_usage(raw) is None
    known = Usage(1, 2, 3)
    assert read_usage(raw, known) == Usage(1, 2, 3)


@pytest.mark.row("E12", "usage_every_chunk", "an_usage")
def test_later_values_win_and_nothing_is_added_up() -> None:
    known = read_usage({"prompt_tokens": 8, "completion_tokens": 1, "total_tokens": 9})
    known = read_usage({"prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10}, known)
    known = read_usage({"prompt_tokens": None, "completion_tokens": None}, known)
    assert known == Usage(8, 2, 10)


@pytest.mark.row("an_usage")
def test_what_a_later_value_does_not_say_stays() -> None:
    known = read_usage({"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 7})
    assert read_usage({"output_tokens": 15}, known) == Usage(25, 15, 40, cached_tokens=7)
    assert read_usage({"input_tokens": 30, "output_tokens": 15}, known) == Usage(30, 15, 45, cached_tokens=7)
