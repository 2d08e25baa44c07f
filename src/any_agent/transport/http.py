"""HTTP through the OpenAI SDK's client, without its parser: raw bytes come back.

The SDK brings connections, pools, TLS, proxies, Azure and custom clients. What it does beyond that is
switched off: its retries, redirects, compression, the headers that identify the machine, and its way of
reading error bodies of any size.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from any_agent.errors import ProviderConnectionError, ProviderError, ProviderTimeoutError
from any_agent.profiles import is_loopback
from any_agent.wire.failures import classify_body, retry_after

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

    from any_agent.transport.aio import Body
    from any_agent.types import Profile, Timeouts

__all__ = ("HttpTransport", "Reply", "Transport", "make_client", "network_error")

#: how long to wait for the end of a body whose answer is complete, so that its connection can serve again
_DRAIN_S = 0.05
_IDENTIFYING = (
    "OpenAI-Organization",
    "OpenAI-Project",
    "X-Stainless-Arch",
    "X-Stainless-Async",
    "X-Stainless-Lang",
    "X-Stainless-OS",
    "X-Stainless-Package-Version",
    "X-Stainless-Read-Timeout",
    "X-Stainless-Retry-Count",
    "X-Stainless-Runtime",
    "X-Stainless-Runtime-Version",
)


@dataclass(slots=True)
class Reply:
    """A response whose status is good: its headers (names in lower case), and its body as it comes."""

    status: int
    headers: dict[str, str]
    #: what has come of the body since the last time, or waits for it; `b""` is the end
    read: Callable[[], Awaitable[bytes]]
    aclose: Callable[[], Awaitable[None]]
    #: what `read` may raise when the connection breaks
    errors: tuple[type[Exception], ...] = ()
    #: in place of `aclose` where the answer is complete: its connection may serve again
    release: Callable[[], Awaitable[None]] | None = None

    async def drain(self) -> None:
        """Read to the end of the body, if that comes soon, and close."""
        try:
            with contextlib.suppress(TimeoutError, *self.errors):
                async with asyncio.timeout(_DRAIN_S):
                    while await self.read():
                        pass
        finally:
            await self.aclose()


class Transport(Protocol):
    """Sends a request and gives the reply; every failure is a `ProviderError`."""

    async def open(self, method: Literal["GET", "POST"], path: str, body: dict[str, Any] | None) -> Reply:
        """Send a request; return when the headers have come. `path` is below the base address, or a whole URL."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


def make_client(base_url: str, api_key: str) -> AsyncOpenAI:
    """An `AsyncOpenAI` as this library uses it: on aiohttp, without retries and redirects."""
    import httpx2
    from openai import AsyncOpenAI

    from any_agent.transport.aio import AioTransport

    parts = urlsplit(base_url)
    # a proxy from the environment must not capture what runs on this machine
    transport = AioTransport(is_tls=parts.scheme == "https", trust_env=not is_loopback(parts.hostname or ""))
    http_client = httpx2.AsyncClient(transport=transport, follow_redirects=False, timeout=None)
    return AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http_client, max_retries=0)


