"""A named agent in a process, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from any_agent import (
    AgentSDKError,
    Done,
    Failed,
    ProviderAPIError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RetryConfig,
    StreamInterrupted,
    TextDelta,
    Timeouts,
    tool,
)
from any_agent.orchestration import AgentConfig, AgentState, Message, MessageType
from any_agent.orchestration.providers.openai import OpenAICompatibleAgent, OpenAICompatibleProvider
from any_agent.testing import HANG, RESET, Reply, ScriptedServer, chat_events, sse

CALL = {"id": "call_0", "function": {"name": "search", "arguments": '{"q":"paris"}'}}
BEGUN = chat_events("Hel")[:2]


@tool
def search(q: str) -> str:
    """Search."""
    return f"found {q}"


def says(*texts: str, **more: Any) -> Reply:
    return Reply(chat_events(*texts, **more))


@asynccontextmanager
async def agent_for(url: str, *tools: Any, **more: Any) -> AsyncGenerator[OpenAICompatibleAgent, None]:
    config = AgentConfig("gpt", "openai", "m", url)
    options = OpenAICompatibleProvider().options(config, tools)
    options.retry = RetryConfig(max_attempts=1)
    for name, value in more.items():
        setattr(options, name, value)
    agent = OpenAICompatibleAgent(config, options)
    try:
        yield agent
    finally:
        await agent.shutdown()


async def answers(agent: OpenAICompatibleAgent, text: str = "hi") -> list[Message]:
    return [message async for message in agent.handle_message(Message(text))]


@pytest.mark.row("C8", "C9")
async def test_an_answer_is_one_message_although_it_streams() -> None:
    async with ScriptedServer(says("Hel", "lo", " you")) as server, agent_for(server.url) as agent:
        assert (agent.name, agent.agent_type, agent.state) == ("gpt", "api", "idle")
        assert repr(agent) == "OpenAICompatibleAgent('gpt', state='idle')"
        assert await answers(agent) == [
            Message("Hello you", "gpt", ["all"], MessageType.CHAT, {"provider": "openai", "model": "m"})
        ]


@pytest.mark.row("C8")
async def test_a_turn_can_be_seen_live() -> None:
    more = asyncio.Event()
    reply = Reply([*BEGUN, more, *chat_events("lo")[1:]])
    async with ScriptedServer(reply) as server, agent_for(server.url) as agent:
        texts: list[str] = []
        async for event in agent.stream_message(Message("hi")):
            if isinstance(event, TextDelta):
                texts.append(event.text)
                assert agent.state is AgentState.PROCESSING
                more.set()
            last = event
        assert texts == ["Hel", "lo"]
        assert isinstance(last, Done)
        assert agent.state is AgentState.IDLE


@pytest.mark.row("C9")
async def test_calls_that_nobody_runs_are_told_in_order_with_what_the_model_wrote() -> None:
    other = {"id": "call_1", "function": {"name": "add", "arguments": '{"a": 1}'}}
    reply = says("Let me see", tool_calls=[CALL, other], finish="tool_calls")
    async with ScriptedServer(reply) as server, agent_for(server.url) as agent:
        text, *calls = await answers(agent)
        assert text.content == "Let me see"
        assert [call.content for call in calls] == ["Tool call: search", "Tool call: add"]
        assert calls[0].message_type is MessageType.SYSTEM
        assert calls[0].metadata == {
            "provider": "openai",
            "type": "tool_call",
            "tool_call_id": "call_0",
            "tool_name": "search",
            "tool_arguments": '{"q":"paris"}',
        }


@pytest.mark.row("C9", "C10")
async def test_tools_run_and_each_response_gives_its_own_messages() -> None:
    replies = [says("One moment", tool_calls=[CALL], finish="tool_calls"), says("It is Paris")]
    async with ScriptedServer(*replies) as server, agent_for(server.url, search) as agent:
        found = [message.content for message in await answers(agent)]
        assert found == ["One moment", "Tool call: search", "It is Paris"]
        assert server.requests[-1].json["messages"][-1]["content"] == "found paris"


@pytest.mark.row("C10")
async def test_the_conversation_goes_on_from_message_to_message() -> None:
    async with ScriptedServer(says("one"), says("two")) as server, agent_for(server.url) as agent:
        await answers(agent, "first")
        await answers(agent, "second")
        sent = [message["content"] for message in server.requests[-1].json["messages"]]
        assert sent == ["first", "one", "second"]


@pytest.mark.row("C9", "E11")
@pytest.mark.parametrize(
    "reply",
    [
        says(),
        says(""),
        Reply(sse({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}, "finish_reason": "length"}]})),
        says(finish="content_filter"),
    ],
)
async def test_a_turn_that_says_nothing_has_failed(reply: Reply) -> None:
    async with ScriptedServer(reply, says("here again")) as server, agent_for(server.url) as agent:
        with pytest.raises(ProviderAPIError) as problem:
            await answers(agent)
        assert problem.value.kind == "invalid_response"
        assert agent.state is AgentState.FAILED
        assert (await answers(agent))[0].content == "here again"
        assert agent.state is AgentState.IDLE


@pytest.mark.row("C11")
@pytest.mark.parametrize(
    ("reply", "error", "status"),
    [
        (Reply.json({"error": {"message": "bad key"}}, 401), ProviderAuthError, 401),
        (Reply.json({"error": {"message": "not for you"}}, 403), ProviderAuthError, 403),
        (Reply.json({"error": {"message": "slow down"}}, 429), ProviderAPIError, 429),
        (Reply.json({"error": {"message": "broken"}}, 500), ProviderAPIError, 500),
        (Reply.json({"error": {"message": "nonsense"}}, 400), ProviderAPIError, 400),
        (Reply([RESET]), ProviderError, None),
        (Reply([*BEGUN, RESET]), StreamInterrupted, None),
        (Reply([*BEGUN, b'data: {"error": {"message": "broken", "code": 500}}\n\n']), ProviderAPIError, 500),
    ],
)
async def test_failures_have_their_classes_and_the_next_message_is_accepted(
    reply: Reply, error: type[ProviderError], status: int | None
) -> None:
    async with ScriptedServer(reply, says("here again")) as server, agent_for(server.url) as agent:
        with pytest.raises(error) as problem:
            await answers(agent, "lost")
        assert problem.value.status_code == status
        assert agent.state is AgentState.FAILED
        assert (await answers(agent, "again"))[0].content == "here again"
        assert agent.state is AgentState.IDLE
        assert [message["content"] for message in server.requests[-1].json["messages"]] == ["again"]


@pytest.mark.row("C11")
async def test_a_server_that_is_silent_or_not_there_has_its_error_too() -> None:
    async with ScriptedServer(Reply([HANG])) as server:
        async with agent_for(server.url, timeouts=Timeouts(first_byte=0.05)) as agent:
            with pytest.raises(ProviderTimeoutError):
                await answers(agent)
    async with agent_for(server.url) as agent:
        with pytest.raises(ProviderConnectionError):
            await answers(agent)
        assert agent.state is AgentState.FAILED


@pytest.mark.row("C11")
async def test_the_live_view_tells_a_failure_as_its_last_event() -> None:
    async with ScriptedServer(Reply.json({"error": {"message": "no"}}, 400)) as server, agent_for(server.url) as agent:
        events = [event async for event in agent.stream_message(Message("hi"))]
        assert isinstance(events[-1], Failed)
        assert agent.state is AgentState.FAILED


@pytest.mark.row("C14")
async def test_messages_that_come_at_once_are_answered_one_after_the_other() -> None:
    first = asyncio.Event()
    async with (
        ScriptedServer(Reply([first, *chat_events("one")]), says("two")) as server,
        agent_for(server.url) as agent,
    ):
        one = asyncio.create_task(answers(agent, "first"))
        await server.received(1)
        two = asyncio.create_task(answers(agent, "second"))
        await asyncio.sleep(0)
        assert len(server.requests) == 1
        first.set()
        assert [(await one)[0].content, (await two)[0].content] == ["one", "two"]
        assert len(server.requests[-1].json["messages"]) == 3


@pytest.mark.row("C10")
async def test_who_stops_listening_stops_the_model_and_the_agent_is_free() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG]), says("next")) as server, agent_for(server.url) as agent:
        async for event in agent.stream_message(Message("hi")):
            if isinstance(event, TextDelta):
                break
        await server.disconnected()
        assert (await answers(agent))[0].content == "next"
        waiting = asyncio.create_task(answers(agent))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert agent.state is AgentState.IDLE


@pytest.mark.row("C10")
async def test_an_agent_that_was_shut_down_takes_nothing_more() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG])) as server, agent_for(server.url) as agent:
        answering = asyncio.create_task(answers(agent))
        await server.received(1)
        waiting = asyncio.create_task(answers(agent))
        await asyncio.sleep(0)
        await agent.shutdown()
        await server.disconnected()
        with pytest.raises(StreamInterrupted):
            await answering
        with pytest.raises(AgentSDKError, match="agent 'gpt' was shut down"):
            await waiting
        with pytest.raises(AgentSDKError, match="agent 'gpt' was shut down"):
            await answers(agent)
        await agent.shutdown()
        assert agent.state is AgentState.TERMINATED


async def test_an_empty_message_is_refused() -> None:
    async with agent_for("http://127.0.0.1:9/v1") as agent:
        with pytest.raises(AgentSDKError, match="the message for 'gpt' is empty"):
            await answers(agent, " \n")
        assert agent.state is AgentState.IDLE


async def test_an_error_of_the_program_leaves_a_failed_agent() -> None:
    def fails(event: object) -> None:
        raise ZeroDivisionError

    async with agent_for("http://127.0.0.1:9/v1", hooks={"user_prompt_submit": [fails]}) as agent:
        with pytest.raises(ZeroDivisionError):
            await answers(agent)
        assert agent.state is AgentState.FAILED
