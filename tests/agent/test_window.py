"""The window: estimated, calibrated, asked for, and what is said when it is too small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from any_agent import AgentOptions, Client, Done, Event, Message, Notice, Usage, get_profile, query, tool
from any_agent.agent.window import Window
from any_agent.testing import HANG, Received, Reply, ScriptedServer, chat_events

LONG = "a sentence of words. " * 1000  # some 5,000 tokens


def usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": tokens, "completion_tokens": 2, "total_tokens": tokens + 2}


def serving(window: Any, tokens: int, asked: list[str]) -> Callable[[Received], Reply]:
    """A server that says `window` at its place, and counts `tokens` in each request."""

    def answer(request: Received) -> Reply:
        if request.method == "GET":
            asked.append(request.path)
            return window if isinstance(window, Reply) else Reply.json(window)
        return Reply(chat_events("ok", usage=usage(tokens)))

    return answer


async def ask(client: Client, prompt: str) -> list[Event]:
    await client.query(prompt)
    events = [event async for event in client.events()]
    assert isinstance(events[-1], Done), events[-1]
    return events


def notices(events: list[Event]) -> list[Notice]:
    return [event for event in events if isinstance(event, Notice)]


@pytest.mark.row("B16")
def test_estimate_is_corrected_by_what_the_server_counts() -> None:
    window = Window()
    messages = [Message("user", "word " * 400)]
    before = window.tokens(messages)
    assert window.after(messages, [], Usage(input_tokens=before * 2)) is None
    assert window.tokens(messages) == before * 2
    assert window.tokens([*messages, *messages]) == before * 4


@pytest.mark.row("B16", "E1")
def test_what_a_template_adds_to_a_short_request_is_not_taken_for_the_size_of_a_word() -> None:
    """A template with examples in it makes four tokens of each that was sent, as long as little is sent."""
    window = Window(4096)
    short, long = [Message("user", "hi")], [Message("user", "word " * 900)]
    before = Window().tokens(long)
    assert window.after(short, [], Usage(input_tokens=Window().tokens(short) + 200)) is None
    assert window.tokens(short) == Window().tokens(short) + 200
    assert window.tokens(long) == before + 200
    assert window.before(long, []) is None
    assert window.after(long, [], Usage(input_tokens=before + 200)) is None
    assert window.tokens(long) == before + 200


@pytest.mark.row("E1", "B17")
@pytest.mark.parametrize("cached", [None, 4000])
def test_server_that_reads_far_less_than_was_sent_has_dropped_something(cached: int | None) -> None:
    notice = Window().after([Message("user", LONG)], [], Usage(input_tokens=2048, cached_tokens=cached))
    assert (notice is None) == (cached is not None), "what was cached was read as well"
    if notice is not None:
        assert notice.kind == "context_truncated"
        assert "2048" in notice.message


@pytest.mark.row("E1")
def test_truncated_request_does_not_spoil_the_calibration() -> None:
    window = Window()
    messages = [Message("user", LONG)]
    before = window.tokens(messages)
    window.after(messages, [], Usage(input_tokens=before))
    assert window.after([*messages, *messages], [], Usage(input_tokens=before)) is not None
    assert window.tokens(messages) == before


@pytest.mark.row("E1")
@pytest.mark.parametrize("counted", [None, Usage(), Usage(input_tokens=0), Usage(input_tokens=10)])
def test_short_or_uncounted_requests_are_not_judged(counted: Usage | None) -> None:
    assert Window().after([Message("user", "hi")], [], counted) is None


@pytest.mark.row("B17", "E1")
async def test_ollamas_silent_truncation_is_told_at_the_first_truncated_request() -> None:
    asked: list[str] = []
    lines = [
        b'{"message": {"content": "ok"}, "done": false}\n',
        b'{"done": true, "done_reason": "stop", "eval_count": 1,',
    ]
    reply = Reply([*lines, b'"prompt_eval_count": 2048}\n'], headers={"Content-Type": "application/x-ndjson"})
    running = Reply.json({"models": [{"name": "m:latest", "context_length": 4096}]})

    def answer(request: Received) -> Reply:
        asked.append(f"{request.method} {request.path}")
        return running if request.method == "GET" else reply

    async with ScriptedServer(answer) as server:
        options = AgentOptions("", "m", server.address, protocol="ollama", max_turns=3)
        async with Client(options) as client:
            first = await ask(client, LONG)
            second = await ask(client, "and now?")
            bodies = [request.json for request in server.requests if request.method == "POST"]
            assert client.turn_metadata["context_window"] == 4096
    assert [notice.kind for notice in notices(first)] == ["context_truncated"]
    assert "num_ctx" in notices(first)[0].message
    assert notices(second)[0].kind == "context_full"
    assert asked == ["POST /api/chat", "GET /api/ps", "POST /api/chat"]
    assert "num_ctx" not in bodies[0].get("options", {})
    assert bodies[1]["options"]["num_ctx"] == 4096


@pytest.mark.row("B17", "E1")
async def test_window_for_ollama_can_be_set() -> None:
    reply = Reply([b'{"message": {"content": "ok"}, "done": true, "done_reason": "stop"}\n'])
    async with ScriptedServer(reply) as server:
        options = AgentOptions("", "m", server.address, protocol="ollama", num_ctx=16384)
        async with Client(options) as client:
            assert await client.context_window() == 16384
            await ask(client, "hi")
        assert server.requests[0].json["options"]["num_ctx"] == 16384
    with pytest.raises(ValueError, match="num_ctx"):
        AgentOptions("", "m", "http://localhost:1", num_ctx=8192)


@pytest.mark.row("E1")
async def test_window_is_asked_for_once_and_only_after_the_first_answer() -> None:
    asked: list[str] = []
    props = {"default_generation_settings": {"n_ctx": 4096}}
    async with ScriptedServer(serving(props, 5, asked)) as server:
        options = AgentOptions("", "m", server.url, profile=get_profile("llamacpp"), max_turns=9)
        async with Client(options) as client:
            await ask(client, "one")
            assert asked == []
            await ask(client, "two")
            await ask(client, "three")
            assert asked == ["/props"]
            assert await client.context_window() == 4096
        async for _ in query("one", options):
            pass
    assert asked == ["/props"]


@pytest.mark.row("E1")
@pytest.mark.parametrize(
    "answer",
    [Reply.json({"error": "no"}, 404), Reply([b"<html>"]), Reply([HANG]), Reply.json([1, 2])],
    ids=["404", "html", "silent", "list"],
)
async def test_server_that_does_not_tell_its_window_is_no_obstacle(
    answer: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("any_agent.agent.steps._WINDOW_S", 0.05)
    asked: list[str] = []
    async with ScriptedServer(serving(answer, 5, asked)) as server:
        options = AgentOptions("", "m", server.url, profile=get_profile("llamacpp"), max_turns=9)
        async with Client(options) as client:
            await ask(client, "one")
            assert notices(await ask(client, "two")) == []
            assert await client.context_window() is None
    assert asked == ["/props"]


@pytest.mark.row("B17")
async def test_request_that_is_larger_than_the_window_is_announced() -> None:
    asked: list[str] = []
    models = {"data": [{"id": "m", "max_model_len": 2000}]}
    async with ScriptedServer(serving(models, 8, asked)) as server:
        options = AgentOptions("", "m", server.url, profile=get_profile("vllm"), max_turns=9)
        async with Client(options) as client:
            await ask(client, "one")
            events = await ask(client, LONG * 3)
    notice = notices(events)[0]
    assert notice.kind == "context_full"
    assert notice.data is not None
    assert notice.data["window"] == 2000
    assert notice.data["tokens"] > 2000
    assert asked == ["/v1/models"]


@pytest.mark.row("B16")
async def test_size_of_the_conversation_counts_prompts_tools_and_waiting_results() -> None:
    @tool
    def look(place: str) -> str:
        """Look at a place."""
        return place

    bare = Client(AgentOptions("", "m", "http://localhost:1"))
    full = Client(AgentOptions("Be brief.", "m", "http://localhost:1", tools=[look]))
    assert bare.context_tokens < full.context_tokens
    full.message_history = [Message("user", "word " * 100)]
    assert full.context_tokens > 125
