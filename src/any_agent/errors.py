"""Everything that can go wrong, in one tree.

    AgentSDKError
    ├── ProviderError                    the model, its server, or the way there
    │   ├── ProviderAuthError            the key is missing, wrong, or not allowed
    │   ├── ProviderAPIError             the server answered with an error, or with nonsense
    │   │   ├── ContextLengthExceeded    the conversation does not fit into the window
    │   │   └── ModelNotFound            the server does not have this model
    │   ├── ProviderTimeoutError         a clock of ours ran out
    │   ├── ProviderConnectionError      there was no connection, or it broke before an answer
    │   └── StreamInterrupted            the answer stopped in the middle
    ├── MaxTurnsExceeded                 the conversation is over its own limit
    └── PromptBlocked                    a hook refused the prompt

Each `ProviderError` says what kind of failure it is (`kind`) and whether the same request may
succeed later (`retryable`); the exception that caused it is its `__cause__`.
"""

from __future__ import annotations

from typing import Any, Literal

__all__ = (
    "AgentSDKError",
    "ContextLengthExceeded",
    "ErrorKind",
    "MaxTurnsExceeded",
    "ModelNotFound",
    "PromptBlocked",
    "ProviderAPIError",
    "ProviderAuthError",
    "ProviderConnectionError",
    "ProviderError",
    "ProviderTimeoutError",
    "StreamInterrupted",
)

ErrorKind = Literal[
    "aborted",
    "auth",
    "connection",
    "content_filter",
    "context_length",
    "invalid_request",
    "invalid_response",
    "model_loading",
    "model_not_found",
    "overloaded",
    "quota",
    "rate_limit",
    "server_error",
    "stream_truncated",
    "timeout",
    "tool_use_failed",
]

_RETRYABLE: frozenset[ErrorKind] = frozenset(
    {
        "connection",
        "model_loading",
        "overloaded",
        "rate_limit",
        "server_error",
        "stream_truncated",
        "timeout",
        "tool_use_failed",
    }
)


class AgentSDKError(Exception):
    """Base of every exception that any_agent raises on purpose."""


class ProviderError(AgentSDKError):
    """A model could not be asked, or did not answer properly.

    >>> error = ProviderError("the server is busy", kind="overloaded", status_code=503)
    >>> error.kind, error.retryable
    ('overloaded', True)
    """

    default_kind: ErrorKind = "server_error"

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind | None = None,
        retryable: bool | None = None,
        status_code: int | None = None,
        body: str | None = None,
        provider: str = "",
        retry_after: float | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind: ErrorKind = kind or self.default_kind
        self.retryable = self.kind in _RETRYABLE if retryable is None else retryable
        self.status_code = status_code
        self.body = body
        self.provider = provider
        self.retry_after = retry_after
        self.details: dict[str, Any] = details or {}


class ProviderAuthError(ProviderError):
    """The key is missing, wrong, or does not allow this."""

    default_kind = "auth"


class ProviderAPIError(ProviderError):
    """The server answered with an error (`status_code`, `body`), or with something unreadable."""


class ContextLengthExceeded(ProviderAPIError):
    """The conversation and the answer do not fit into the model's context window."""

    default_kind = "context_length"


class ModelNotFound(ProviderAPIError):
    """The server does not know the model that was asked for."""

    default_kind = "model_not_found"


class ProviderTimeoutError(ProviderError):
    """Nothing came within one of the limits in `Timeouts`."""

    default_kind = "timeout"


class ProviderConnectionError(ProviderError):
    """No connection: refused, unknown host, TLS failure, or closed without an answer."""

    default_kind = "connection"


class StreamInterrupted(ProviderError):
    """The answer ended before its end: the server, the network or `interrupt()` cut it off."""

    default_kind = "stream_truncated"


class MaxTurnsExceeded(AgentSDKError):
    """One more prompt would exceed `AgentOptions.max_turns`."""


class PromptBlocked(AgentSDKError):
    """A `user_prompt_submit` hook refused the prompt; `reason` is what it said."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The prompt was blocked: {reason}")
        self.reason = reason
