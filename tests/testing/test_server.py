"""The scripted server: it does on a socket what a test says, and tells what it saw."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from any_agent.testing import HANG, RESET, Received, Reply, ScriptedServer, chat_events, sse


async def ask(server: ScriptedServer, body: bytes = b"{}", *, until: bytes = b"") -> bytes:
    """What the server answers to a plain request, until it hangs up or `until` has come."""
    reader, writer = await asyncio.open_connection(*server.address.removeprefix("http://").split(":"))
    head = f"POST /v1/chat HTTP/1.1\r\nHost: x\r\nX-Mine: yes\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    try:
        return await (reader.readuntil(until) if until else reader.read())
    finally:
        writer.close()


def whole(*steps: bytes | float | asyncio.Event) -> Reply:
    """A reply that ends with its connection."""
    return Reply(steps, chunked=False)


async def test_replies_come_in_order_and_the_last_one_is_repeated() -> None:
    async with ScriptedServer(whole(b"one"), whole(b"two")) as server:
        bodies = [(await ask(server)).partition(b"\r\n\r\n")[2] for _ in range(3)]
    assert bodies == [b"one", b"two", b"two"]
    assert server.connections == 3


async def test_function_sees_the_request_and_chooses_the_reply() -> None:
    def answer(request: Received) -> Reply:
        return whole(f"{request.method} {request.path} {request.headers['x-mine']} {request.json['n']}".encode())

    async with ScriptedServer(answer) as server:
        assert (await ask(server, b'{"n": 5}')).endswith(b"POST /v1/chat yes 5")
        assert [request.json for request in server.requests] == [{"n": 5}]


async def test_what_a_function_raises_is_raised_at_the_end_of_the_block() -> None:
    def answer(request: Received) -> Reply:
        assert request.json["n"] == 6, "the wrong question"
        return whole()

    with pytest.raises(AssertionError, match="the wrong question"):
        async with ScriptedServer(answer) as server:
            assert await ask(server, b'{"n": 5}') == b""


async def test_steps_are_bytes_seconds_and_events() -> None:
    gate = asyncio.Event()
    async with ScriptedServer(whole(b"a", 0.05, b"b", gate, b"c")) as server:
        started = time.monotonic()
        asking = asyncio.create_task(ask(server))
        await server.received()
        await asyncio.sleep(0.1)
        assert not asking.done()
        gate.set()
        assert (await asking).endswith(b"abc")
        assert time.monotonic() - started >= 0.05


async def test_hanging_is_noticed_when_the_client_goes() -> None:
    async with ScriptedServer(Reply([b"begun", HANG])) as server:
        await ask(server, until=b"begun")
        before = time.monotonic()
        assert await asyncio.wait_for(server.disconnected(), 5) <= time.monotonic()
        assert before - 1 < server.disconnects[0]


async def test_reset_breaks_the_connection() -> None:
    async with ScriptedServer(Reply([b"begun", RESET])) as server:
        with pytest.raises(ConnectionResetError):
            await ask(server)
        assert server.disconnects == []


async def test_connection_serves_again_after_a_chunked_reply() -> None:
    async with ScriptedServer(Reply([b"a", b"", b"b"])) as server:
        assert (await ask(server, until=b"0\r\n\r\n")).endswith(b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n")


async def test_json_replies_have_a_status_and_headers() -> None:
    reply = Reply.json({"error": "busy"}, 503, retry_after="2")
    reply.chunked = False
    async with ScriptedServer(reply) as server:
        head, _, body = (await ask(server)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 2" in head
    assert json.loads(body) == {"error": "busy"}


def test_a_stream_is_written_with_its_calls_its_reason_and_its_usage() -> None:
    call = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
    events = chat_events("Hi", tool_calls=[call], finish="tool_calls", usage={"prompt_tokens": 1})
    payloads = [json.loads(event.removeprefix(b"data: ")) for event in events[:-1]]
    assert events[-1:] == sse() == [b"data: [DONE]\n\n"]
    deltas = [choice["delta"] for payload in payloads for choice in payload["choices"]]
    assert deltas[1] == {"content": "Hi"}
    assert deltas[2]["tool_calls"] == [{"index": 0, "type": "function", **call}]
    assert payloads[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert payloads[-1]["usage"] == {"prompt_tokens": 1}
