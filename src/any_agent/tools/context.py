"""What a running tool may know and do, beside its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ("ToolContext",)


class ToolContext:
    """A tool that names a parameter `context: ToolContext` gets one.

    >>> ToolContext("add", tool_use_id="call_1").tool_use_id
    'call_1'
    """

    def __init__(
        self,
        name: str,
        *,
        tool_use_id: str = "",
        idempotency_key: str = "",
        attempt: int = 1,
        on_progress: Callable[[Any], None] | None = None,
    ) -> None:
        self.name = name
        self.tool_use_id = tool_use_id
        #: the same for each attempt at one call, different for any two calls
        self.idempotency_key = idempotency_key
        self.attempt = attempt
        #: nobody waits for the result any more: a long computation should stop
        self.cancelled = False
        self._on_progress = on_progress

    def progress(self, data: Any) -> None:
        """Tell how far the tool is; whoever reads the events sees it at once. Works from any thread."""
        if self._on_progress is not None and not self.cancelled:
            self._on_progress(data)
