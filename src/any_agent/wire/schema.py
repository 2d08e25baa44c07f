"""JSON Schemas of tools, as each server takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from any_agent.wire.values import as_object

if TYPE_CHECKING:
    from any_agent.types import Profile

__all__ = ("simplify", "tool_schema")

_MAX_DEPTH = 32
_MAX_NODES = 5_000
#: keywords whose values are schemas, maps of schemas, or lists of schemas
_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
#: keywords whose values are just that
_VALUES = ("default", "const", "enum", "examples", "example", "required")


def tool_schema(parameters: dict[str, Any], profile: Profile) -> dict[str, Any]:
    """The schema of a tool's arguments as the server of `profile` takes it; the original is not touched."""
    is_object = parameters.get("type", "object") == "object" and "anyOf" not in parameters
    schema: dict[str, Any] = {"type": "object", "properties": {}, **parameters} if is_object else parameters
    if not (profile.inline_refs or profile.schema_drop or profile.schema_needs_type):
        return schema
    return simplify(schema, drop=profile.schema_drop, needs_type=profile.schema_needs_type)


def simplify(schema: dict[str, Any], *, drop: tuple[str, ...] = (), needs_type: bool = False) -> dict[str, Any]:
    """The schema with `$ref` replaced by what it stands for, without `not` and the keywords in `drop`.

    A schema that contains itself is cut where it begins again, and one that would become huge where it does:
    there any value is allowed.

    >>> simplify({"$defs": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a"}}})
    {'properties': {'x': {'type': 'string'}}}
    """

    left = _MAX_NODES

    def walk(node: Any, open_refs: tuple[str, ...]) -> Any:
        nonlocal left
        left -= 1
        if isinstance(node, list):
            return [walk(item, open_refs) for item in node]  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(node, dict):
            return node
        source = as_object(node)
        ref = source.get("$ref")
        if isinstance(ref, str):
            rest = {key: value for key, value in source.items() if key != "$ref"}
            if ref in open_refs or len(open_refs) > _MAX_DEPTH or left < 0:
                return walk(rest, open_refs)
            return {**as_object(walk(_resolve(schema, ref), (*open_refs, ref))), **as_object(walk(rest, open_refs))}
        result: dict[str, Any] = {}
        for key, value in source.items():
            if key in ("$defs", "definitions", "not") or key in drop:
                continue
            if key in _VALUES:
                result[key] = value
                continue
            # a property may have any name, also that of a keyword
            mapped = {name: walk(item, open_refs) for name, item in as_object(value).items()} if key in _MAPS else None
            result[key] = walk(value, open_refs) if mapped is None else mapped
        if needs_type and "type" not in result and not {"anyOf", "oneOf", "allOf", "enum"} & set(result):
            result["type"] = "object" if "properties" in result else "string"
        return result

    return as_object(walk(schema, ()))


def _resolve(root: dict[str, Any], ref: str) -> Any:
    node: Any = root
    for part in ref.removeprefix("#").strip("/").split("/"):
        if part:
            node = as_object(node).get(part.replace("~1", "/").replace("~0", "~"), {})
    return node
