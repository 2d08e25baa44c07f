"""What all adapters do: send, read, retry, and hand out events."""

from __future__ import annotations

import asyncio
import random
import uuid
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, runtime_checkable

from any_agent.adapters.attempt import Attempt, stopped
from any_agent.adapters.checks import checked_address, checked_tools
from any_agent.adapters.discovery import ModelInfo, read_models, read_window
from any_agent.adapters.refusals import Refusals, refuses_tools
from any_agent.adapters.stream import EventStream
from any_agent.errors import ProviderError, ProviderTimeoutError, StreamInterrupted
from any_agent.events import Done, Event, Failed, ModelState, Notice, Retry
from any_agent.profiles import get_profile, guess_profile, key_for, profile_from_headers
from any_agent.transport.http import HttpTransport, Transport, network_error
from any_agent.transport.retry import loading_delay, retry_delay
from any_agent.transport.tape import Recorder, Tape
from any_agent.transport.watch import Closed, Watch
from any_agent.types import LLMResponse, Profile, RetryConfig, Timeouts, ToolSpec
from any_agent.wire.assembly import DecodeSettings
from any_agent.wire.failures import invalid_response
from any_agent.wire.prompted import encode_prompted, writes_json
from any_agent.wire.request import Encoded, Request
from any_agent.wire.values import as_object

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from any_agent.types import Protocol as WireProtocol
    from any_agent.wire.cumulative import TextStream
    from any_agent.wire.decoder import Decoder
    from any_agent.wire.history import MessageLike

__all__ = ("BaseAdapter", "LLMAdapter")

#: what a server says of its models is not longer
_MAX_LISTING = 16_000_000
_NO_KEY = ("", "not-needed")
_SWITCHED = "the server refuses tools; from now on they are told to the model in words (tool_mode='prompted')"
_UNBOUND = (
    "servers of profile {profile!r} cannot bind an answer to a schema (while there are tools): it is not sent; "
    "what the answer should look like must stand in the prompt"
)
_SETTINGS = frozenset(
    ("temperature", "max_tokens", "stop", "top_p", "seed", "tool_choice", "thinking", "output_schema")
)


@runtime_checkable
class LLMAdapter(Protocol):
    """What the agent loop needs of a model, whatever protocol its server speaks."""

    name: str

    async def invoke(
        self, messages: Sequence[MessageLike], tools: Sequence[ToolSpec] | None = None, **settings: Any
    ) -> LLMResponse:
        """One whole answer."""
        ...

    def stream(
        self, messages: Sequence[MessageLike], tools: Sequence[ToolSpec] | None = None, **settings: Any
    ) -> EventStream:
        """The events of one answer, as they come."""
        ...

    async def aclose(self) -> None:
        """Close everything."""
        ...


@dataclass(slots=True)
class _Progress:
    """How far the attempts at one request have come."""

    started: float
    attempt: int = 1
    #: how often a server was asked again that was loading its model
    waits: int = 0


