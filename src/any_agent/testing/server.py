"""A scripted model server: it speaks HTTP on loopback, and does exactly what a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = ("HANG", "RESET", "Received", "Reply", "ScriptedServer", "Step", "chat_events", "sse")

#: a step that sends nothing more and keeps the connection until the client drops it
HANG: Literal["hang"] = "hang"
#: a step that resets the connection
RESET: Literal["reset"] = "reset"

#: bytes are sent, numbers are seconds to wait, an event is waited for
Step: TypeAlias = bytes | float | asyncio.Event | Literal["hang", "reset"]


def sse(*payloads: Any, done: bool = True) -> list[bytes]:
    """The payloads as server-sent events, each of its own, with `[DONE]` at the end.

    >>> sse({"a": 1})
    [b'data: {"a": 1}\\n\\n', b'data: [DONE]\\n\\n']
    """
    events = [b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n" for payload in payloads]
    return [*events, b"data: [DONE]\n\n"] if done else events


def chat_events(
    *texts: str,
    tool_calls: Iterable[dict[str, Any]] = (),
    finish: str | None = "stop",
    usage: dict[str, int] | None = None,
) -> list[bytes]:
    """A Chat Completions stream: one delta for each text, then the calls, the finish reason and the usage."""

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "scripted", "choices": [choice]}

    chunks = [chunk({"role": "assistant", "content": None}), *(chunk({"content": text}) for text in texts)]
    for index, call in enumerate(tool_calls):
        chunks.append(chunk({"tool_calls": [{"index": index, "type": "function", **call}]}))
    if finish is not None:
        chunks.append(chunk({}, finish))
    if usage is not None:
        chunks.append({"id": "chatcmpl-1", "model": "scripted", "choices": [], "usage": usage})
    return sse(*chunks)


@dataclass(slots=True)
class Reply:
    """What to answer to one request."""

    steps: Iterable[Step] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "text/event-stream"})
    #: without it the body ends where the connection does
    chunked: bool = True

    @classmethod
    def json(cls, payload: Any, status: int = 200, **headers: str) -> Reply:
        """A plain JSON reply; `retry_after="1"` becomes the header `retry-after`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls([json.dumps(payload).encode()], status, {"Content-Type": "application/json", **named})


@dataclass(slots=True)
class Received:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class ScriptedServer:
    """`async with ScriptedServer(Reply(...), Reply(...)) as server:` answers request after request.

    The last reply is repeated. A function in place of a reply is called with the request and returns one; what it
    raises is raised at the end of the block.
    """

    def __init__(self, *replies: Reply | Callable[[Received], Reply], tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Received] = []
        #: when clients went away before their reply was complete
        self.disconnects: list[float] = []
        self.connections = 0
        self._replies = replies
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._problem: Exception | None = None
        self._changed = asyncio.Condition()

    @property
    def address(self) -> str:
        """`http://127.0.0.1:PORT`, without a path."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """The address with `/v1`."""
        return f"{self.address}/v1"

    async def __aenter__(self) -> ScriptedServer:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=2048, ssl=self._tls)
        self._port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._problem is not None:
            raise self._problem

    async def disconnected(self, count: int = 1) -> float:
        """Wait until so many clients have gone away in mid-reply; when the last of them did."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.disconnects) >= count)
        return self.disconnects[count - 1]

    async def received(self, count: int = 1) -> None:
        """Wait until so many requests have come."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._serve(reader, writer):
                    pass
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its reply; whether the connection lives on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Received(method, path, headers, body, time.monotonic())
        async with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        chosen = self._replies[min(len(self.requests), len(self._replies)) - 1]
        try:
            reply = chosen if isinstance(chosen, Reply) else chosen(request)
        except Exception as problem:
            self._problem = self._problem or problem
            return False
        lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in reply.headers.items())]
        lines.append("Transfer-Encoding: chunked" if reply.chunked else "Connection: close")
        gone = asyncio.ensure_future(reader.read(1))
        try:
            writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
            for step in reply.steps:
                if not await self._step(step, writer, gone, chunked=reply.chunked):
                    return False
            if reply.chunked:
                writer.write(b"0\r\n\r\n")
            await writer.drain()
        except ConnectionError:
            await self._note_disconnect()
            return False
        finally:
            if not gone.done():
                gone.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await gone
            elif not gone.cancelled():
                gone.exception()  # that the connection was reset was noticed elsewhere
        return reply.chunked

    async def _step(
        self, step: Step, writer: asyncio.StreamWriter, gone: asyncio.Future[bytes], *, chunked: bool
    ) -> bool:
        """Take one step; whether the client is still there."""
        if step == b"":
            return True  # an empty chunk would end the body
        if isinstance(step, bytes):
            writer.write(b"%x\r\n%s\r\n" % (len(step), step) if chunked else step)
            await writer.drain()
        elif step == RESET:
            raw: socket.socket = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return False
        else:
            waiting = asyncio.ensure_future(_wait_for(step))
            await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        if gone.done():
            await self._note_disconnect()
            return False
        return True

    async def _note_disconnect(self) -> None:
        async with self._changed:
            self.disconnects.append(time.monotonic())
            self._changed.notify_all()


async def _wait_for(step: float | asyncio.Event | Literal["hang", "reset"]) -> None:
    if isinstance(step, asyncio.Event):
        await step.wait()
    else:
        await asyncio.sleep(float("inf") if isinstance(step, str) else step)
