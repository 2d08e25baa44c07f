"""A tool: what a model is told of it, and the function behind it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from any_agent.types import ToolSpec

__all__ = ("Tool",)


@dataclass(slots=True)
class Tool(ToolSpec):
    """A tool that a model may call; `fn` takes the arguments as keywords.

    >>> Tool("add", "Add two numbers", {"type": "object", "properties": {"a": {"type": "number"}}}).name
    'add'
    """

    fn: Callable[..., Any] | None = None

    async def execute(self, arguments: dict[str, Any]) -> Any:
        """Run the function behind the tool."""
        if self.fn is None:
            raise TypeError(f"the tool {self.name!r} has no function: give Tool(..., fn=...) to run it")
        result = self.fn(**arguments)
        return await result if inspect.isawaitable(result) else result
