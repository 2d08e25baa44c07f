"""JSON that somebody else wrote, read without trust in its types."""

from __future__ import annotations

import json
import math
from typing import Any, cast

import msgspec

__all__ = ("as_key", "as_list", "as_number", "as_object", "as_objects", "as_word", "is_cut", "read_json", "whole_text")

_decode = msgspec.json.Decoder().decode


def as_object(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is an array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_objects(value: Any) -> list[dict[str, Any]]:
    """The objects in the value, if it is an array."""
    return [cast("dict[str, Any]", item) for item in as_list(value) if isinstance(item, dict)]


def as_word(value: Any) -> str | None:
    """A name, an id or a label; `null`, `""` and the string "null" are none."""
    return value if isinstance(value, str) and value and value != "null" else None


def as_key(value: Any) -> Any:
    """An index or an id, as something that a dict can be asked for."""
    return value if value is None or isinstance(value, int | str) else repr(value)


def as_number(value: Any) -> float | None:
    """A finite number, also from a string; nothing else is one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def is_cut(data: bytes) -> bool:
    """Whether a document that is no JSON would be, if only it went on."""
    if data[-1:] in (b".", b"e", b"E", b"+", b"-"):
        data = data.rstrip(b"0123456789.eE+-")  # a number that goes on
    try:
        _decode(data)
    except msgspec.DecodeError as problem:
        return "truncated" in str(problem)
    except (UnicodeDecodeError, RecursionError):
        pass
    return False


def read_json(data: bytes) -> Any:
    """The value of a JSON document, also with `NaN` or with broken UTF-8 in it; `ValueError` if it is none."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return whole_text(json.loads(data.decode("utf-8", "replace")))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def whole_text(value: Any) -> Any:
    """The value without halves of characters, which could not be written anywhere."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return value
