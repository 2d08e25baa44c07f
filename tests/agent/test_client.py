"""`query()` and `Client`, over real sockets."""

from __future__ import annotations

import asyncio
import json
import time
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
    MaxTurnsExceeded,
    Message,
    PromptBlocked,
    ProviderAPIError,
    ProviderError,
    StreamInterrupted,
    TextBlock,
    ToolUseBlock,
    ToolUseError,
    UserPromptSubmitEvent,
    query,
    tool,
)
from any_agent.testing import HANG, Reply, ScriptedServer, chat_events

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


@pytest.mark.row("A18")
async def test_history_can_be_assigned_in_both_forms() -> None:
    async with ScriptedServer(says("ok")) as server, Client(options(server)) as client:
        client.message_history = [{"role": "user", "content": "a"}, Message("assistant", "b")]
        await client.query("c")
        async for _ in client.receive_messages():
            pass
        assert [message["content"] for message in server.requests[0].json["messages"][1:]] == ["a", "b", "c"]


@pytest.mark.row("A22", "A23", "A26", "A21")
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


@pytest.mark.row("A28")
async def test_new_query_closes_the_stream_that_is_open() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG]), says("ok")) as server, Client(options(server)) as client:
        await client.query("hi")
        events = client.events()
        await anext(events)
        await client.query("something else")
        await asyncio.wait_for(server.disconnected(), 5)
        assert [block async for block in client.receive_messages()] == [TextBlock("ok")]
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


@pytest.mark.row("A16")
async def test_client_property_is_an_openai_client() -> None:
    from openai import AsyncOpenAI

    async with ScriptedServer(says("ok")) as server, Client(options(server)) as client:
        assert isinstance(client.client, AsyncOpenAI)
        assert client.client is client.client
        assert client.options.model == "m"


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


def test_tools_that_are_none_are_refused() -> None:
    def plain(q: str) -> str:
        return q

    with pytest.raises(TypeError, match="decorate the function with @tool"):
        AgentOptions("", "m", "http://localhost:1", tools=[plain])  # type: ignore[list-item]


@pytest.mark.row("A1")
@pytest.mark.parametrize("name", ["max_turns", "max_tokens", "max_tool_iterations", "loop_guard", "max_result_tokens"])
def test_limits_below_one_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        AgentOptions("", "m", "http://localhost:1", **{name: 0})
