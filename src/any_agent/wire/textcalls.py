"""Finds tool calls that a model wrote as text because its server did not recognise them.

Rules:
- Only calls of declared tools count; markup around anything else is text, and is shown.
- From an opening marker on, text is withheld until its end decides. Nothing else is held back longer than a
  marker could be long.
- JSON without any marker counts only if it is the whole output and names a declared tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from any_agent.wire.repair import read_values
from any_agent.wire.thinktags import held_back
from any_agent.wire.toolcalls import clean_name
from any_agent.wire.values import as_list, as_object, as_word, is_cut

__all__ = ("FoundCall", "TextCallScanner")


@dataclass(slots=True)
class FoundCall:
    """A call as it was written; the arguments are an object, or text that still has to be read."""

    name: str
    arguments: dict[str, Any] | str
    #: the output ended before the call did
    is_cut: bool = field(default=False, compare=False)


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
_LONGEST_CLOSER = max(map(len, _CLOSERS))
#: JSON whose first key has not come after so many characters is text
_MAX_START = 500
_OPENER = re.compile("|".join(re.escape(opener) for opener in sorted(_OPENERS, key=len, reverse=True)))

_NAME_KEYS = ("name", "function", "tool", "tool_name", "function_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params")
_BARE_START = re.compile(r'\s*(?:```(?:json)?\s*)?\[?\s*\{\s*"(\w+)"\s*:\s*(?:"([^"]*)"|[^\s"])')
_BARE_MAYBE = re.compile(
    r'\s*(?:`{1,3}|```(?:j|js|jso|json)?\s*)?(?:\[?\s*(?:\{\s*(?:"(?:\w*(?:"\s*(?::\s*(?:"[^"]*)?)?)?)?)?)?)?\Z'
)
_BARE_KEYS = (*_NAME_KEYS, *_ARGUMENT_KEYS, "type", "id")

# names are limited so that nothing is searched for in all that follows, again and again
_FUNCTION = re.compile(r"<function=([^>\s]{1,128})\s*>(.*?)(</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]{1,128})\s*>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
_INVOKE = re.compile(r'<(?:｜DSML｜)?invoke name="([^"]{1,128})"\s*>(.*?)(</(?:｜DSML｜)?invoke>|\Z)', re.DOTALL)
_NAMED_PARAMETER = re.compile(
    r'<(?:｜DSML｜)?parameter name="([^"]{1,128})"[^>]*>(.*?)(?:</(?:｜DSML｜)?parameter>|\Z)', re.DOTALL
)
_GLM_NAME = re.compile(r"\s*([\w.\-]{1,128})\s*(?=<arg_key>|\Z)")
_GLM_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|\Z)", re.DOTALL)
_DEEPSEEK = re.compile(
    r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?\s*([\w.\-]{1,128})\s*(?:<｜tool▁sep｜>)?(.*?)(<｜tool▁call▁end｜>|\Z)",
    re.DOTALL,
)
_KIMI = re.compile(
    r"<\|tool_call_begin\|>\s*([\w.\-]{1,128}?)(?::\d+)?\s*<\|tool_call_argument_begin\|>(.*?)(<\|tool_call_end\|>|\Z)",
    re.DOTALL,
)
_MISTRAL = re.compile(r"\s*([\w.\-]{1,128})\s*(?:\[CALL_ID\][\w\-]*)?(?:\[ARGS\])?\s*(\{.*)", re.DOTALL)
_CALL_PREFIX = re.compile(r"call:\s*([\w.\-]{1,128})\s*(\{.*)", re.DOTALL)
_JSON_NAME = re.compile(r'"(?:name|function|tool|tool_name)"\s*:\s*"([^"]+)"')


class TextCallScanner:
    """Feed it text; it returns what may be shown. What it finds is in `calls`.

    It is in one of these states:
    - `start`: nothing but what may begin bare JSON has come;
    - `bare`: the output is JSON so far, and is withheld to its end;
    - `text`: what comes is shown, but for what may begin a marker;
    - `block`: a marker has opened, and everything is withheld until one closes it;
    - `after`: a call has ended; white space and closing tags that follow it go.
    """

    def __init__(self, tools: Mapping[str, dict[str, Any]], *, bare_json: bool = True) -> None:
        self.calls: list[FoundCall] = []
        #: the raw text of the calls, which was not shown
        self.withheld: list[str] = []
        self._tools = tools
        self._state: Literal["start", "bare", "text", "block", "after"] = "start" if bare_json else "text"
        self._held = ""
        self._block: list[str] = []
        self._tail = ""
        self._opener = ""

    @property
    def is_holding(self) -> bool:
        """Something has been fed that was neither shown nor found to be a call."""
        return bool(self._held or self._block)

    def feed(self, text: str) -> str:
        """What of the text so far may be shown now."""
        if self._state == "text" and not self._held and "<" not in text and "[" not in text:
            return text
        shown: list[str] = []
        rest: str | None = text
        while rest is not None:
            match self._state:
                case "start":
                    rest = self._at_start(rest)
                case "bare":
                    self._block.append(rest)
                    rest = None
                case "text":
                    rest = self._in_text(rest, shown)
                case "block":
                    rest = self._in_block(rest, shown)
                case "after":
                    rest = self._after_call(rest)
        return "".join(shown)

    def release(self) -> str:
        """The beginning of a marker that will not come."""
        return self._become_text() if self._state == "text" else ""

    def close(self) -> str:
        """What was held back and is text after all."""
        state, held, raw = self._state, self._held, "".join(self._block)
        self._state, self._held, self._block = "text", "", []
        if state == "bare":
            return "" if self._record(raw, _bare_calls(raw)) else raw
        if state == "block":
            return "" if self._record(raw, _calls_in(raw, self._opener, is_closed=False)) else raw
        return "" if state == "after" and not held.strip() else held

    def _at_start(self, text: str) -> str | None:
        self._held += text
        start = _BARE_START.match(self._held)
        if start:
            key, value = start.group(1), start.group(2)
            is_other = key in _NAME_KEYS and value is not None and clean_name(value, self._tools) not in self._tools
            if key in _BARE_KEYS and not is_other:
                self._state, self._block, self._held = "bare", [self._held], ""
                return None
        elif len(self._held) < _MAX_START and _BARE_MAYBE.match(self._held):
            return None
        return self._become_text()

    def _in_text(self, text: str, shown: list[str]) -> str | None:
        self._held += text
        found = _OPENER.search(self._held)
        if found is None:
            keep = held_back(self._held, _OPENERS)
            shown.append(self._held[: len(self._held) - keep])
            self._held = self._held[len(self._held) - keep :]
            return None
        shown.append(self._held[: found.start()])
        rest = self._held[found.end() :]
        self._state, self._held, self._tail, self._opener = "block", "", "", found.group()
        self._block = [self._opener]
        return rest

    def _in_block(self, text: str, shown: list[str]) -> str | None:
        window = self._tail + text
        ends = [place + len(mark) for mark in _BLOCKS[self._opener] if (place := window.find(mark)) >= 0]
        if not ends:
            self._block.append(text)
            self._tail = window[-_LONGEST_CLOSER:]
            return None
        end = min(ends) - len(self._tail)
        raw = "".join((*self._block, text[:end]))
        if _is_inside_json(raw, self._opener):
            self._block, self._tail = [raw], ""
            return text[end:]
        self._block = []
        if self._record(raw, _calls_in(raw, self._opener, is_closed=True)):
            self._state = "after"
        else:
            shown.append(raw)
            self._state = "text"
        return text[end:]

    def _after_call(self, text: str) -> str | None:
        self._held += text
        rest = self._held.lstrip()
        if not rest:
            return None
        closer = next((closer for closer in _CLOSERS if rest.startswith(closer)), None)
        if closer is not None:
            self._held = ""
            return rest[len(closer) :]
        if _OPENER.match(rest):
            self._state, self._held = "text", ""
            return rest
        if any(marker.startswith(rest) for marker in (*_CLOSERS, *_OPENERS)):
            return None
        return self._become_text()

    def _become_text(self) -> str:
        held, self._held = self._held, ""
        self._state = "text"
        return held

    def _record(self, raw: str, calls: list[FoundCall]) -> bool:
        for call in calls:
            call.name = clean_name(call.name, self._tools)
        if not calls or any(call.name not in self._tools for call in calls):
            return False
        self.calls += calls
        self.withheld.append(raw)
        return True


def _is_inside_json(block: str, opener: str) -> bool:
    """Whether what looks like the closing marker is a part of the arguments: the JSON before it goes on."""
    body = block.removeprefix(opener)
    for closer in _BLOCKS[opener]:
        body = body.removesuffix(closer)
    return body.lstrip()[:1] in ("{", "[") and is_cut(body.encode("utf-8", "replace"))


def _calls_in(block: str, opener: str, *, is_closed: bool) -> list[FoundCall]:
    """The calls in a block, from its opening marker to its closing one, in whichever notation.

    Arguments in JSON show themselves whether they are whole; in tags they are only as whole as the last one is
    closed, so what is not is left as it was written, and will not be understood.
    """
    for pattern in (_DEEPSEEK, _KIMI):
        found = [FoundCall(name, _unfenced(text), not end) for name, text, end in pattern.findall(block)]
        if found:
            return found
    for pattern, parameter in ((_FUNCTION, _PARAMETER), (_INVOKE, _NAMED_PARAMETER)):
        written = pattern.findall(block)
        if written:
            return [
                FoundCall(name, (_pairs(parameter, body) if end else {}) or (body if body.strip() else {}), not end)
                for name, body, end in written
            ]
    body = block.removeprefix(opener)
    for closer in _BLOCKS[opener]:
        body = body.removesuffix(closer)
    called = _CALL_PREFIX.match(body.strip())
    if called:
        return [FoundCall(called.group(1), called.group(2))]
    if opener == "[TOOL_CALLS]" and not body.lstrip().startswith(("[", "{")):
        parts = [_MISTRAL.match(part) for part in body.split("[TOOL_CALLS]")]
        return [FoundCall(part.group(1), part.group(2).strip()) for part in parts if part]
    name = _GLM_NAME.match(body)
    if name:
        return [FoundCall(name.group(1), _pairs(_GLM_PAIR, body) if is_closed else body, not is_closed)]
    return _json_calls(body)


def _pairs(pattern: re.Pattern[str], body: str) -> dict[str, Any]:
    return {key.strip(): value for key, value in pattern.findall(body)}


def _unfenced(text: str) -> str:
    text = text.strip()
    if text.startswith("```"):
        text = text[3:].removeprefix("json").strip()
    return text.removesuffix("```").strip()


def _json_calls(body: str) -> list[FoundCall]:
    """Calls as JSON: an object, an array of them, or several objects in a row (also with `;` in between)."""
    text = body.strip()
    calls = [_json_call(as_object(value)) for value in _json_values(text)]
    if calls:
        return [call for call in calls if call is not None] if all(calls) else []
    named = _JSON_NAME.search(text)
    return [FoundCall(named.group(1), text)] if named else []


def _json_values(text: str) -> list[Any]:
    """The values in the text, those in an array one by one; none if any of it is not JSON."""
    try:
        return _flat(read_values(text, lenient=True)[0])
    except ValueError:
        pass
    try:
        return _flat([value for part in text.split(";") for value in read_values(part.strip(), lenient=True)[0]])
    except ValueError:
        return []


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
    values = _json_values(raw.strip())
    if not values or any(not as_object(value) or not set(as_object(value)) <= set(_BARE_KEYS) for value in values):
        return []
    return _json_calls(raw)
