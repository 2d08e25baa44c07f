"""The least that a program can do: a bare socket, chunks and events split by hand, decoded into two structs.

Like every peer it gives each piece of text to a consumer that awaits it. Collecting the text in the socket's
callback would cost less still, but no program could read it as it comes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import msgspec

READ = 64 * 1024


class Delta(msgspec.Struct, gc=False):
    content: str | None = None


class Choice(msgspec.Struct, gc=False):
    delta: Delta


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice]


decode = msgspec.json.Decoder(Chunk).decode


def text_of(events: list[bytes]) -> list[str]:
    """What these server-sent events say."""
    chunks = [decode(event[6:]) for event in events if event != b"data: [DONE]"]
    return [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content is not None]


def dechunk(data: bytes) -> tuple[int, bytes, bool]:
    """Where the whole HTTP chunks in `data` end, their content, and whether the last one is among them."""
    body: list[bytes] = []
    position = 0
    while (line_end := data.find(b"\r\n", position)) >= 0:
        start = line_end + 2
        end = start + int(data[position:line_end], 16)
        if len(data) < end + 2:
            break
        position = end + 2
        if start == end:
            return position, b"".join(body), True
        body.append(data[start:end])
    return position, b"".join(body), False


class Connection:
    """A keep-alive connection that carries one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def pieces(self, request: bytes) -> AsyncIterator[str]:
        self.writer.write(request)
        await self.reader.readuntil(b"\r\n\r\n")
        unread = unfinished = b""
        complete = False
        while not complete:
            unread += await self.reader.read(READ)
            end, body, complete = dechunk(unread)
            unread = unread[end:]
            *events, unfinished = (unfinished + body).split(b"\n\n")
            for text in text_of(events):
                yield text


async def connect(base_url: str, model: str) -> Callable[[], Awaitable[int]]:
    url = urlsplit(base_url)
    body = msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True})
    head = (
        f"POST {url.path}/chat/completions HTTP/1.1\r\nHost: {url.netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    idle: list[Connection] = []

    async def stream() -> int:
        if not idle:
            idle.append(Connection(*await asyncio.open_connection(url.hostname, url.port)))
        connection = idle.pop()
        text = [piece async for piece in connection.pieces(request)]
        idle.append(connection)
        return len("".join(text))

    return stream
