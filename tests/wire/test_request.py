"""What the encoders share."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from any_agent.events import Notice
from any_agent.types import ImageBlock, Profile, TextBlock, ThinkingBlock
from any_agent.wire.request import (
    Request,
    arguments_text,
    checked_image,
    content_blocks,
    finished,
    merged,
    thinking_fields,
    tool_choice_name,
    without_none,
)

IMAGE = ImageBlock.from_bytes(b"GIF89a")
LINK = ImageBlock.from_url("https://example.org/cat.png")


@pytest.mark.row("A2", "req_null_fields")
def test_what_has_no_value_is_left_out() -> None:
    assert without_none({"a": None, "b": 0, "c": "", "d": False, "e": []}) == {"b": 0, "c": "", "d": False, "e": []}


def test_objects_are_merged_and_other_values_replaced() -> None:
    base: dict[str, Any] = {"a": {"x": 1, "y": {"z": 1}}, "b": [1], "c": 1}
    more: dict[str, Any] = {"a": {"y": {"w": 2}}, "b": [2], "c": {"x": 1}, "d": 4}
    assert merged(base, more) == {"a": {"x": 1, "y": {"z": 1, "w": 2}}, "b": [2], "c": {"x": 1}, "d": 4}
    assert base == {"a": {"x": 1, "y": {"z": 1}}, "b": [1], "c": 1}
    assert merged({"a": {"x": 1}}, {"a": 5}) == {"a": 5}


@pytest.mark.row("D8")
def test_the_program_has_the_last_word_over_the_profile() -> None:
    profile = Profile(
        "x",
        extra_body={"a": {"x": 1}, "b": 1, "c": 1},
        stream_extra_body={"progress": True},
        thinking_on={"b": 2, "c": 2},
    )
    request = Request("m", [], thinking=True, extra={"c": 3, "a": {"y": 2}}, stream=False)
    assert finished({"b": 0}, request, profile, []).body == {"a": {"x": 1, "y": 2}, "b": 2, "c": 3}
    assert finished({}, request, profile, [], {"b": 5}).body["b"] == 5
    streamed = finished({}, replace(request, stream=True), profile, [Notice("n", "m")])
    assert streamed.body["progress"] is True
    assert [notice.kind for notice in streamed.notices] == ["n"]


@pytest.mark.parametrize(("wanted", "fields"), [(True, {"think": 1}), (False, {"think": 0}), (None, {})])
def test_a_server_is_asked_to_think_in_its_own_words(wanted: bool | None, fields: dict[str, Any]) -> None:
    notices: list[Notice] = []
    profile = Profile("x", thinking_on={"think": 1}, thinking_off={"think": 0})
    assert thinking_fields(Request("m", [], thinking=wanted), profile, notices) == fields
    assert notices == []


@pytest.mark.parametrize("wanted", [True, False])
def test_what_a_server_cannot_be_asked_is_told(wanted: bool) -> None:
    notices: list[Notice] = []
    assert thinking_fields(Request("m", [], thinking=wanted), Profile("odd"), notices) == {}
    assert [notice.kind for notice in notices] == ["thinking_unsupported"]
    assert "odd" in notices[0].message


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        (None, None),
        ("auto", None),
        ("none", None),
        ("required", None),
        ("any", None),
        ("search", "search"),
        ({"type": "function", "function": {"name": "search"}}, "search"),
        ({"type": "tool", "name": "search"}, "search"),
        ({"type": "auto"}, None),
    ],
)
def test_a_choice_may_name_one_tool(choice: Any, name: str | None) -> None:
    assert tool_choice_name(Request("m", [], tool_choice=choice)) == name


def test_only_words_and_pictures_are_content() -> None:
    assert content_blocks("hi") == [TextBlock("hi")]
    assert content_blocks([TextBlock("a"), ThinkingBlock("b"), IMAGE]) == [TextBlock("a"), IMAGE]


@pytest.mark.row("req_image_url")
def test_an_address_goes_only_to_servers_that_fetch_it() -> None:
    fetching = Profile("x")
    local = replace(fetching, name="local", image_urls=False)
    assert checked_image(LINK, fetching) is LINK
    assert checked_image(IMAGE, local) is IMAGE
    with pytest.raises(ValueError, match="from_path"):
        checked_image(LINK, local)


@pytest.mark.row("A21", "req_history_args")
def test_arguments_are_json_with_their_letters_as_they_are() -> None:
    assert arguments_text({"q": "Zürich 🙂"}) == '{"q": "Zürich 🙂"}'
    assert arguments_text({}) == "{}"


@pytest.mark.row("req_history_args")
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_arguments_are_json_that_every_server_can_read_back(number: float) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    json.loads(arguments_text({"x": number}), parse_constant=refuse)
