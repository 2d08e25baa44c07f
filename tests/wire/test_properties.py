"""What holds of every body: it does not matter where it is cut, and nothing in it makes a decoder raise or hang."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from any_agent.wire.assembly import Assembly, DecodeSettings

from . import notations
from .notations import NOTATIONS, SEARCH, UNDECLARED, WEATHER
from .support import DECODERS, SETTINGS, decode, merged, pieces, tell, trouble

FOLDER = Path(__file__).parents[1] / "conformance" / "fixtures"


def examples(number: int) -> settings:
    """The same examples in every run, written down nowhere."""
    return settings(
        max_examples=number,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )


@dataclass(frozen=True)
class Body:
    """The body of a fixture, and what a decoder knows of its request."""

    name: str
    protocol: str
    data: bytes
    settings: DecodeSettings


def load() -> list[Body]:
    found: list[Body] = []
    for file in sorted(FOLDER.glob("*.expect.json")):
        expect = json.loads(file.read_text("utf-8"))
        request = expect.get("request", {})
        schemas = request.get("tool_schemas", {})
        tools = {name: schemas.get(name, {}) for name in request.get("tools", [])}
        data = file.with_name(f"{expect['name']}.stream").read_bytes()
        known = DecodeSettings(tools=tools, max_tokens=request.get("max_tokens"))
        found.append(Body(expect["name"], expect["protocol"], data, known))
    return found


BODIES = load()
bodies = st.sampled_from(BODIES)
protocols = st.sampled_from(list(DECODERS))


def cut_at(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place for place in places if place < len(data)), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.row("D13", "utf8_split", "sse_crlf")
@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_every_fixture_gives_the_same_events_in_pieces_of_any_size(size: int) -> None:
    for body in BODIES:
        whole = merged(decode(body.protocol, body.data, body.settings))
        assert merged(decode(body.protocol, pieces(body.data, size), body.settings)) == whole, body.name


@pytest.mark.row("D13", "utf8_split", "sse_crlf")
@examples(400)
@given(bodies, st.lists(st.integers(1, 3000), max_size=12))
def test_every_fixture_gives_the_same_events_wherever_it_is_cut(body: Body, places: list[int]) -> None:
    whole = merged(decode(body.protocol, body.data, body.settings))
    assert merged(decode(body.protocol, cut_at(body.data, places), body.settings)) == whole


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A body of a fixture to which bad things have happened."""
    data = draw(bodies).data
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 400)))
        kind = draw(st.sampled_from(["cut", "drop", "double", "mix", "insert", "break", "swap"]))
        if kind == "cut":
            data = data[:start]
        elif kind == "drop":
            data = data[:start] + data[end:]
        elif kind == "double":
            data = data[:end] + data[start:]
        elif kind == "mix":
            other = draw(bodies).data
            place = draw(st.integers(0, len(other)))
            data = data[:start] + other[place:] + data[start:]
        elif kind == "insert":
            data = data[:start] + draw(st.binary(max_size=12)) + data[start:]
        elif kind == "break":
            data = data[:start] + draw(st.sampled_from(BREAKERS)) + data[start:]
        else:
            lines = data.splitlines(keepends=True)
            if lines:
                places = draw(st.permutations(range(min(len(lines), 12))))
                data = b"".join(lines[place] for place in places) + b"".join(lines[12:])
    return data


BREAKERS = [
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xf0\x9f",
    b"\xef\xbb\xbf",
    b"\x00",
    b"\r",
    b"\n\n",
    b"\\ud83d",
    b'"',
    b"null",
    b"1e999",
    b"-" + b"9" * 400,
    b"NaN",
    b"[]",
    b"{}",
    b'{"a":' * 300,
    b"[" * 300,
    b"data: [DONE]\n\n",
    b"event: error\n",
    b'data: {"error": "x"}\n\n',
    b": keepalive 1/2\n\n",
    b"<tool_call>",
    b"<think>",
    b"<|channel|>",
    b"[TOOL_CALLS]",
    b"<html>",
]


@pytest.mark.row("A30", "D9")
@examples(500)
@given(mutated(), protocols, st.booleans())
def test_no_body_makes_a_decoder_raise_and_each_ends_exactly_once(
    data: bytes, protocol: str, knows_tools: bool
) -> None:
    known = SETTINGS if knows_tools else DecodeSettings()
    assert trouble(protocol, data, known) == ""


@pytest.mark.row("A30", "D9")
@examples(300)
@given(bodies.flatmap(lambda body: st.tuples(st.just(body.protocol), mutated())), st.integers(1, 40))
def test_a_broken_body_gives_the_same_events_however_it_is_cut(of: tuple[str, bytes], size: int) -> None:
    protocol, data = of
    assert merged(decode(protocol, pieces(data, size))) == merged(decode(protocol, data))


