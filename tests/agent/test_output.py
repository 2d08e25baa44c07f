"""Structured output: a validated object, or a correction, or a clear failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import pydantic
import pytest

from any_agent import AgentOptions, Client, Done, Event, Failed, Notice, ProviderAPIError, get_profile, query, tool
from any_agent.agent.output import InvalidOutput, OutputType
from any_agent.events import from_dict, to_dict
from any_agent.testing import Received, Reply, ScriptedServer, chat_events

MODEL_LINK = "errors.pydantic.dev"


@dataclass
class Weather:
    city: str
    celsius: float = 20.0


class City(TypedDict):
    name: str


class Trip(pydantic.BaseModel):
    to: str
    by: Literal["train", "boat"]


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
OSLO = '{"city": "Oslo", "celsius": 21}'


@tool
def look() -> str:
    """Look."""
    return "21 degrees"


async def run(*replies: Reply, **more: Any) -> tuple[list[Event], list[Received], Client]:
    async with ScriptedServer(*replies) as server:
        options = AgentOptions("Be brief.", "m", server.url, **{"output_type": Weather, **more})
        async with Client(options) as client:
            await client.query("go")
            return [event async for event in client.events()], server.requests, client


@pytest.mark.row("B20")
@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Weather, OSLO, Weather("Oslo", 21.0)),
        (City, '{"name": "Oslo"}', {"name": "Oslo"}),
        (Trip, '{"to": "Oslo", "by": "boat"}', Trip(to="Oslo", by="boat")),
        (SCHEMA, '{"n": 3}', {"n": 3}),
        (list[int], "[1, 2]", [1, 2]),
        (int | None, "null", None),
    ],
    ids=["dataclass", "TypedDict", "pydantic", "schema", "list", "optional"],
)
async def test_answer_is_read_into_the_type_that_was_asked_for(kind: Any, text: str, value: Any) -> None:
    events, requests, client = await run(Reply(chat_events(text)), output_type=kind)
    assert isinstance(events[-1], Done)
    assert events[-1].response.output == value
    assert type(events[-1].response.output) is type(value)
    assert client.response is events[-1].response
    body = requests[0].json
    assert body["response_format"]["json_schema"]["schema"]
    assert "JSON Schema" in body["messages"][0]["content"]


@pytest.mark.row("B20", "A4")
async def test_query_gives_the_object_at_its_end() -> None:
    async with ScriptedServer(Reply(chat_events(OSLO))) as server:
        stream = query("go", AgentOptions("", "m", server.url, output_type=Weather))
        async for _ in stream:
            pass
    assert stream.response is not None
    assert stream.response.output == Weather("Oslo", 21.0)


@pytest.mark.row("B20")
@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{OSLO}\n```",
        f"Here it is:\n```\n{OSLO}\n```\nAnything else?",
        f"I looked {{twice}}: {OSLO} is the weather.",
        "{'city': 'Oslo', 'celsius': '21',}",
    ],
    ids=["fence", "fence among words", "words", "python"],
)
def test_json_is_found_where_models_put_it(text: str) -> None:
    assert OutputType(Weather).read(text) == Weather("Oslo", 21.0)


@pytest.mark.row("B20")
@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (Weather, "sunny", "not JSON"),
        (Weather, '"sunny"', "not JSON"),
        (Weather, '{"celsius": 3}', "missing required field `city`"),
        (SCHEMA, '{"n": 0}', "n must be at least 1"),
        (SCHEMA, "[]", "the value must be object"),
        (Trip, '{"to": "Oslo", "by": "air"}', "'train' or 'boat'"),
        (Weather, "{" * 100_000, "not JSON"),
    ],
)
def test_what_is_wrong_is_said_for_a_model_to_read(kind: Any, text: str, problem: str) -> None:
    with pytest.raises(InvalidOutput, match=problem) as caught:
        OutputType(kind).read(text)
    assert MODEL_LINK not in str(caught.value)


@pytest.mark.row("B20")
async def test_invalid_answer_is_sent_back_and_only_the_valid_one_is_kept() -> None:
    replies = [Reply(chat_events("sunny")), Reply(chat_events('{"celsius": 3}')), Reply(chat_events(OSLO))]
    events, requests, client = await run(*replies)
    assert isinstance(events[-1], Done)
    assert events[-1].response.output == Weather("Oslo", 21.0)
    told = [event for event in events if isinstance(event, Notice)]
    assert [notice.kind for notice in told] == ["output_invalid", "output_invalid"]
    sent = requests[2].json["messages"]
    assert [message["content"] for message in sent[1:4:2]] == ["go", requests[1].json["messages"][3]["content"]]
    assert "missing required field `city`" in sent[-1]["content"]
    assert [(message["role"], message["content"]) for message in client.history] == [
        ("user", "go"),
        ("assistant", OSLO),
    ]


@pytest.mark.row("B20")
async def test_corrections_are_bounded_and_the_failure_is_clear() -> None:
    events, requests, client = await run(Reply(chat_events("sunny")))
    assert len(requests) == 3
    assert isinstance(events[-1], Failed)
    assert isinstance(events[-1].error, ProviderAPIError)
    assert events[-1].error.kind == "invalid_response"
    assert "output_type" in str(events[-1].error)
    assert client.message_history == []


@pytest.mark.row("B20")
async def test_answer_that_was_cut_is_no_object() -> None:
    cut = Reply(chat_events('{"city": "Os', finish="length"))
    events, requests, _ = await run(cut, Reply(chat_events(OSLO)))
    assert isinstance(events[-1], Done)
    assert "cut off at max_tokens" in requests[1].json["messages"][-1]["content"]


@pytest.mark.row("B20")
async def test_tools_run_before_the_object_and_the_schema_binds_the_correction() -> None:
    """Local servers call no tools while a schema binds them: it is sent when only the answer is wanted."""
    call = {"id": "c1", "function": {"name": "look", "arguments": "{}"}}
    replies = [
        Reply(chat_events(tool_calls=[call], finish="tool_calls")),
        Reply.json({"default_generation_settings": {"n_ctx": 4096}}),
        Reply(chat_events("It is warm.")),
        Reply(chat_events(OSLO)),
    ]
    events, requests, client = await run(
        *replies, tools=[look], auto_execute_tools=True, profile=get_profile("llamacpp")
    )
    assert isinstance(events[-1], Done)
    assert events[-1].response.output == Weather("Oslo", 21.0)
    bodies = [request.json for request in requests if request.method == "POST"]
    assert ["response_format" in body for body in bodies] == [False, False, True]
    assert ["tools" in body for body in bodies] == [True, True, False]
    assert [event.kind for event in events if isinstance(event, Notice)] == ["schema_not_sent", "output_invalid"]
    assert [message["role"] for message in client.history] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.row("B20")
def test_type_without_a_schema_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="output_type 5 has no JSON Schema"):
        AgentOptions("", "m", "http://localhost:1", output_type=5)


@pytest.mark.row("B20")
async def test_response_with_an_object_can_be_written_as_json() -> None:
    events, _, _ = await run(Reply(chat_events('{"to": "Oslo", "by": "boat"}')), output_type=Trip)
    written = to_dict(events[-1])
    assert written["response"]["output"] == {"to": "Oslo", "by": "boat"}
    again = from_dict(written)
    assert isinstance(again, Done)
    assert again.response.output == {"to": "Oslo", "by": "boat"}
