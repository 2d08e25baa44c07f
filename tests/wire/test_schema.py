"""Schemas of tools as each server takes them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from any_agent.profiles import get_profile, list_profiles
from any_agent.types import Profile
from any_agent.wire.schema import simplify, tool_schema

NESTED: dict[str, Any] = {
    "$schema": "x",
    "type": "object",
    "title": "Args",
    "properties": {
        "place": {"$ref": "#/$defs/Place", "description": "where"},
        "places": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
        "title": {"type": "string", "title": "Title", "default": "x"},
        "not": {"type": "string"},
    },
    "required": ["place"],
    "additionalProperties": False,
    "not": {"required": ["x"]},
    "$defs": {
        "Place": {"type": "object", "properties": {"city": {"$ref": "#/$defs/City"}}},
        "City": {"type": "string"},
    },
}
PLACE = {"type": "object", "properties": {"city": {"type": "string"}}}


def keys(node: Any) -> set[str]:
    """All keywords of a schema, names of properties left out."""
    if isinstance(node, list):
        return set[str]().union(*(keys(item) for item in node))
    if not isinstance(node, dict):
        return set()
    found: set[str] = set(node)
    for key, value in node.items():
        found |= set[str]().union(*(keys(item) for item in value.values())) if key == "properties" else keys(value)
    return found


@pytest.mark.row("req_schema_ref")
def test_references_are_replaced_by_what_they_stand_for() -> None:
    simple = simplify(NESTED)
    assert simple["properties"]["place"] == {**PLACE, "description": "where"}
    assert simple["properties"]["places"]["items"] == PLACE
    assert not {"$ref", "$defs", "definitions", "not"} & keys(simple)


@pytest.mark.row("req_schema_ref")
@pytest.mark.parametrize("place", ["$defs", "definitions"])
def test_what_stands_beside_a_reference_wins(place: str) -> None:
    schema = {
        "properties": {"x": {"$ref": f"#/{place}/a", "title": "mine"}},
        place: {"a": {"title": "its", "type": "string"}},
    }
    assert simplify(schema)["properties"]["x"] == {"title": "mine", "type": "string"}


def test_names_in_references_may_be_escaped() -> None:
    schema = {"properties": {"x": {"$ref": "#/$defs/a~1b~0c"}}, "$defs": {"a/b~c": {"type": "string"}}}
    assert simplify(schema)["properties"]["x"] == {"type": "string"}


@pytest.mark.row("req_schema_ref")
@pytest.mark.parametrize("ref", ["#/$defs/missing", "other.json#/x", "#/properties/x/no", "", 7, None])
def test_a_reference_to_nowhere_allows_anything(ref: Any) -> None:
    node = simplify({"properties": {"x": {"$ref": ref, "title": "t"}}})["properties"]["x"]
    assert node["title"] == "t"
    assert not isinstance(node.get("$ref"), str)


@pytest.mark.row("req_schema_ref")
def test_a_schema_that_contains_itself_is_cut_where_it_begins_again() -> None:
    node = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}
    simple = simplify({"type": "object", "properties": {"tree": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}})
    assert simple["properties"]["tree"] == {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {}}},
    }
    assert simplify({"type": "object", "properties": {"self": {"$ref": "#"}}})["properties"]["self"]["type"] == "object"


@pytest.mark.row("req_schema_ref")
def test_schemas_that_contain_each_other_are_cut() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {
            "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
            "B": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
        },
    }
    text = json.dumps(simplify(schema))
    assert "$ref" not in text
    assert len(text) < 500


@pytest.mark.row("req_schema_ref")
def test_many_schemas_that_contain_each_other_do_not_explode() -> None:
    names = [f"T{number}" for number in range(7)]
    properties = {name: {"$ref": f"#/$defs/{name}"} for name in names}
    schema = {"properties": properties, "$defs": {name: {"type": "object", "properties": properties} for name in names}}
    assert len(json.dumps(simplify(schema))) < 500_000


def test_a_long_chain_of_references_ends() -> None:
    defs: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(100)}
    assert "$ref" not in json.dumps(simplify({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}))


@pytest.mark.row("req_schema_additional")
def test_refused_keywords_are_dropped_and_properties_of_that_name_are_not() -> None:
    simple = simplify(NESTED, drop=("$schema", "title", "default", "additionalProperties"))
    assert not {"$schema", "default", "additionalProperties"} & keys(simple)
    assert set(simple["properties"]) == {"place", "places", "title", "not"}
    assert simple["properties"]["title"] == {"type": "string"}
    assert "title" not in simple


@pytest.mark.row("req_schema_ref")
def test_a_type_is_added_everywhere_it_is_missing() -> None:
    schema = {
        "properties": {
            "a": {},
            "b": {"properties": {"c": {"description": "x"}}},
            "d": {"anyOf": [{}, {"type": "null"}]},
            "e": {"enum": [1, 2]},
            "f": {"type": "array", "items": {}},
        }
    }
    assert simplify(schema, needs_type=True) == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "object", "properties": {"c": {"description": "x", "type": "string"}}},
            "d": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "e": {"enum": [1, 2]},
            "f": {"type": "array", "items": {"type": "string"}},
        },
    }


@pytest.mark.parametrize("keyword", ["default", "const", "enum", "examples"])
def test_values_are_not_schemas(keyword: str) -> None:
    value: Any = {"title": "x", "not": 1, "a": {}}
    value = [value] if keyword in ("enum", "examples") else value
    schema = {"properties": {"x": {"type": "object", keyword: value}}}
    assert simplify(schema, drop=("title",), needs_type=True)["properties"]["x"][keyword] == value


def test_schemas_may_be_true_or_false() -> None:
    schema = {"type": "object", "properties": {"x": True}, "additionalProperties": False}
    assert simplify(schema, needs_type=True) == schema


def test_every_place_of_a_schema_is_visited() -> None:
    ref = {"$ref": "#/$defs/a"}
    schema = {
        "allOf": [ref],
        "items": [ref, {"items": ref}],
        "patternProperties": {"^x": ref},
        "dependentSchemas": {"x": ref},
        "additionalProperties": ref,
        "$defs": {"a": {"type": "string"}},
    }
    assert "$ref" not in json.dumps(simplify(schema))


def test_the_schema_that_was_given_is_not_touched() -> None:
    before = copy.deepcopy(NESTED)
    simplify(NESTED, drop=("title",), needs_type=True)
    for name in list_profiles():
        tool_schema(NESTED, get_profile(name))
    assert before == NESTED


@pytest.mark.row("D8")
def test_a_tool_without_arguments_has_an_object_as_its_schema() -> None:
    assert tool_schema({}, Profile("generic")) == {"type": "object", "properties": {}}
    assert tool_schema({"properties": {"a": {}}}, Profile("generic"))["type"] == "object"


def test_a_server_that_takes_everything_gets_it_as_it_is() -> None:
    assert tool_schema(NESTED, Profile("generic")) == NESTED


@pytest.mark.row("req_schema_additional", "req_schema_ref")
@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("gemini", {"$ref", "$defs", "$schema", "additionalProperties", "default", "title"}),
        ("llamacpp", {"$ref", "$defs", "not"}),
        ("ollama", {"$ref", "$defs", "not"}),
        ("fireworks", {"$ref", "$defs", "not"}),
        ("moonshot", {"$ref", "$defs", "not"}),
    ],
)
def test_each_server_gets_what_it_takes(name: str, absent: set[str]) -> None:
    assert not absent & keys(tool_schema(NESTED, get_profile(name)))


@pytest.mark.row("req_schema_ref")
def test_moonshot_gets_a_type_everywhere() -> None:
    simple = tool_schema({"properties": {"a": {"description": "x"}}}, get_profile("moonshot"))
    assert simple["properties"]["a"]["type"] == "string"
