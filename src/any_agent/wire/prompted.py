"""Tools for models that cannot call any: told in words, and read back from what the model writes.

Where the server can constrain the output, the model writes one JSON object: `{"tool": …, "arguments": …}` or
`{"answer": …}`. `PromptedReader` takes it apart while it comes. Elsewhere the model writes calls between
`<tool_call>` tags, and they are found as all calls in text are (`textcalls`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from any_agent.types import Block, Message, Profile, TextBlock, ToolResultBlock, ToolSpec, ToolUseBlock
from any_agent.wire.history import History, prepare, result_text
from any_agent.wire.request import Encoded, Request, arguments_text, tool_choice_name
from any_agent.wire.schema import simplify
from any_agent.wire.toolcalls import CallPiece

__all__ = ("PromptedReader", "encode_prompted", "writes_json")

# The words were tried on a model of 135 million parameters: to show it an answer before it has called a tool, even
# as a pattern, makes it answer at once; not to show one after the result makes it call for ever.
_LIST = "You can call tools. Each is given with the JSON Schema of its arguments:\n\n{tools}\n\n"
_IN_JSON = 'Answer with one JSON object. To call a tool: {{"tool": "<name>", "arguments": {{...}}}}.'
_ANSWER = ' When you have what you need, put your answer to the user into "answer".'
_HINT = '\n\nIf no other tool is needed: {"answer": "<what I asked for>"}'
_IN_TAGS = (
    'To call a tool, write only:\n<tool_call>\n{{"name": "<name>", "arguments": {{...}}}}\n</tool_call>\n'
    "You will be given the result. When you have what you need, answer in words."
)
_MUST_CALL = "\nDo call {names} now."


def writes_json(profile: Profile) -> bool:
    """Whether the output of a server of `profile` can be constrained, so that a prompted model writes JSON."""
    return profile.structured_output == "json_schema"


def encode_prompted(request: Request, profile: Profile, encode: Callable[[Request, Profile], Encoded]) -> Encoded:
    """The request with its tools, calls and results in words, encoded by `encode`, which sees none of them."""
    history = prepare(request.messages, replace(profile, alternate_roles=False, bridge_turns=False))
    in_json = writes_json(profile)
    name = tool_choice_name(request)
    must_call = name is not None or request.tool_choice in ("required", "any")
    tools = [tool for tool in request.tools if request.tool_choice != "none" and name in (None, tool.name)]
    messages = [_in_words(message, history, in_json=in_json) for message in history.messages]
    schema = request.output_schema
    if tools:
        first = 1 if messages and messages[0].role == "system" else 0
        messages.insert(first, Message("system", _instructions(tools, in_json=in_json, must_call=must_call)))
        schema = _union(tools, schema, must_call=must_call) if in_json else None
        if in_json and not must_call and history.messages and history.messages[-1].role == "tool":
            messages[-1] = _in_words(history.messages[-1], history, in_json=True, hint=_HINT)
    plain = replace(request, messages=messages, tools=(), tool_choice=None, output_schema=schema)
    encoded = encode(plain, profile)
    return Encoded(encoded.body, [*history.notices, *encoded.notices])


def _instructions(tools: Sequence[ToolSpec], *, in_json: bool, must_call: bool) -> str:
    listed = "\n".join(
        json.dumps(
            {"name": tool.name, "description": tool.description, "arguments": simplify(tool.parameters)},
            ensure_ascii=False,
        )
        for tool in tools
    )
    how = (_IN_JSON + ("" if must_call else _ANSWER) if in_json else _IN_TAGS).format()
    names = " or ".join(tool.name for tool in tools)
    return _LIST.format(tools=listed) + how + (_MUST_CALL.format(names=names) if must_call else "")


def _union(tools: Sequence[ToolSpec], answer: dict[str, Any] | None, *, must_call: bool) -> dict[str, Any]:
    """The schema of what the model may write: a call of one of the tools, or an answer."""
    shapes: list[dict[str, Any]] = [
        {
            "tool": {"type": "string", "enum": [tool.name]},
            "arguments": {"type": "object", "properties": {}, **simplify(tool.parameters)},
        }
        for tool in tools
    ]
    if not must_call:
        shapes.append({"answer": simplify(answer) if answer is not None else {"type": "string"}})
    options = [
        {"type": "object", "properties": shape, "required": list(shape), "additionalProperties": False}
        for shape in shapes
    ]
    return options[0] if len(options) == 1 else {"anyOf": options}


def _in_words(message: Message, history: History, *, in_json: bool, hint: str = "") -> Message:
    if isinstance(message.content, str):
        return message
    if message.role == "tool":
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        told = (f"{history.tool_name(block)} returned: {result_text(block.content)[0]}" for block in results)
        return Message("user", "\n\n".join(told) + hint)
    calls = [block for block in message.content if isinstance(block, ToolUseBlock)]
    if not calls:
        return message
    rest: list[Block] = [block for block in message.content if not isinstance(block, ToolUseBlock)]
    written = "\n".join(_written(call, in_json=in_json) for call in calls)
    said = "\n" if any(isinstance(block, TextBlock) for block in rest) else ""
    return Message(message.role, [*rest, TextBlock(said + written)])


def _written(call: ToolUseBlock, *, in_json: bool) -> str:
    name, arguments = json.dumps(call.name), arguments_text(call.input)
    if in_json:
        return f'{{"tool": {name}, "arguments": {arguments}}}'
    return f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>'


_START = re.compile(r'\s*(?:```(?:json)?\s*)?\{\s*"(tool|answer)"\s*:\s*')
_STARTS = tuple(f'{fence}{{"{key}":' for fence in ("", "```", "```json") for key in ("tool", "answer"))
_CALLED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:,\s*"arguments"\s*:\s*(?=\S)|\})')
#: a start or a name that has not ended after so many characters is none
_MAX_HEAD = 500
_PLAIN = re.compile(r'(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
#: the beginning of an escape, or nothing yet
_MAY_BE_HALF = re.compile(r"(?:\\(?:u[0-9a-fA-F]{0,3})?)?")
_MARK = re.compile(r'["\\{}\[\]]')

Found: TypeAlias = tuple[Literal["text"], str] | CallPiece


class _Value:
    """Finds the end of a JSON value that comes in pieces."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._in_string = False
        self._escaped = False

    def end(self, text: str) -> int | None:
        """How many characters of `text` belong to the value; `None` if it goes on after them."""
        if not self._depth and not self._in_string and text[0] not in '{["':
            return next((place for place, mark in enumerate(text) if mark in ",}] \r\n\t"), None)
        position = 0
        while position < len(text):
            if self._escaped:
                self._escaped = False
                position += 1
                continue
            mark = _MARK.search(text, position)
            if mark is None:
                return None
            position = mark.end()
            match mark.group():
                case "\\":
                    self._escaped = self._in_string
                case '"':
                    self._in_string = not self._in_string
                case "{" | "[" if not self._in_string:
                    self._depth += 1
                case "}" | "]" if not self._in_string:
                    self._depth -= 1
                case _:
                    pass
            if not self._depth and not self._in_string:
                return position
        return None


