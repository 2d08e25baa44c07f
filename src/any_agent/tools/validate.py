"""Checks the arguments of a call against the tool, in words with which a model can correct itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from any_agent.tools.pydantic_types import dec_hook, problem_text
from any_agent.wire.values import as_list, as_object

if TYPE_CHECKING:
    from any_agent.tools.define import Tool

__all__ = ("InvalidArguments", "checked_arguments", "schema_problem")

_MAX_DEPTH = 32


class InvalidArguments(Exception):
    """The arguments do not fit the tool; the message says which, and what would fit."""


def checked_arguments(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the function takes them: converted where the types are known, with the defaults filled in."""
    if tool.arguments is not None:
        try:
            # numbers and booleans written as strings are understood: small models do that
            values = msgspec.convert(arguments, tool.arguments, strict=False, dec_hook=dec_hook)
        except (msgspec.ValidationError, ValueError) as problem:
            raise InvalidArguments(_advice(tool, problem_text(problem))) from None
        return {name: getattr(values, name) for name in tool.arguments.__struct_fields__}
    problem = schema_problem(arguments, tool.parameters, "the arguments")
    if problem is not None:
        raise InvalidArguments(_advice(tool, problem))
    return arguments


def schema_problem(value: Any, schema: dict[str, Any], called: str = "the value") -> str | None:
    """The first thing in which a value does not fit a JSON Schema; keywords that are not known here are passed over.

    >>> schema_problem({"a": "x"}, {"type": "object", "properties": {"a": {"type": "integer"}}})
    'a must be integer, not "x"'
    """
    return _problem(value, schema, _Root(schema, called), "", 0)


@dataclass(frozen=True, slots=True)
class _Root:
    """The schema that `$ref` points into, and what the value as a whole is called."""

    schema: dict[str, Any]
    called: str


def _advice(tool: Tool, problem: str) -> str:
    schema = json.dumps(tool.parameters, ensure_ascii=False)
    return f"The arguments of {tool.name} are not valid: {problem}. They must fit this JSON Schema: {schema[:2000]}"


def _problem(value: Any, schema: dict[str, Any], root: _Root, path: str, depth: int) -> str | None:
    ref = schema.get("$ref")
    if depth > _MAX_DEPTH or (isinstance(ref, str) and not ref.startswith("#/")):
        return None
    if isinstance(ref, str):
        node: Any = root.schema
        for part in ref.removeprefix("#/").split("/"):
            node = as_object(node).get(part)
        return _problem(value, as_object(node), root, path, depth + 1)
    where = path or root.called
    options = as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))
    if options:
        problems = [_problem(value, as_object(option), root, path, depth + 1) for option in options]
        return None if None in problems else f"{where}: {problems[0]}"
    kinds = schema.get("type")
    wanted: list[str] = [kinds] if isinstance(kinds, str) else [str(kind) for kind in as_list(kinds)]
    if wanted and not any(_is(value, kind) for kind in wanted):
        return f"{where} must be {' or '.join(wanted)}, not {json.dumps(value, ensure_ascii=False, default=str)[:100]}"
    allowed = as_list(schema.get("enum"))
    if allowed and value not in allowed:
        return f"{where} must be one of {json.dumps(allowed, ensure_ascii=False)}"
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(value, int | float) and isinstance(low, int | float) and value < low:
        return f"{where} must be at least {low}"
    if isinstance(value, int | float) and isinstance(high, int | float) and value > high:
        return f"{where} must be at most {high}"
    if isinstance(value, list):
        items = as_object(schema.get("items"))
        found = (_problem(item, items, root, f"{path}[{i}]", depth + 1) for i, item in enumerate(as_list(value)))
        return next((problem for problem in found if problem is not None), None)
    if isinstance(value, dict):
        return _object_problem(as_object(value), schema, root, path, depth)
    return None


def _object_problem(value: dict[str, Any], schema: dict[str, Any], root: _Root, path: str, depth: int) -> str | None:
    properties = as_object(schema.get("properties"))
    missing = [name for name in as_list(schema.get("required")) if name not in value]
    if missing:
        return f"{', '.join(map(repr, missing))} {'is' if len(missing) == 1 else 'are'} missing"
    unknown = [name for name in value if name not in properties]
    if unknown and schema.get("additionalProperties") is False:
        return f"{unknown[0]!r} is no parameter; there are {', '.join(properties) or 'none'}"
    for name, item in value.items():
        problem = _problem(item, as_object(properties.get(name)), root, f"{path}.{name}" if path else name, depth + 1)
        if problem is not None:
            return problem
    return None


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return (isinstance(value, int) and not isinstance(value, bool)) or (
                isinstance(value, float) and value.is_integer()
            )
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "null":
            return value is None
        case _:
            return True
