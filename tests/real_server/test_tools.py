"""Tool calls that the model really makes, and what becomes of their results."""

from __future__ import annotations

import json

import pytest

from any_agent import (
    Message,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
    ToolUseError,
)
from any_agent.adapters.base import BaseAdapter
from any_agent.events import Event
from real_server.helpers import events_of, only, response_of

pytestmark = pytest.mark.real_server

_WEATHER = ToolSpec(
    "get_weather",
    "Get the current weather for a city",
    {"type": "object", "properties": {"city": {"type": "string", "description": "City name"}}, "required": ["city"]},
)
_PARIS = [Message("user", "What is the weather in Paris?")]


@pytest.mark.row("B2", "D6", "D9")
async def test_call_is_streamed_and_its_result_answered(adapter: BaseAdapter) -> None:
    """B2, D6, D9: the start, the input piece by piece, the call; then the result goes back, and words come."""
    events = await events_of(adapter.stream(_PARIS, [_WEATHER], temperature=0, max_tokens=60))
    response = response_of(events)
    call = _check_call(events)
    assert response.content == [call]
    assert response.stop_reason == "tool_use"
    conversation = [
        *_PARIS,
        Message("assistant", response.content),
        Message("tool", [ToolResultBlock(call.id, {"celsius": 21})]),
    ]
    answer = response_of(await events_of(adapter.stream(conversation, [_WEATHER], temperature=0, max_tokens=30)))
    assert answer.text
    assert answer.tool_calls == []
    assert answer.stop_reason == "end_turn"


@pytest.mark.row("D13", "D2")
async def test_call_in_a_whole_reply(adapter: BaseAdapter) -> None:
    """D13, D2: as streamed; `required` is asked for in the words of each protocol."""
    response = await adapter.invoke(_PARIS, [_WEATHER], temperature=0, max_tokens=60, tool_choice="required")
    (call,) = response.tool_calls
    assert (call.name, call.input) == ("get_weather", {"city": "Paris"})
    assert response.stop_reason == "tool_use"


@pytest.mark.row("D2", "D10", "B4")
async def test_call_cut_off_by_the_limit_is_no_call(adapter: BaseAdapter) -> None:
    """D2, D10, B4: what was written of it is shown and kept, and the reason is the limit."""
    events = await events_of(adapter.stream(_PARIS, [_WEATHER], temperature=0, max_tokens=24))
    response = response_of(events)
    assert response.stop_reason == "max_tokens"
    (error,) = response.content
    assert isinstance(error, ToolUseError)
    assert error.name == "get_weather"
    assert error.raw_data == "".join(delta.partial_json for delta in only(ToolInputDelta, events))


def _check_call(events: list[Event]) -> ToolUseBlock:
    """The one call in the events, if they are in order."""
    (start,) = only(ToolInputStart, events)
    (end,) = only(ToolCall, events)
    deltas = only(ToolInputDelta, events)
    assert isinstance(end.block, ToolUseBlock)
    assert start.name == end.block.name == "get_weather"
    assert end.block.input == {"city": "Paris"}
    assert {start.id, *(delta.id for delta in deltas)} == {end.block.id}
    assert len(deltas) > 1
    assert start.seq < deltas[0].seq <= deltas[-1].seq < end.seq
    assert json.loads("".join(delta.partial_json for delta in deltas)) == end.block.input
    return end.block