class PromptedReader:
    """Feed it text; it returns the words of an answer, and the pieces of calls. What is neither goes `otherwise`.

    It is in one of these states:
    - `start`: what may begin an object of ours is held;
    - `name`: the name of a tool is coming;
    - `arguments`, `words`, `value`: the arguments of a call, or an answer as a string or as any other JSON value;
    - `rest`: the end of an object;
    - `other`: this is something else, and all of it goes `otherwise`.
    """

    def __init__(self, otherwise: Callable[[str], str]) -> None:
        self._otherwise = otherwise
        self._state: Literal["start", "name", "arguments", "words", "value", "rest", "other"] = "start"
        self._held = ""
        #: what the object began with, in case it is none of ours
        self._head = ""
        self._value = _Value()
        self._calls = 0

    def feed(self, text: str) -> list[Found]:
        """What of the text so far can be told now."""
        self._held += text
        found: list[Found] = []
        while self._held and self._step(found):
            pass
        return found

    def close(self) -> list[Found]:
        """What was held back; no more text follows."""
        held, self._held = self._head + self._held, ""
        self._head = ""
        if self._state in ("start", "name") and held.strip(" \r\n\t`"):
            self._state = "other"
            return self._other(held)
        return []

    def _step(self, found: list[Found]) -> bool:
        """Go from one state to the next; whether there is more to do with what is held."""
        match self._state:
            case "start":
                return self._at_start(found)
            case "name":
                return self._in_name(found)
            case "arguments" | "value":
                return self._in_value(found)
            case "words":
                return self._in_words(found)
            case "rest":
                self._take_value()
                return True
            case "other":
                held, self._held = self._held, ""
                found += self._other(held)
                return False

    def _at_start(self, found: list[Found]) -> bool:
        start = _START.match(self._held)
        if start is None:
            compact = re.sub(r"\s+", "", self._held[:_MAX_HEAD])
            if len(self._held) < _MAX_HEAD and any(known.startswith(compact) for known in _STARTS):
                return False
            return self._give_up()
        if start.end() == len(self._held):
            return False
        self._take_head(start.end())
        if start.group(1) == "tool":
            self._state = "name"
        elif self._held[0] == '"':
            self._held = self._held[1:]
            self._state = "words"
        else:
            self._state = "value"
        return True

    def _in_name(self, found: list[Found]) -> bool:
        called = _CALLED.match(self._held)
        if called is None:
            return self._give_up() if len(self._held) > _MAX_HEAD or self._held[0] != '"' else False
        self._calls += 1
        name = _unescaped(called.group(1))
        ended = called.group().endswith("}")
        found.append(CallPiece(self._calls, None, name, "{}" if ended else None))
        self._held, self._head = self._held[called.end() :], ""
        self._state = "start" if ended else "arguments"
        return True

    def _in_value(self, found: list[Found]) -> bool:
        is_call = self._state == "arguments"
        piece = self._take_value()
        if piece:
            found.append(CallPiece(self._calls, arguments=piece) if is_call else ("text", piece))
        return True

    def _take_value(self) -> str:
        """What is held of the value that is coming; after a value comes the rest of its object."""
        end = self._value.end(self._held)
        size = len(self._held) if end is None else end
        piece, self._held, self._head = self._held[:size], self._held[size:], ""
        if end is not None:
            self._state = "start" if self._state == "rest" else "rest"
            self._value = _Value(depth=1 if self._state == "rest" else 0)
        return piece

    def _in_words(self, found: list[Found]) -> bool:
        plain = _PLAIN.match(self._held)
        assert plain is not None
        end = plain.end()
        half = _HALF.search(plain.group())
        is_waiting = half is not None and _MAY_BE_HALF.fullmatch(self._held, end) is not None
        if half and is_waiting:
            end = half.start()
        if end:
            found.append(("text", _unescaped(self._held[:end])))
        self._held, self._head = self._held[end:], ""
        if self._held.startswith('"'):
            self._held = self._held[1:]
            self._state, self._value = "rest", _Value(depth=1)
            return True
        if is_waiting or _MAY_BE_HALF.fullmatch(self._held):
            return False
        found.append(("text", "\\"))  # no escape of JSON: the model wrote it as it stands
        self._held = self._held[1:]
        return True

    def _take_head(self, size: int) -> None:
        self._head, self._held = self._held[:size], self._held[size:]

    def _give_up(self) -> bool:
        self._held, self._head = self._head + self._held, ""
        self._state = "other"
        return True

    def _other(self, text: str) -> list[Found]:
        shown = self._otherwise(text)
        return [("text", shown)] if shown else []


def _unescaped(text: str) -> str:
    """The characters that the inside of a JSON string stands for."""
    decoded: str = json.loads(f'"{text}"', strict=False)
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
