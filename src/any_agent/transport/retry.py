"""When a failed request is sent again, and after how long. Pure: the adapters drive it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from any_agent.errors import ProviderError
    from any_agent.types import RetryConfig

__all__ = ("loading_delay", "retry_delay")

MAX_RETRY_AFTER = 60.0
MAX_BACKOFF = 30.0


def retry_delay(error: ProviderError, *, attempt: int, config: RetryConfig, random: float) -> float | None:
    """Seconds to wait after attempt number `attempt` (from 1) failed; `None` if that was the last one.

    The delay doubles with each attempt; with jitter it is that times `random`, a number from 0 to 1. What
    the server asks for in Retry-After is obeyed, unless it is more than a minute: then waiting is the
    program's decision, and the error says how long.

    >>> from any_agent.errors import ProviderAPIError
    >>> from any_agent.types import RetryConfig
    >>> busy = ProviderAPIError("busy", kind="overloaded")
    >>> retry_delay(busy, attempt=2, config=RetryConfig(max_attempts=3, jitter=False), random=0.5)
    1.0
    """
    if not error.retryable or attempt >= config.max_attempts:
        return None
    if error.kind == "tool_use_failed" and attempt > 1:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= MAX_RETRY_AFTER else None
    backoff = min(config.base_delay_ms / 1000 * 2 ** (attempt - 1), MAX_BACKOFF)
    return backoff * random if config.jitter else backoff


def loading_delay(waits: int, retry_after: float | None) -> float:
    """Seconds until a server that loads its model is asked again, for the `waits`th time (from 1)."""
    return min(retry_after, MAX_RETRY_AFTER) if retry_after else min(0.25 * 2 ** (waits - 1), 5.0)
