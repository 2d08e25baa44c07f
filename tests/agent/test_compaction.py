"""Making a conversation shorter, when a policy says so: nothing is split, nothing is lost without a word."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_agent import (
    AgentOptions,
    Client,
    ContextLengthExceeded,
    Done,
    DropOldest,
    Event,
    Failed,
    Message,
    Notice,
    Summarise,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    estimate_tokens,
    tool,
)
from any_agent.testing import HANG, Received, Reply, ScriptedServer, chat_events

WORDS = "word " * 200  # 250 tokens


def turn(number: int) -> list[Message]:
    call = ToolUseBlock(f"c{number}", "look", {})
    return [
        Message("user", f"question {number} {WORDS}"),
        Message("assistant", [TextBlock("Let me see."), call]),
        Message("tool", [ToolResultBlock(call.id, WORDS)]),
        Message("assistant", f"answer {number}"),
    ]


HISTORY = [message for number in range(4) for message in turn(number)]


async def no_model(messages: Sequence[Message]) -> str:
    raise AssertionError("the model was asked")


def texts(messages: Sequence[Any]) -> str:
    return " ".join(str(message.content) for message in messages)


@pytest.mark.row("B16")
async def test_oldest_rounds_go_first_and_a_note_stays() -> None:
    shorter = await DropOldest(keep=0.5).compact(HISTORY, 2200, estimate_tokens, no_model)
    assert "left out" in str(shorter[0].content)
    assert shorter[1:] == HISTORY[8:]


@pytest.mark.row("B16")
async def test_what_fits_stays_as_it_is() -> None:
    assert await DropOldest().compact(HISTORY, 10**6, estimate_tokens, no_model) == HISTORY
    assert await Summarise().compact(HISTORY, 10**6, estimate_tokens, no_model) == HISTORY


@pytest.mark.row("B16")
async def test_prompt_of_a_long_run_stays() -> None:
    run = [Message("user", "the task"), *(message for number in range(5) for message in turn(number)[1:3])]
    shorter = await DropOldest(keep=0.5).compact(run, 1200, estimate_tokens, no_model)
    assert shorter[1] == Message("user", "the task")
    assert shorter[2].role == "assistant"
    assert shorter[2:] == run[-4:]


@pytest.mark.row("B16")
async def test_model_summarises_what_goes_and_the_rest_stays() -> None:
    asked: list[Sequence[Message]] = []

    async def ask(messages: Sequence[Message]) -> str:
        asked.append(messages)
        return "They talked."

    shorter = await Summarise(keep=0.3).compact(HISTORY, 3000, estimate_tokens, ask)
    assert str(shorter[0].content).endswith("They talked.")
    assert shorter[1:] == HISTORY[12:]
    transcript = str(asked[0][0].content)
    assert "calls look({})" in transcript
    assert "question 2" in transcript
    assert "question 3" not in transcript
    assert estimate_tokens(asked[0]) < 3000 * 0.5


@pytest.mark.row("B16")
@given(
    rounds=st.lists(st.tuples(st.sampled_from(["talk", "tools"]), st.integers(0, 60)), max_size=12),
    window=st.integers(20, 2000),
    keep=st.floats(0.1, 0.7),
)
async def test_no_result_is_ever_without_its_call(rounds: list[tuple[str, int]], window: int, keep: float) -> None:
    history: list[Message] = []
    for number, (kind, size) in enumerate(rounds):
        history += [Message("user", "w " * size), Message("assistant", "a")] if kind == "talk" else turn(number)[1:3]
    shorter = await DropOldest(keep=keep).compact(history, window, estimate_tokens, no_model)
    calls = {block.id for message in shorter for block in message.content if isinstance(block, ToolUseBlock)}
    results = {
        block.tool_use_id for message in shorter for block in message.content if isinstance(block, ToolResultBlock)
    }
    assert calls == results
    assert not history or shorter[-1] == history[-1]


def server_with_window(window: int | None, *, limit: int | None = None) -> Any:
    """Answers, refuses more than `limit` tokens, and summarises."""

    def answer(request: Received) -> Reply:
        body = request.json
        tokens = estimate_tokens(body["messages"])
        if "Summarise the conversation" in str(body["messages"]):
            return Reply(chat_events("SUMMARY"))
        if limit is not None and tokens > limit:
            error = {"code": 400, "message": "the request exceeds the available context size"}
            told = {"n_ctx": limit, "n_prompt_tokens": tokens}
            return Reply.json({"error": {**error, "type": "exceed_context_size_error", **told}}, 400)
        return Reply(chat_events("ok", usage={"prompt_tokens": tokens, "completion_tokens": 1}))

    return answer


async def ask_all(client: Client, prompts: int) -> list[list[Event]]:
    turns: list[list[Event]] = []
    for number in range(prompts):
        await client.query(f"question {number} {WORDS}")
        turns.append([event async for event in client.events()])
    return turns


@pytest.mark.row("B16")
async def test_without_a_policy_nothing_is_cut() -> None:
    async with ScriptedServer(server_with_window(None, limit=1500)) as server:
        async with Client(AgentOptions("", "m", server.url, max_turns=99)) as client:
            turns = await ask_all(client, 8)
            assert len(client.message_history) == 10
    last = turns[-1][-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, ContextLengthExceeded)


@pytest.mark.row("B16")
@pytest.mark.parametrize("policy", [DropOldest(window=1500), Summarise(window=1500)])
async def test_conversation_goes_on_for_ever_with_a_policy(policy: Any) -> None:
    async with ScriptedServer(server_with_window(None, limit=1500)) as server:
        async with Client(AgentOptions("Be brief.", "m", server.url, max_turns=99, compaction=policy)) as client:
            turns = await ask_all(client, 12)
            assert "question 11" in texts(client.message_history)
            assert "question 0" not in texts(client.message_history)
            assert ("SUMMARY" in texts(client.message_history)) == isinstance(policy, Summarise)
    assert all(isinstance(events[-1], Done) for events in turns)
    told = [event.kind for events in turns for event in events if isinstance(event, Notice)]
    assert told[:2] == ["compacting", "compacted"]
    assert len(told) >= 4


@pytest.mark.row("B16", "A25")
@pytest.mark.parametrize("policy", [DropOldest(), Summarise()])
async def test_refusal_of_the_server_teaches_the_window_and_the_prompt_is_sent_again(policy: Any) -> None:
    async with ScriptedServer(server_with_window(None, limit=1500)) as server:
        async with Client(AgentOptions("", "m", server.url, max_turns=99, compaction=policy)) as client:
            turns = await ask_all(client, 8)
            assert client.turn_metadata["context_window"] == 1500
    assert all(isinstance(events[-1], Done) for events in turns)


@pytest.mark.row("B16", "A25")
async def test_prompt_that_is_too_long_by_itself_fails_once() -> None:
    async with ScriptedServer(server_with_window(None, limit=100)) as server:
        async with Client(AgentOptions("", "m", server.url, compaction=DropOldest())) as client:
            [events] = await ask_all(client, 1)
            assert client.message_history == []
        assert len(server.requests) == 1
    assert isinstance(events[-1], Failed)
    assert isinstance(events[-1].error, ContextLengthExceeded)


@pytest.mark.row("B16")
async def test_rounds_of_a_run_are_compacted_while_it_runs() -> None:
    pages = iter(range(99))

    @tool
    def page() -> str:
        """The next page."""
        return f"page {next(pages)} {WORDS}"

    def answer(request: Received) -> Reply:
        seen = str(request.json["messages"])
        if "page 7" in seen:
            return Reply(chat_events("That was all."))
        call = {"id": f"c{len(seen)}", "function": {"name": "page", "arguments": "{}"}}
        return Reply(chat_events(tool_calls=[call], finish="tool_calls"))

    async with ScriptedServer(answer) as server:
        options = AgentOptions(
            "", "m", server.url, tools=[page], auto_execute_tools=True, compaction=DropOldest(window=1500)
        )
        async with Client(options) as client:
            await client.query("read all pages")
            events = [event async for event in client.events()]
        last = server.requests[-1].json["messages"]
    assert isinstance(events[-1], Done)
    assert "read all pages" in str(last)
    assert "page 0" not in str(last)
    calls = {call["id"] for message in last for call in message.get("tool_calls", [])}
    assert calls == {message["tool_call_id"] for message in last if message["role"] == "tool"}


@pytest.mark.row("B16", "A25")
@pytest.mark.parametrize("summary", [Reply.json({"error": {"message": "no"}}, 400), Reply(chat_events())])
async def test_failure_while_summarising_ends_the_turn_and_loses_nothing(summary: Reply) -> None:
    def answer(request: Received) -> Reply:
        if "Summarise the conversation" in request.body.decode():
            return summary
        return Reply(chat_events("ok"))

    async with ScriptedServer(answer) as server:
        options = AgentOptions("", "m", server.url, max_turns=99, compaction=Summarise(window=1000))
        async with Client(options) as client:
            client.message_history = HISTORY
            [events] = await ask_all(client, 1)
            assert client.message_history == HISTORY
    assert isinstance(events[-1], Failed)


@pytest.mark.row("B16", "A27")
async def test_interrupt_while_summarising_loses_nothing() -> None:
    async with ScriptedServer(Reply([HANG])) as server:
        options = AgentOptions("", "m", server.url, max_turns=99, compaction=Summarise(window=1000))
        async with Client(options) as client:
            client.message_history = HISTORY
            await client.query("go")
            events: list[Event] = []

            async def read() -> None:
                events.extend([event async for event in client.events()])

            reader = asyncio.create_task(read())
            await asyncio.wait_for(server.received(), 5)
            await client.interrupt()
            await reader
            await asyncio.wait_for(server.disconnected(), 5)
            assert client.message_history == HISTORY
    assert isinstance(events[-1], Failed)
    assert events[-1].error.kind == "aborted"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: DropOldest(at=0.5, keep=0.8), "keep < at"),
        (lambda: Summarise(at=1.5), "keep < at"),
        (lambda: DropOldest(window=0), "window"),
    ],
)
def test_impossible_policies_are_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(TypeError, match="DropOldest"):
        AgentOptions("", "m", "http://localhost:1", compaction=0.8)  # type: ignore[arg-type]
