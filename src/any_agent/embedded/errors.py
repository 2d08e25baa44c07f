"""The one error of the embedded server."""

from __future__ import annotations

from any_agent.errors import AgentSDKError

__all__ = ("EmbeddedError",)


class EmbeddedError(AgentSDKError):
    """The embedded server cannot be had: the first line says what happened, where, and what to do.

    >>> from any_agent import embedded
    >>> try:
    ...     embedded.lease("no-such-file.gguf")
    ... except embedded.EmbeddedError as error:
    ...     print(str(error)[:50])
    the embedded server has no model: there is no file
    """
