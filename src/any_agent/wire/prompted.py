"""Tools for models that cannot call any: told in words, and read back from what the model writes.

Where the server can constrain the output, the model writes one JSON object: `{"tool": …, "arguments": …}` or
`{"answer": …}`, which is taken apart while it comes (`jsoncalls`). Elsewhere the model writes calls between
`<tool_call>` tags, and they are found as all calls in text are (`textcalls`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from any_agent.events import Notice
from any_agent.types import Block, ImageBlock, Message, Profile, TextBlock, ToolResultBlock, ToolSpec, ToolUseBlock
from any_agent.wire.history import History, prepare, result_text
from any_agent.wire.request import Encoded, Request, arguments_text, tool_choice_name
from any_agent.wire.schema import simplify
from any_agent.wire.values import as_object

__all__ = ("encode_prompted", "writes_json")

# The words were tried on a model of 135 million parameters: to show it an answer before it has called a tool, even
# as a pattern, makes it answer at once; not to show one after the result makes it call for ever.
_LIST = "You can call tools. Each is given with the JSON Schema of its arguments:\n\n{tools}\n\n"
_IN_JSON = 'Answer with one JSON object. To call a tool: {"tool": "<name>", "arguments": {...}}.'
_ANSWER = ' When you have what you need, put your answer to the user into "answer".'
_HINT = '\n\nIf no other tool is needed: {"answer": "<what I asked for>"}'
_IN_TAGS = (
    'To call a tool, write only:\n<tool_call>\n{"name": "<name>", "arguments": {...}}\n</tool_call>\n'
    "You will be given the result. When you have what you need, answer in words."
)
_MUST_CALL = "\nDo call {names} now."
_UNBOUND = "servers of profile {profile!r} cannot bind an answer to a schema while there are tools; not sent"
#: what a grammar often cannot be made of; the model reads it in the prompt all the same
_BEYOND_GRAMMARS = ("pattern",)


def writes_json(profile: Profile) -> bool:
    """Whether the output of a server of `profile` can be constrained, so that a prompted model writes JSON.

    >>> writes_json(Profile("llamacpp")), writes_json(Profile("mlx", structured_output="none"))
    (True, False)
    """
    return profile.structured_output == "json_schema"


def encode_prompted(request: Request, profile: Profile, encode: Callable[[Request, Profile], Encoded]) -> Encoded:
    """The request with its tools, calls and results in words, encoded by `encode`, which sees none of them."""
    history = prepare(request.messages, replace(profile, alternate_roles=False, bridge_turns=False))
    in_json = writes_json(profile)
    choice: Any = request.tool_choice
    kind = as_object(choice).get("type") if isinstance(choice, dict) else choice
    name = tool_choice_name(request)
    must_call = name is not None or kind in ("required", "any")
    tools = [tool for tool in request.tools if kind != "none" and name in (None, tool.name)]
    hinted = _unanswered(history.messages) if tools and in_json and not must_call else None
    messages = [
        _in_words(message, history, in_json=in_json, hint=_HINT if place == hinted else "")
        for place, message in enumerate(history.messages)
    ]
    notices, schema = history.notices, request.output_schema
    if tools:
        first = 1 if messages and messages[0].role == "system" else 0
        messages.insert(first, Message("system", _instructions(tools, in_json=in_json, must_call=must_call)))
        if schema is not None and not in_json:
            notices.append(Notice("schema_not_sent", _UNBOUND.format(profile=profile.name)))
        schema = _union(tools, schema, must_call=must_call) if in_json else None
    plain = replace(request, messages=messages, tools=(), tool_choice=None, output_schema=schema)
    encoded = encode(plain, profile)
    return Encoded(encoded.body, [*notices, *encoded.notices])


def _unanswered(messages: Sequence[Message]) -> int | None:
    """Where the results stand that the model has not answered yet; after them only images that were in them."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "tool":
            return place
        if any(not isinstance(block, ImageBlock) for block in messages[place].content):
            return None
    return None


def _instructions(tools: Sequence[ToolSpec], *, in_json: bool, must_call: bool) -> str:
    listed = "\n".join(
        json.dumps(
            {"name": tool.name, "description": tool.description, "arguments": simplify(tool.parameters)},
            ensure_ascii=False,
        )
        for tool in tools
    )
    how = _IN_JSON + ("" if must_call else _ANSWER) if in_json else _IN_TAGS
    names = " or ".join(tool.name for tool in tools)
    return _LIST.format(tools=listed) + how + (_MUST_CALL.format(names=names) if must_call else "")


def _union(tools: Sequence[ToolSpec], answer: dict[str, Any] | None, *, must_call: bool) -> dict[str, Any]:
    """The schema of what the model may write: a call of one of the tools, or an answer."""
    shapes = [{"tool": {"type": "string", "enum": [tool.name]}, "arguments": _arguments_schema(tool)} for tool in tools]
    if not must_call:
        shapes.append({"answer": simplify(answer) if answer is not None else {"type": "string"}})
    options = [
        {"type": "object", "properties": shape, "required": list(shape), "additionalProperties": False}
        for shape in shapes
    ]
    return options[0] if len(options) == 1 else {"anyOf": options}


def _arguments_schema(tool: ToolSpec) -> dict[str, Any]:
    schema = simplify(tool.parameters, drop=_BEYOND_GRAMMARS)
    is_union = bool({"anyOf", "oneOf", "allOf"} & set(schema))
    return schema if is_union else {"type": "object", "properties": {}, **schema}


def _in_words(message: Message, history: History, *, in_json: bool, hint: str) -> Message:
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
    name, arguments = json.dumps(call.name, ensure_ascii=False), arguments_text(call.input)
    if in_json:
        return f'{{"tool": {name}, "arguments": {arguments}}}'
    return f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>'
