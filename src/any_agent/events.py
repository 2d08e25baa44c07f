"""The one stream that everything reads: what happens, in order, each with a number.

`Done` or `Failed` is always last, exactly once. `to_dict` and `from_dict` make an event JSON and back.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, cast

import msgspec

from any_agent.errors import ProviderError
from any_agent.types import (
    Block,
    ImageBlock,
    LLMResponse,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
    Usage,
)

__all__ = (
    "Done",
    "DoneReason",
    "Event",
    "Failed",
    "ModelState",
    "Notice",
    "Reset",
    "ResponseEnd",
    "Retry",
    "TextDelta",
    "ThinkingDelta",
    "ToolCall",
    "ToolInputDelta",
    "ToolInputStart",
    "ToolProgress",
    "ToolResult",
    "ToolRunning",
    "from_dict",
    "message_from_dict",
    "message_to_dict",
    "to_dict",
)

DoneReason = Literal["complete", "max_iterations", "loop_guard", "blocked"]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Some more of the answer."""

    text: str
    seq: int = 0
    type: ClassVar[Literal["text"]] = "text"


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """Some more of the thoughts."""

    text: str
    seq: int = 0
    type: ClassVar[Literal["thinking"]] = "thinking"


@dataclass(frozen=True, slots=True)
class ToolInputStart:
    """The model begins to write the input of a call."""

    id: str
    name: str
    seq: int = 0
    type: ClassVar[Literal["tool_input_start"]] = "tool_input_start"


@dataclass(frozen=True, slots=True)
class ToolInputDelta:
    """Some more of the JSON of a call's input."""

    id: str
    partial_json: str
    seq: int = 0
    type: ClassVar[Literal["tool_input_delta"]] = "tool_input_delta"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call is complete (or beyond understanding)."""

    block: ToolUseBlock | ToolUseError
    seq: int = 0
    type: ClassVar[Literal["tool_use"]] = "tool_use"


@dataclass(frozen=True, slots=True)
class ToolRunning:
    """A tool runs, or waits for somebody's approval. `input` is what the hooks made of it."""

    id: str
    name: str
    input: dict[str, Any]
    waiting_for_approval: bool = False
    seq: int = 0
    type: ClassVar[Literal["tool_running"]] = "tool_running"


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running tool says how far it is."""

    id: str
    name: str
    data: Any
    seq: int = 0
    type: ClassVar[Literal["tool_progress"]] = "tool_progress"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool has ended. `output` is what the model will see."""

    id: str
    name: str
    output: Any
    is_error: bool = False
    duration_s: float = 0.0
    seq: int = 0
    type: ClassVar[Literal["tool_result"]] = "tool_result"


@dataclass(frozen=True, slots=True)
class ModelState:
    """What the server says it is doing. `progress` goes from 0 to 1 where the server tells."""

    state: Literal["queued", "loading", "prefill", "generating"]
    progress: float | None = None
    seq: int = 0
    type: ClassVar[Literal["model_state"]] = "model_state"


@dataclass(frozen=True, slots=True)
class Reset:
    """Drop what was shown of this response: it is being produced again."""

    reason: str
    seq: int = 0
    type: ClassVar[Literal["reset"]] = "reset"


