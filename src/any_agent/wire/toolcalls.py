"""Puts tool calls together from the pieces that servers send.

Rules:
- `null`, `""` and absent are the same, everywhere.
- An index is a key, never a position. A piece belongs to the latest call with its index, unless it brings a
  name *and* cannot be more of that call: another id, or that call's arguments are whole and these are others.
- Without an index, a name begins a new call (unless the id says otherwise); all else belongs to the last one.
- A call is shown (`ToolInputStart`) once its name is settled and its id is known; after that both stand.
  An id that has not come when arguments begin will not come: one is made up.
- What is shown is never taken back; calls are complete only when the response is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from any_agent.events import Event, Notice, ToolCall, ToolInputDelta, ToolInputStart
from any_agent.types import ToolUseBlock, ToolUseError
from any_agent.wire.repair import Parsed, coerce, parse_arguments
from any_agent.wire.values import as_list, as_object

__all__ = ("CallPiece", "ToolAssembler", "clean_name")


@dataclass(slots=True)
class CallPiece:
    """What one delta says of one call."""

    index: Any = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None
    extra: dict[str, Any] | None = None


@dataclass(slots=True)
class _Call:
    index: Any
    server_id: str = ""
    id: str = ""
    name: str = ""
    arguments: str = ""
    object: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None
    shown: bool = False
    unsent: list[str] = field(default_factory=list[str])

    def is_empty(self) -> bool:
        return not (self.name or self.arguments or self.object is not None)

    def has_whole_arguments(self) -> bool:
        if self.object is not None:
            return True
        if not self.arguments.rstrip().endswith(("}", "null")):
            return False  # which spares a look at all of it for each piece
        return not parse_arguments(self.arguments, lenient=False).error


def clean_name(name: str, declared: Mapping[str, Any]) -> str:
    """The tool that a contaminated name means.

    >>> clean_name(" functions.search<|channel|>commentary", {"search": {}})
    'search'
    """
    name = name.split("<|", 1)[0].strip()
    if name not in declared:
        for prefix in ("functions.", "function.", "tools."):
            if name.startswith(prefix) and name.removeprefix(prefix) in declared:
                return name.removeprefix(prefix)
    return name


class ToolAssembler:
    """Collects the calls of one response.

    `tools` maps declared names to the schemas of their arguments; `new_id` makes up ids.
    """

    def __init__(self, tools: Mapping[str, dict[str, Any]], *, lenient: bool, new_id: Callable[[], str]) -> None:
        self._tools = tools
        self._lenient = lenient
        self._new_id = new_id
        self._calls: list[_Call] = []
        self._ids: set[str] = set()

    def __bool__(self) -> bool:
        return any(not call.is_empty() for call in self._calls)

    def clear(self) -> None:
        """Forget everything: the response begins again."""
        self._calls.clear()
        self._ids.clear()

    def add(self, piece: CallPiece, events: list[Event]) -> None:
        """Take one piece in; append what can be shown to `events`."""
        call = self._call_for(piece)
        if piece.id and not call.server_id:
            call.server_id = piece.id
        if piece.extra:
            call.extra = {**(call.extra or {}), **piece.extra}
        if piece.name:
            call.name = _joined_name(call.name, piece.name, self._tools)
        more = self._take_arguments(call, piece.arguments)
        if more:
            call.unsent.append(more)
        if not call.shown and self._is_settled(call):
            self._show(call, events)
        if call.shown:
            self._send_arguments(call, events)

    def finish(self, events: list[Event]) -> list[ToolUseBlock | ToolUseError]:
        """The calls of the response, as blocks; their last events go to `events`."""
        blocks: list[ToolUseBlock | ToolUseError] = []
        for call in self._calls:
            if call.is_empty():
                events.append(Notice("phantom_call", "the server announced a tool call and never said which"))
                continue
            name = clean_name(call.name, self._tools)
            if not name:
                raw = call.arguments or json.dumps(call.object)
                blocks.append(ToolUseError("The tool call has no name", raw, call.server_id or None))
                continue
            if not call.shown:
                self._show(call, events)
                self._send_arguments(call, events)
            parsed = parse_arguments(call.object if call.object is not None else call.arguments, lenient=self._lenient)
            blocks += self._blocks(call, name, parsed, events)
        events.extend(ToolCall(block) for block in blocks)
        return blocks

    def _call_for(self, piece: CallPiece) -> _Call:
        if piece.index is not None:
            call = next((call for call in reversed(self._calls) if call.index == piece.index), None)
            is_new = call is None or (bool(piece.name) and self._is_other_call(call, piece))
        else:
            call = self._calls[-1] if self._calls else None
            same_id = call is not None and bool(piece.id) and piece.id == call.server_id
            is_new = call is None or (bool(piece.name) and bool(call.name) and not same_id)
            if call is not None and same_id and piece.name:
                is_new = self._is_other_call(call, piece)
        if call is None or is_new:
            call = _Call(piece.index)
            self._calls.append(call)
        return call

    def _is_other_call(self, call: _Call, piece: CallPiece) -> bool:
        if piece.id and call.server_id and piece.id != call.server_id:
            return True
        name, other = clean_name(call.name, self._tools), clean_name(piece.name or "", self._tools)
        if name != other and name in self._tools and other in self._tools and not (call.arguments or call.object):
            return True  # two tools, of which the first takes no arguments
        if not call.name or not call.has_whole_arguments():
            return False
        if name != other:
            return True
        if not piece.arguments:
            return False
        given = as_object(piece.arguments)
        if given:
            return given != call.object
        text = str(piece.arguments)
        if call.object is not None:
            return parse_arguments(text, lenient=False).values not in ([], [call.object])
        return not text.startswith(call.arguments) and not parse_arguments(text, lenient=False).error

    def _take_arguments(self, call: _Call, arguments: object) -> str:
        """Add to the call's arguments; return what is new of them, as JSON text."""
        given: Any = as_object(arguments) or as_list(arguments)
        if isinstance(arguments, dict) and given and not call.arguments:
            if given == call.object:
                return ""
            call.object = given
            return json.dumps(given, ensure_ascii=False)
        text = arguments if isinstance(arguments, str) else ""
        if not isinstance(arguments, str | dict | None):
            text = json.dumps(given or arguments, ensure_ascii=False)  # no object, which will be an error
        so_far = call.arguments
        # `{` then `{"…` can only be the same once more: no object has `{` right after its `{`
        repeats = text.startswith(so_far) and (len(so_far) > 1 or (so_far == "{" and text[1:2] in ('"', "}", " ")))
        if repeats and (len(text) > len(so_far) or call.has_whole_arguments()):
            call.arguments = text
            return text[len(so_far) :]
        call.arguments = so_far + text
        return text

    def _is_settled(self, call: _Call) -> bool:
        if not call.name:
            return False
        if call.arguments or call.object is not None:
            return True
        return bool(call.server_id) and (not self._tools or clean_name(call.name, self._tools) in self._tools)

    def _show(self, call: _Call, events: list[Event]) -> None:
        call.shown = True
        call.id = call.server_id
        if not call.id or call.id in self._ids:
            call.id = self._new_id()
            if call.server_id:
                message = f"the server used the id {call.server_id!r} for two calls; one is now {call.id!r}"
                events.append(Notice("duplicate_call_id", message, {"id": call.id}))
        self._ids.add(call.id)
        events.append(ToolInputStart(call.id, clean_name(call.name, self._tools)))

    @staticmethod
    def _send_arguments(call: _Call, events: list[Event]) -> None:
        events.extend(ToolInputDelta(call.id, part) for part in call.unsent)
        call.unsent.clear()

    def _blocks(self, call: _Call, name: str, parsed: Parsed, events: list[Event]) -> list[ToolUseBlock | ToolUseError]:
        if parsed.error is not None:
            return [ToolUseError(parsed.error, call.arguments or json.dumps(call.object), call.id, name)]
        rules = parsed.rules
        blocks: list[ToolUseBlock | ToolUseError] = []
        for number, value in enumerate(parsed.values):
            if self._lenient:
                value, coerced = coerce(value, self._tools.get(name))
                rules = [*rules, *(f"decoded:{key}" for key in coerced)]
            if number == 0:
                wrote = call.arguments if len(parsed.values) == 1 else None
                blocks.append(ToolUseBlock(call.id, name, value, extra=call.extra, arguments=wrote or None))
            else:
                new = ToolUseBlock(self._new_id(), name, value)
                self._ids.add(new.id)
                events += (ToolInputStart(new.id, name), ToolInputDelta(new.id, json.dumps(value)))
                blocks.append(new)
                rules = [*rules, "several_objects"]
        if rules:
            message = f"the arguments of {name} were repaired: {', '.join(rules)}"
            events.append(Notice("arguments_repaired", message, {"id": call.id, "name": name, "rules": rules}))
        return blocks


def _joined_name(known: str, piece: str, declared: Mapping[str, Any]) -> str:
    """The name, now that one more piece of it (or all of it once more) has come."""
    if not known or piece.startswith(known):
        return piece
    if known.endswith(piece) and clean_name(known, declared) in declared:
        return known
    if clean_name(known, declared) in declared and clean_name(known + piece, declared) not in declared:
        return known
    return known + piece
