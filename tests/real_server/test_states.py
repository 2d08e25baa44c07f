"""What the server does while it says nothing, and many requests at a time."""

from __future__ import annotations

import asyncio

import pytest

from any_agent import Message, ModelState, OpenAIAdapter, TextDelta
from any_agent.adapters.base import BaseAdapter
from any_agent.events import Event
from real_server.helpers import ADAPTERS, HELLO, events_of, only, prompt_of, response_of
from real_server.server import BATCH, MODEL, LlamaServer

pytestmark = pytest.mark.real_server

_PROMPT = prompt_of(2 * BATCH)
_THINGS = ("apple", "tiger", "piano", "river", "candle", "rocket", "pepper", "violet")


@pytest.mark.row("E2")
@pytest.mark.parametrize("protocol", ["chat", "responses"])
async def test_progress_of_the_prompt_is_told_before_the_first_word(protocol: str, llama: LlamaServer) -> None:
    """E2: in the two protocols in which this server tells it."""
    async with ADAPTERS[protocol](MODEL, llama.address, api_key=llama.key, profile="llamacpp") as adapter:
        _check_states(await events_of(adapter.stream(_PROMPT, temperature=0, max_tokens=2)))


@pytest.mark.row("E2", "A32")
async def test_server_is_recognised_by_its_first_response(llama: LlamaServer) -> None:
    """E2, A32: from then on it is asked for its progress."""
    async with OpenAIAdapter(MODEL, llama.address, api_key=llama.key) as adapter:
        assert adapter.profile.name == "local"
        first = await events_of(adapter.stream(HELLO, temperature=0, max_tokens=2))
        assert only(ModelState, first) == []
        assert adapter.profile.name == "llamacpp"
        _check_states(await events_of(adapter.stream(_PROMPT, temperature=0, max_tokens=2)))


@pytest.mark.row("A32")
async def test_streams_may_follow_each_other_at_once(adapter: BaseAdapter) -> None:
    """A32: this server promises to keep the connection of a stream, and closes it."""
    for _ in range(6):
        response_of(await events_of(adapter.stream(HELLO, temperature=0, max_tokens=2)))


@pytest.mark.row("D12")
async def test_eight_requests_at_once_do_not_mix(adapter: BaseAdapter) -> None:
    """D12: on two slots, through one adapter."""

    async def ask(thing: str) -> list[Event]:
        question = [Message("user", f"Write one sentence about a {thing}.")]
        return await events_of(adapter.stream(question, temperature=0, max_tokens=12))

    answers = [response_of(events) for events in await asyncio.gather(*map(ask, _THINGS))]
    assert len({answer.id for answer in answers}) == len(_THINGS)
    for thing, answer in zip(_THINGS, answers, strict=True):
        assert [word for word in _THINGS if word in (answer.text or "").lower()] == [thing]


def _check_states(events: list[Event]) -> None:
    """The prompt is read, more and more of it; then comes the answer."""
    states = only(ModelState, events)
    *reading, generating = states
    assert {state.state for state in reading} == {"prefill"}
    steps = [state.progress for state in reading]
    assert None not in steps
    assert len(set(steps)) > 2
    assert steps == sorted(step for step in steps if step is not None)
    assert steps[-1] == 1
    assert generating.state == "generating"
    assert events.index(generating) + 1 == events.index(only(TextDelta, events)[0])
