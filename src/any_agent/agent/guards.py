"""Notices an agent that turns in circles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

__all__ = ("LoopGuard",)


class LoopGuard:
    """Counts rounds in a row that make the same calls and get the same results; polling what changes is legitimate.

    >>> guard = LoopGuard(limit=2)
    >>> [guard.note([("read", {"path": "a"}, "same")]) for _ in range(3)]
    ['ok', 'warn', 'stop']
    """

    def __init__(self, limit: int | None = 3) -> None:
        self._limit = limit
        self._last = ""
        self._count = 0

    def note(self, calls: Sequence[tuple[str, dict[str, Any], Any]]) -> Literal["ok", "warn", "stop"]:
        """One round: (name, input, result) of each call. `warn` at the limit, `stop` when it goes on all the same."""
        written = json.dumps(sorted(json.dumps(call, sort_keys=True, default=str) for call in calls))
        self._count = self._count + 1 if written == self._last else 1
        self._last = written
        if self._limit is None or self._count < self._limit:
            return "ok"
        return "warn" if self._count == self._limit else "stop"
