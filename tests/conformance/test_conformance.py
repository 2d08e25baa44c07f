"""Every fixture, through the decoders and through the adapters over a socket, in every chunking."""

from __future__ import annotations

import pytest

from any_agent import AnthropicAdapter, OllamaAdapter, OpenAIAdapter, ResponsesAdapter, Timeouts
from any_agent.adapters.base import BaseAdapter
from any_agent.events import Event, Failed
from any_agent.testing import Reply, ScriptedServer
from any_agent.types import LLMResponse
from any_agent.wire.assembly import DecodeSettings
from any_agent.wire.failures import classify_body
from conformance.fixtures import CHUNKINGS, DECODERS, Fixture, chunks, differences, load

ADAPTERS: dict[str, type[BaseAdapter]] = {
    "openai": OpenAIAdapter,
    "ollama": OllamaAdapter,
    "anthropic": AnthropicAdapter,
    "responses": ResponsesAdapter,
}
ALL = load()


def test_all_fixtures_are_here() -> None:
    assert len(ALL) == 201


@pytest.mark.row("D13", "B12", "E3", "E12")
@pytest.mark.parametrize("fixture", ALL, ids=lambda fixture: fixture.name)
def test_decoder_gives_what_the_fixture_demands_in_every_chunking(fixture: Fixture) -> None:
    for how in CHUNKINGS:
        if fixture.status >= 300:
            events: list[Event] = [Failed(classify_body(fixture.status, fixture.body), LLMResponse())]
        else:
            settings = DecodeSettings(
                tools={tool.name: tool.parameters for tool in fixture.tools},
                think_open=fixture.request.get("assume_think_open", False),
                max_tokens=fixture.request.get("max_tokens"),
            )
            decoder = DECODERS[fixture.protocol](settings)
            events = [event for chunk in chunks(fixture.body, how) for event in decoder.feed(chunk)]
            events += decoder.close()
        assert differences(fixture, events) == [], how


@pytest.mark.row("D9", "D13", "A29")
@pytest.mark.parametrize("fixture", ALL, ids=lambda fixture: fixture.name)
async def test_adapter_gives_what_the_fixture_demands_over_a_socket(fixture: Fixture) -> None:
    http = fixture.expect["http"]
    headers = {"Content-Type": http["content_type"], **http["headers"]}
    # a server that loads its model is waited for: once will do
    is_loading = (fixture.expect["error"] or {}).get("kind") == "model_loading"
    chunkings = CHUNKINGS[:1] if is_loading else CHUNKINGS
    replies = [Reply(chunks(fixture.body, how), fixture.status, headers) for how in chunkings]
    async with ScriptedServer(*replies) as server:
        adapter = ADAPTERS[fixture.protocol](
            "m",
            server.address,
            think_open=fixture.request.get("assume_think_open", False),
            timeouts=Timeouts(first_byte=1) if is_loading else Timeouts(),
        )
        settings = {name: fixture.request[name] for name in ("max_tokens", "stop") if name in fixture.request}
        async with adapter:
            for how in chunkings:
                events = [event async for event in adapter.stream(fixture.messages, fixture.tools, **settings)]
                assert differences(fixture, events) == [], how
                assert [event.seq for event in events] == list(range(1, len(events) + 1))