class BaseAdapter:
    """The common part of the adapters; see `OpenAIAdapter` for the parameters."""

    name: str = ""
    protocol: ClassVar[WireProtocol]
    _path: ClassVar[str]
    _models_path: ClassVar[str] = "/models"
    #: the path of an address that has none
    _usual_path: ClassVar[str]
    _decoder: ClassVar[type[Decoder]]
    _encode: ClassVar[Callable[[Request, Profile], Encoded]]

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        profile: str | Profile | None = None,
        retry: RetryConfig | None = None,
        timeouts: Timeouts | None = None,
        client: AsyncOpenAI | None = None,
        text_stream: TextStream = "auto",
        tool_mode: Literal["auto", "native", "prompted"] = "auto",
        think_open: bool = False,
        allow_lenient_tool_json: bool | None = None,
        extra_headers: dict[str, str] | None = None,
        extra_body: dict[str, Any] | None = None,
        record_to: str | Path | None = None,
        transport: Transport | None = None,
    ) -> None:
        if not model:
            raise ValueError("model is missing: name the model that the server should use")
        if text_stream not in ("auto", "delta", "cumulative"):
            raise ValueError(f"text_stream must be 'auto', 'delta' or 'cumulative', not {text_stream!r}")
        if tool_mode not in ("auto", "native", "prompted"):
            raise ValueError(f"tool_mode must be 'auto', 'native' or 'prompted', not {tool_mode!r}")
        named = get_profile(profile) if isinstance(profile, str) else profile
        if client is not None:
            base_url = str(client.base_url)
        elif base_url is None and named is not None:
            base_url = named.base_url
        self.model = model
        self.base_url = checked_address(base_url, self._usual_path, self._path)
        self.profile = named or guess_profile(self.base_url, self.protocol)
        self.name = self.name or self.profile.name
        self.retry = retry or RetryConfig(max_attempts=1)
        self.timeouts = timeouts or Timeouts()
        #: the repairs of tool arguments so far: (model, rule) → how often
        self.repairs: Counter[tuple[str, str]] = Counter()
        self._text_stream: TextStream = text_stream
        self._tool_mode = tool_mode
        #: tools are told in words: because the program, the profile, or a refusal of the server says so
        self._prompted = tool_mode == "prompted" or (tool_mode == "auto" and not self.profile.native_tools)
        self._think_open = think_open
        self._lenient = allow_lenient_tool_json
        self._extra_body = extra_body or {}
        self._refusals = Refusals()
        self._told_unbound = False
        self._streams: weakref.WeakSet[EventStream] = weakref.WeakSet()
        key = api_key if api_key not in (None, *_NO_KEY) else key_for(self.profile, self.base_url)
        self._recorder = (
            Recorder(record_to, protocol=self.protocol, server=self.profile.name, secret=key) if record_to else None
        )
        self._transport: Transport = transport or HttpTransport(
            base_url=self.base_url,
            api_key=key,
            profile=self.profile,
            timeouts=self.timeouts,
            client=client,
            headers=extra_headers,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, base_url={self.base_url!r}, profile={self.profile.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End all streams and close all connections."""
        for stream in list(self._streams):
            await stream.aclose()
        await self._transport.aclose()

    def stream(
        self, messages: Sequence[MessageLike], tools: Sequence[ToolSpec] | None = None, **settings: Any
    ) -> EventStream:
        """The events of one answer, as they come; the last one is `Done` or `Failed`.

        `settings` are `temperature`, `max_tokens`, `stop`, `top_p`, `seed`, `tool_choice`, `thinking`,
        `output_schema`; any other name goes into the body of the request as it is.
        """
        return self._start(self._request(messages, tools, settings, stream=True))

    async def invoke(
        self, messages: Sequence[MessageLike], tools: Sequence[ToolSpec] | None = None, **settings: Any
    ) -> LLMResponse:
        """One whole answer; what goes wrong is raised. Its `notices` tell what the SDK decided on its own."""
        notices: list[Notice] = []
        stream = self.profile.invoke_streams
        async with self._start(self._request(messages, tools, settings, stream=stream)) as events:
            async for event in events:
                if isinstance(event, Done):
                    event.response.notices = notices
                    return event.response
                if isinstance(event, Failed):
                    raise event.error
                if isinstance(event, Notice):
                    notices.append(event)
        raise StreamInterrupted("The adapter was closed before the answer came", kind="aborted", retryable=False)

    async def chat(
        self, messages: Sequence[MessageLike], tools: Sequence[ToolSpec] | None = None, **settings: Any
    ) -> LLMResponse:
        """The same as `invoke()`, under the name that some programs expect."""
        return await self.invoke(messages, tools, **settings)

    async def list_models(self) -> list[ModelInfo]:
        """The models that the server offers, with what it says of them."""
        return read_models(await self._get(self._models_path), self.base_url)

    async def context_window(self) -> int | None:
        """How many tokens the server gives the model, as it says itself; `None` if it does not.

        Ask after a response: servers that load models on demand know only then.
        """
        if self.profile.window_path is None:
            return None
        root = self.base_url.removesuffix(self._usual_path)
        try:
            return read_window(await self._get(f"{root}{self.profile.window_path}"), self.model)
        except ProviderError:
            return None

    async def _get(self, path: str) -> bytes:
        body = bytearray()
        watch = Watch()
        try:
            reply = await watch.wait(self._transport.open("GET", path, None), self.timeouts.first_byte)
            try:
                while chunk := await watch.wait(reply.read(), self.timeouts.between_events):
                    body += chunk
                    if len(body) > _MAX_LISTING:
                        raise invalid_response(f"{self.base_url} sends too much about its models", bytes(body[:400]))
            except reply.errors as error:
                raise network_error(error, self.base_url) from error
            finally:
                await reply.aclose()
        except TimeoutError as error:
            raise ProviderTimeoutError(f"No word from {self.base_url} about its models in time") from error
        finally:
            watch.stop_timer()
        return bytes(body)

    def _request(
        self,
        messages: Sequence[MessageLike],
        tools: Sequence[ToolSpec] | None,
        settings: dict[str, Any],
        *,
        stream: bool,
    ) -> Request:
        known = {name: value for name, value in settings.items() if name in _SETTINGS}
        extra = {name: value for name, value in settings.items() if name not in _SETTINGS and value is not None}
        more = as_object(extra.pop("extra_body", None))
        if isinstance(known.get("stop"), str):
            known["stop"] = [known["stop"]]
        return Request(
            model=str(extra.pop("model", self.model)),
            messages=messages,
            tools=checked_tools(tools or ()),
            stream=stream,
            extra={**self._extra_body, **extra, **more},
            **known,
        )

    def _encoded(self, request: Request) -> Encoded:
        encode = type(self)._encode
        if self._prompted:
            return encode_prompted(request, self.profile, encode)
        can_bind = self.profile.structured_output != "none" and (self.profile.schema_with_tools or not request.tools)
        if request.output_schema is None or can_bind:
            return encode(request, self.profile)
        encoded = encode(replace(request, output_schema=None), self.profile)
        if not self._told_unbound:
            self._told_unbound = True
            encoded.notices.append(Notice("schema_not_sent", _UNBOUND.format(profile=self.profile.name)))
        return encoded

    def _start(self, request: Request) -> EventStream:
        encoded = self._encoded(request)
        watch = Watch()
        stream = EventStream(self._attempts(request, encoded, watch), watch)
        self._streams.add(stream)
        return stream

    async def _attempts(self, request: Request, encoded: Encoded, watch: Watch) -> AsyncGenerator[list[Event], None]:
        """The batches of events of one request, over all its attempts."""
        progress = _Progress(asyncio.get_running_loop().time())
        if encoded.notices:
            yield list(encoded.notices)
        try:
            while True:
                body = self._refusals.apply(encoded.body)
                attempt = self._attempt(request, body, watch, waited=progress.waits > 0)
                failed: Failed | None = None
                async with aclosing(attempt.batches()) as batches:
                    async for batch in batches:
                        if attempt.ended:
                            self._note_ending(attempt, batch)
                            failed = batch.pop() if isinstance(batch[-1], Failed) else None  # pyright: ignore[reportAssignmentType]
                        if batch:
                            yield batch
                if failed is None:
                    return
                if attempt.has_shown or watch.closed:
                    yield [failed]
                    return
                if self._switches_to_prompted(request, failed):
                    encoded = self._encoded(request)
                    told = Notice("tools_refused", _SWITCHED, {"error": failed.error.message})
                    yield [told, *encoded.notices]
                    continue
                events, delay = self._next_step(failed, body, progress)
                yield events
                if delay is None:
                    return
                try:
                    await watch.wait(asyncio.sleep(delay), None)
                except Closed:
                    yield [Failed(stopped(), LLMResponse(model=self.model))]
                    return
        finally:
            watch.stop_timer()

    def _attempt(self, request: Request, body: dict[str, Any], watch: Watch, *, waited: bool) -> Attempt:
        return Attempt(
            self._transport,
            self._path,
            body,
            decoder=type(self)._decoder(self._decode_settings(request)),
            timeouts=self.timeouts,
            watch=watch,
            address=self.base_url,
            has_states=waited,
            tape=Tape(body) if self._recorder else None,
        )

    def _switches_to_prompted(self, request: Request, failed: Failed) -> bool:
        """Whether the server just refused tools, so that from now on they are told in words."""
        switches = self._tool_mode == "auto" and not self._prompted and bool(request.tools)
        self._prompted = self._prompted or (switches and refuses_tools(failed.error))
        return switches and self._prompted

    def _next_step(self, failed: Failed, body: dict[str, Any], progress: _Progress) -> tuple[list[Event], float | None]:
        """What to say of a failure of which nothing was shown, and after how many seconds to try again, if at all."""
        error = failed.error
        refused = self._refusals.learn(error, body)
        if refused is not None:
            return [Notice("parameter_refused", refused, {"error": error.message})], 0.0
        limit = self.timeouts.first_byte
        waited = asyncio.get_running_loop().time() - progress.started
        if error.kind == "model_loading" and (limit is None or waited < limit):
            progress.waits += 1
            state: list[Event] = [ModelState("loading")] if progress.waits == 1 else []
            delay = loading_delay(progress.waits, error.retry_after)
            return state, delay if limit is None else min(delay, limit - waited)
        delay = retry_delay(error, attempt=progress.attempt, config=self.retry, random=random.random())
        if delay is None:
            return [failed], None
        progress.attempt += 1
        return [Retry(progress.attempt, delay, error)], delay

    def _note_ending(self, attempt: Attempt, events: list[Event]) -> None:
        """Remember what an attempt tells beyond its answer: what the server is, what was repaired, the recording."""
        self.profile = profile_from_headers(attempt.headers, self.profile)
        last = events[-1]
        assert isinstance(last, Done | Failed)
        response = last.response if isinstance(last, Done) else last.partial
        response.model = response.model or self.model
        for event in events:
            if isinstance(event, Notice) and event.kind == "arguments_repaired":
                self.repairs.update((response.model, rule) for rule in as_object(event.data).get("rules", ()))
        if attempt.tape is not None and self._recorder is not None:
            path = self._recorder.write(attempt.tape, response, last.error if isinstance(last, Failed) else None)
            events.insert(-1, Notice("recorded", f"the exchange was written to {path}", {"path": str(path)}))

    def _decode_settings(self, request: Request) -> DecodeSettings:
        return DecodeSettings(
            tools={tool.name: tool.parameters for tool in request.tools},
            lenient=self.profile.local if self._lenient is None else self._lenient,
            text_calls=self.profile.local or self._prompted,
            prompted=self._prompted and bool(request.tools) and writes_json(self.profile),
            think_open=self._think_open,
            text_stream=self._text_stream,
            max_tokens=request.max_tokens,
            must_call=bool(request.tools) and request.tool_choice not in (None, "auto", "none"),
            id_prefix=f"call_{uuid.uuid4().hex[:12]}",
        )