@dataclass(frozen=True, slots=True)
class Retry:
    """The request failed and will be sent again after `delay_s` seconds. `attempt` is the one to come."""

    attempt: int
    delay_s: float
    error: ProviderError
    seq: int = 0
    type: ClassVar[Literal["retry"]] = "retry"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the SDK decided on its own: a repair, a dropped parameter, an odd reply."""

    kind: str
    message: str
    data: dict[str, Any] | None = None
    seq: int = 0
    type: ClassVar[Literal["notice"]] = "notice"


@dataclass(frozen=True, slots=True)
class ResponseEnd:
    """One model response of a run is complete."""

    response: LLMResponse
    seq: int = 0
    type: ClassVar[Literal["response"]] = "response"


@dataclass(frozen=True, slots=True)
class Done:
    """The end, and all is well. `response` is the last one, `usage` that of the whole run."""

    response: LLMResponse
    usage: Usage | None = None
    reason: DoneReason = "complete"
    seq: int = 0
    type: ClassVar[Literal["done"]] = "done"


@dataclass(frozen=True, slots=True)
class Failed:
    """The end, and something went wrong. `partial` is what had come by then."""

    error: ProviderError
    partial: LLMResponse
    seq: int = 0
    type: ClassVar[Literal["error"]] = "error"


Event: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ToolInputStart
    | ToolInputDelta
    | ToolCall
    | ToolRunning
    | ToolProgress
    | ToolResult
    | ModelState
    | Reset
    | Retry
    | Notice
    | ResponseEnd
    | Done
    | Failed
)

_EVENTS: dict[str, type[Any]] = {
    cls.type: cls
    for cls in (
        TextDelta,
        ThinkingDelta,
        ToolInputStart,
        ToolInputDelta,
        ToolCall,
        ToolRunning,
        ToolProgress,
        ToolResult,
        ModelState,
        Reset,
        Retry,
        Notice,
        ResponseEnd,
        Done,
        Failed,
    )
}
_BLOCKS: dict[str, type[Any]] = {
    "text": TextBlock,
    "thinking": ThinkingBlock,
    "image": ImageBlock,
    "tool_use": ToolUseBlock,
    "tool_use_error": ToolUseError,
    "tool_result": ToolResultBlock,
}
_ERROR_FIELDS = ("message", "kind", "retryable", "status_code", "body", "provider", "retry_after", "details")


def to_dict(event: Event) -> dict[str, Any]:
    """The event as plain data for JSON, its `type` first.

    >>> to_dict(TextDelta("Hi", seq=3))
    {'type': 'text', 'text': 'Hi', 'seq': 3}
    """
    return {"type": event.type, **{name: _plain(getattr(event, name)) for name in _field_names(type(event))}}


def from_dict(data: dict[str, Any]) -> Event:
    """The event that `to_dict` wrote down.

    >>> from_dict({"type": "text", "text": "Hi", "seq": 3})
    TextDelta(text='Hi', seq=3)
    """
    cls = _EVENTS.get(data.get("type", ""))
    if cls is None:
        raise ValueError(f"{data.get('type')!r} is no type of event; known: {', '.join(_EVENTS)}")
    values: dict[str, Any] = {name: data[name] for name in _field_names(cls) if name in data}
    for name in list(values):
        value: Any = values[name]
        if name in ("response", "partial"):
            values[name] = _response(value)
        elif name == "usage" and value is not None:
            values[name] = Usage(**value)
        elif name == "block":
            values[name] = _block(value)
        elif name == "error":
            values[name] = _error(value)
        elif name == "output":
            values[name] = _seen(value)
    return cls(**values)


def message_to_dict(message: Message) -> dict[str, Any]:
    """A message as plain data for JSON; nothing of it is lost.

    >>> message_to_dict(Message("user", "Hi"))
    {'role': 'user', 'content': 'Hi'}
    """
    return {"role": message.role, "content": _plain(message.content)}


def message_from_dict(data: dict[str, Any]) -> Message:
    """The message that `message_to_dict` wrote down.

    >>> message_from_dict({"role": "user", "content": [{"type": "text", "text": "Hi"}]}).content
    [TextBlock(text='Hi', type='text')]
    """
    content = data["content"]
    return Message(data["role"], content if isinstance(content, str) else [_block(block) for block in content])


def _field_names(cls: type[Any]) -> list[str]:
    return [item.name for item in dataclasses.fields(cls)]


def _plain(value: Any) -> Any:
    if isinstance(value, ProviderError):
        return {"class": type(value).__name__, **{name: getattr(value, name) for name in _ERROR_FIELDS}}
    if isinstance(value, Notice):
        return to_dict(value)
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if dataclasses.is_dataclass(value):
        # `raw` is whatever a server sent: it belongs to the program, not to a log of events
        return {name: _plain(getattr(value, name)) for name in _field_names(type(value)) if name != "raw"}
    if value is None or isinstance(value, str | int | float):
        return value
    # what a tool tells of its progress, or an object that was asked for, may be anything
    return msgspec.to_builtins(value, enc_hook=_foreign)


def _foreign(value: Any) -> Any:
    """A value of a type that JSON does not know: of pydantic as it says itself, else as text."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def _block(data: Any) -> Block:
    cls = _BLOCKS[data["type"]]
    values = {name: value for name, value in data.items() if name != "type"}
    if cls is ToolResultBlock:
        values["content"] = _seen(values["content"])
    return cls(**values)


def _seen(output: Any) -> Any:
    """What the model saw of a result: text, or texts and images, which are blocks again."""
    if not isinstance(output, list):
        return output
    items = cast("list[Any]", output)
    are_blocks = all(isinstance(item, dict) and item.get("type") in ("text", "image") for item in items)  # pyright: ignore[reportUnknownMemberType]
    return [_block(item) for item in items] if are_blocks else items


def _response(data: dict[str, Any]) -> LLMResponse:
    usage = data.get("usage")
    return LLMResponse(
        id=data["id"],
        model=data["model"],
        content=[_block(block) for block in data["content"]],
        stop_reason=data["stop_reason"],
        raw_stop_reason=data["raw_stop_reason"],
        usage=Usage(**usage) if usage is not None else None,
        notices=[
            Notice(notice["kind"], notice["message"], notice["data"], notice["seq"]) for notice in data["notices"]
        ],
        output=data.get("output"),
    )


def _error(data: Any) -> ProviderError:
    known = {cls.__name__: cls for cls in _subclasses(ProviderError)}
    cls = known.get(data["class"], ProviderError)
    return cls(data["message"], **{name: data[name] for name in _ERROR_FIELDS[1:]})


def _subclasses(cls: type[ProviderError]) -> list[type[ProviderError]]:
    return [cls, *(found for sub in cls.__subclasses__() for found in _subclasses(sub))]