class HttpTransport:
    """The transport over a network. With `client`, that client's address and key count."""

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None,
        profile: Profile,
        timeouts: Timeouts,
        client: AsyncOpenAI | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._profile = profile
        self._timeouts = timeouts
        self._given_client = client
        self._headers = dict(headers or {})
        self._client: AsyncOpenAI | None = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: dict[asyncio.Task[None], Reply] = {}

    @property
    def client(self) -> AsyncOpenAI:
        """The client for the running event loop, made when first asked for."""
        if self._given_client is not None:
            return self._given_client
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client = make_client(self._base_url, self._api_key or "none")
            self._loop = loop
        return self._client

    async def open(self, method: Literal["GET", "POST"], path: str, body: dict[str, Any] | None) -> Reply:
        """Send a request; return when the headers have come."""
        import aiohttp
        import httpx2
        from openai import APIConnectionError, APIStatusError, AsyncStream, OpenAIError

        from any_agent.transport.aio import BODY, Body

        client = self.client
        options: Any = {
            "headers": self._request_headers(),
            "timeout": httpx2.Timeout(None, connect=self._timeouts.connect),
            "follow_redirects": False,
            "max_retries": 0,
        }
        kinds: Any = {"cast_to": httpx2.Response, "stream": True, "stream_cls": AsyncStream[Any], "options": options}
        try:
            if method == "GET":
                response: httpx2.Response = await client.get(path, **kinds)
            else:
                response = await client.post(path, body=body, **kinds)
        except APIStatusError as error:
            raise self._status_error(error.response, body) from error
        except (APIConnectionError, httpx2.HTTPError, aiohttp.ClientError, OSError) as error:
            raise self._scrubbed(network_error(error, str(client.base_url))) from error
        except OpenAIError as error:
            raise ProviderError(self._scrub(str(error)), kind="auth", provider=self._profile.name) from error
        headers = dict(response.headers.items())
        stream = response.extensions.get(BODY)
        plain = headers.get("content-encoding", "identity") == "identity"
        raw = stream if isinstance(stream, Body) and plain else None
        read = raw.read if raw is not None else _reader(response.aiter_bytes())
        reply = Reply(response.status_code, headers, read, response.aclose, _stream_errors(response))
        reply.release = partial(self._release, reply, raw)
        return reply

    async def _release(self, reply: Reply, body: Body | None) -> None:
        """Let the body end while nobody waits for it."""
        if body is not None and body.has_come():
            await reply.aclose()
            return
        task = asyncio.create_task(reply.drain())
        self._draining[task] = reply
        task.add_done_callback(self._draining.pop)

    async def aclose(self) -> None:
        """Close all connections, unless the client was given: then it is the program's to close."""
        for task, reply in list(self._draining.items()):
            task.cancel()
            await reply.aclose()  # a task that has not begun would not
        client, self._client = self._client, self._given_client
        if client is not None and client is not self._given_client:
            await client.close()

    def _request_headers(self) -> dict[str, Any]:
        from openai import Omit

        headers: dict[str, Any] = {"Accept-Encoding": "identity"}
        if not self._profile.identify:
            headers |= dict.fromkeys(_IDENTIFYING, Omit())
        if self._given_client is None:
            if self._api_key is None or self._profile.api_key_header != "authorization":
                headers["Authorization"] = Omit()
            if self._api_key is not None and self._profile.api_key_header != "authorization":
                headers[self._profile.api_key_header] = self._api_key
        return {**headers, **self._profile.headers, **self._headers}

    def _status_error(self, response: httpx2.Response, body: dict[str, Any] | None) -> ProviderError:
        headers = dict(response.headers.items())
        target = headers.get("location")
        if 300 <= response.status_code < 400 and target:
            message = f"The server redirects to {target[:300]!r}, which is not followed: use that as base_url"
            return ProviderError(message, kind="invalid_request", status_code=response.status_code)
        error = classify_body(
            response.status_code,
            response.content,
            provider=self._profile.name,
            wait=retry_after(headers, time.time()),
            model=str((body or {}).get("model", "")),
            server=self._profile.name,
        )
        return self._scrubbed(error)

    def _scrubbed(self, error: ProviderError) -> ProviderError:
        """The error without the key: servers repeat in their answers what they were sent."""
        error.args = tuple(self._scrub(str(part)) for part in error.args)
        error.message = self._scrub(error.message)
        error.body = self._scrub(error.body) if error.body is not None else None
        return error

    def _scrub(self, text: str) -> str:
        key = self._given_client.api_key if self._given_client is not None else self._api_key
        return text.replace(key, "***") if key and len(key) > 3 else text


def network_error(error: BaseException, address: str) -> ProviderError:
    """What an exception of the HTTP stack means. The SDK calls nearly everything a timeout: its causes tell."""
    names = [type(cause).__name__ for cause in _causes(error)]
    said = next((str(cause) for cause in reversed(list(_causes(error))) if str(cause)), "")
    host = urlsplit(address).netloc or address

    def any_of(*wanted: str) -> bool:
        return any(name in wanted for name in names)

    if any_of("ClientConnectorDNSError", "gaierror"):
        return ProviderConnectionError(f"The host of {address} is not known: check base_url ({said})", retryable=False)
    if any_of("ClientConnectorCertificateError", "ClientConnectorSSLError", "SSLCertVerificationError", "SSLError"):
        message = (
            f"The TLS connection to {host} failed ({said}): set SSL_CERT_FILE for a CA of your own, or use http://"
        )
        return ProviderConnectionError(message, retryable=False)
    if any_of("ConnectionTimeoutError") or names[-1] == "ConnectTimeout":
        return ProviderTimeoutError(f"No connection to {host} in time: is the address right, and the server up?")
    if any_of("ClientResponseError", "InvalidURL", "BadHttpMessage", "BadStatusLine", "LocalProtocolError"):
        said = " ".join(said.split())[:200]
        return ProviderConnectionError(f"What answers at {host} does not speak HTTP ({said})", retryable=False)
    if any_of("ConnectionRefusedError"):
        return ProviderConnectionError(f"Nothing listens at {host}: is the server running? ({said})")
    if any_of("ServerDisconnectedError", "ClientOSError", "ConnectionResetError", "RemoteProtocolError", "ReadError"):
        return ProviderConnectionError(f"The server at {host} closed the connection without an answer ({said})")
    if any_of("ClientConnectorError", "ConnectError"):
        return ProviderConnectionError(f"No connection to {host} ({said})")
    if any_of("TimeoutError", "ReadTimeout", "PoolTimeout", "WriteTimeout"):
        return ProviderTimeoutError(f"The server at {host} did not answer in time")
    return ProviderConnectionError(f"The connection to {host} failed: {said or names[-1]}")


def _reader(chunks: AsyncIterator[bytes]) -> Callable[[], Awaitable[bytes]]:
    async def read() -> bytes:
        async for chunk in chunks:
            if chunk:
                return chunk
        return b""

    return read


def _stream_errors(response: object) -> tuple[type[Exception], ...]:
    """What may come out of a body; a client that a program brought along may be one of the older httpx."""
    import aiohttp
    import httpx2

    httpx = sys.modules.get(type(response).__module__.partition(".")[0], httpx2)
    return (httpx2.HTTPError, httpx2.StreamError, httpx.HTTPError, aiohttp.ClientError, OSError)


def _causes(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__ or getattr(current, "os_error", None)
    return chain
