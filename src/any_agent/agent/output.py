"""Answers as objects: the schema that the model is bound by, and the object that its text stands for."""

from __future__ import annotations

import itertools
import json
import re
import types
from typing import Any, cast

import msgspec

from any_agent.tools.pydantic_types import dec_hook, is_model, problem_text, schema_hook
from any_agent.tools.validate import schema_problem
from any_agent.wire.repair import read_values
from any_agent.wire.schema import simplify

__all__ = ("InvalidOutput", "OutputType")

_FENCED = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.DOTALL)
_OPENS = re.compile(r"[{\[]")
_decode = json.JSONDecoder().raw_decode
_MAX_STARTS = 50


class InvalidOutput(Exception):
    """The answer is not the object that was asked for; the message tells the model why."""


class OutputType:
    """What `output_type` asks for: a dataclass, a pydantic model, a TypedDict, or a JSON Schema.

    >>> OutputType({"type": "object", "properties": {"city": {"type": "string"}}}).read('{"city": "Oslo"}')
    {'city': 'Oslo'}
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        try:
            self.schema = _schema(kind)
        except (TypeError, NotImplementedError) as problem:
            raise TypeError(
                f"output_type {kind!r} has no JSON Schema ({problem}): "
                "give a dataclass, a TypedDict, a pydantic model, or a JSON Schema"
            ) from None

    def read(self, text: str) -> Any:
        """The object that an answer stands for; `InvalidOutput` says what is wrong with it."""
        value = _json_in(text)
        if isinstance(self._kind, dict):
            problem = schema_problem(value, self.schema)
            if problem is not None:
                raise InvalidOutput(problem)
            return value
        try:
            # numbers and booleans written as strings are understood: small models do that
            return msgspec.convert(value, self._kind, strict=False, dec_hook=dec_hook)
        except (msgspec.ValidationError, ValueError) as problem:
            raise InvalidOutput(problem_text(problem)) from None


def _schema(kind: Any) -> dict[str, Any]:
    if isinstance(kind, dict):
        return cast("dict[str, Any]", kind)
    if not isinstance(kind, type | types.UnionType) and not hasattr(kind, "__origin__"):
        raise TypeError("it is no type")
    raw: dict[str, Any] = (
        schema_hook(cast("type", kind)) if is_model(kind) else msgspec.json.schema(kind, schema_hook=schema_hook)
    )
    return simplify(raw, drop=("title",))


def _json_in(text: str) -> Any:
    """The JSON in an answer, whether it stands alone, in a fence, or among words."""
    for whole in (text, *_FENCED.findall(text)):
        try:
            values, _ = read_values(whole, lenient=True)
        except ValueError:
            continue
        if values and (whole is not text or not isinstance(values[-1], str)):
            return values[-1]
    for start in itertools.islice(_OPENS.finditer(text), _MAX_STARTS):
        try:
            return _decode(text, start.start())[0]
        except (ValueError, RecursionError):
            continue
    raise InvalidOutput("it is not JSON")
