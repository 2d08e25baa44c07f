"""A conversation, made one that the server accepts, whatever happened to it before.

What is changed beyond form (a missing result filled in, an orphan dropped) is told in a `Notice`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from any_agent.events import Notice
from any_agent.types import (
    Block,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from any_agent.wire.values import as_list, as_object, as_objects

if TYPE_CHECKING:
    from any_agent.types import Profile

__all__ = ("History", "MessageLike", "parse_message", "prepare", "result_text")

MessageLike: TypeAlias = Message | dict[str, Any]

#: stands where the model would have answered
_BRIDGE = "(no answer)"
_NO_RESULT = "no result: the call was not carried out"


@dataclass(slots=True)
class History:
    """Messages in the form that the encoders expect: `system` first if at all, results only in `tool` messages."""

    messages: list[Message]
    notices: list[Notice]
    #: the names of tools, by the identities of their results
    _names: dict[int, str] | None = field(default=None, init=False, repr=False)

    def tool_name(self, result: ToolResultBlock) -> str:
        """The name of the tool that a result belongs to."""
        if self._names is None:
            self._names = _names_of_results(self.messages)
        return self._names.get(id(result), "")


def prepare(messages: Sequence[MessageLike], profile: Profile) -> History:
    """The conversation, ready to be encoded for the server of `profile`; the messages given are not touched."""
    notices: list[Notice] = []
    parsed = _with_results_together([parse_message(message) for message in messages])
    flat = [part for message in parsed for part in _split(message, keep_thought=message is parsed[-1])]
    if profile.system_first:
        flat = _system_first(flat)
    flat = _answered(flat, notices)
    if profile.alternate_roles:
        flat = _alternating(flat)
    if profile.bridge_turns:
        flat = _bridged(flat, notices)
    if profile.tool_call_id != "any":
        new_id = _short_id if profile.tool_call_id == "nine_alphanumeric" else _word_id
        flat = [_with_ids(message, new_id) for message in flat]
    return History(flat, notices)


def _names_of_results(messages: Sequence[Message]) -> dict[int, str]:
    called: dict[str, str] = {}
    names: dict[int, str] = {}
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                called[block.id] = block.name  # ids may repeat over the turns
            elif isinstance(block, ToolResultBlock):
                names[id(block)] = called.get(block.tool_use_id, "")
    return names


def parse_message(message: MessageLike) -> Message:
    """A typed message, also from a dict in OpenAI's format.

    >>> parse_message({"role": "user", "content": "hi"})
    Message(role='user', content='hi')
    """
    if isinstance(message, Message):
        return message
    role: Any = {"developer": "system", "function": "tool"}.get(message.get("role", ""), message.get("role"))
    content = message.get("content")
    if role == "tool":
        parts = as_objects(content)
        result: Any = [_part(part) for part in parts] if parts and all("type" in part for part in parts) else content
        return Message("tool", [ToolResultBlock(str(message.get("tool_call_id", "")), result)])
    calls = as_objects(message.get("tool_calls"))
    thought = message.get("reasoning_content") or message.get("reasoning")
    if not calls and not thought and not isinstance(content, list):
        return Message(role, content or "")
    blocks: list[Block] = [ThinkingBlock(thought)] if isinstance(thought, str) and thought else []
    if isinstance(content, str) and content:
        blocks.append(TextBlock(content))
    blocks += [_part(part) for part in as_objects(content)]
    blocks += [_parsed_call(call) for call in calls]
    return Message(role, blocks)


def result_text(content: Any) -> tuple[str, list[ImageBlock]]:
    """What a tool gave back, as the text that the model reads, and the images that were in it.

    >>> result_text({"celsius": 21})
    ('{"celsius": 21}', [])
    """
    if isinstance(content, str):
        return content, []
    if isinstance(content, ImageBlock):
        return "(an image)", [content]
    items = as_list(content)
    if items and all(isinstance(item, TextBlock | ImageBlock) for item in items):
        images = [item for item in items if isinstance(item, ImageBlock)]
        text = "\n".join(item.text for item in items if isinstance(item, TextBlock))
        return text or f"({len(images)} image{'s' if len(images) > 1 else ''})", images
    try:
        return json.dumps(content, ensure_ascii=False), []
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return msgspec.json.encode(content, enc_hook=_of_pydantic).decode(), []
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        pass
    try:
        return str(content), []
    except RecursionError:
        return f"({type(content).__name__})", []


def _of_pydantic(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"JSON does not know {type(value).__name__}")


def _part(part: dict[str, Any]) -> Block:
    if part.get("type") == "image_url":
        return ImageBlock.from_url(str(as_object(part.get("image_url")).get("url") or part.get("image_url")))
    return TextBlock(str(part.get("text", "")))


def _parsed_call(call: dict[str, Any]) -> ToolUseBlock:
    function = as_object(call.get("function"))
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            arguments = {}
    extra = call.get("extra_content")
    return ToolUseBlock(
        str(call.get("id", "")),
        str(function.get("name", "")),
        as_object(arguments),
        extra={"extra_content": extra} if extra else None,
    )


def _split(message: Message, *, keep_thought: bool) -> list[Message]:
    """One message as several that each hold one kind of thing; nothing at all for an empty one.

    A thought alone is a message only at the very end, where the model is to continue it.
    """
    if isinstance(message.content, str):
        return [message] if message.content else []
    results: list[Block] = [block for block in message.content if isinstance(block, ToolResultBlock)]
    others = [block for block in message.content if not _is_empty(block)]
    if not results:
        speaks = (TextBlock, ToolUseBlock) if message.role == "assistant" else (TextBlock, ImageBlock)
        keep = any(keep_thought or isinstance(block, speaks) for block in others)
        return [Message(message.role, others)] if keep else []
    images = [image for block in results for image in result_text(getattr(block, "content", None))[1]]
    beside: list[Block] = [*images, *(block for block in others if isinstance(block, TextBlock | ImageBlock))]
    return [Message("tool", results), *([Message("user", beside)] if beside else [])]


def _with_results_together(messages: list[Message]) -> list[Message]:
    """Results that follow each other as one message, so that images in them come after the last one."""
    together: list[Message] = []
    for message in messages:
        last = together[-1] if together else None
        if last is not None and _is_results(last) and _is_results(message):
            together[-1] = Message("tool", [*_blocks(last.content), *_blocks(message.content)])
        else:
            together.append(message)
    return together


def _is_results(message: Message) -> bool:
    return not isinstance(message.content, str) and any(isinstance(item, ToolResultBlock) for item in message.content)


def _is_empty(block: Block) -> bool:
    return isinstance(block, ToolUseError | ToolResultBlock) or (isinstance(block, TextBlock) and not block.text)


def _system_first(messages: list[Message]) -> list[Message]:
    texts = [_text_of(message) for message in messages if message.role == "system"]
    rest = [message for message in messages if message.role != "system"]
    return [Message("system", "\n\n".join(texts)), *rest] if texts else rest


def _text_of(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n\n".join(block.text for block in message.content if isinstance(block, TextBlock))


def _answered(messages: list[Message], notices: list[Notice]) -> list[Message]:
    """Each call followed by its result, made up where there is none; results of unknown calls dropped."""
    result: list[Message] = []
    open_calls: dict[str, str] = {}

    def close() -> None:
        if open_calls:
            filled: list[Block] = [ToolResultBlock(call, _NO_RESULT, is_error=True) for call in open_calls]
            position = next(i for i in range(len(result) - 1, -1, -1) if result[i].role == "assistant") + 1
            while position < len(result) and result[position].role == "tool":
                position += 1
            result.insert(position, Message("tool", filled))
            names = ", ".join(open_calls.values())
            notices.append(Notice("missing_results", f"calls without a result were answered with an error: {names}"))
            open_calls.clear()

    for message in messages:
        if message.role == "tool":
            blocks = [block for block in message.content if isinstance(block, ToolResultBlock)]
            known: list[Block] = [block for block in blocks if open_calls.pop(block.tool_use_id, None) is not None]
            if len(known) < len(blocks) or not blocks:
                notices.append(Notice("orphan_results", "results that belong to no open call were left out"))
            if known:
                result.append(Message("tool", known))
        else:
            close()
            result.append(message)
            calls = [block for block in message.content if isinstance(block, ToolUseBlock)]
            open_calls = {call.id: call.name for call in calls}
    close()
    return result


def _alternating(messages: list[Message]) -> list[Message]:
    """Neighbours of one role as one message: many templates want user and assistant to take turns."""
    result: list[Message] = []
    for message in messages:
        last = result[-1] if result else None
        mergeable = message.role in ("user", "assistant") and last is not None and last.role == message.role
        if last is not None and mergeable and not any(isinstance(block, ToolUseBlock) for block in last.content):
            result[-1] = Message(last.role, _joined(last.content, message.content))
        else:
            result.append(message)
    return result


def _bridged(messages: list[Message], notices: list[Notice]) -> list[Message]:
    """A turn of the model between results and a prompt, where it was broken off: templates of Mistral demand one."""
    result: list[Message] = []
    for message in messages:
        if result and result[-1].role == "tool" and message.role == "user":
            result.append(Message("assistant", _BRIDGE))
            notices.append(Notice("turn_bridged", "a turn of the model was missing between results and a prompt"))
        result.append(message)
    return result


def _joined(first: str | list[Block], second: str | list[Block]) -> str | list[Block]:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_blocks(first), *_blocks(second)]


def _blocks(content: str | list[Block]) -> list[Block]:
    return [TextBlock(content)] if isinstance(content, str) else content


def _with_ids(message: Message, new_id: Callable[[str], str]) -> Message:
    if isinstance(message.content, str):
        return message
    blocks: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolUseBlock):
            blocks.append(replace(block, id=new_id(block.id)))
        elif isinstance(block, ToolResultBlock):
            blocks.append(replace(block, tool_use_id=new_id(block.tool_use_id)))
        else:
            blocks.append(block)
    return Message(message.role, blocks)


def _word_id(call_id: str) -> str:
    """Letters, digits, `_` and `-`, always the same for the same id."""
    word = re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)
    return word if word == call_id and word else f"{word[:40]}_{hashlib.sha256(call_id.encode()).hexdigest()[:8]}"


def _short_id(call_id: str) -> str:
    """Nine letters and digits, always the same for the same id."""
    if len(call_id) == 9 and call_id.isascii() and call_id.isalnum():
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:9]
