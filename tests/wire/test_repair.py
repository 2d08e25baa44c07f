"""Arguments as models write them: what is understood, what is repaired, and what never is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from any_agent.wire.repair import coerce, parse_arguments, read_values

from .support import seconds


@pytest.mark.row("tc_args_dict")
def test_an_object_is_taken_as_it_is() -> None:
    given = {"a": [1]}
    assert parse_arguments(given, lenient=False).values == [given]


@pytest.mark.row("A9", "tc_args_empty", "tc_args_null", "tc_args_missing")
@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("raw", [None, "", "  \n", "null", " null ", "{}"])
def test_nothing_in_every_form_is_no_arguments(raw: str | None, lenient: bool) -> None:
    assert parse_arguments(raw, lenient=lenient).values == [{}]


@pytest.mark.row("tc_args_braces_prefix")
@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("raw", ['{}{"a": 1}', '{} \n {"a": 1}', '{}{"a": 1}{"a": 1}'])
def test_an_empty_placeholder_before_the_real_thing_goes(raw: str, lenient: bool) -> None:
    parsed = parse_arguments(raw, lenient=lenient)
    assert parsed.values == [{"a": 1}]
    assert parsed.rules == []


@pytest.mark.row("tc_args_concat")
@pytest.mark.parametrize("lenient", [False, True])
def test_equal_objects_are_one_and_different_ones_are_several(lenient: bool) -> None:
    assert parse_arguments('{"a": 1}{"a":1}', lenient=lenient).values == [{"a": 1}]
    assert parse_arguments('{"a": 1} {"a": 2}', lenient=lenient).values == [{"a": 1}, {"a": 2}]


#: what is written, what it means, and the repairs that are told
REPAIRS: list[tuple[str, dict[str, Any], list[str]]] = [
    ('```json\n{"a": 1}\n```', {"a": 1}, ["code_fence"]),
    ('```\n{"a": 1}```', {"a": 1}, ["code_fence"]),
    ('{"a": [1, 2,], }', {"a": [1, 2]}, ["trailing_comma"]),
    ('{"a": ",}", "b": 1,}', {"a": ",}", "b": 1}, ["trailing_comma"]),
    ('{"a": "\\",]", "b": 1,}', {"a": '",]', "b": 1}, ["trailing_comma"]),
    ('{"a": "C:\\dir\\file"}', {"a": "C:\\dir\\file"}, ["stray_backslash"]),
    ('{"a": "C:\\dir\\bin"}', {"a": "C:\\dir\\bin"}, ["stray_backslash"]),
    ('{"a": "\\d+\\u00e9\\user"}', {"a": "\\d+é\\user"}, ["stray_backslash"]),
    ('{"a": "x\ny"}', {"a": "x\ny"}, ["control_characters"]),
    ("{'a': True, 'b': None}", {"a": True, "b": None}, ["python_literal"]),
    ("```python\n{'a': 'it', }\n```", {"a": "it"}, ["code_fence", "python_literal"]),
    ('"{\\"a\\": 1}"', {"a": 1}, ["double_encoded"]),
    ('"{\\"a\\": 1,}"', {"a": 1}, ["double_encoded", "trailing_comma"]),
    ('"null"', {}, ["double_encoded"]),
    ("\"{'a': 1}\"", {"a": 1}, ["double_encoded", "python_literal"]),
    ("'{\"a\": 1}'", {"a": 1}, ["python_literal", "double_encoded"]),
]


@pytest.mark.row(
    "B18",
    "E9",
    "tc_args_fenced",
    "tc_args_trailing_comma",
    "tc_args_bad_escape",
    "tc_args_python",
    "tc_args_double_encoded",
)
@pytest.mark.parametrize(("raw", "value", "rules"), REPAIRS, ids=[row[0][:24] for row in REPAIRS])
def test_what_models_write_is_repaired_and_the_repair_is_told(
    raw: str, value: dict[str, Any], rules: list[str]
) -> None:
    parsed = parse_arguments(raw, lenient=True)
    assert parsed.error is None
    assert parsed.values == [value]
    assert parsed.rules == rules


@pytest.mark.row("B18", "D10")
@pytest.mark.parametrize("raw", [row[0] for row in REPAIRS], ids=[row[0][:24] for row in REPAIRS])
def test_without_leave_nothing_is_repaired(raw: str) -> None:
    parsed = parse_arguments(raw, lenient=False)
    assert parsed.values == []
    assert parsed.error is not None
    assert parsed.error.startswith("Invalid JSON: ")


@pytest.mark.row("tc_truncated", "A10")
@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize(
    "raw",
    [
        '{"a": 1',
        '{"a": "x',
        '{"a": [1, 2]',
        '{"a": {"b": 1}',
        '{"a"',
        "{",
        "[1",
        "{'a': 1",
        '"{\\"a\\": 1"',
        '{"a": 1,',
    ],
)
def test_brackets_are_never_closed(raw: str, lenient: bool) -> None:
    parsed = parse_arguments(raw, lenient=lenient)
    assert parsed.values == []
    assert (parsed.error or "").startswith("Invalid JSON: ")


def test_every_beginning_of_arguments_is_an_error() -> None:
    whole = '```json\n{"path": "C:\\dir", "n": [1, {"b": "}"},], "t": "a\nb",}'
    for end in range(4, len(whole)):
        assert parse_arguments(whole[:end], lenient=True).error, whole[:end]
    assert parse_arguments(whole, lenient=True).error, "the fence is open, but what is in it is whole"


@pytest.mark.row("tc_args_garbage", "D10")
@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize(
    ("raw", "kind"), [('["Oslo"]', "list"), ("5", "int"), ("true", "bool"), ('{"a": 1} 7', "int"), ("[[]]", "list")]
)
def test_what_is_no_object_is_an_error_that_says_so(raw: str, kind: str, lenient: bool) -> None:
    parsed = parse_arguments(raw, lenient=lenient)
    assert parsed.values == []
    assert parsed.error == f"Invalid JSON: the arguments must be an object, not {kind}"


@pytest.mark.row("tc_args_fenced")
@pytest.mark.parametrize("raw", ["```json\n```", "```\n\n```", "``````"])
def test_a_fence_with_nothing_in_it_is_no_arguments(raw: str) -> None:
    assert parse_arguments(raw, lenient=True).values == [{}]
    assert parse_arguments(raw, lenient=False).error


@pytest.mark.parametrize("raw", ["garbage", "city=Oslo", '"Oslo"', "__import__('os')", "{1, 2", "(((", "1 +", "{}}"])
def test_garbage_is_an_error(raw: str) -> None:
    assert parse_arguments(raw, lenient=True).error
    assert parse_arguments(raw, lenient=False).error


def test_a_python_literal_that_json_cannot_hold_is_an_error() -> None:
    assert parse_arguments("{'a': b'x'}", lenient=True).error
    assert parse_arguments("{'a': 1j}", lenient=True).error


def test_a_python_literal_does_not_warn() -> None:
    assert parse_arguments(r"{'a': '\d'}", lenient=True).values == [{"a": r"\d"}]


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("text", ['{"a":' * 100_000, "[" * 100_000, "(" * 90_000, "{'a':" * 20_000, "-" * 50_000])
def test_deep_nesting_is_an_error_and_no_exception(text: str, lenient: bool) -> None:
    assert parse_arguments(text, lenient=lenient).error


def test_very_long_text_is_not_read_as_python() -> None:
    assert parse_arguments("{'a': '" + "x" * 100_001 + "'}", lenient=True).error
    assert not parse_arguments("{'a': '" + "x" * 1000 + "'}", lenient=True).error


@pytest.mark.row("req_history_args")
def test_arguments_can_be_sent_back() -> None:
    """A lone surrogate cannot be encoded: the next request would fail for ever."""
    (value,) = parse_arguments(r'{"text": "half a face: \ud83d"}', lenient=True).values
    assert json.dumps(value, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "raw",
    [
        '{"content": "' + '\\"x' * 3000,
        "```" + "\n" * 600 + "x",
        '```json\n{"a": ' + "\n" * 5000 + "x",
        '{"a": 1' + "," * 20_000,
        '{"a": ' + "[" * 2000 + "]" * 1999,
        "{'a': '" + "\\'" * 20_000,
        '{"a": 1' + " ," * 10_000 + "}",
        '{"a": "' + "\\" * 20_001,
    ],
    ids=[
        "cut text with quotes",
        "fence and newlines",
        "fence and cut",
        "commas",
        "nested",
        "python",
        "gaps",
        "backslashes",
    ],
)
def test_repair_takes_time_in_proportion(raw: str) -> None:
    assert seconds(lambda: parse_arguments(raw, lenient=True)) < 0.2


def test_values_in_a_row_are_read() -> None:
    assert read_values('1 "a"[2]\n{}', lenient=False) == ([1, "a", [2], {}], [])
    with pytest.raises(ValueError, match="Expecting"):
        read_values("1 x", lenient=False)
    with pytest.raises(ValueError, match="Expecting"):
        read_values("1 x", lenient=True)


SCHEMA: dict[str, Any] = {
    "properties": {
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "on": {"type": "boolean"},
        "list": {"type": "array"},
        "object": {"type": "object"},
        "text": {"type": "string"},
        "either": {"type": ["integer", "string"]},
        "maybe": {"type": ["integer", "null"]},
        "any": {},
        "odd": {"anyOf": [{"type": "integer"}]},
        "broken": True,
    }
}


@pytest.mark.row("E3", "tc_args_double_encoded", "ol_args_string")
@pytest.mark.parametrize(
    ("name", "written", "meant"),
    [
        ("n", "5", 5),
        ("n", " 5 ", 5),
        ("x", "1.5", 1.5),
        ("x", "2", 2),
        ("on", "true", True),
        ("on", "False", False),
        ("list", "[1]", [1]),
        ("object", '{"a": 1}', {"a": 1}),
        ("maybe", "null", None),
        ("maybe", "None", None),
        ("maybe", "3", 3),
    ],
)
def test_strings_become_what_the_schema_says(name: str, written: str, meant: Any) -> None:
    assert coerce({name: written}, SCHEMA) == ({name: meant}, [name])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", "5"),
        ("either", "5"),
        ("any", "5"),
        ("odd", "5"),
        ("broken", "5"),
        ("unknown", "5"),
        ("n", "5.5"),
        ("n", "true"),
        ("n", "five"),
        ("n", "[1]"),
        ("on", "1"),
        ("list", '{"a": 1}'),
        ("object", "[1]"),
        ("object", "{" * 100_000),
        ("x", "true"),
        ("n", 5),
        ("n", "9" * 5000),
    ],
    ids=lambda value: str(value)[:12],
)
def test_what_does_not_fit_stays(name: str, value: Any) -> None:
    given = {name: value}
    assert coerce(given, SCHEMA) == (given, [])


@pytest.mark.parametrize("schema", [None, {}, {"properties": None}, {"properties": []}])
def test_without_a_schema_nothing_changes(schema: dict[str, Any] | None) -> None:
    assert coerce({"n": "5"}, schema) == ({"n": "5"}, [])


def test_the_arguments_that_were_given_are_not_touched() -> None:
    given = {"n": "5", "text": "5"}
    assert coerce(given, SCHEMA) == ({"n": 5, "text": "5"}, ["n"])
    assert given == {"n": "5", "text": "5"}
