"""Finds the model servers that run, which they are, and what they say of their models; and questions a model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from any_agent.adapters.checks import checked_address
from any_agent.adapters.discovery import (
    FoundModel,
    FoundServer,
    ModelInfo,
    is_listing,
    read_abilities,
    read_loaded,
    read_longest,
    read_models,
)
from any_agent.adapters.protocols import AnthropicAdapter, OllamaAdapter, OpenAIAdapter, ResponsesAdapter
from any_agent.errors import ProviderError, ProviderTimeoutError
from any_agent.events import Done, Event, Failed, Notice, TextDelta, ThinkingDelta
from any_agent.profiles import get_profile, guess_profile, is_loopback, key_for, list_profiles, profile_from_headers
from any_agent.transport.http import HttpTransport, Reply, network_error
from any_agent.types import LLMResponse, Message, Profile, Timeouts, ToolSpec, ToolUseBlock, ToolUseError
from any_agent.wire.values import as_object, as_objects, read_json

if TYPE_CHECKING:
    from any_agent.adapters.base import BaseAdapter

__all__ = ("Answer", "FoundModel", "FoundServer", "Interview", "find_servers", "usual_addresses")

#: what a server says of its models is not longer
_MAX_REPLY = 16_000_000
#: a list of models needs no loading
_LISTING_S = 10.0
#: how many models of one server are asked about at once
_AT_ONCE = 8
#: the servers that sign their models with `owned_by`
_OWNERS = {
    "llamacpp": "llamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
    "koboldcpp": "koboldcpp",
    "tabbyAPI": "tabbyapi",
    "organization_owner": "lmstudio",
    "library": "ollama",
}
#: what is none of these although it listens where they do is something else
_RECOGNISED = {*_OWNERS.values(), "ollama-openai"}
#: what model servers write when they want a key, and other services do not
_WANTS_KEY = re.compile(r"api.?key|api.?token|auth(entication)?_error|invalid_request_error", re.IGNORECASE)

_ADAPTERS: dict[str, type[BaseAdapter]] = {
    kind.protocol: kind for kind in (OpenAIAdapter, OllamaAdapter, AnthropicAdapter, ResponsesAdapter)
}


async def find_servers(
    addresses: Sequence[str] | None = None, *, api_key: str | None = None, limit: float = 1.0
) -> list[FoundServer]:
    """The model servers at these addresses; without any, at the usual ones on this machine, and nowhere else.

    All are asked at once, each question for `limit` seconds at most. A key is sent only to addresses that are named.

    >>> asyncio.run(find_servers(["http://127.0.0.1:9"]))
    []
    """
    if addresses is None and api_key is not None:
        raise ValueError("api_key is for addresses that are named: give addresses=[…] with it")
    asked = usual_addresses() if addresses is None else addresses
    hosts = [_Host(address, api_key, limit) for address in asked]
    found = await asyncio.gather(*(_closing(host) for host in hosts))
    return [server for server in found if server is not None]


def usual_addresses() -> list[str]:
    """Where on this machine the servers that any_agent knows listen if nobody says otherwise.

    >>> "http://localhost:1234" in usual_addresses()
    True
    """
    local = [get_profile(name) for name in list_profiles() if get_profile(name).local]
    roots = [profile.base_url.removesuffix("/v1") for profile in local if profile.base_url]
    return [root for root in dict.fromkeys(roots) if is_loopback(urlsplit(root).hostname or "")]


class _Host:
    """One address that is asked for what it says of itself."""

    def __init__(self, address: str, api_key: str | None, limit: float) -> None:
        base_url = checked_address(address, "/v1", "/chat/completions")
        parts = urlsplit(base_url)
        if parts.path == "/api":  # as Ollama's own protocol has it
            base_url = urlunsplit(parts._replace(path="/v1"))
        self.base_url = base_url
        self.root = base_url.removesuffix("/v1")
        #: the address was given with the path of the OpenAI protocol
        self.is_openai = urlsplit(address.strip()).path.rstrip("/").endswith("/v1")
        self._limit = limit
        self._transport = HttpTransport(
            base_url=base_url, api_key=api_key, profile=get_profile("local"), timeouts=Timeouts(connect=limit)
        )

    async def fetch(self, url: str, body: dict[str, Any] | None = None) -> tuple[dict[str, str], bytes]:
        """The headers and the body of a good reply; `ProviderError` or `TimeoutError` if there is none."""
        return await _fetch(self._transport, url, body, self._limit)

    async def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """What is said at a path below the root of the server; empty if that is no JSON object."""
        try:
            _, content = await self.fetch(f"{self.root}{path}", body)
            return as_object(read_json(content))
        except (ProviderError, TimeoutError, ValueError):
            return {}

    async def aclose(self) -> None:
        await self._transport.aclose()


async def _fetch(
    transport: HttpTransport, url: str, body: dict[str, Any] | None, limit: float
) -> tuple[dict[str, str], bytes]:
    async with asyncio.timeout(limit):
        reply = await transport.open("GET" if body is None else "POST", url, body)
        content = bytearray()
        try:
            while len(content) < _MAX_REPLY and (chunk := await reply.read()):
                content += chunk
        except reply.errors as error:
            raise network_error(error, url) from error
        finally:
            await reply.aclose()
    return reply.headers, bytes(content)


async def _closing(host: _Host) -> FoundServer | None:
    try:
        return await _find(host)
    finally:
        await host.aclose()


async def _find(host: _Host) -> FoundServer | None:
    try:
        headers, body = await host.fetch(f"{host.base_url}/models")
    except ProviderError as error:
        return await _silent_server(host, error)
    except TimeoutError:
        return None
    if is_listing(body):
        listed = read_models(body, host.base_url)
    elif not body.strip() and _is_mlx(headers):  # it lists what it finds on the disk, and says nothing if it cannot
        listed = []
    else:
        return None
    name = await _recognise(host, headers, listed)
    if name == "ollama" and host.is_openai:
        name = "ollama-openai"
    protocol = get_profile(name).protocol
    server = FoundServer(name, host.root if protocol == "ollama" else host.base_url, protocol)
    server.models = await _READERS.get(name, _as_listed)(host, listed)
    return server


async def _silent_server(host: _Host, error: ProviderError) -> FoundServer | None:
    """A server that does not say what it has, if its refusal is one of a model server."""
    said = error.body or ""
    if said.lstrip()[:1] != "{" or error.kind not in ("auth", "model_loading"):
        return None
    state = "loading" if error.kind == "model_loading" else "needs_key"
    if state == "needs_key" and not _WANTS_KEY.search(said):
        # vLLM says no more than "Unauthorized", but tells anybody its version
        is_vllm = isinstance((await host.ask("/version")).get("version"), str)
        return FoundServer("vllm", host.base_url, state=state) if is_vllm else None
    try:
        headers, _ = await host.fetch(f"{host.root}/health")
    except (ProviderError, TimeoutError):
        headers = {}
    profile = profile_from_headers(headers, get_profile("local"))
    if profile.name == "local":
        profile = guess_profile(host.base_url)
    return FoundServer(profile.name, host.base_url, state=state)


async def _recognise(host: _Host, headers: dict[str, str], listed: list[ModelInfo]) -> str:
    """The profile of a server: by how it signs, by its headers, and by what only one kind answers."""
    owners = {str(model.raw.get("owned_by")) for model in listed}
    signed = next((name for owner, name in _OWNERS.items() if owner in owners), None)
    if signed is not None:
        return signed
    known = profile_from_headers(headers, get_profile("local")).name
    if known != "local":
        return known
    if _is_mlx(headers):
        return "mlx"
    studio, version, props = await asyncio.gather(*map(host.ask, ("/api/v0/models", "/api/version", "/props")))
    if any("max_context_length" in item for item in as_objects(studio.get("data"))):
        return "lmstudio"
    if isinstance(version.get("version"), str):
        return "ollama"
    if "default_generation_settings" in props:
        return "llamacpp"
    guess = guess_profile(host.base_url).name
    return "local" if guess in _RECOGNISED else guess


def _is_mlx(headers: dict[str, str]) -> bool:
    """Of the servers on Python's own HTTP server, the others sign their models."""
    is_json = headers.get("content-type", "").startswith("application/json")
    return is_json and headers.get("server", "").startswith("BaseHTTP/")


