"""JSON from somebody else: read without trust, and never with an exception other than `ValueError`."""

from __future__ import annotations

import math
from typing import Any

import pytest

from any_agent.wire.values import (
    as_key,
    as_list,
    as_number,
    as_object,
    as_objects,
    as_word,
    is_cut,
    read_json,
    whole_text,
)


@pytest.mark.parametrize("value", [None, "", "x", 0, 1.5, True])
def test_what_is_neither_object_nor_array_is_an_empty_one(value: Any) -> None:
    assert as_object(value) == {}
    assert as_list(value) == []
    assert as_objects(value) == []


def test_objects_and_arrays_are_themselves() -> None:
    assert as_object({"a": 1}) == {"a": 1}
    assert as_object([1]) == {}
    assert as_list([1]) == [1]
    assert as_list({"a": 1}) == []


def test_only_the_objects_of_an_array_count() -> None:
    assert as_objects([{"a": 1}, None, "x", [{}], {}]) == [{"a": 1}, {}]


@pytest.mark.row("null_fields", "finish_null_string", "tc_id_empty")
@pytest.mark.parametrize("value", [None, "", "null", 7, [], {}, True])
def test_null_in_every_form_is_no_word(value: Any) -> None:
    assert as_word(value) is None


def test_a_word_is_itself() -> None:
    assert as_word("stop") == "stop"


def test_json_is_read() -> None:
    assert read_json('{"a": [1, "ü", null]}'.encode()) == {"a": [1, "ü", None]}


def test_nan_and_infinity_are_read() -> None:
    value = read_json(b'{"a": NaN, "b": -Infinity}')
    assert math.isnan(value["a"])
    assert value["b"] == -math.inf


@pytest.mark.row("utf8_split")
def test_broken_utf8_is_replaced() -> None:
    assert read_json(b'{"a": "x\xffy"}') == {"a": "x�y"}


@pytest.mark.row("utf8_split")
def test_escaped_surrogate_pairs_are_one_character() -> None:
    assert read_json(rb'"\ud83d\ude42"') == "🙂"


@pytest.mark.parametrize("text", [rb'"a\ud83db"', rb'{"\ude42": 1}', rb'[1, ["\ud83d"]]'])
def test_lone_surrogates_become_something_that_can_be_encoded(text: bytes) -> None:
    assert str(read_json(text)).encode()
    assert "�" in str(read_json(text))


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"x", b'{"a":}', b"{} {}", b"\xff\xfe", b'{"a":' * 100_000, b"[" * 100_000, b"9" * 5000, b"\x00"],
    ids=lambda data: data[:8].decode("latin-1"),
)
def test_everything_else_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_json(data)


@pytest.mark.parametrize("depth", [100, 900, 990, 2000])
def test_deep_json_is_read_or_refused(depth: int) -> None:
    text = b"[" * depth + b'"\\ud83d", NaN' + b"]" * depth
    try:
        value = read_json(text)
    except ValueError:
        assert depth > 100
    else:
        assert isinstance(value, list)


@pytest.mark.parametrize("value", [None, 0, 7, "", "a", True])
def test_an_index_or_an_id_is_a_key(value: Any) -> None:
    assert as_key(value) == value


@pytest.mark.parametrize("value", [[1], {"a": 1}, 1.5, [[]]])
def test_anything_else_becomes_a_key_the_same_for_the_same(value: Any) -> None:
    assert as_key(value) == as_key(value)
    assert {as_key(value): 1}
    assert as_key(value) not in (as_key([2]), as_key(7))


@pytest.mark.parametrize(("value", "number"), [(5, 5.0), (1.5, 1.5), ("2", 2.0), (" 2.5 ", 2.5), (-1, -1.0), (0, 0.0)])
def test_numbers_are_numbers_also_as_words(value: Any, number: float) -> None:
    assert as_number(value) == number


@pytest.mark.parametrize(
    "value", [None, True, False, "", "x", [], {}, "nan", "inf", 1e999, -1e999, float("nan"), 10**400, "1e999"]
)
def test_nothing_else_is_a_number(value: Any) -> None:
    assert as_number(value) is None


@pytest.mark.row("eof_truncated")
def test_a_document_that_could_go_on_is_cut() -> None:
    whole = b'{"a": [1, 2.5, true, null, "x\\u00fc"], "b": {"c": ""}}'
    for end in range(1, len(whole)):
        assert is_cut(whole[:end]), whole[:end]
    assert not is_cut(whole)


@pytest.mark.row("bad_json_event")
@pytest.mark.parametrize("data", [b"{oops", b'{"a" 1', b"[1 2", b"tru3", b'{"a": 1} x', b"\xff", b"[" * 100_000])
def test_a_document_that_could_not_go_on_is_not_cut(data: bytes) -> None:
    assert not is_cut(data)


def test_text_without_halves_stays_as_it_is() -> None:
    value = {"a": ["ü🙂", 1, None]}
    assert whole_text(value) == value
    assert whole_text({"a\ud83d": "\ud83d\ude42"}) == {"a�": "🙂"}
