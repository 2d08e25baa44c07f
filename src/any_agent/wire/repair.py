"""The arguments of a call, as models really write them, made an object, or an error that says why not.

Always understood: an object, nothing at all, and an empty placeholder before the real thing. With `lenient`
also fences, trailing commas, stray backslashes, raw newlines, Python literals, and JSON inside a string.
Brackets are never closed: what was cut must not run.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from any_agent.wire.values import as_list, as_object, whole_text

__all__ = ("Parsed", "coerce", "parse_arguments", "read_values")

_MAX_LITERAL = 100_000

_FENCE_START = re.compile(r"```[a-zA-Z]*")
_TRAILING_COMMA = re.compile(r",(\s*+[}\]])")
#: also one that does not end, so that a cut text is not searched again from each of its quotes
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
#: a backslash that begins no JSON escape (`\b` and `\f` before a word are a path, not control characters)
_STRAY_BACKSLASH = re.compile(r'\\(?!["\\/nrtu]|[bf](?![a-z]))|\\u(?![0-9a-fA-F]{4})')


@dataclass(slots=True)
class Parsed:
    """`values` has one object, or more if the model wrote several; `error` is set when there is none."""

    values: list[dict[str, Any]]
    error: str | None = None
    rules: list[str] = field(default_factory=list[str])


def parse_arguments(raw: str | dict[str, Any] | None, *, lenient: bool) -> Parsed:
    """What the model meant by `raw`.

    >>> parse_arguments('{"q": "paris"}', lenient=False).values
    [{'q': 'paris'}]
    >>> parse_arguments("{'q': 'paris',}", lenient=True).rules
    ['python_literal']
    >>> parse_arguments('{"q": ', lenient=True).error[:13]
    'Invalid JSON:'
    """
    if isinstance(raw, dict):
        return Parsed([raw])
    text = (raw or "").strip()
    if text in ("", "null"):
        return Parsed([{}])
    try:
        values, rules = read_values(text, lenient=lenient)
    except ValueError as problem:
        return Parsed([], f"Invalid JSON: {problem}")
    if not values:
        return Parsed([{}], None, rules)
    if lenient and len(values) == 1 and isinstance(values[0], str) and values[0].strip() != text:
        inner = parse_arguments(values[0], lenient=True)
        return Parsed(inner.values, inner.error, [*rules, "double_encoded", *inner.rules])
    parsed = _arguments_among(values)
    return Parsed(parsed.values, parsed.error, rules)


def read_values(text: str, *, lenient: bool) -> tuple[list[Any], list[str]]:
    """The JSON values that stand one after the other in `text`, and the repairs that it took.

    >>> read_values('{"a": 1} {"b": 2}', lenient=False)
    ([{'a': 1}, {'b': 2}], [])
    """
    try:
        return _values(text), []
    except ValueError:
        if not lenient:
            raise
        repaired = _repaired(text)
        if repaired is None:
            raise
        return repaired


def coerce(arguments: dict[str, Any], schema: dict[str, Any] | None) -> tuple[dict[str, Any], list[str]]:
    """Values that came as strings, made what the schema says they are; and the names of those changed.

    >>> coerce({"n": "5"}, {"properties": {"n": {"type": "integer"}}})
    ({'n': 5}, ['n'])
    """
    known = as_object((schema or {}).get("properties"))
    changed: dict[str, Any] = {}
    for name, value in arguments.items():
        if isinstance(value, str) and name in known:
            better = _coerced(value, as_object(known[name]))
            if better is not value:
                changed[name] = better
    return ({**arguments, **changed}, list(changed)) if changed else (arguments, [])


def _arguments_among(values: list[Any]) -> Parsed:
    if values[0] == {} and len(values) > 1:
        values = values[1:]  # a placeholder before the real arguments
    distinct: list[Any] = []
    for value in values:
        if value not in distinct:
            distinct.append(value)
    if all(isinstance(value, dict) for value in distinct):
        return Parsed(distinct)
    kind = next(type(value).__name__ for value in distinct if not isinstance(value, dict))
    return Parsed([], f"Invalid JSON: the arguments must be an object, not {kind}")


def _values(text: str, *, strict: bool = True) -> list[Any]:
    decoder = json.JSONDecoder(strict=strict)
    values: list[Any] = []
    position = 0
    try:
        while position < len(text):
            value, position = decoder.raw_decode(text, position)
            values.append(value)
            while position < len(text) and text[position].isspace():
                position += 1
        return whole_text(values) if "\\u" in text else values
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _repaired(text: str) -> tuple[list[Any], list[str]] | None:
    rules: list[str] = []
    fence = _FENCE_START.match(text.lstrip())
    fenced = fence is not None and text.rstrip().endswith("```")
    if fence is not None and fenced:
        text = text.strip()[fence.end() : -3].strip()
        rules.append("code_fence")
    original = text
    changes: tuple[tuple[str, Callable[[str], str]], ...] = (
        ("code_fence", lambda current: current),
        ("stray_backslash", _double_stray_backslashes),
        ("trailing_comma", _drop_trailing_commas),
    )
    for rule, change in changes:
        changed = change(text)
        if changed != text:
            rules.append(rule)
        text = changed
        for strict in (True, False):
            try:
                return _values(text, strict=strict), rules if strict else [*rules, "control_characters"]
            except ValueError:
                continue
    value = _python_literal(original)
    return ([value], [*(["code_fence"] if fenced else []), "python_literal"]) if value is not None else None


def _double_stray_backslashes(text: str) -> str:
    return _STRING.sub(lambda string: _STRAY_BACKSLASH.sub(r"\\\g<0>", string.group(0)), text)


def _drop_trailing_commas(text: str) -> str:
    """Without commas before a closing bracket, strings left as they are."""
    pieces: list[str] = []
    position = 0
    for string in _STRING.finditer(text):
        pieces += (_TRAILING_COMMA.sub(r"\1", text[position : string.start()]), string.group(0))
        position = string.end()
    return "".join((*pieces, _TRAILING_COMMA.sub(r"\1", text[position:])))


def _python_literal(text: str) -> Any:
    if len(text) > _MAX_LITERAL:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
        value = json.loads(json.dumps(value))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return as_object(value) or as_list(value) or (value if isinstance(value, str) else None)


def _coerced(value: str, schema: dict[str, Any]) -> Any:
    kinds = schema.get("type")
    wanted: set[str] = {kinds} if isinstance(kinds, str) else {str(kind) for kind in as_list(kinds)}
    if "string" in wanted or not wanted & {"object", "array", "number", "integer", "boolean", "null"}:
        return value
    word = value.strip()
    try:
        found = json.loads({"True": "true", "False": "false", "None": "null"}.get(word, word))
    except (ValueError, RecursionError):
        return value
    fits = {
        "object": isinstance(found, dict),
        "array": isinstance(found, list),
        "boolean": isinstance(found, bool),
        "integer": isinstance(found, int) and not isinstance(found, bool),
        "number": isinstance(found, int | float) and not isinstance(found, bool),
        "null": found is None,
    }
    return found if any(fits.get(kind, False) for kind in wanted) else value
