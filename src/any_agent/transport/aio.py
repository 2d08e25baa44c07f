"""aiohttp under the OpenAI SDK's HTTP client, with a way to read a body without the layers in between.

This module imports the whole HTTP stack; it is itself imported at the first request.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import aiohttp
import httpx2
from yarl import URL

__all__ = ("BODY", "AioTransport", "Body")

#: the name under which a response's extensions hold its `Body`
BODY = "any_agent_body"
MAX_ERROR_BODY = 64 * 1024
#: shorter than the five seconds after which many servers drop an idle connection
_KEEP_ALIVE = 4.0
_LARGE = 512 * 1024

#: small pieces stay in the processor's cache while they are decoded; a burst costs a third less than with all at once
_PIECE = 16 * 1024


class Body(httpx2.AsyncByteStream):
    """The body of a response: iterate over it, or `await body.read()` for what has come (`b""` is the end)."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.read = partial(response.content.read, _PIECE)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _SdkErrors():
            while chunk := await self.read():
                yield chunk

    def has_come(self) -> bool:
        """Whether nothing more will come."""
        return self._response.content.is_eof()

    async def aclose(self) -> None:
        """Drop the connection, unless the body has come to its end."""
        self._response.close()


class AioTransport(httpx2.AsyncBaseTransport):
    """Sends requests over aiohttp. The session is made in the event loop that first uses it."""

    def __init__(self, *, is_tls: bool, trust_env: bool) -> None:
        self._is_tls = is_tls
        self._trust_env = trust_env
        #: connections that serve again, and (`True`) such as serve once
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response as soon as its headers are here; the body of an error is read, up to a limit."""
        await request.aread()
        with _SdkErrors():
            used: dict[str, bool] = {}
            try:
                response = await self._send(request, used, fresh=False)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # llama.cpp promises to keep a connection and closes it after each stream; a request that runs into
                # that was not seen by the server, and is sent again, once, on a connection of its own
                if not used:
                    raise
                response = await self._send(request, used, fresh=True)
            if response.status >= 300:
                return httpx2.Response(
                    response.status, headers=response.raw_headers, content=await _beginning(response)
                )
        body = Body(response)
        return httpx2.Response(response.status, headers=response.raw_headers, stream=body, extensions={BODY: body})

    async def aclose(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()

    async def _send(self, request: httpx2.Request, used: dict[str, bool], *, fresh: bool) -> aiohttp.ClientResponse:
        """Send a request; `used` gets an entry if it went over a connection that had served before."""
        if fresh not in self._sessions:
            self._sessions[fresh] = self._new_session(fresh=fresh)
        return await self._sessions[fresh].request(
            request.method,
            URL(str(request.url), encoded=True),
            headers=request.headers.multi_items(),
            # a large body in one piece would hold the event loop, and aiohttp warns of it
            data=io.BytesIO(request.content) if len(request.content) > _LARGE else request.content or None,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=request.extensions.get("timeout", {}).get("connect")
            ),
            trace_request_ctx=used,
        )

    def _new_session(self, *, fresh: bool) -> aiohttp.ClientSession:
        # the same certificates as in the OpenAI SDK, SSL_CERT_FILE among them
        tls = httpx2.create_ssl_context() if self._is_tls else True
        keep_alive: dict[str, Any] = {"force_close": True} if fresh else {"keepalive_timeout": _KEEP_ALIVE}
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_reuse)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls, **keep_alive),
            trust_env=self._trust_env,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[trace],
        )


async def _note_reuse(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: object) -> None:
    context.trace_request_ctx["reused"] = True


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    while len(body) < MAX_ERROR_BODY and (chunk := await response.content.readany()):
        body += chunk
    response.close()
    return bytes(body[:MAX_ERROR_BODY])


class _SdkErrors:
    """Turns the errors of aiohttp into those that the OpenAI SDK knows; the cause tells what it really was."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, aiohttp.ServerTimeoutError | TimeoutError):
            raise httpx2.ConnectTimeout(str(error)) from error
        if isinstance(error, aiohttp.ClientConnectorError):
            raise httpx2.ConnectError(str(error)) from error
        if isinstance(error, aiohttp.ClientError | OSError):
            raise httpx2.ReadError(str(error)) from error
