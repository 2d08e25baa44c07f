"""A server that costs next to nothing: it streams prepared bytes in the shapes of llama.cpp's chat completions.

The name of the model tells what to stream, and after how many calls of a tool: those that a request holds results of,
since the user last said something, have been made. What `stamps` say is when each was sent.

Started by run.py. It prints the port that the system gave it, and lives until its standard input is closed.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator
from functools import cache
from itertools import cycle, islice, takewhile
from random import random
from typing import Any

from work import WORDS

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
MODEL = re.compile(rb'"model": ?"(words|stamps)-(\d+)-(\d+)-(\d+)"')
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
    """One server-sent event in an HTTP chunk of its own."""
    reply = {
        "choices": choices,
        "created": 1790000000,
        "id": "chatcmpl-0rTbPXeuXvUXGkTaCAtYSLMSRDH3fYbm",
        "model": "words",
        "system_fingerprint": "b9999-0123456",
        "object": "chat.completion.chunk",
        **more,
    }
    return http_chunk(b"data: %b\n\n" % json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode())


def choice(delta: dict[str, Any], finish_reason: str | None = None) -> list[dict[str, Any]]:
    return [{"finish_reason": finish_reason, "index": 0, "delta": delta}]


FIRST = event(choice({"role": "assistant", "content": None}))
DELTAS = [event(choice({"content": word})) for word in WORDS]


@cache
def last(tokens: int, finish_reason: str = "stop") -> bytes:
    usage = {"completion_tokens": tokens, "prompt_tokens": 9, "total_tokens": tokens + 9}
    end = http_chunk(b"data: [DONE]\n\n") + http_chunk(b"")
    return event(choice({}, finish_reason)) + event([], usage=usage) + end


@cache
def whole(deltas: int) -> bytes:
    return b"".join([HEAD, FIRST, *islice(cycle(DELTAS), deltas), last(deltas)])


@cache
def call(number: int) -> bytes:
    """The reply that calls `add` for the number-th time, with arguments that it has not had before."""
    begin = {"id": f"{number:032}", "type": "function", "function": {"name": "add", "arguments": "{"}}
    tokens = ('"', "a", '":', " ", str(number), ",", ' "', "b", '":', " ", "1", "}")
    pieces: list[dict[str, Any]] = [begin, *({"function": {"arguments": token}} for token in tokens)]
    events = [event(choice({"tool_calls": [{"index": 0, **piece}]})) for piece in pieces]
    return b"".join([HEAD, FIRST, *events, last(len(events), "tool_calls")])


def results(body: bytes) -> int:
    """How many results of tools came since the last prompt; what one SDK sends after each of them is none."""
    messages = reversed(json.loads(body)["messages"])
    since = takewhile(lambda message: message["role"] != "user" or not message["content"], messages)
    return sum(message["role"] == "tool" for message in since)


def stamps() -> Iterator[bytes]:
    """Words that tell the time: all processes of a machine have the same clock."""
    while True:
        yield event(choice({"content": f"{time.monotonic():.4f} "}))


class Connection(asyncio.Protocol):
    """Answers the requests of one client, one after the other. asyncio has set TCP_NODELAY."""

    transport: asyncio.Transport
    received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if end and len(body) >= (int(length[1]) if length else 0):
            self.received = b""
            self.answer(body)

    def answer(self, body: bytes) -> None:
        wanted = MODEL.search(body)
        if wanted is None:
            self.transport.write(NOT_FOUND)
            return
        deltas, pause, rounds = int(wanted[2]), int(wanted[3]) / 1000, int(wanted[4])
        if rounds and (made := results(body)) < rounds:
            self.transport.write(call(made + 1))
            return
        if not pause:
            self.transport.write(whole(deltas))
            return
        self.transport.write(HEAD + FIRST)
        phase = random() * pause  # so that many streams do not speak in chorus
        words = stamps() if wanted[1] == b"stamps" else cycle(DELTAS)
        asyncio.get_running_loop().call_later(pause + phase, self.say, deltas, words, deltas, pause)

    def say(self, left: int, words: Iterator[bytes], deltas: int, pause: float) -> None:
        if self.transport.is_closing():
            return
        if not left:
            self.transport.write(last(deltas))
            return
        self.transport.write(next(words))
        asyncio.get_running_loop().call_later(pause, self.say, left - 1, words, deltas, pause)


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