async def _as_listed(_host: _Host, listed: list[ModelInfo]) -> list[FoundModel]:
    return [_found(model.id, model.raw) for model in listed]


async def _of_lmstudio(host: _Host, listed: list[ModelInfo]) -> list[FoundModel]:
    said = {str(item.get("id")): item for item in as_objects((await host.ask("/api/v0/models")).get("data"))}
    return [_found(model.id, said.get(model.id, model.raw)) for model in listed]


async def _of_llamacpp(host: _Host, listed: list[ModelInfo]) -> list[FoundModel]:
    if len(listed) != 1:  # a router: what it says at /props is of no one model
        return await _as_listed(host, listed)
    return [_found(listed[0].id, listed[0].raw, await host.ask("/props"))]


async def _of_ollama(host: _Host, listed: list[ModelInfo]) -> list[FoundModel]:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def shown(model: ModelInfo) -> dict[str, Any]:
        async with slots:
            return await host.ask("/api/show", {"model": model.id})

    running, *details = await asyncio.gather(host.ask("/api/ps"), *map(shown, listed))
    loaded = {str(item.get("model") or item.get("name")): item for item in as_objects(running.get("models"))}
    return [_found(model.id, item, loaded.get(model.id, {})) for model, item in zip(listed, details, strict=True)]


