"""What can happen to a connection, on real sockets."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import ssl
import time
import weakref
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from any_agent import (
    AnthropicAdapter,
    ContextLengthExceeded,
    Done,
    Failed,
    Message,
    ModelState,
    Notice,
    OllamaAdapter,
    OpenAIAdapter,
    ProviderAPIError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    ResponsesAdapter,
    Retry,
    RetryConfig,
    StreamInterrupted,
    TextDelta,
    Timeouts,
    ToolSpec,
)
from any_agent.adapters.base import BaseAdapter
from any_agent.events import Event
from any_agent.testing import HANG, RESET, Received, Reply, ScriptedServer, chat_events

TLS = Path(__file__).parent / "tls"
HI = [Message("user", "hi")]
BEGUN = chat_events("Hel")[:2]
#: "at once", with slack for a busy machine; the rows say 100 ms
SOON = 0.1


async def collect(adapter: BaseAdapter, **settings: Any) -> list[Event]:
    return [event async for event in adapter.stream(HI, **settings)]


async def failure(adapter: BaseAdapter, **settings: Any) -> ProviderError:
    events = await collect(adapter, **settings)
    assert isinstance(events[-1], Failed), events
    assert not any(isinstance(event, Done | Failed) for event in events[:-1])
    return events[-1].error


def adapter_for(server: ScriptedServer, **options: Any) -> OpenAIAdapter:
    return OpenAIAdapter("m", server.url, **options)


# ---- clocks


@pytest.mark.row("http_404")
async def test_missing_model_of_ollama_says_how_to_get_it() -> None:
    async with ScriptedServer(Reply.json({"error": "model 'qwen9' not found"}, 404)) as server:
        async with OllamaAdapter("qwen9", server.address) as adapter:
            error = await failure(adapter)
    assert "ollama pull qwen9" in str(error)


@pytest.mark.row("B15")
async def test_server_that_never_answers_is_given_up_after_the_first_byte_limit() -> None:
    def silent(_: Received) -> Reply:
        time.sleep(0)
        return Reply([HANG])

    async with ScriptedServer(silent) as server, adapter_for(server, timeouts=Timeouts(first_byte=0.2)) as adapter:
        error = await failure(adapter)
        await server.disconnected()
    assert isinstance(error, ProviderTimeoutError)
    assert (error.kind, error.retryable) == ("timeout", False)
    assert "first_byte" in str(error)


@pytest.mark.row("B15", "A25")
async def test_stall_in_the_middle_fails_with_what_had_come() -> None:
    script = Reply([*BEGUN, HANG])
    async with ScriptedServer(script) as server, adapter_for(server, timeouts=Timeouts(between_events=0.2)) as adapter:
        events = await collect(adapter)
        await server.disconnected()
    last = events[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, StreamInterrupted)
    assert last.error.kind == "timeout"
    assert last.partial.text == "Hel"
    assert "between_events" in str(last.error)


@pytest.mark.row("sse_comments")
async def test_comments_keep_a_silent_stream_alive() -> None:
    async with ScriptedServer(Reply([BEGUN[1], *[0.15, b": ping\n\n"] * 3, *chat_events("lo")[1:]])) as server:
        async with adapter_for(server, timeouts=Timeouts(first_byte=5, between_events=0.3)) as adapter:
            events = await collect(adapter)
    assert isinstance(events[-1], Done)
    assert events[-1].response.text == "Hello"


async def test_silence_after_the_finish_reason_is_the_end() -> None:
    finished = [*chat_events("Hello")[:-1], HANG]
    async with ScriptedServer(Reply(finished)) as server:
        async with adapter_for(server, timeouts=Timeouts(between_events=0.2)) as adapter:
            events = await collect(adapter)
    assert isinstance(events[-1], Done)
    assert events[-1].response.text == "Hello"


async def test_time_that_the_consumer_takes_does_not_count() -> None:
    async with ScriptedServer(Reply(chat_events("a", "b", "c"))) as server:
        async with adapter_for(server, timeouts=Timeouts(first_byte=5, between_events=0.1)) as adapter:
            events: list[Event] = []
            async for event in adapter.stream(HI):
                events.append(event)
                await asyncio.sleep(0.15)
    assert isinstance(events[-1], Done)


# ---- breaks


@pytest.mark.row("eof_truncated", "E11")
@pytest.mark.parametrize("ending", [RESET, None], ids=["reset", "closed early"])
async def test_broken_connection_fails_with_what_had_come(ending: Any) -> None:
    steps = [*BEGUN, 0.05, RESET] if ending else BEGUN
    async with ScriptedServer(Reply(steps, chunked=bool(ending))) as server, adapter_for(server) as adapter:
        events = await collect(adapter)
    last = events[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, StreamInterrupted)
    assert last.error.kind == "stream_truncated"
    assert last.partial.text == "Hel"
    if ending:
        assert last.error.__cause__ is not None


async def test_chunked_body_without_its_end_is_a_cut() -> None:
    async def close_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%s\r\n" % (len(BEGUN[1]), BEGUN[1]))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(close_early, "127.0.0.1", 0)
    async with server, OpenAIAdapter("m", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as adapter:
        assert (await failure(adapter)).kind == "stream_truncated"


async def test_server_that_hangs_up_without_an_answer_is_a_connection_error() -> None:
    async with ScriptedServer(lambda _: Reply([RESET], headers={})) as server:
        server_error = None
        async with adapter_for(server) as adapter:
            server_error = await failure(adapter)
    assert server_error.retryable


@pytest.mark.row("A29", "D9")
async def test_nobody_listening_is_said_in_one_line() -> None:
    async with ScriptedServer(Reply()) as server:
        address = server.url
    async with OpenAIAdapter("m", address) as adapter:
        error = await failure(adapter)
        with pytest.raises(ProviderConnectionError):
            await adapter.invoke(HI)
    assert isinstance(error, ProviderConnectionError)
    assert (error.kind, error.retryable) == ("connection", True)
    assert "is the server running?" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("size", ["line", "response"])
async def test_ten_megabytes_in_a_line_are_refused(size: str) -> None:
    megabyte = b"x" * (1 << 20)
    body = (
        [b'data: {"choices": [{"delta": {"content": "', *[megabyte] * 10]
        if size == "line"
        else [b"{", *[megabyte] * 10]
    )
    async with ScriptedServer(Reply([*body, HANG])) as server, adapter_for(server) as adapter:
        error = await failure(adapter)
    assert error.kind == "invalid_response"
    assert "too much" in str(error)


async def test_endless_error_body_is_cut() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 500 Oops\r\nConnection: close\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(endless, "127.0.0.1", 0)
    async with server, OpenAIAdapter("m", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as adapter:
        error = await failure(adapter)
    assert error.kind == "server_error"
    assert len(error.body or "") <= 4000


@pytest.mark.row("A32")
async def test_redirects_are_not_followed_and_named() -> None:
    async with ScriptedServer(Reply.json({}), Reply.json({})) as other:
        redirect = Reply(status=307, headers={"Location": f"{other.url}/chat/completions"})
        async with ScriptedServer(redirect) as server, adapter_for(server, api_key="sk-secret") as adapter:
            error = await failure(adapter)
        assert other.requests == []
    assert other.url in str(error)
    assert "redirect" in str(error)


async def test_connection_that_the_server_closed_after_its_last_answer_is_replaced() -> None:
    """llama.cpp promises to keep a connection alive, and closes it right after the end of each stream."""

    async def answer_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split()[0]))
        body = b"".join(chat_events("ok"))
        writer.write(b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(answer_and_close, "127.0.0.1", 0)
    async with server, OpenAIAdapter("m", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as adapter:
        for _ in range(20):
            assert [event.type for event in await collect(adapter)] == ["text", "done"]


async def test_request_that_fails_on_a_new_connection_is_not_sent_again() -> None:
    async with ScriptedServer(lambda _: Reply([RESET], headers={})) as server, adapter_for(server) as adapter:
        await failure(adapter)
        assert len(server.requests) == 1


# ---- stopping


async def _break(adapter: BaseAdapter, _: ScriptedServer) -> float:
    async for event in adapter.stream(HI):
        if isinstance(event, TextDelta):
            break
    return time.monotonic()


async def _cancel(adapter: BaseAdapter, server: ScriptedServer) -> float:
    task = asyncio.create_task(collect(adapter))
    await server.received()
    await asyncio.sleep(0.05)
    now = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return now


async def _close_from_another_task(adapter: BaseAdapter, server: ScriptedServer) -> float:
    stream = adapter.stream(HI)

    async def read() -> list[Event]:
        return [event async for event in stream]

    task = asyncio.create_task(read())
    await server.received()
    await asyncio.sleep(0.05)
    now = time.monotonic()
    await stream.aclose()
    events = await task
    assert task.cancelling() == 0
    assert isinstance(events[-1], Failed)
    assert events[-1].error.kind == "aborted"
    return now


async def _close_the_adapter(adapter: BaseAdapter, server: ScriptedServer) -> float:
    task = asyncio.create_task(adapter.invoke(HI))
    await server.received()
    await asyncio.sleep(0.05)
    now = time.monotonic()
    await adapter.aclose()
    with pytest.raises(StreamInterrupted):
        await task
    return now


async def _raise(adapter: BaseAdapter, _: ScriptedServer) -> float:
    now = 0.0
    with pytest.raises(ZeroDivisionError):
        async for event in adapter.stream(HI):
            if isinstance(event, TextDelta):
                now = time.monotonic()
                raise ZeroDivisionError
    return now


async def _leave_the_block(adapter: BaseAdapter, _: ScriptedServer) -> float:
    async with adapter.stream(HI) as stream:
        await anext(stream)
        now = time.monotonic()
    return now


@pytest.mark.row("B13", "A15", "D12")
@pytest.mark.parametrize(
    "stop", [_break, _cancel, _close_from_another_task, _close_the_adapter, _raise, _leave_the_block]
)
async def test_stopping_reaches_the_server_within_100_ms(stop: Callable[..., Any]) -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG])) as server, adapter_for(server) as adapter:
        stopped = await stop(adapter, server)
        gone = await asyncio.wait_for(server.disconnected(), 5)
    assert gone - stopped < SOON


@pytest.mark.row("B13")
async def test_stopping_while_the_server_is_silent_drops_the_connection() -> None:
    async with ScriptedServer(Reply([HANG])) as server, adapter_for(server) as adapter:
        stopped = await _cancel(adapter, server)
        assert await asyncio.wait_for(server.disconnected(), 5) - stopped < SOON


async def test_stopping_while_waiting_for_a_retry_ends_at_once() -> None:
    busy = Reply.json({"error": {"message": "busy"}}, 503, retry_after="30")
    async with ScriptedServer(busy) as server, adapter_for(server, retry=RetryConfig()) as adapter:
        stream = adapter.stream(HI)
        assert isinstance(await anext(stream), Retry)
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(0.01)
        await stream.aclose()
        last = await waiting
    assert isinstance(last, Failed)
    assert last.error.kind == "aborted"


async def test_cancellation_stays_one_when_the_stream_is_closed_at_the_same_time() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG])) as server, adapter_for(server) as adapter:
        stream = adapter.stream(HI)

        async def read() -> None:
            async for _ in stream:
                pass

        task = asyncio.create_task(read())
        await server.received()
        await asyncio.sleep(0.05)
        task.cancel()
        await stream.aclose()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_forgotten_stream_closes_its_connection() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG])) as server, adapter_for(server) as adapter:
        stream = adapter.stream(HI)
        await anext(stream)
        gone = weakref.ref(stream)
        del stream
        gc.collect()
        assert gone() is None
        await asyncio.wait_for(server.disconnected(), 5)


async def test_closed_stream_gives_no_more_events() -> None:
    async with ScriptedServer(Reply(chat_events("a", "b"))) as server, adapter_for(server) as adapter:
        stream = adapter.stream(HI)
        await anext(stream)
        await stream.aclose()
        await stream.aclose()
        assert [event async for event in stream] == []


# ---- many at once


@pytest.mark.row("D12")
async def test_500_streams_at_once_on_one_adapter_do_not_mix() -> None:
    def echo(request: Received) -> Reply:
        word = request.json["messages"][0]["content"]
        return Reply([step for text in chat_events(word, *["-" + word] * 5) for step in (text, 0.001)])

    async def ask(adapter: BaseAdapter, number: int) -> str | None:
        events = [event async for event in adapter.stream([Message("user", f"<{number}>")])]
        assert isinstance(events[-1], Done)
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == events[-1].response.text
        return events[-1].response.text

    async with ScriptedServer(echo) as server, adapter_for(server) as adapter:
        answers = await asyncio.gather(*(ask(adapter, number) for number in range(500)))
    assert answers == [f"<{number}>" + f"-<{number}>" * 5 for number in range(500)]


async def test_finished_streams_leave_their_connection_to_the_next() -> None:
    async with ScriptedServer(Reply(chat_events("a"))) as server, adapter_for(server) as adapter:
        for _ in range(5):
            await collect(adapter)
        assert server.connections == 1


async def test_body_of_megabytes_arrives_whole_and_warns_of_nothing() -> None:
    """A photograph has that size; aiohttp warns of so many bytes in one piece, which here would be an error."""
    async with ScriptedServer(Reply(chat_events("a"))) as server, adapter_for(server) as adapter:
        await adapter.invoke([Message("user", "é" * 2_000_000)])
        assert server.requests[0].json["messages"][0]["content"] == "é" * 2_000_000
        assert server.requests[0].headers["content-length"] == str(len(server.requests[0].body))


async def test_stream_that_is_left_at_its_end_leaves_its_connection_to_the_next() -> None:
    """Servers write the end of the body a moment after the end of the answer; a reader who has that may go."""
    gates = [asyncio.Event() for _ in range(3)]
    replies = [Reply([*chat_events("a"), gate]) for gate in gates]
    async with ScriptedServer(*replies) as server, adapter_for(server) as adapter:
        for gate in gates:
            assert (await adapter.invoke(HI)).text == "a"
            gate.set()
            await asyncio.gather(*adapter._transport._draining)
        assert server.connections == 1
        assert server.disconnects == []


async def test_server_that_does_not_end_the_body_is_not_waited_for() -> None:
    async with ScriptedServer(Reply([*chat_events("a"), HANG])) as server, adapter_for(server) as adapter:
        started = time.monotonic()
        await adapter.invoke(HI)
        await adapter.invoke(HI)
        assert server.connections == 2
        await adapter.aclose()
        await server.disconnected(2)
        assert time.monotonic() - started < 1


async def test_no_task_is_left_behind() -> None:
    async with ScriptedServer(Reply([*BEGUN, HANG])) as server, adapter_for(server) as adapter:
        await _break(adapter, server)
        await server.disconnected()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.row("A16")
def test_one_adapter_serves_several_event_loops() -> None:
    adapter = OpenAIAdapter("m", "http://127.0.0.1:1")

    async def once() -> None:
        async with ScriptedServer(Reply(chat_events("a"))) as server:
            adapter = OpenAIAdapter("m", server.url)
            async with adapter:
                await collect(adapter)
            async with adapter:
                await collect(adapter)

    asyncio.run(once())
    asyncio.run(once())
    assert adapter.model == "m"


# ---- retries


@pytest.fixture
def no_jitter() -> RetryConfig:
    return RetryConfig(max_attempts=3, base_delay_ms=10, jitter=False)


@pytest.mark.row("B14")
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_failures_that_pass_are_tried_again_and_shown(status: int, no_jitter: RetryConfig) -> None:
    fails = Reply.json({"error": {"message": "later"}}, status)
    async with ScriptedServer(fails, fails, Reply(chat_events("ok"))) as server:
        async with adapter_for(server, retry=no_jitter) as adapter:
            events = await collect(adapter)
    assert [type(event) for event in events] == [Retry, Retry, TextDelta, Done]
    retries = [event for event in events if isinstance(event, Retry)]
    assert [(event.attempt, event.delay_s) for event in retries] == [(2, 0.01), (3, 0.02)]


@pytest.mark.row("B14")
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
async def test_failures_that_stay_are_not_tried_again(status: int, no_jitter: RetryConfig) -> None:
    async with ScriptedServer(Reply.json({"error": {"message": "no"}}, status)) as server:
        async with adapter_for(server, retry=no_jitter) as adapter:
            error = await failure(adapter)
        assert len(server.requests) == 1
    assert not error.retryable
    assert error.status_code == status


@pytest.mark.row("B14")
async def test_first_byte_timeouts_are_not_tried_again(no_jitter: RetryConfig) -> None:
    async with ScriptedServer(Reply([HANG])) as server:
        async with adapter_for(server, retry=no_jitter, timeouts=Timeouts(first_byte=0.1)) as adapter:
            await failure(adapter)
        assert len(server.requests) == 1


@pytest.mark.row("B14")
async def test_nothing_is_tried_again_once_something_was_shown(no_jitter: RetryConfig) -> None:
    async with ScriptedServer(Reply(BEGUN, chunked=False)) as server, adapter_for(server, retry=no_jitter) as adapter:
        await failure(adapter)
        assert len(server.requests) == 1


@pytest.mark.row("B14")
async def test_error_inside_a_stream_is_tried_again_if_nothing_was_shown(no_jitter: RetryConfig) -> None:
    broken = Reply([b'data: {"error": {"message": "shard died", "code": 500}}\n\n'])
    async with (
        ScriptedServer(broken, Reply(chat_events("ok"))) as server,
        adapter_for(server, retry=no_jitter) as adapter,
    ):
        events = await collect(adapter)
    assert [type(event) for event in events] == [Retry, TextDelta, Done]


@pytest.mark.row("B14", "http_429")
async def test_retry_after_is_obeyed(no_jitter: RetryConfig) -> None:
    limited = Reply.json({"error": {"message": "slow down"}}, 429, retry_after="0.05")
    async with ScriptedServer(limited, Reply(chat_events("ok"))) as server:
        async with adapter_for(server, retry=no_jitter) as adapter:
            events = await collect(adapter)
        first, second = server.requests
    assert isinstance(events[0], Retry)
    assert events[0].delay_s == 0.05
    assert events[0].error.kind == "rate_limit"
    assert second.at - first.at >= 0.05


@pytest.mark.row("B14")
async def test_retry_after_of_more_than_a_minute_is_left_to_the_program(no_jitter: RetryConfig) -> None:
    limited = Reply.json({"error": {"message": "slow down"}}, 429, retry_after="3600")
    async with ScriptedServer(limited) as server, adapter_for(server, retry=no_jitter) as adapter:
        error = await failure(adapter)
    assert error.retry_after == 3600


@pytest.mark.row("E2", "http_503_loading")
async def test_server_that_loads_its_model_is_waited_for() -> None:
    loading = Reply.json({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503)
    async with ScriptedServer(loading, loading, Reply(chat_events("ok"))) as server, adapter_for(server) as adapter:
        events = await collect(adapter)
    assert [type(event) for event in events] == [ModelState, ModelState, TextDelta, Done]
    assert [event.state for event in events if isinstance(event, ModelState)] == ["loading", "generating"]


@pytest.mark.row("E2")
async def test_prefill_progress_is_shown_before_generating() -> None:
    progress = [
        b'data: {"choices": [{"delta": {}}], "prompt_progress": {"total": 200, "processed": %d}}\n\n' % done
        for done in (50, 200)
    ]
    async with ScriptedServer(Reply([*progress, *chat_events("ok")])) as server, adapter_for(server) as adapter:
        events = await collect(adapter)
    states = [(event.state, event.progress) for event in events if isinstance(event, ModelState)]
    assert states == [("prefill", 0.25), ("prefill", 1.0), ("generating", None)]


# ---- parameters that a server refuses


@pytest.mark.row("req_stream_options", "D8")
async def test_refused_parameter_is_left_out_once_and_remembered() -> None:
    def strict(request: Received) -> Reply:
        if "stream_options" in request.json:
            return Reply.json({"error": {"message": "Unrecognized request argument: stream_options"}}, 400)
        return Reply(chat_events("ok"))

    async with ScriptedServer(strict) as server, adapter_for(server) as adapter:
        events = await collect(adapter)
        assert isinstance(events[0], Notice)
        assert events[0].kind == "parameter_refused"
        assert "stream_options" in events[0].message
        assert isinstance(events[-1], Done)
        await collect(adapter)
        assert len(server.requests) == 3


@pytest.mark.row("req_max_tokens")
async def test_refused_max_tokens_is_renamed() -> None:
    def modern(request: Received) -> Reply:
        if "max_tokens" in request.json:
            message = (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
            )
            return Reply.json({"error": {"message": message, "param": "max_tokens"}}, 400)
        return Reply(chat_events("ok"))

    async with ScriptedServer(modern) as server, adapter_for(server) as adapter:
        await collect(adapter, max_tokens=7)
        assert server.requests[1].json["max_completion_tokens"] == 7


@pytest.mark.row("req_think_unsupported")
async def test_thinking_is_dropped_for_a_model_that_cannot() -> None:
    def plain(request: Received) -> Reply:
        if "think" in request.json:
            return Reply.json({"error": '"llama3" does not support thinking'}, 400)
        return Reply([b'{"message": {"content": "ok"}, "done": true, "done_reason": "stop"}\n'])

    async with ScriptedServer(plain) as server, OllamaAdapter("llama3", server.address) as adapter:
        events = await collect(adapter, thinking=True)
    assert [event.type for event in events] == ["notice", "text", "done"]


@pytest.mark.row("req_schema_ref")
async def test_schema_that_the_server_cannot_read_is_simplified() -> None:
    color = {"type": "string", "pattern": "^#"}
    schema = {"type": "object", "properties": {"c": {"$ref": "#/$defs/color"}}, "$defs": {"color": color}, "not": {}}

    def picky(request: Received) -> Reply:
        if "pattern" in json.dumps(request.json):
            return Reply.json({"error": {"message": "failed to parse grammar"}}, 400)
        return Reply(chat_events("ok"))

    async with ScriptedServer(picky) as server, adapter_for(server) as adapter:
        events = [event async for event in adapter.stream(HI, [ToolSpec("paint", "Paints", schema)])]
        sent = server.requests[1].json["tools"][0]["function"]["parameters"]
    assert [event.type for event in events] == ["notice", "text", "done"]
    assert sent == {"type": "object", "properties": {"c": {"type": "string"}}}


@pytest.mark.row("req_tool_choice")
async def test_demanded_call_that_does_not_come_is_noticed() -> None:
    async with ScriptedServer(Reply(chat_events("no"))) as server, adapter_for(server) as adapter:
        tool = ToolSpec("paint", "Paints", {"type": "object", "properties": {}})
        events = [event async for event in adapter.stream(HI, [tool], tool_choice="required")]
    assert [event.kind for event in events if isinstance(event, Notice)] == ["required_call_missing"]


@pytest.mark.parametrize("message", ["temperature must be between 0 and 2", "the field messages is not supported"])
async def test_other_complaints_change_nothing(message: str) -> None:
    async with ScriptedServer(Reply.json({"error": {"message": message}}, 400)) as server:
        async with adapter_for(server) as adapter:
            error = await failure(adapter, temperature=5)
        assert len(server.requests) == 1
    assert error.kind == "invalid_request"


async def test_server_that_refuses_everything_is_not_asked_for_ever() -> None:
    def stubborn(request: Received) -> Reply:
        names = ", ".join(request.json)
        return Reply.json({"error": {"message": f"Unsupported parameters: {names}"}}, 400)

    async with ScriptedServer(stubborn) as server, adapter_for(server) as adapter:
        await failure(adapter, temperature=1, top_p=1, seed=1, max_tokens=5)
        assert len(server.requests) < 12


# ---- keys and headers


@pytest.mark.row("D14", "C4")
async def test_key_is_sent_and_never_repeated() -> None:
    def leaky(request: Received) -> Reply:
        return Reply.json({"error": {"message": f"Incorrect API key: {request.headers['authorization']}"}}, 401)

    async with ScriptedServer(leaky) as server, adapter_for(server, api_key="sk-very-secret") as adapter:
        error = await failure(adapter)
        assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret"
        assert "sk-very" not in repr(adapter)
    assert isinstance(error, ProviderAuthError)
    assert "check the API key" in str(error)
    assert "sk-very-secret" not in f"{error!r} {error} {error.body} {error.message}"


@pytest.mark.row("D14")
async def test_without_a_key_nothing_of_the_kind_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    async with ScriptedServer(Reply(chat_events("ok"))) as server, adapter_for(server) as adapter:
        await collect(adapter)
        headers = server.requests[0].headers
    assert "authorization" not in headers
    assert not [name for name in headers if name.startswith(("x-stainless", "openai-"))]
    assert headers["accept-encoding"] == "identity"


async def test_anthropic_key_travels_in_its_own_header() -> None:
    async with ScriptedServer(Reply([], headers={})) as server:
        async with AnthropicAdapter("m", server.address, api_key="sk-ant", profile="anthropic") as adapter:
            await collect(adapter)
        headers = server.requests[0].headers
    assert headers["x-api-key"] == "sk-ant"
    assert headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in headers


@pytest.mark.row("A32")
async def test_proxy_of_the_environment_does_not_capture_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with ScriptedServer(Reply(chat_events("ok"))) as server, adapter_for(server) as adapter:
        assert isinstance((await collect(adapter))[-1], Done)


@pytest.mark.row("A32")
async def test_proxy_of_the_environment_is_used_for_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedServer(Reply(chat_events("ok"))) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        async with OpenAIAdapter("m", "http://models.example/v1") as adapter:
            assert isinstance((await collect(adapter))[-1], Done)
        assert proxy.requests[0].path == "http://models.example/v1/chat/completions"


@pytest.mark.row("A32")
async def test_certificate_authority_of_the_environment_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "server.pem")
    async with ScriptedServer(Reply(chat_events("ok")), tls=context) as server:
        async with OpenAIAdapter("m", server.url) as stranger:
            error = await failure(stranger)
        assert error.kind == "connection"
        assert "SSL_CERT_FILE" in str(error)
        monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "ca.pem"))
        async with OpenAIAdapter("m", server.url) as adapter:
            assert isinstance((await collect(adapter))[-1], Done)


@pytest.mark.row("A32")
async def test_own_client_brings_its_address_and_key_and_stays_open() -> None:
    from openai import AsyncOpenAI

    async with ScriptedServer(Reply(chat_events("ok"))) as server:
        client = AsyncOpenAI(base_url=f"{server.address}/special/v2", api_key="sk-own")
        async with OpenAIAdapter("m", "http://elsewhere.invalid", client=client) as adapter:
            assert isinstance((await collect(adapter))[-1], Done)
        assert server.requests[0].path == "/special/v2/chat/completions"
        assert server.requests[0].headers["authorization"] == "Bearer sk-own"
        assert not client.is_closed()
        await client.close()


async def test_own_client_drops_the_connection_too() -> None:
    from openai import AsyncOpenAI

    async with ScriptedServer(Reply([*BEGUN, HANG])) as server:
        async with AsyncOpenAI(base_url=server.url, api_key="x") as client:
            adapter = OpenAIAdapter("m", client=client)
            for stop in (_break, _cancel, _close_from_another_task):
                count = len(server.disconnects) + 1
                stopped = await stop(adapter, server)
                assert await asyncio.wait_for(server.disconnected(count), 5) - stopped < SOON


@pytest.mark.row("A32")
@pytest.mark.parametrize(
    ("adapter", "base", "path"),
    [
        (OpenAIAdapter, "", "/v1/chat/completions"),
        (OpenAIAdapter, "/", "/v1/chat/completions"),
        (OpenAIAdapter, "/v1", "/v1/chat/completions"),
        (OpenAIAdapter, "/v1/", "/v1/chat/completions"),
        (OpenAIAdapter, "/api/v2", "/api/v2/chat/completions"),
        (OllamaAdapter, "", "/api/chat"),
        (OllamaAdapter, "/api/", "/api/chat"),
        (AnthropicAdapter, "", "/v1/messages"),
        (ResponsesAdapter, "/", "/v1/responses"),
    ],
)
async def test_address_may_or_may_not_have_a_path(adapter: type[BaseAdapter], base: str, path: str) -> None:
    async with ScriptedServer(Reply([], headers={})) as server, adapter("m", server.address + base) as made:
        await collect(made)
        assert server.requests[0].path == path


# ---- what else may answer


@pytest.mark.row("A29", "html_body")
@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (
            Reply([b"<html><title>Open WebUI</title>"], headers={"Content-Type": "text/html"}),
            "invalid_response",
            "base_url",
        ),
        (Reply([], headers={}), "stream_truncated", "base_url"),
        (Reply([b"hello there"], headers={"Content-Type": "text/plain"}), "invalid_response", "base_url"),
        (Reply.json({"error": {"message": "The model `x` does not exist"}}, 404), "model_not_found", "list_models"),
        (Reply.json({"detail": "Not Found"}, 404), "invalid_request", "404"),
        (Reply([b"File Not Found"], 404, {}), "invalid_request", "404"),
    ],
    ids=["html", "empty", "text", "unknown model", "unknown path", "plain 404"],
)
async def test_whatever_else_answers_is_said_clearly(reply: Reply, kind: str, says: str) -> None:
    async with ScriptedServer(reply) as server, adapter_for(server) as adapter:
        error = await failure(adapter)
        with pytest.raises(type(error)):
            await adapter.invoke(HI)
    assert error.kind == kind
    assert says in str(error)


async def test_port_that_does_not_speak_http_is_said_clearly() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server, OpenAIAdapter("m", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as adapter:
        error = await failure(adapter)
    assert error.kind == "connection"
    assert "does not speak HTTP" in str(error)


async def test_unknown_host_is_said_clearly() -> None:
    async with OpenAIAdapter("m", "http://no-such-host.invalid/v1") as adapter:
        error = await failure(adapter)
    assert error.kind == "connection"
    assert "not known" in str(error)
    assert not error.retryable


async def test_overflow_tells_the_size_of_the_window() -> None:
    body = {
        "error": {"code": 400, "message": "exceeds the available context size", "n_prompt_tokens": 900, "n_ctx": 512}
    }
    async with ScriptedServer(Reply.json(body, 400)) as server, adapter_for(server) as adapter:
        error = await failure(adapter)
    assert isinstance(error, ContextLengthExceeded)
    assert isinstance(error, ProviderAPIError)
    assert error.details == {"n_prompt_tokens": 900, "n_ctx": 512}
    assert "shorten the conversation" in str(error)


async def test_logging_shows_no_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with ScriptedServer(Reply(chat_events("ok"))) as server, adapter_for(server, api_key="sk-secret") as adapter:
        await collect(adapter)
    assert "sk-secret" not in caplog.text


async def test_many_texts_arrive_while_the_server_still_sends() -> None:
    gate = asyncio.Event()
    async with ScriptedServer(Reply([*BEGUN, gate, *chat_events("lo")[1:]])) as server, adapter_for(server) as adapter:
        stream: AsyncIterator[Event] = adapter.stream(HI)
        assert (await anext(stream)).type == "text"
        gate.set()
        assert [event.type async for event in stream] == ["text", "done"]


async def test_request_is_json_without_nulls() -> None:
    async with ScriptedServer(Reply(chat_events("ok"))) as server, adapter_for(server) as adapter:
        await collect(adapter, temperature=0, max_tokens=None, stop="END", top_k=5)
        body = server.requests[0].json
    assert body["stop"] == ["END"]
    assert body["top_k"] == 5
    assert "max_tokens" not in body
    assert "null" not in json.dumps(body)
