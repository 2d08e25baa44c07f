"""Finds tool calls that a model wrote as text because its server did not recognise them.

Rules:
- Only calls of declared tools count; markup around anything else is text, and is shown.
- From an opening marker on, text is withheld until its end decides. Nothing else is held back longer than a
  marker could be long.
- JSON without any marker counts only if it is the whole output and names a declared tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from any_agent.wire.repair import read_values
from any_agent.wire.thinktags import held_back
from any_agent.wire.toolcalls import clean_name
from any_agent.wire.values import as_list, as_object, as_word

__all__ = ("FoundCall", "TextCallScanner")


@dataclass(slots=True)
class FoundCall:
    """A call as it was written; the arguments are an object, or text that still has to be read."""

    name: str
    arguments: dict[str, Any] | str


#: opening marker → what may close it; without a closer, the end of the output does
_BLOCKS: dict[str, tuple[str, ...]] = {
    "<tool_call>": ("</tool_call>",),
    "<tool_calls>": ("</tool_calls>",),
    "<TOOLCALL>": ("</TOOLCALL>",),
    "<function=": ("</function>",),
    "<function_calls>": ("</function_calls>",),
    "<invoke name=": ("</invoke>",),
    "<minimax:tool_call>": ("</minimax:tool_call>",),
    "<｜DSML｜function_calls>": ("</｜DSML｜function_calls>",),
    "<｜tool▁calls▁begin｜>": ("<｜tool▁calls▁end｜>",),
    "<｜tool▁call▁begin｜>": ("<｜tool▁call▁end｜>",),
    "<|tool_calls_section_begin|>": ("<|tool_calls_section_end|>",),
    "<|tool_call_begin|>": ("<|tool_call_end|>",),
    "<|tool_call|>": ("<|/tool_call|>",),
    "<|tool_call>": ("<tool_call|>",),
    "<|START_ACTION|>": ("<|END_ACTION|>",),
    "<|python_tag|>": ("<|eom_id|>", "<|eot_id|>"),
    "[TOOL_REQUEST]": ("[END_TOOL_REQUEST]",),
    "[TOOL_CALLS]": (),
}
_OPENERS = tuple(_BLOCKS)
_CLOSERS = tuple({closer for closers in _BLOCKS.values() for closer in closers})
_OPENER = re.compile("|".join(re.escape(opener) for opener in sorted(_OPENERS, key=len, reverse=True)))

_NAME_KEYS = ("name", "function", "tool", "tool_name", "function_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params")
_BARE_START = re.compile(r'\s*(?:```(?:json)?\s*)?\[?\s*\{\s*"(\w+)"\s*:\s*(?:"([^"]*)"|\S)')
_BARE_MAYBE = re.compile(r'\s*(?:`{1,3}|```(?:j|js|jso|json)?\s*)?(?:\[?\s*(?:\{\s*(?:"(?:\w*(?:"\s*:?\s*)?)?)?)?)?\Z')
_BARE_KEYS = (*_NAME_KEYS, *_ARGUMENT_KEYS, "type", "id")

_FUNCTION = re.compile(r"<function=([^>\s]+)\s*>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)\s*>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
_INVOKE = re.compile(r'<(?:｜DSML｜)?invoke name="([^"]+)"\s*>(.*?)(?:</(?:｜DSML｜)?invoke>|\Z)', re.DOTALL)
_NAMED_PARAMETER = re.compile(
    r'<(?:｜DSML｜)?parameter name="([^"]+)"[^>]*>(.*?)(?:</(?:｜DSML｜)?parameter>|\Z)', re.DOTALL
)
_GLM_NAME = re.compile(r"\s*([\w.\-]+)\s*(?=<arg_key>|\Z)")
_GLM_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|\Z)", re.DOTALL)
_DEEPSEEK = re.compile(
    r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?\s*([\w.\-]+)\s*(?:<｜tool▁sep｜>)?(.*?)(?:<｜tool▁call▁end｜>|\Z)",
    re.DOTALL,
)
_KIMI = re.compile(
    r"<\|tool_call_begin\|>\s*([\w.\-]+?)(?::\d+)?\s*<\|tool_call_argument_begin\|>(.*?)(?:<\|tool_call_end\|>|\Z)",
    re.DOTALL,
)
_MISTRAL = re.compile(
    r"(?:\[TOOL_CALLS\])?\s*([\w.\-]+)\s*(?:\[CALL_ID\][\w\-]*)?(?:\[ARGS\])?\s*(\{.*?)(?=\[TOOL_CALLS\]|\Z)", re.DOTALL
)
_CALL_PREFIX = re.compile(r"call:\s*([\w.\-]+)\s*(\{.*)", re.DOTALL)
_JSON_NAME = re.compile(r'"(?:name|function|tool|tool_name)"\s*:\s*"([^"]+)"')


class TextCallScanner:
    """Feed it text; it returns what may be shown. What it finds is in `calls` after `close()`."""

    def __init__(self, tools: Mapping[str, dict[str, Any]], *, bare_json: bool = True) -> None:
        self.calls: list[FoundCall] = []
        #: the raw text of the calls, which was not shown
        self.withheld: list[str] = []
        self._tools = tools
        self._held = ""
        self._opener = ""
        self._at_start = bare_json
        self._bare = False

    def feed(self, text: str) -> str:
        """What of the text so far may be shown now."""
        if not self._held and not self._at_start and "<" not in text and "[" not in text:
            return text
        self._held += text
        if self._at_start and not self._decide_bare():
            return ""
        return "".join(self._shown())

    def close(self) -> str:
        """What was held back and is text after all."""
        if self._bare or self._opener:
            raw, opener = self._held, self._opener
            self._held = self._opener = ""
            if self._record(raw, _bare_calls(raw) if self._bare else _calls_in(raw, opener)):
                return ""
            return raw
        rest, self._held = self._held, ""
        return "" if self.calls and not _without_closer(rest).strip() else rest

    def _decide_bare(self) -> bool:
        """Whether it is settled that the output is, or is not, bare JSON; sets `_at_start` to false if it is not."""
        if self._bare:
            return False
        start = _BARE_START.match(self._held)
        if start:
            key, value = start.group(1), start.group(2)
            is_other = key in _NAME_KEYS and value is not None and clean_name(value, self._tools) not in self._tools
            if key in _BARE_KEYS and not is_other:
                self._bare = True
                return False
        elif _BARE_MAYBE.match(self._held):
            return False
        self._at_start = False
        return True

    def _shown(self) -> Iterator[str]:
        while self._held:
            if not self._opener:
                found = _OPENER.search(self._held)
                if found is None:
                    yield self._without_tail()
                    return
                yield self._held[: found.start()]
                self._held = self._held[found.start() :]
                self._opener = found.group()
            end = self._end_of_block()
            if end is None:
                return
            block, self._held = self._held[:end], self._held[end:]
            calls = _calls_in(block, self._opener)
            self._opener = ""
            if self._record(block, calls):
                self._held = _without_closer(self._held)
            else:
                yield block

    def _without_tail(self) -> str:
        keep = held_back(self._held, _OPENERS)
        if self.calls and not _without_closer(self._held).strip():
            keep = len(self._held)  # only white space and closing tags since the last call, so far
        elif self.calls:
            keep = max(keep, held_back(self._held, _CLOSERS))
        shown, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return shown

    def _end_of_block(self) -> int | None:
        ends = [
            position + len(closer)
            for closer in _BLOCKS[self._opener]
            if (position := self._held.find(closer, len(self._opener))) >= 0
        ]
        return min(ends) if ends else None

    def _record(self, raw: str, calls: list[FoundCall]) -> bool:
        for call in calls:
            call.name = clean_name(call.name, self._tools)
        if not calls or any(call.name not in self._tools for call in calls):
            return False
        self.calls += calls
        self.withheld.append(raw)
        return True


def _without_closer(text: str) -> str:
    stripped = text.lstrip()
    closer = next((closer for closer in _CLOSERS if stripped.startswith(closer)), None)
    return text if closer is None else stripped[len(closer) :]


def _calls_in(block: str, opener: str) -> list[FoundCall]:
    """The calls in a block, from its opening marker to its closing one, in whichever notation."""
    for pattern in (_DEEPSEEK, _KIMI):
        found = [FoundCall(name, _unfenced(text)) for name, text in pattern.findall(block)]
        if found:
            return found
    functions = _FUNCTION.findall(block)
    if functions:
        return [FoundCall(name, _pairs(_PARAMETER, body) or body) for name, body in functions]
    invokes = _INVOKE.findall(block)
    if invokes:
        return [FoundCall(name, _pairs(_NAMED_PARAMETER, body)) for name, body in invokes]
    body = block.removeprefix(opener)
    for closer in _BLOCKS[opener]:
        body = body.removesuffix(closer)
    called = _CALL_PREFIX.match(body.strip())
    if called:
        return [FoundCall(called.group(1), called.group(2))]
    if opener == "[TOOL_CALLS]" and not body.lstrip().startswith(("[", "{")):
        return [FoundCall(name, text.strip()) for name, text in _MISTRAL.findall(body)]
    name = _GLM_NAME.match(body)
    if name:
        return [FoundCall(name.group(1), _pairs(_GLM_PAIR, body))]
    return _json_calls(body)


def _pairs(pattern: re.Pattern[str], body: str) -> dict[str, Any]:
    return {key.strip(): value for key, value in pattern.findall(body)}


def _unfenced(text: str) -> str:
    return re.sub(r"^\s*```(?:json)?\s*|\s*```\s*$", "", text.strip())


def _json_calls(body: str) -> list[FoundCall]:
    """Calls as JSON: an object, an array of them, or several objects in a row (also with `;` in between)."""
    text = body.strip()
    try:
        values, _ = read_values(text, lenient=True)
    except ValueError:
        try:
            values = [value for part in text.split(";") for value in read_values(part.strip(), lenient=True)[0]]
        except ValueError:
            named = _JSON_NAME.search(text)
            return [FoundCall(named.group(1), text)] if named else []
    calls = [_json_call(as_object(value)) for value in _flat(values)]
    return [call for call in calls if call is not None] if all(calls) else []


def _flat(values: list[Any]) -> list[Any]:
    return [item for value in values for item in (as_list(value) if isinstance(value, list) else [value])]


def _json_call(data: dict[str, Any]) -> FoundCall | None:
    data = as_object(data.get("function")) or data
    name = next((word for key in _NAME_KEYS if (word := as_word(data.get(key)))), None)
    if name is None:
        return None
    given = [data[key] for key in _ARGUMENT_KEYS if data.get(key) is not None]
    if not given or isinstance(given[0], dict):
        return FoundCall(name, as_object(given[0]) if given else {})
    return FoundCall(name, str(given[0]))


def _bare_calls(raw: str) -> list[FoundCall]:
    """The calls in an output that is nothing but JSON; an object with other keys than a call's is an answer."""
    try:
        values, _ = read_values(raw.strip(), lenient=True)
    except ValueError:
        return []
    if any(not as_object(value) or not set(as_object(value)) <= set(_BARE_KEYS) for value in _flat(values)):
        return []
    return _json_calls(raw)