def _found(identifier: str, *said: dict[str, Any]) -> FoundModel:
    """A model, by all that was said of it; the first that says a thing counts."""
    window = next(filter(None, map(read_loaded, said)), None)
    longest = next(filter(None, map(read_longest, said)), None)
    return FoundModel(identifier, window, longest, read_abilities(*said))


_READERS: dict[str, Callable[[_Host, list[ModelInfo]], Awaitable[list[FoundModel]]]] = {
    "lmstudio": _of_lmstudio,
    "llamacpp": _of_llamacpp,
    "ollama": _of_ollama,
    "ollama-openai": _of_ollama,
}


@dataclass(slots=True)
class Answer:
    """The answer to one question, and how it came."""

    response: LLMResponse = field(default_factory=LLMResponse)
    error: ProviderError | None = None
    notices: list[Notice] = field(default_factory=list[Notice])
    texts: list[str] = field(default_factory=list[str])
    thoughts: int = 0
    #: for each piece, in which read of the connection it came
    reads: list[int] = field(default_factory=list[int])
    #: it came as one JSON value, and not as a stream
    is_json: bool = False

    @property
    def attempts(self) -> list[ToolUseBlock | ToolUseError]:
        """The calls, also those that cannot be understood."""
        return [*self.response.tool_calls, *self.response.tool_errors]

    def notice(self, kind: str, *words: str) -> Notice | None:
        """The notice of a kind that has one of these words in it."""
        of_kind = (notice for notice in self.notices if notice.kind == kind)
        return next((one for one in of_kind if not words or any(word in one.message for word in words)), None)

    def add(self, event: Event, read: int) -> None:
        """Take in the next event, which came in that read of the connection."""
        if isinstance(event, TextDelta):
            self.texts.append(event.text)
            self.reads.append(read)
        elif isinstance(event, ThinkingDelta):
            self.thoughts += 1
            self.reads.append(read)
        elif isinstance(event, Notice):
            self.notices.append(event)
        elif isinstance(event, Done):
            self.response = event.response
        elif isinstance(event, Failed):
            self.response, self.error = event.partial, event.error


