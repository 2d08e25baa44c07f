"""Checks one server step by step: what works, what any_agent does about the rest, and how to mend it.

Rules:
- What the server refuses or loses is `limited`. What only the model did not do is `unknown`: a small model
  proves nothing about its server.
- A basic check that failed ends the checkup; the rest is `skipped`.
- Answers are short and at temperature 0, and nothing is waited for without end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from any_agent.adapters.discovery import START_ONE, FoundModel, FoundServer, advice
from any_agent.adapters.probe import Answer, Interview, find_servers
from any_agent.adapters.refusals import refuses_tools
from any_agent.errors import ProviderError
from any_agent.profiles import get_profile, guess_profile
from any_agent.types import ToolSpec, ToolUseBlock
from any_agent.wire.cumulative import CumulativeText
from any_agent.wire.values import as_object, read_json

__all__ = ("BASIC", "CHECKS", "Check", "checkup")

#: without these nothing else is worth trying
BASIC: tuple[str, ...] = ("reachable", "key", "model", "streaming")
_REST = ("usage", "tool call", "parallel calls", "thinking", "JSON schema", "cancellation", "context window")
CHECKS = BASIC + _REST

#: seconds for a server to say what it is, and for a server to notice who has gone
_PROBE_S, _NOTICE_S = 2.0, 3.0
#: tokens that a call may take, with the thoughts before it
_CALL = 512
#: a window in which tools and a conversation have room
_ROOMY = 8192
_WEATHER = ToolSpec(
    "get_weather",
    "Get the current weather for a city",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
_ONE_CALL = "What is the weather in Oslo?"
_BETTER = "take a larger model, or one that was trained for tools; tool_mode='prompted' may help, too"
_VERDICT = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found, and how to mend it.

    >>> Check("usage", "ok", "12 tokens in, 30 out").remedy
    ''
    """

    name: str
    state: Literal["ok", "limited", "failed", "skipped", "unknown"]
    found: str
    remedy: str = ""


async def checkup(
    base_url: str | None = None,
    model: str | None = None,
    *,
    profile: str | None = None,
    api_key: str | None = None,
    limit: float = 300.0,
) -> AsyncGenerator[Check, None]:
    """Check a server, by default the first that runs on this machine, and a model, by default the first it has.

    The checks come in the order of `CHECKS`, each once. An answer may take `limit` seconds to begin, since models
    load slowly, and as long again to end.

    >>> async def main() -> list[str]:
    ...     return [check.state async for check in checkup("http://127.0.0.1:9")]
    >>> asyncio.run(main())[:2]
    ['failed', 'skipped']
    """
    left: list[str] = list(CHECKS)
    reason = ""
    async with aclosing(_checks(base_url, model, profile, api_key, limit)) as checks:
        async for check in checks:
            left.remove(check.name)
            yield check
            if check.name in BASIC and check.state == "failed":
                reason = f"not tried, since {check.name!r} failed"
                break
    for name in left:
        yield Check(name, "skipped", reason)


async def _checks(
    base_url: str | None, model: str | None, profile: str | None, api_key: str | None, limit: float
) -> AsyncGenerator[Check, None]:
    named = get_profile(profile) if profile else None
    address = base_url or (named.base_url if named else None)
    if address is None and (named or api_key):
        raise ValueError("base_url is missing: say which server the profile or the key is for")
    asked = None if address is None else [address]
    servers = await find_servers(asked, api_key=api_key, limit=min(limit, _PROBE_S))
    offering = [server for server in servers if model in [offered.id for offered in server.models]]
    found = next(iter(offering or servers), None)
    if found is not None and named is None:
        address, named = found.base_url, get_profile(found.profile)
    if address is None:
        yield Check("reachable", "failed", "no model server runs here", START_ONE)
    else:
        interview = Interview(address, named or guess_profile(address), model or "?", api_key=api_key, limit=limit)
        subject = _Subject(interview, found, model)
        try:
            async for check in subject.basic([server.base_url for server in servers if server is not found]):
                yield check
            for ask in subject.rest:
                yield await ask()
        finally:
            await interview.aclose()


