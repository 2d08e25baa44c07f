"""Pydantic models as types of arguments and results, when a program uses pydantic; never imported otherwise."""

from __future__ import annotations

import re
from typing import Any

__all__ = ("dec_hook", "is_model", "problem_text", "schema_hook")

_LINK = re.compile(r"\n\s*For further information visit \S+")


def is_model(kind: Any) -> bool:
    """Whether a type is a pydantic model."""
    return isinstance(kind, type) and hasattr(kind, "model_validate") and hasattr(kind, "model_json_schema")


def schema_hook(kind: type) -> dict[str, Any]:
    """The JSON Schema of a type that msgspec does not know."""
    if is_model(kind):
        return kind.model_json_schema()  # pyright: ignore[reportAttributeAccessIssue,reportUnknownVariableType,reportUnknownMemberType]
    raise NotImplementedError


def dec_hook(kind: type, value: Any) -> Any:
    """An argument made a value of a type that msgspec does not know."""
    if is_model(kind):
        return kind.model_validate(value)  # pyright: ignore[reportAttributeAccessIssue,reportUnknownVariableType,reportUnknownMemberType]
    raise NotImplementedError


def problem_text(problem: Exception) -> str:
    """What is wrong with a value, without the links that pydantic adds for people."""
    return _LINK.sub("", str(problem))
