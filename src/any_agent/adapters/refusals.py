"""Parameters that a server refuses by name: which one, and what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from any_agent.errors import ProviderError
from any_agent.wire.schema import simplify
from any_agent.wire.values import as_object, as_objects

__all__ = ("Refusals", "refuses_tools")

#: what may be left out or renamed without changing what was asked; never messages, model or tools
_DROPPABLE = (
    "stream_options",
    "parallel_tool_calls",
    "max_tokens",
    "max_completion_tokens",
    "think",
    "thinking",
    "temperature",
    "top_p",
    "seed",
    "stop",
    "tool_choice",
    "reasoning_effort",
    "reasoning",
    "response_format",
    "output_config",
    "chat_template_kwargs",
    "return_progress",
    "store",
    "include",
)
#: the words in which servers say that this model, or this way of starting them, has no tools; one kind of tool, a
#: choice among tools, or several calls at once may be refused on their own, and are another matter
_NO_TOOLS = re.compile(
    r"(?:does not|doesn't|do not) support (?:tools\b|tool (?:use|call)|function)|endpoints found that support tool use"
    r"|(?<!parallel )\b(?:tools|tool[ _](?:calls?|calling|use)|function[ _]calling)[`'\"]? (?:is|are) not"
    r" (?:supported|enabled|available)"
    r"|tools param requires --jinja|requires --(?:enable-auto-tool-choice|tool-call-parser)"
    r"|unsupported tool_call_parser|(?:unsupported param|unrecognized request argument supplied): tools\b",
    re.IGNORECASE,
)
_RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
#: a grammar could not be made of the schema of a tool
_SCHEMA_REFUSAL = re.compile(
    r"parse grammar|unrecogni[sz]ed schema|json.?schema (?:is )?not supported"
    r"|invalid.{0,40}schema|schema.{0,60}unsupported",
    re.IGNORECASE,
)
_SCHEMA_LUXURY = (
    "$schema",
    "$id",
    "additionalProperties",
    "default",
    "title",
    "examples",
    "pattern",
    "format",
    "const",
)
_REFUSAL = re.compile(
    r"unsupported|not (?:currently )?support|not permitted|not allowed|unknown|unrecognized|unrecognised|unexpected"
    r"|extra_forbidden|extra (?:inputs|fields)|no such (?:field|parameter)|is not a valid (?:field|parameter)"
    r"|additional propert|requires? --",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Refusal:
    name: str
    rename: str | None


def refuses_tools(error: ProviderError) -> bool:
    """Whether a server says that it cannot do tools at all."""
    refused = error.status_code in (400, 404, 422, 500, 501)
    return refused and _NO_TOOLS.search(f"{error.message} {error.body or ''}") is not None


class Refusals:
    """What one server refused so far. Each parameter is dealt with once, and remembered."""

    def __init__(self) -> None:
        self._known: dict[str, _Refusal] = {}
        self._plain_schemas = False

    def apply(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body as this server takes it."""
        for refusal in self._known.values():
            if refusal.name in body:
                body = dict(body)
                value = body.pop(refusal.name)
                if refusal.rename is not None:
                    body[refusal.rename] = value
        if self._plain_schemas:
            body = {**body, "tools": [_with_plain_schema(tool) for tool in as_objects(body.get("tools"))]}
        return body

    def learn(self, error: ProviderError, body: dict[str, Any]) -> str | None:
        """What is done about this error from now on, in words; `None` if it refuses no parameter that was sent."""
        if error.kind != "invalid_request" or error.status_code not in (400, 404, 405, 422, 500, 501):
            return None
        text = f"{error.message} {error.body or ''}"
        if body.get("tools") and not self._plain_schemas and _SCHEMA_REFUSAL.search(text):
            self._plain_schemas = True
            return "the server does not understand the schema of a tool; schemas are simplified from now on"
        if not _REFUSAL.search(text):
            return None
        param = error.details.get("param")
        sent = [name for name in _DROPPABLE if name in body]
        named = [name for name in sent if name == param] or [name for name in sent if _names(text, name)]
        if not named:
            return None
        name = named[0]
        if name in self._known:
            return None
        rename = _RENAMED.get(name)
        if rename in self._known:
            rename = None
        self._known[name] = _Refusal(name, rename)
        what = f"renamed to {rename!r}" if rename else "left out"
        return f"the server refuses {name!r}; it is {what} from now on"


def _with_plain_schema(tool: dict[str, Any]) -> dict[str, Any]:
    function = as_object(tool.get("function"))
    if function:
        return {**tool, "function": _with_plain_schema(function)}
    names = [name for name in ("parameters", "input_schema") if name in tool]
    return {**tool, **{name: simplify(as_object(tool[name]), drop=_SCHEMA_LUXURY) for name in names}}


def _names(text: str, name: str) -> bool:
    if name in ("think", "thinking") and re.search(r"does not support thinking", text, re.IGNORECASE):
        return True
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None