class _Subject:
    """The server that is checked, with one of its models."""

    def __init__(self, interview: Interview, found: FoundServer | None, wanted: str | None) -> None:
        self._interview = interview
        self._adapter = interview.adapter
        self._profile = interview.adapter.profile
        self._found = found
        self._wanted = wanted
        #: what the server lists; `None` if it does not say
        self._listed: list[str] | None = None
        #: the answer comes in pieces, so that it can be dropped in its middle
        self._streams = False
        #: the settings with which the model made a call, if it made one
        self._calls_with: dict[str, Any] | None = None
        #: the checks after the basic ones, in order
        self.rest = (self.tools, self.parallel_calls, self.thinking, self.schema, self.cancellation, self.window)

    async def basic(self, others: Sequence[str]) -> AsyncGenerator[Check, None]:
        """The basic checks, and the usage of the answer that they needed."""
        trouble: ProviderError | None = None
        try:
            self._listed = await self._interview.models()
        except ProviderError as error:
            trouble = error
        reached = await self._reachable(trouble)
        yield replace(reached, found=f"{reached.found}; {', '.join(others)} as well") if others else reached
        if trouble is not None and trouble.kind == "auth":
            yield self._key(trouble)
        model = self._wanted or self._choice()
        if model is None:
            yield Check("key", "unknown", "nothing was asked for which one is needed")
            yield self._no_model()
        else:
            self._adapter.model = model
            # what the server repeats must not be taken away before it is seen
            first = await self._interview.ask("Count from 1 to 20.", adapter=self._interview.other(text_stream="delta"))
            yield self._key(first.error)
            yield self._model(first)
            yield self._streaming(first)
            yield _usage(first)

    async def _reachable(self, error: ProviderError | None) -> Check:
        name = self._profile.name
        where = f"{name} at {self._adapter.base_url}"
        # nothing tells an embedded server from any other llama.cpp
        if self._found is not None and self._found.profile not in (name, "llamacpp" if name == "embedded" else name):
            where += f", though it looks like {self._found.profile}"
        if error is None or error.kind in ("auth", "model_loading"):
            return Check("reachable", "ok", where)
        if error.kind in ("connection", "timeout"):
            return Check("reachable", "failed", error.message, "start the server, or name the address where it listens")
        status = error.status_code or 0
        is_page = (error.body or "").lstrip()[:1] == "<"
        if is_page and status >= 500:
            return Check("reachable", "failed", error.message, "start the server that is behind this address")
        parts = urlsplit(self._adapter.base_url)
        usual = urlunsplit(parts._replace(path=""))
        others = await find_servers([usual], limit=_PROBE_S) if parts.path != "/v1" else []
        if others or is_page or 300 <= status < 400:
            address = others[0].base_url if others else "the address of the API, which usually ends with /v1,"
            return Check("reachable", "failed", error.message, f"give {address} as base_url")
        return Check("reachable", "limited", f"{where}, which does not list its models ({error.message})")

    def _key(self, error: ProviderError | None) -> Check:
        key = self._interview.key
        if error is not None and error.kind == "auth":
            found = f"{'the key is refused' if key else 'a key is wanted'}: {error.message}"
            return Check("key", "failed", found, "name the variable that holds the key: --api-key-env NAME")
        if error is not None and error.status_code is None:
            return Check("key", "unknown", "no answer came that would show it")
        return Check("key", "ok", "accepted" if key else "none is needed")

    def _choice(self) -> str | None:
        offered = self._found.models if self._found else []
        chosen = self._found.choice() if self._found and offered else None
        return chosen.id if chosen else next(iter(() if offered else self._listed or ()), None)

    def _no_model(self) -> Check:
        if self._listed is None:
            return Check("model", "failed", "none is named, and the server lists none", "name one with -m")
        return Check("model", "failed", "the server has none that can chat", advice("models", self._profile.name))

    def _model(self, first: Answer) -> Check:
        model, listed = self._adapter.model, self._listed or []
        few = ", ".join(listed[:5])
        if first.error is not None and first.error.kind == "model_not_found":
            remedy = f"take one that it has: {few}" if listed else advice("models", self._profile.name)
            return Check("model", "failed", first.error.message, remedy)
        if listed and not {model, f"{model}:latest"} & {*listed}:
            found = f"{model!r} is not in the list ({few})"
            if first.error is not None:
                return Check("model", "unknown", found)
            return Check("model", "limited", f"{found}, but the server answers, as {first.response.model!r}")
        more = f", the first of {len(listed)}" if len(listed) > 1 and self._wanted is None else ""
        return Check("model", "ok", f"{model}{more}")

    def _streaming(self, first: Answer) -> Check:
        if first.error is not None:
            return Check("streaming", "failed", first.error.message, "see what the server itself writes to its log")
        if not first.reads:
            remedy = "see the server's log: does the model have a chat template, and does the prompt fit?"
            return Check("streaming", "failed", "the server answers with nothing at all", remedy)
        if len(first.reads) == 1 or (first.is_json and len({*first.reads}) == 1):
            why = "the server ignores stream=true" if first.is_json else "the server sends it in one event"
            found = f"the answer comes in one piece: {why}; it is read all the same"
            return Check("streaming", "limited", found, "update the server, or look for a proxy that gathers answers")
        if len({*first.reads}) == 1:
            remedy = "look for a proxy that holds answers back (nginx: proxy_buffering off)"
            return Check("streaming", "limited", "the pieces come all at once, at the end", remedy)
        self._streams = True
        reader = CumulativeText("auto")
        if "".join([*map(reader.feed, first.texts), reader.close()]) != "".join(first.texts):
            found = "each piece repeats all the text so far; any_agent shows only what is new"
            return Check("streaming", "limited", found, "text_stream='cumulative' says so from the start")
        usage = first.response.usage
        first_s = f", the first after {usage.first_token_s:.1f} s" if usage and usage.first_token_s else ""
        speed = f", {usage.tokens_per_s:.0f} tokens/s" if usage and usage.tokens_per_s else ""
        return Check("streaming", "ok", f"{len(first.reads)} pieces{first_s}{speed}")

    @property
    def _offer(self) -> FoundModel:
        """What the server says of the model."""
        models = self._found.models if self._found else []
        names = (self._adapter.model, f"{self._adapter.model}:latest")
        return next((model for model in models if model.id in names or len(models) == 1), FoundModel(""))

    async def tools(self) -> Check:
        """Whether a call comes as a call, and if not, who is to blame."""
        answer = await self._interview.ask(_ONE_CALL, [_WEATHER], max_tokens=_CALL)
        how: dict[str, Any] = {}
        if answer.error is None and not answer.attempts and self._adapter.protocol != "ollama":
            forced = await self._interview.ask(_ONE_CALL, [_WEATHER], max_tokens=_CALL, tool_choice="required")
            if forced.attempts:
                answer, how = forced, {"tool_choice": "required"}
        if answer.error is not None:
            return await self._no_tools(answer.error)
        if not answer.attempts:
            return self._no_call(answer)
        if answer.notice("text_tool_calls"):
            found = "calls come as text: the server passes them on unread; any_agent recovers them"
            return Check("tool call", "limited", found, advice("tools", self._profile.name))
        calls = [call for call in answer.response.tool_calls if call.name == _WEATHER.name]
        good = [call for call in calls if isinstance(call.input.get("city"), str)]
        if not good:
            made = answer.attempts[0]
            what = f"{made.name}({made.input})" if isinstance(made, ToolUseBlock) else made.error
            found = f"the model's call cannot be used ({what}); it is told so, and may mend it"
            return Check("tool call", "limited", found, _BETTER)
        self._calls_with = how
        repaired = answer.notice("arguments_repaired")
        if repaired is not None:
            return Check("tool call", "limited", f"the model writes bad JSON: {repaired.message}", _BETTER)
        if how:
            return Check("tool call", "limited", "the model calls only if it must (tool_choice='required')", _BETTER)
        return Check("tool call", "ok", f"the model called {good[0].name}({good[0].input})")

    def _no_call(self, answer: Answer) -> Check:
        abilities = self._offer.abilities
        if abilities is not None and "tools" not in abilities:
            found = "the server takes tools, but says itself that this model has none"
            return Check("tool call", "limited", found, advice("tools", self._profile.name))
        cut = answer.response.stop_reason == "max_tokens"
        instead = "was cut off before it made a call" if cut else f"said {(answer.response.text or '')[:60]!r} instead"
        return Check("tool call", "unknown", f"the server takes tools, but the model {instead}", _BETTER)

    async def _no_tools(self, error: ProviderError) -> Check:
        remedy = advice("tools", self._profile.name)
        if not refuses_tools(error):
            state = "unknown" if error.kind == "tool_use_failed" else "failed"
            return Check("tool call", state, error.message, remedy)
        prompted = self._interview.other(tool_mode="prompted")
        told = await self._interview.ask(_ONE_CALL, [_WEATHER], adapter=prompted, max_tokens=_CALL)
        then = "and so the model calls them" if told.attempts else "but this model made no call then either"
        found = f"the server refuses tools ({error.message}); any_agent tells them in words, {then}"
        return Check("tool call", "limited", found, remedy)

    async def parallel_calls(self) -> Check:
        """Whether two calls come in one answer."""
        name = "parallel calls"
        if self._calls_with is None:
            return Check(name, "skipped", "there was no call that came as one")
        prompt = "What is the weather in Oslo, and what is it in Rome? Ask for both at once."
        answer = await self._interview.ask(prompt, [_WEATHER], max_tokens=_CALL, **self._calls_with)
        if answer.error is not None:
            return Check(name, "failed", answer.error.message)
        count = len(answer.response.tool_calls)
        if count > 1:
            return Check(name, "ok", f"{count} calls in one answer")
        return Check(name, "unknown", f"the model made {count} where two were asked for; one after the other works too")

    async def thinking(self) -> Check:
        """Whether thoughts come apart from the answer."""
        answer = await self._interview.ask("What is 17 + 25?", thinking=True)
        refused = answer.notice("parameter_refused", "think", "reason", "chat_template")
        abilities = self._offer.abilities
        if answer.error is not None:
            return Check("thinking", "failed", answer.error.message)
        if answer.thoughts:
            return Check("thinking", "ok", "thoughts come apart from the answer")
        if "</think>" in (answer.response.text or ""):
            return Check("thinking", "limited", "thoughts come as text", advice("thinking", self._profile.name))
        if "thinking" in (abilities or ()):
            found = "the server says that the model thinks, but shows no thoughts"
            return Check("thinking", "limited", found, advice("thinking", self._profile.name))
        if refused is not None or (abilities is not None and self._profile.name.startswith("ollama")):
            return Check("thinking", "skipped", "not a model that thinks, says the server")
        return Check("thinking", "unknown", "no thoughts came: the model has none, or its server keeps them")

    async def schema(self) -> Check:
        """Whether the output obeys a schema of which the prompt says nothing."""
        name, then = "JSON schema", "with output_type, any_agent checks each answer and asks again"
        answer = await self._interview.ask("Is Oslo a city in Norway?", thinking=False, output_schema=_VERDICT)
        if answer.error is not None:
            state = "limited" if answer.error.kind == "invalid_request" else "failed"
            remedy = "a profile with structured_output='none' leaves schemas out"
            return Check(name, state, f"the server does not take a schema: {answer.error.message}", remedy)
        dropped = answer.notice("parameter_refused", "response_format", "output_config")
        refused = answer.notice("schema_not_sent") or dropped
        try:
            written = as_object(read_json((answer.response.text or "").encode()))
        except ValueError:
            written = {}
        if set(written) == {"verdict"} and written["verdict"] in ("yes", "no"):
            return Check(name, "ok", "the output obeys the schema")
        if refused is not None:
            return Check(name, "limited", f"{refused.message}; {then}")
        if answer.response.stop_reason == "max_tokens" and (answer.response.text or "{").lstrip()[:1] == "{":
            return Check(name, "unknown", "the output was cut off before it was complete")
        return Check(name, "limited", f"the server takes a schema and ignores it; {then}")

    async def cancellation(self) -> Check:
        """Whether the server stops when the connection is dropped in the middle of an answer."""
        name = "cancellation"
        if not self._streams:
            return Check(name, "unknown", "an answer that comes all at once cannot be dropped in its middle")
        prompt = "Count from 1 to 1000, one number after the other."
        begun, before, during = await self._interview.dropped(prompt, _CALL)
        if not begun:
            return Check(name, "unknown", "no answer came that could have been dropped")
        if before is None or during is None:
            return Check(name, "unknown", "the connection was dropped; the server does not tell what it did then")
        if during <= before:
            return Check(name, "unknown", "the answer was over before it could be dropped")
        began = time.monotonic()
        while (busy := await self._interview.busy_slots()) is not None and busy > before:
            if time.monotonic() - began > _NOTICE_S:
                found = f"{_NOTICE_S:g} s after the connection was dropped the server still generates"
                return Check(name, "limited", found, "update the server, and look for a proxy that holds connections")
            await asyncio.sleep(0.02)
        seconds = time.monotonic() - began
        return Check(name, "ok", f"the slot is free again {seconds:.1f} s after the connection was dropped")

    async def window(self) -> Check:
        """How many tokens the model was loaded with."""
        offer = self._offer
        window = await self._adapter.context_window() or offer.context_window
        if window is None:
            found = "the server does not say; too long a conversation is its error, or loses its beginning silently"
            return Check("context window", "unknown", found, advice("window", self._profile.name))
        could = f"; the model could have {offer.longest}" if offer.longest and offer.longest > window else ""
        if window >= _ROOMY:
            return Check("context window", "ok", f"{window} tokens{could}")
        found = f"{window} tokens, little room for tools and results{could}"
        return Check("context window", "limited", found, advice("window", self._profile.name))


def _usage(first: Answer) -> Check:
    usage = first.response.usage
    if usage is None:
        return Check("usage", "limited", "the server sends none; estimate_tokens() says about how much it is")
    return Check("usage", "ok", f"{usage.input_tokens or '?'} tokens in, {usage.output_tokens or '?'} out")