class _Line(HttpTransport):
    """Notes of the last reply what its headers were, and in how many reads it came."""

    reads = 0
    content_type = ""

    async def open(self, method: Literal["GET", "POST"], path: str, body: dict[str, Any] | None) -> Reply:
        reply = await super().open(method, path, body)
        self.reads = 0
        self.content_type = reply.headers.get("content-type", "")

        async def read() -> bytes:
            chunk = await reply.read()
            self.reads += bool(chunk)
            return chunk

        return replace(reply, read=read)


class Interview:
    """Puts short questions to one model, at temperature 0, and notes how the answers come.

    An answer may take `limit` seconds to begin, and as long again to end.
    """

    def __init__(self, address: str, profile: Profile, model: str, *, api_key: str | None, limit: float) -> None:
        kind = _ADAPTERS[profile.protocol]
        base_url = kind(model, address, profile=profile).base_url
        timeouts = Timeouts(connect=min(limit, 10), first_byte=limit, between_events=limit)
        self.key = api_key or key_for(profile, base_url)
        self.limit = limit
        self._line = _Line(base_url=base_url, api_key=self.key, profile=profile, timeouts=timeouts)
        # what the server refuses is to be seen, not evaded
        native: dict[str, Any] = {"tool_mode": "native", "transport": self._line}
        self._make = partial(kind, base_url=base_url, profile=profile, timeouts=timeouts, **native)
        self.adapter = self._make(model)

    def other(self, **options: Any) -> BaseAdapter:
        """An adapter with other options over the same connection."""
        return self._make(self.adapter.model, **options)

    async def models(self) -> list[str]:
        """The models that the server lists; `ProviderError` if it does not say in time, whatever it takes to answer."""
        try:
            async with asyncio.timeout(_LISTING_S):
                return [model.id for model in await self.adapter.list_models()]
        except TimeoutError as error:
            message = f"No word from {self.adapter.base_url} about its models within {_LISTING_S:g} s"
            raise ProviderTimeoutError(message) from error

    async def ask(
        self, prompt: str, tools: Sequence[ToolSpec] = (), *, adapter: BaseAdapter | None = None, **settings: Any
    ) -> Answer:
        """The answer to one question; what goes wrong is its `error`."""
        answer = Answer()
        settings = {"temperature": 0, "max_tokens": 48, **settings}
        stream = (adapter or self.adapter).stream([Message("user", prompt)], tools, **settings)
        try:
            async with asyncio.timeout(2 * self.limit), stream:
                async for event in stream:
                    answer.add(event, self._line.reads)
        except TimeoutError:
            answer.error = ProviderTimeoutError(f"the answer did not end within {2 * self.limit:g} s")
        answer.is_json = self._line.content_type.startswith("application/json")
        return answer

    async def dropped(self, prompt: str, max_tokens: int) -> tuple[bool, int | None, int | None]:
        """Drop an answer in its middle: whether it had begun, and how many slots were busy before and during it."""
        begun = False
        before = await self.busy_slots()
        async with self.adapter.stream([Message("user", prompt)], temperature=0, max_tokens=max_tokens) as stream:
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * self.limit):
                    while not begun and (event := await anext(stream, None)) is not None:
                        begun = isinstance(event, TextDelta | ThinkingDelta)
            return begun, before, await self.busy_slots()

    async def busy_slots(self) -> int | None:
        """How many answers the server works on, if it is a llama.cpp that tells."""
        if self.adapter.profile.name not in ("llamacpp", "embedded"):
            return None
        url = f"{self.adapter.base_url.removesuffix('/v1')}/slots"
        try:
            slots = as_objects(read_json((await _fetch(self._line, url, None, self.limit))[1]))
        except (ProviderError, TimeoutError, ValueError):
            return None
        return sum(bool(slot.get("is_processing")) for slot in slots) if slots else None

    async def aclose(self) -> None:
        """Close the connection."""
        await self.adapter.aclose()