@pytest.mark.row("A30", "D9")
@examples(300)
@given(st.binary(max_size=60) | st.text(max_size=40).map(str.encode), protocols)
@example(b'{"a":' * 100_000, "openai")
@example(b"data: " + b'{"a":' * 100_000 + b"\n\n", "anthropic")
@example(b"data: " + b"[" * 100_000 + b"\n\n", "responses")
@example(b"[" * 100_000, "ollama")
@example(b"data: " + b"x" * 9_000_000 + b"\n\n", "openai")
@example(b'data: {"choices":[{"delta":{"content":"' + b"x" * 9_000_000, "openai")
@example(b'{"message":{"content":"' + b"x" * 9_000_000, "ollama")
@example(b"<" * 9_000_000, "anthropic")
@example(b"data: x\n" * 100_000, "responses")
@example(b"\n" * 300_000, "openai")
@example(b": ping\n\n" * 50_000, "openai")
def test_no_bytes_make_a_decoder_raise_or_loop(data: bytes, protocol: str) -> None:
    assert trouble(protocol, data) == ""
    if len(data) < 1000:
        assert trouble(protocol, pieces(data, 1)) == ""


#: what may stand where a decoder expects something else
odd_values = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        -1,
        7,
        1.5,
        1e300,
        10**400,
        "",
        "x",
        "null",
        "0",
        [],
        [None],
        [[]],
        ["x"],
        [{}],
        {},
        {"": None},
    ]
)


@st.composite
def odd_events(draw: st.DrawFn) -> tuple[str, bytes]:
    """The events of a fixture, some of their values replaced by others."""
    body = draw(bodies)
    events: list[Any] = []
    for line in body.data.splitlines():
        try:
            events.append(json.loads(line.removeprefix(b"data:")))
        except ValueError:
            continue
    for _ in range(draw(st.integers(1, 4))):
        node: Any = events
        while isinstance(node, dict | list) and node:
            key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
            if not isinstance(node[key], dict | list) or not node[key] or draw(st.integers(0, 4)) == 0:
                node[key] = copy.deepcopy(draw(odd_values))
                break
            node = node[key]
    frame = "{}\n" if body.protocol == "ollama" else "data: {}\n\n"
    return body.protocol, "".join(frame.format(json.dumps(event)) for event in events).encode()


@pytest.mark.row("A30", "null_fields")
@examples(500)
@given(odd_events())
def test_no_value_in_an_event_makes_a_decoder_raise(of: tuple[str, bytes]) -> None:
    protocol, data = of
    assert trouble(protocol, data) == ""


WORDS = [
    *("Let me look. ", "\n", " ", "x", "final", "<", "</", "[", "{", "}", '"', ";", "```json\n", "```", "<b>"),
    *("<tool_call>", "</tool_call>", "</function>", "[TOOL_CALLS]", "<think>", "</think>"),
    *("<|channel|>", "<|message|>", "<|end|>"),
]


@st.composite
def outputs(draw: st.DrawFn) -> str:
    """Words, markup, and calls in every notation, one after the other."""
    parts: list[str] = []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            calls = draw(st.lists(st.sampled_from([WEATHER, SEARCH, UNDECLARED]), min_size=1, max_size=2))
            parts.append(NOTATIONS[draw(st.sampled_from(list(NOTATIONS)))].write(calls))
        else:
            parts.append(draw(st.sampled_from(WORDS)))
    return "".join(parts)


def assembled(deltas: list[str], *, thinking: bool) -> list[dict[str, Any]]:
    assembly = Assembly(notations.SETTINGS)
    for delta in deltas:
        (assembly.thinking if thinking else assembly.text)(delta)
    assembly.label = "stop"
    assembly.finish()
    events = assembly.take()
    tell(events)
    return merged(events)


@pytest.mark.row("E3", "B12", "text_tool_calls")
@examples(400)
@given(outputs(), st.booleans())
def test_no_output_makes_the_reading_of_markup_raise(output: str, thinking: bool) -> None:
    assembled([output], thinking=thinking)
    assembled(list(output), thinking=thinking)


@pytest.mark.row("E3", "B12", "text_tool_calls")
@examples(400)
@given(outputs(), st.integers(1, 9), st.booleans())
def test_every_output_is_read_alike_wherever_it_is_cut(output: str, size: int, thinking: bool) -> None:
    deltas = [output[start : start + size] for start in range(0, len(output), size)]
    assert assembled(deltas, thinking=thinking) == assembled([output], thinking=thinking)


@pytest.mark.row("D9")
@examples(100)
@given(bodies, st.binary(min_size=1, max_size=30))
def test_nothing_that_comes_after_the_end_gives_an_event(body: Body, more: bytes) -> None:
    decoder = DECODERS[body.protocol](body.settings)
    decoder.feed(body.data)
    decoder.close()
    assert decoder.ended
    assert decoder.feed(more) == []
    assert decoder.feed(body.data) == []
    assert decoder.close() == []
