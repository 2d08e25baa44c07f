"""`query()` and `Client`, over real sockets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from any_agent import (
    AgentOptions,
    AgentSDKError,
    AssistantMessage,
    Client,
    ContextLengthExceeded,
    Event,
    Failed,
    HookDecision,
    Hooks,
    ImageBlock,
    MaxTurnsExceeded,
    Message,
    PromptBlocked,
    ProviderAPIError,
    ProviderError,
    StreamInterrupted,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
    UserPromptSubmitEvent,
    create_client,
    query,
    tool,
)
from any_agent.testing import HANG, Reply, ScriptedServer, chat_events, sse
from any_agent.types import Block

SOON = 0.1
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
BEGUN = chat_events("Hel")[:2]


def call(name: str = "search", arguments: str = '{"q": "paris"}', id: str = "call_0") -> dict[str, Any]:
    return {"id": id, "function": {"name": name, "arguments": arguments}}


def calls(*given: dict[str, Any], text: str = "") -> Reply:
    return Reply(chat_events(*([text] if text else []), tool_calls=given, finish="tool_calls", usage=USAGE))


def says(*texts: str) -> Reply:
    return Reply(chat_events(*texts, usage=USAGE))


def options(server: ScriptedServer, **more: Any) -> AgentOptions:
    return AgentOptions("Be brief.", "m", server.url, **{"max_turns": 9, **more})


@tool
def search(q: str) -> str:
    """Search."""
    return f"found {q}"


# ---- query()


@pytest.mark.row("A13", "A4")
async def test_query_yields_a_message_for_each_delta_while_the_stream_is_open() -> None:
    gate = asyncio.Event()
    async with ScriptedServer(
        Reply([*BEGUN, gate, *chat_events("lo", tool_calls=[call()], usage=USAGE)[1:]])
    ) as server:
        stream = query("hi", options(server))
        assert stream.response is None
        first = await anext(stream)
        assert first == AssistantMessage([TextBlock("Hel")])
        assert first.role == "assistant"
        gate.set()
        rest = [message.content[0] async for message in stream]
        assert rest == [TextBlock("lo"), ToolUseBlock("call_0", "search", {"q": "paris"})]
    assert stream.response is not None
    assert stream.response.text == "Hello"
    assert stream.response.usage is not None


@pytest.mark.row("A13", "A5", "D5")
async def test_query_takes_a_list_of_blocks_and_gives_one_message_for_each_call() -> None:
    given = [call(id="a"), call(id="b", arguments='{"q": ')]
    async with ScriptedServer(calls(*given, text="So.")) as server:
        prompt: list[Block] = [TextBlock("What is this?"), ImageBlock.from_bytes(b"GIF89a")]
        stream = query(prompt, options(server, tools=[search]))
        assert not hasattr(stream, "__await__")
        messages = [message async for message in stream]
        sent = server.requests[0].json["messages"][-1]["content"]
    assert [[block.type for block in message.content] for message in messages] == [
        ["text"], ["tool_use"], ["tool_use_error"],
    ]  # fmt: skip
    assert len({id(message) for message in messages}) == 3
    assert [part["type"] for part in sent] == ["text", "image_url"]


@pytest.mark.row("A13", "B12")
async def test_query_streams_thoughts_beside_the_text() -> None:
    def delta(**fields: str) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}

    reply = Reply([*sse(delta(reasoning_content="Hm."), delta(content="4"), done=False), *chat_events()[-2:]])
    async with ScriptedServer(reply) as server:
        blocks = [message.content[0] async for message in query("2+2?", options(server))]
    assert blocks == [ThinkingBlock("Hm."), TextBlock("4")]


@pytest.mark.row("A14", "A2")
async def test_the_request_of_a_query() -> None:
    async with ScriptedServer(says("ok")) as server:
        async for _ in query(prompt="hi", options=options(server, seed=7)):
            pass
        body = server.requests[0].json
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    assert (body["model"], body["max_tokens"], body["temperature"], body["seed"]) == ("m", 4096, 0.7, 7)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


@pytest.mark.row("A15", "B13")
async def test_breaking_out_of_a_query_closes_the_connection_at_once() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG])) as server:
        async for _ in query("hi", options(server)):
            break
        stopped = time.monotonic()
        assert await asyncio.wait_for(server.disconnected(), 5) - stopped < SOON


@pytest.mark.row("A15")
async def test_leaving_the_block_of_a_query_closes_it() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG])) as server:
        async with query("hi", options(server)) as stream:
            await anext(stream)
        await asyncio.wait_for(server.disconnected(), 5)


@pytest.mark.row("A15")
async def test_exception_in_the_loop_over_a_query_closes_it() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG])) as server:
        with pytest.raises(ZeroDivisionError):
            async for _ in query("hi", options(server)):
                raise ZeroDivisionError
        stopped = time.monotonic()
        assert await asyncio.wait_for(server.disconnected(), 5) - stopped < SOON


@pytest.mark.row("A15", "B13")
async def test_cancelling_the_task_that_reads_a_query_closes_it() -> None:
    begun = asyncio.Event()

    async def read(server: ScriptedServer) -> None:
        async for _ in query("hi", options(server)):
            begun.set()

    async with ScriptedServer(Reply([*BEGUN, HANG])) as server:
        reader = asyncio.create_task(read(server))
        await begun.wait()
        reader.cancel()
        stopped = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert await asyncio.wait_for(server.disconnected(), 5) - stopped < SOON


@pytest.mark.row("A15")
async def test_query_that_is_held_closes_when_it_is_released() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG])) as server:
        stream = query("hi", options(server))
        async for _ in stream:
            break
        assert server.disconnects == []
        del stream
        await asyncio.wait_for(server.disconnected(), 5)


async def test_query_raises_what_goes_wrong() -> None:
    async with ScriptedServer(Reply.json({"error": "prompt is too long"}, 400)) as server:
        with pytest.raises(ContextLengthExceeded):
            async for _ in query("hi", options(server)):
                pass


# ---- conversations


@pytest.mark.row("A17", "A18", "A19")
async def test_a_conversation_carries_on() -> None:
    async with ScriptedServer(says("Hel", "lo"), says("Again")) as server, Client(options(server)) as client:
        assert (client.message_history, client.turn_count) == ([], 0)
        await client.query("hi")
        assert [block async for block in client.receive_messages()] == [TextBlock("Hel"), TextBlock("lo")]
        await client.query("more")
        assert [block async for block in client.receive_messages()] == [TextBlock("Again")]
        sent = server.requests[1].json["messages"]
        assert [message["content"] for message in sent] == ["Be brief.", "hi", "Hello", "more"]
        assert client.turn_count == 2
        assert client.turn_metadata["total_tokens"] == 14
        copy = client.history
        copy[0]["content"] = "changed"
        assert client.history[0]["content"] == "hi"
        json.dumps(client.history)


@pytest.mark.row("A17", "B12")
async def test_blocks_arrive_while_the_server_still_sends_and_calls_come_last() -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    thought = sse({"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]}, done=False)
    reply = Reply([*thought, gates[0], *BEGUN, gates[1], *chat_events("lo", tool_calls=[call()])[1:]])
    async with ScriptedServer(reply) as server, Client(options(server, tools=[search])) as client:
        await client.query("hi")
        blocks = client.receive_messages()
        assert await anext(blocks) == ThinkingBlock("Hm.")
        gates[0].set()
        assert await anext(blocks) == TextBlock("Hel")
        gates[1].set()
        assert [block.type async for block in blocks] == ["text", "tool_use"]


@pytest.mark.row("A18")
async def test_history_is_live_and_its_copy_is_deep() -> None:
    async with ScriptedServer(calls(call()), says("ok")) as server:
        async with Client(options(server, tools=[search])) as client:
            await client.query("hi")
            async for _ in client.receive_messages():
                pass
            copy = client.history
            copy[1]["tool_calls"][0]["function"]["name"] = "changed"
            assert client.history[1]["tool_calls"][0]["function"]["name"] == "search"
            client.message_history[:] = [Message("user", "before"), Message("assistant", "yes")]
            client.message_history.append(Message("user", "now"))
            await client.resume()
            async for _ in client.receive_messages():
                pass
        sent = server.requests[1].json["messages"]
    assert [message["content"] for message in sent] == ["Be brief.", "before", "yes", "now"]


@pytest.mark.row("A18")
async def test_history_can_be_assigned_in_both_forms() -> None:
    async with ScriptedServer(says("ok")) as server, Client(options(server)) as client:
        client.message_history = [{"role": "user", "content": "a"}, Message("assistant", "b")]
        await client.query("c")
        async for _ in client.receive_messages():
            pass
        assert [message["content"] for message in server.requests[0].json["messages"][1:]] == ["a", "b", "c"]


@pytest.mark.row("A26", "A23", "A19")
@pytest.mark.parametrize("on", ["query", "resume"])
async def test_tools_are_not_run_unless_asked_and_going_on_invents_no_message(on: str) -> None:
    ran: list[str] = []

    @tool
    def search(q: str) -> str:
        ran.append(q)
        return q

    async with ScriptedServer(calls(call()), says("Done")) as server:
        async with Client(options(server, tools=[search])) as client:
            await client.query("go")
            events = [event async for event in client.events()]
            assert {event.type for event in events}.isdisjoint({"tool_running", "tool_result"})
            assert client.turn_count == 1
            client.add_tool_result("call_0", "found")
            await (client.query("") if on == "query" else client.resume())
            async for _ in client.receive_messages():
                pass
            assert client.turn_count == 1, "that was a part of the same turn"
        sent = server.requests[1].json["messages"]
    assert ran == []
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]


@pytest.mark.row("A22")
@pytest.mark.parametrize(
    ("content", "sent"),
    [("as it is", "as it is"), ({"a": "é"}, '{"a": "é"}'), ([1, None], "[1, null]"), (2.5, "2.5"), (None, "null")],
)
async def test_results_are_json_unless_they_are_strings(content: Any, sent: str) -> None:
    async with ScriptedServer(calls(call()), says("Done")) as server:
        async with Client(options(server, tools=[search])) as client:
            await client.query("go")
            async for _ in client.receive_messages():
                pass
            client.add_tool_result("call_0", content)
            await client.query("")
            async for _ in client.receive_messages():
                pass
        assert server.requests[1].json["messages"][-1]["content"] == sent


@pytest.mark.row("A22")
async def test_ids_may_repeat_over_the_turns() -> None:
    async with ScriptedServer(calls(call()), calls(call()), says("Done")) as server:
        async with Client(options(server, tools=[search])) as client:
            await client.query("go")
            for result in ("one", "two"):
                async for block in client.receive_messages():
                    assert isinstance(block, ToolUseBlock)
                    client.add_tool_result(block.id, result)
                await client.query("")
            async for _ in client.receive_messages():
                pass
        sent = server.requests[2].json["messages"]
    assert [message["content"] for message in sent if message["role"] == "tool"] == ["one", "two"]


@pytest.mark.row("A22", "A25")
async def test_loop_may_be_left_at_a_call_though_the_connection_still_stands() -> None:
    async with ScriptedServer(Reply([*chat_events(tool_calls=[call()]), HANG]), says("Done")) as server:
        async with Client(options(server, tools=[search])) as client:
            await client.query("go")
            async for block in client.receive_messages():
                if isinstance(block, ToolUseBlock):
                    client.add_tool_result(block.id, "found")
                    break
            await client.query("")
            assert [block async for block in client.receive_messages()] == [TextBlock("Done")]
        sent = server.requests[1].json["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]


@pytest.mark.row("A22", "A23", "A21")
@pytest.mark.parametrize("awaits", [False, True])
async def test_results_are_added_by_hand_and_the_conversation_goes_on(awaits: bool) -> None:
    async with ScriptedServer(calls(call(), text="Wait. "), says("Done")) as server:
        async with Client(options(server, tools=[search])) as client:
            await client.query("go")
            async for block in client.receive_messages():
                if isinstance(block, ToolUseBlock):
                    noted = client.add_tool_result(tool_call_id=block.id, content={"name": "Zürich"})
                    if awaits:
                        await noted
            await client.query("")
            assert [block async for block in client.receive_messages()] == [TextBlock("Done")]
            roles = [message["role"] for message in client.history]
            assert client.history[1]["tool_calls"][0]["function"]["arguments"] == '{"q": "paris"}'
        sent = server.requests[1].json["messages"]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert sent[-1]["content"] == '{"name": "Zürich"}'
    assert sent[-1]["role"] == "tool"


@pytest.mark.row("A22")
async def test_result_for_an_unknown_call_is_refused() -> None:
    async with ScriptedServer(calls(call())) as server, Client(options(server, tools=[search])) as client:
        with pytest.raises(AgentSDKError, match="no call 'call_0'"):
            client.add_tool_result("call_0", 1)
        await client.query("go")
        async for _ in client.receive_messages():
            pass
        client.add_tool_result("call_0", 1)
        with pytest.raises(AgentSDKError, match="no call 'call_0'"):
            client.add_tool_result("call_0", 1)


@pytest.mark.row("A22")
async def test_result_of_a_tool_that_runs_by_itself_cannot_be_added() -> None:
    async with ScriptedServer(calls(call()), says("ok")) as server:
        async with Client(options(server, tools=[search], auto_execute_tools=True)) as client:
            await client.query("go")
            async for block in client.receive_messages():
                if isinstance(block, ToolUseBlock):
                    with pytest.raises(AgentSDKError, match="waiting are: none"):
                        client.add_tool_result(block.id, "mine")
            with pytest.raises(AgentSDKError, match="waiting are: none"):
                client.add_tool_result("call_0", "mine")
            assert [message["role"] for message in client.history] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.row("A24")
async def test_new_prompt_after_an_unanswered_call_is_sent_with_an_error_result() -> None:
    async with ScriptedServer(calls(call()), says("ok")) as server, Client(options(server, tools=[search])) as client:
        await client.query("go")
        async for _ in client.receive_messages():
            pass
        await client.query("never mind")
        async for _ in client.receive_messages():
            pass
        sent = server.requests[1].json["messages"]
    result = next(message for message in sent if message["role"] == "tool")
    assert "no result" in result["content"]


@pytest.mark.row("A20")
async def test_max_turns_counts_prompts_and_not_continuations() -> None:
    async with ScriptedServer(calls(call()), says("ok")) as server:
        async with Client(options(server, tools=[search], max_turns=1)) as client:
            await client.query("go")
            async for _ in client.receive_messages():
                pass
            client.add_tool_result("call_0", "x")
            await client.query("Here is what the tool returned")
            async for _ in client.receive_messages():
                pass
            with pytest.raises(MaxTurnsExceeded, match="max_turns"):
                await client.query("one more")
        assert len(server.requests) == 2


@pytest.mark.row("A20")
async def test_neither_going_on_nor_a_prompt_beside_results_is_a_turn() -> None:
    replies = [calls(call()), calls(call()), says("one"), says("two")]
    async with ScriptedServer(*replies) as server:
        async with Client(options(server, tools=[search], max_turns=2)) as client:
            await client.query("first")
            for prompt in ("", "Here is what the tool returned"):
                async for _ in client.receive_messages():
                    pass
                client.add_tool_result("call_0", "x")
                await client.query(prompt)
            async for _ in client.receive_messages():
                pass
            await client.query("second")
            async for _ in client.receive_messages():
                pass
            assert client.turn_count == client.turn_metadata["turn_count"] == 2
            with pytest.raises(MaxTurnsExceeded, match=r"has had its 2 prompts: set AgentOptions\(max_turns"):
                await client.query("third")
        assert len(server.requests) == 4


@pytest.mark.row("A25", "A20", "A19")
@pytest.mark.parametrize("first", [Reply(BEGUN, chunked=False), Reply.json({"error": "no"}, 400), Reply(chat_events())])
async def test_prompt_that_got_no_answer_is_no_turn_and_may_be_sent_again(first: Reply) -> None:
    async with ScriptedServer(first, says("Hello")) as server:
        async with Client(options(server, max_turns=1)) as client:
            await client.query("hi")
            with pytest.raises(ProviderError):
                async for _ in client.receive_messages():
                    pass
            assert client.turn_count == 0
            await client.query("hi")
            assert [block async for block in client.receive_messages()] == [TextBlock("Hello")]
            assert client.turn_count == 1


@pytest.mark.row("A25")
async def test_failed_answer_is_discarded_with_its_prompt() -> None:
    cut = Reply(BEGUN, chunked=False)
    async with ScriptedServer(cut, says("Hello")) as server, Client(options(server)) as client:
        await client.query("hi")
        with pytest.raises(StreamInterrupted):
            async for _ in client.receive_messages():
                pass
        assert client.message_history == []
        await client.query("hi")
        assert [block async for block in client.receive_messages()] == [TextBlock("Hello")]
        assert len(server.requests[1].json["messages"]) == 2


@pytest.mark.row("A25")
async def test_complete_round_stays_when_the_next_answer_fails() -> None:
    replies = [calls(call()), Reply.json({"error": "no"}, 400), says("Done")]
    async with ScriptedServer(*replies) as server:
        async with Client(options(server, tools=[search], auto_execute_tools=True)) as client:
            await client.query("go")
            with pytest.raises(ProviderAPIError):
                async for _ in client.receive_messages():
                    pass
            assert [message.role for message in client.message_history] == ["user", "assistant", "tool"]
            await client.resume()
            assert [block async for block in client.receive_messages()] == [TextBlock("Done")]


@pytest.mark.row("A25")
async def test_answer_that_reached_max_tokens_stays() -> None:
    async with ScriptedServer(Reply(chat_events("Once upon", finish="length"))) as server:
        async with Client(options(server)) as client:
            await client.query("a story")
            async for _ in client.receive_messages():
                pass
            assert client.response is not None
            assert client.response.stop_reason == "max_tokens"
            assert [message["content"] for message in client.history] == ["a story", "Once upon"]


@pytest.mark.row("E11")
@pytest.mark.parametrize("reply", [Reply(chat_events()), Reply(chat_events("  "))])
async def test_empty_answer_is_never_a_success(reply: Reply) -> None:
    async with ScriptedServer(reply) as server, Client(options(server)) as client:
        await client.query("hi")
        if reply.steps == chat_events():
            with pytest.raises(ProviderError, match="nothing at all"):
                async for _ in client.receive_messages():
                    pass
            assert client.message_history == []


# ---- stopping


@pytest.mark.row("A27", "B13")
async def test_interrupt_ends_the_turn_at_once_and_the_client_goes_on() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG]), says("ok")) as server, Client(options(server)) as client:
        await client.query("hi")
        blocks: list[Any] = []
        reading = asyncio.Event()

        async def read() -> None:
            async for block in client.receive_messages():
                blocks.append(block)
                reading.set()

        reader = asyncio.create_task(read())
        await reading.wait()
        stopped = time.monotonic()
        await client.interrupt()
        await client.interrupt()
        await asyncio.wait_for(reader, 5)
        assert await asyncio.wait_for(server.disconnected(), 5) - stopped < SOON
        assert blocks == [TextBlock("Hel")]
        assert reader.cancelling() == 0
        assert client.message_history == []
        await client.query("hi")
        assert [block async for block in client.receive_messages()] == [TextBlock("ok")]


@pytest.mark.row("A27", "B4")
async def test_interrupt_is_the_last_event_with_what_had_come() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG])) as server, Client(options(server)) as client:
        await client.query("hi")
        events: list[Event] = []
        async for event in client.events():
            events.append(event)
            if event.type == "text":
                asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(client.interrupt()))
    last = events[-1]
    assert isinstance(last, Failed)
    assert last.error.kind == "aborted"
    assert last.partial.text == "Hel"


@pytest.mark.row("A27")
async def test_interrupt_before_anybody_reads_stops_the_turn_and_asks_nobody() -> None:
    async with ScriptedServer(says("ok")) as server, Client(options(server, max_turns=1)) as client:
        await client.interrupt()
        for _ in range(2):
            await client.query("hi")
            await client.interrupt()
            assert [event.type async for event in client.events()] == ["error"]
            await client.query("hi")
            await client.interrupt()
            assert [block async for block in client.receive_messages()] == []
        assert server.requests == []
        await client.query("hi")
        assert [block async for block in client.receive_messages()] == [TextBlock("ok")]
        await client.interrupt()


@pytest.mark.row("A27")
async def test_interrupt_ends_the_turn_at_once_also_for_a_reader_that_lags_behind() -> None:
    words = chat_events(*(f"{number} " for number in range(500)))[:-2]
    async with ScriptedServer(Reply([*words, HANG])) as server, Client(options(server)) as client:
        await client.query("count")
        events = client.events()
        await anext(events)
        assert client._turn is not None
        while len(client._turn._events) < 400:
            await asyncio.sleep(0)
        await client.interrupt()
        rest = [event async for event in events]
    assert len(rest) < 100
    assert [event.seq for event in rest] == list(range(2, len(rest) + 2))
    assert isinstance(rest[-1], Failed)
    assert (rest[-1].partial.text or "").startswith("0 1 2 3")


@pytest.mark.row("A28")
async def test_new_query_closes_the_stream_that_is_open() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG]), says("ok")) as server, Client(options(server)) as client:
        await client.query("hi")
        events = client.events()
        assert (await anext(events)).type == "text"
        await client.query("something else")
        assert await asyncio.wait_for(server.disconnected(), 5)
        assert len(server.requests) == 1, "the old stream is closed before the new one begins"
        assert [event.type async for event in events] == ["error"]
        assert [block async for block in client.receive_messages()] == [TextBlock("ok")]
        assert [message["content"] for message in server.requests[1].json["messages"]] == [
            "Be brief.",
            "something else",
        ]


@pytest.mark.row("A28")
async def test_new_query_ends_the_loop_of_another_task_quietly() -> None:
    reading = asyncio.Event()

    async def read() -> list[Any]:
        blocks: list[Any] = []
        async for block in client.receive_messages():
            blocks.append(block)
            reading.set()
        return blocks

    async with ScriptedServer(Reply([*BEGUN, HANG]), says("ok")) as server, Client(options(server)) as client:
        await client.query("hi")
        reader = asyncio.create_task(read())
        await reading.wait()
        await client.query("something else")
        assert await asyncio.wait_for(reader, 5) == [TextBlock("Hel")]
        assert await read() == [TextBlock("ok")]


@pytest.mark.row("B13", "A27")
@pytest.mark.parametrize("how", ["interrupt", "cancel", "aclose the client", "timeout"])
async def test_server_that_says_nothing_at_all_is_left_at_once(how: str) -> None:
    async def read() -> None:
        async with asyncio.timeout(0.05 if how == "timeout" else None):
            async for _ in client.receive_messages():
                pass

    async with ScriptedServer(Reply([HANG])) as server, Client(options(server)) as client:
        await client.query("hi")
        reader = asyncio.create_task(read())
        await asyncio.wait_for(server.received(), 5)
        if how == "timeout":
            with pytest.raises(TimeoutError):
                await reader
        stopped = time.monotonic()
        if how == "interrupt":
            await client.interrupt()
        elif how == "cancel":
            reader.cancel()
        elif how == "aclose the client":
            await client.aclose()
        assert await asyncio.wait_for(server.disconnected(), 5) - stopped < SOON
        await asyncio.wait({reader})
        assert client.message_history == []


@pytest.mark.row("B13")
@pytest.mark.parametrize("how", ["interrupt", "leave", "aclose the client"])
async def test_tools_that_run_are_cancelled_with_the_turn(how: str) -> None:
    cancelled = asyncio.Event()

    @tool
    async def slow() -> AsyncIterator[str]:
        try:
            yield "begun"
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    async with ScriptedServer(calls(call("slow", "{}"))) as server:
        async with Client(options(server, tools=[slow], auto_execute_tools=True)) as client:
            await client.query("go")
            events = client.events()
            async for event in events:
                if event.type == "tool_progress":
                    break
            stopped = time.monotonic()
            await {"interrupt": client.interrupt, "leave": events.aclose, "aclose the client": client.aclose}[how]()
            assert cancelled.is_set()
            assert time.monotonic() - stopped < SOON
            assert [message["role"] for message in client.history] == ["user", "assistant", "tool"]
            await events.aclose()


@pytest.mark.row("B13")
async def test_cancelling_the_reader_cancels_running_tools() -> None:
    running, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> None:
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    async with ScriptedServer(calls(call("slow", "{}"))) as server:
        async with Client(options(server, tools=[slow], auto_execute_tools=True)) as client:
            await client.query("go")

            async def read() -> None:
                async for _ in client.events():
                    pass

            reader = asyncio.create_task(read())
            await running.wait()
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            assert cancelled.is_set()


# ---- misuse and prompts


async def test_reading_once_more_says_that_there_is_nothing() -> None:
    async with ScriptedServer(says("ok")) as server, Client(options(server)) as client:
        await client.query("hi")
        async for _ in client.receive_messages():
            pass
        for reading in (client.receive_messages(), client.events()):
            with pytest.raises(AgentSDKError, match=r"nothing to read: call `await client\.query"):
                await anext(reading)


async def test_misuse_is_said_clearly() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG])) as server, Client(options(server)) as client:
        with pytest.raises(AgentSDKError, match="query"):
            async for _ in client.receive_messages():
                pass
        await client.query("hi")
        first = client.events()
        await anext(first)
        with pytest.raises(AgentSDKError, match="being read already"):
            await anext(client.events())
        with pytest.raises(AgentSDKError, match="being read already"):
            await anext(client.receive_messages())
        await first.aclose()


@pytest.mark.row("B9", "B10")
async def test_prompt_hooks_may_change_or_block_a_prompt() -> None:
    def change(event: UserPromptSubmitEvent) -> HookDecision | None:
        return HookDecision.modify_prompt("polite") if event.prompt == "rude" else None

    async def block(event: UserPromptSubmitEvent) -> HookDecision:
        return HookDecision.block("no") if event.prompt == "secret" else HookDecision.continue_()

    hooks = Hooks().add_user_prompt_submit(block).add_user_prompt_submit(change)
    async with ScriptedServer(says("ok")) as server, Client(options(server, hooks=hooks)) as client:
        with pytest.raises(PromptBlocked, match="no"):
            await client.query("secret")
        await client.query("rude")
        async for _ in client.receive_messages():
            pass
        assert server.requests[0].json["messages"][-1]["content"] == "polite"


@pytest.mark.row("B10")
async def test_prompt_hook_may_leave_nothing_to_say_and_what_it_raises_is_raised() -> None:
    def hook(event: UserPromptSubmitEvent) -> HookDecision:
        if event.prompt == "broken":
            raise KeyError("mine")
        return HookDecision.modify_prompt("")

    hooks = {"user_prompt_submit": [hook]}
    async with ScriptedServer(says("ok")) as server, Client(options(server, hooks=hooks)) as client:
        with pytest.raises(KeyError, match="mine"):
            await client.query("broken")
        client.message_history = [Message("user", "a")]
        await client.query("anything")
        async for _ in client.receive_messages():
            pass
        assert [message["content"] for message in server.requests[0].json["messages"]] == ["Be brief.", "a"]


@pytest.mark.row("A16")
async def test_client_property_is_an_openai_client() -> None:
    from openai import AsyncOpenAI

    async with ScriptedServer(says("ok")) as server, Client(options(server)) as client:
        assert isinstance(client.client, AsyncOpenAI)
        assert client.client is client.client
        assert client.options.model == "m"


@pytest.mark.row("A16")
async def test_connections_close_at_the_end_of_the_block_also_after_an_exception() -> None:
    async with ScriptedServer(says("ok")) as server:
        with pytest.raises(ZeroDivisionError):
            async with Client(options(server)) as client:
                await client.query("hi")
                async for _ in client.receive_messages():
                    pass
                made = client.client
                assert server.connections == 1
                raise ZeroDivisionError
        assert made.is_closed()
        await asyncio.wait_for(asyncio.gather(*server._tasks), 5)  # each serves a connection until it ends


@pytest.mark.row("A16")
async def test_client_of_the_program_stays_open() -> None:
    async with ScriptedServer(says("ok")) as server:
        mine = create_client(options(server))
        async with Client(options(server, client=mine)) as client:
            assert client.client is mine
            await client.query("hi")
            async for _ in client.receive_messages():
                pass
        assert not mine.is_closed()
        await mine.close()


@pytest.mark.row("A16")
def test_several_event_loops_one_after_the_other() -> None:
    async def once() -> str:
        async with ScriptedServer(says("ok")) as server, Client(options(server)) as client:
            await client.query("hi")
            return "".join([block.text async for block in client.receive_messages() if isinstance(block, TextBlock)])

    assert [asyncio.run(once()) for _ in range(3)] == ["ok"] * 3


@pytest.mark.row("A21")
async def test_malformed_calls_are_not_stored_in_manual_mode() -> None:
    reply = calls(call(id="good"), call(arguments='{"q": ', id="bad"))
    async with ScriptedServer(reply) as server, Client(options(server, tools=[search])) as client:
        await client.query("go")
        blocks = [block async for block in client.receive_messages()]
        assert [type(block) for block in blocks] == [ToolUseBlock, ToolUseError]
        assert [block.id for block in client.message_history[-1].content if isinstance(block, ToolUseBlock)] == ["good"]


async def test_closed_client_says_so_and_its_history_stays() -> None:
    async with ScriptedServer(says("ok")) as server:
        client = Client(options(server))
        async with client:
            await client.query("hi")
            async for _ in client.receive_messages():
                pass
        with pytest.raises(AgentSDKError, match="is closed"):
            await client.query("again")
        with pytest.raises(AgentSDKError, match="is closed"):
            await client.resume()
        with pytest.raises(AgentSDKError, match="is closed"):
            await anext(client.events())
        assert [message.content for message in client.message_history] == ["hi", [TextBlock("ok")]]


def test_client_in_another_event_loop_says_so() -> None:
    client = Client(AgentOptions("", "m", "http://localhost:1"))
    asyncio.run(client.query("hi"))
    with pytest.raises(AgentSDKError, match="another event loop"):
        asyncio.run(client.query("hi"))


def test_client_of_an_event_loop_that_has_ended_says_so_when_it_is_closed() -> None:
    client = Client(AgentOptions("", "m", "http://localhost:1"))
    asyncio.run(client.query("hi"))
    with pytest.raises(AgentSDKError, match="another event loop"):
        asyncio.run(client.aclose())
    with pytest.raises(AgentSDKError, match="another event loop"):
        asyncio.run(client.interrupt())


def test_tools_that_are_none_are_refused() -> None:
    def plain(q: str) -> str:
        return q

    with pytest.raises(TypeError, match="decorate the function with @tool"):
        AgentOptions("", "m", "http://localhost:1", tools=[plain])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="must be a list of tools"):
        AgentOptions("", "m", "http://localhost:1", tools=search)  # type: ignore[arg-type]


@pytest.mark.parametrize("prompt", [5, None, ["words"], {"role": "user"}])
async def test_prompt_that_is_none_is_refused_before_anything_is_sent(prompt: Any) -> None:
    async with Client(AgentOptions("", "m", "http://localhost:1")) as client:
        with pytest.raises(TypeError, match="a prompt is a string, or a list of blocks"):
            await client.query(prompt)


@pytest.mark.row("A1")
@pytest.mark.parametrize("name", ["max_turns", "temperature", "tool_timeout"])
def test_numbers_that_are_none_are_refused_by_name(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a number; it is 'many'"):
        AgentOptions("", "m", "http://localhost:1", **{name: "many"})


@pytest.mark.row("A1")
@pytest.mark.parametrize("name", ["max_turns", "max_tokens", "max_tool_iterations", "loop_guard", "max_result_tokens"])
def test_limits_below_one_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        AgentOptions("", "m", "http://localhost:1", **{name: 0})
