from __future__ import annotations

import pytest

from any_agent.errors import ErrorKind, ProviderAPIError, ProviderConnectionError
from any_agent.transport.retry import loading_delay, retry_delay
from any_agent.types import RetryConfig

PLAIN = RetryConfig(max_attempts=3, base_delay_ms=500, jitter=False)


def failed(kind: ErrorKind = "server_error", retry_after: float | None = None) -> ProviderAPIError:
    return ProviderAPIError("no", kind=kind, retry_after=retry_after)


@pytest.mark.row("B14")
def test_delay_doubles_until_the_attempts_are_used_up() -> None:
    delays = [retry_delay(failed(), attempt=attempt, config=PLAIN, random=1) for attempt in (1, 2, 3)]
    assert delays == [0.5, 1.0, None]


def test_backoff_has_a_ceiling() -> None:
    config = RetryConfig(max_attempts=50, jitter=False)
    assert retry_delay(failed(), attempt=20, config=config, random=1) == 30


@pytest.mark.parametrize("random", [0.0, 0.25, 1.0])
def test_full_jitter_spreads_from_zero_to_the_whole_delay(random: float) -> None:
    config = RetryConfig(max_attempts=3, base_delay_ms=1000)
    assert retry_delay(failed(), attempt=1, config=config, random=random) == random


@pytest.mark.row("http_429")
def test_retry_after_wins_over_backoff_up_to_a_minute() -> None:
    assert retry_delay(failed(retry_after=7), attempt=1, config=PLAIN, random=1) == 7
    assert retry_delay(failed(retry_after=60), attempt=1, config=PLAIN, random=1) == 60
    assert retry_delay(failed(retry_after=61), attempt=1, config=PLAIN, random=1) is None


@pytest.mark.parametrize("kind", ["auth", "quota", "context_length", "invalid_request", "content_filter", "aborted"])
def test_what_does_not_pass_is_not_tried_again(kind: ErrorKind) -> None:
    assert retry_delay(failed(kind), attempt=1, config=PLAIN, random=1) is None


def test_refused_connection_is_tried_again() -> None:
    assert retry_delay(ProviderConnectionError("refused"), attempt=1, config=PLAIN, random=1) == 0.5


@pytest.mark.row("groq_tool_use_failed")
def test_failed_tool_use_is_tried_again_once() -> None:
    assert retry_delay(failed("tool_use_failed"), attempt=1, config=PLAIN, random=1) == 0.5
    assert retry_delay(failed("tool_use_failed"), attempt=2, config=PLAIN, random=1) is None


@pytest.mark.row("E2")
def test_loading_server_is_asked_ever_more_seldom() -> None:
    assert [loading_delay(waits, None) for waits in (1, 2, 3, 9)] == [0.25, 0.5, 1.0, 5.0]
    assert loading_delay(1, 3.0) == 3.0
    assert loading_delay(1, 600.0) == 60.0


@pytest.mark.parametrize(("attempts", "delay"), [(0, 500), (1, -1)])
def test_impossible_settings_are_refused(attempts: int, delay: int) -> None:
    with pytest.raises(ValueError, match="RetryConfig"):
        RetryConfig(max_attempts=attempts, base_delay_ms=delay)
