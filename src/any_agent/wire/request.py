"""What is asked of a model, before it is put into the words of a protocol; and what the encoders share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from any_agent.events import Notice
from any_agent.types import Block, ImageBlock, TextBlock, ToolSpec
from any_agent.wire.schema import tool_schema
from any_agent.wire.values import as_object

if TYPE_CHECKING:
    from any_agent.types import Profile
    from any_agent.wire.history import MessageLike

__all__ = (
    "Encoded",
    "Request",
    "arguments_text",
    "checked_image",
    "content_blocks",
    "finished",
    "function_tools",
    "merged",
    "thinking_fields",
    "tool_choice_name",
    "without_none",
)


@dataclass(slots=True)
class Request:
    """One request to a model. What is `None` is left to the server, and not sent."""

    model: str
    messages: Sequence[MessageLike]
    tools: Sequence[ToolSpec] = ()
    stream: bool = True
    temperature: float | None = None
    max_tokens: int | None = None
    stop: Sequence[str] | None = None
    top_p: float | None = None
    seed: int | None = None
    tool_choice: str | dict[str, Any] | None = None
    thinking: bool | None = None
    output_schema: dict[str, Any] | None = None
    #: fields for the body as they are
    extra: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Encoded:
    """A request body, and what was decided on the way."""

    body: dict[str, Any]
    notices: list[Notice]


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that have a value: strict servers refuse `null`."""
    return {name: value for name, value in fields.items() if value is not None}


def merged(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Both, `more` winning; objects in both are merged in turn.

    >>> merged({"a": {"x": 1}}, {"a": {"y": 2}})
    {'a': {'x': 1, 'y': 2}}
    """
    both = {
        name: merged(as_object(base[name]), as_object(value))
        for name, value in more.items()
        if isinstance(value, dict) and isinstance(base.get(name), dict)
    }
    return {**base, **more, **both}


def finished(
    body: dict[str, Any],
    request: Request,
    profile: Profile,
    notices: list[Notice],
    thinking: dict[str, Any] | None = None,
) -> Encoded:
    """The body with what the profile, the wish to think, and the program add to it, the last one winning."""
    extras = [
        profile.extra_body,
        profile.stream_extra_body if request.stream else {},
        thinking_fields(request, profile, notices) if thinking is None else thinking,
        request.extra,
    ]
    for more in extras:
        body = merged(body, more)
    return Encoded(body, notices)


def thinking_fields(request: Request, profile: Profile, notices: list[Notice]) -> dict[str, Any]:
    """How this server is asked to think, or not to."""
    if request.thinking is None:
        return {}
    fields = profile.thinking_on if request.thinking else profile.thinking_off
    if fields is None:
        message = (
            f"profile {profile.name!r} does not know how to ask for thinking={request.thinking}; left to the server"
        )
        notices.append(Notice("thinking_unsupported", message))
    return fields or {}


def function_tools(tools: Sequence[ToolSpec], profile: Profile) -> list[dict[str, Any]]:
    """The tools as OpenAI, and Ollama after it, write them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool_schema(tool.parameters, profile),
            },
        }
        for tool in tools
    ]


def tool_choice_name(request: Request) -> str | None:
    """The one tool that must be called, if `tool_choice` names one."""
    choice = request.tool_choice
    if isinstance(choice, dict):
        return as_object(choice.get("function")).get("name") or choice.get("name")
    return choice if choice not in (None, "auto", "none", "required", "any") else None


def content_blocks(content: str | list[Block]) -> list[TextBlock | ImageBlock]:
    """The words and pictures of a message."""
    if isinstance(content, str):
        return [TextBlock(content)]
    return [block for block in content if isinstance(block, TextBlock | ImageBlock)]


def checked_image(image: ImageBlock, profile: Profile) -> ImageBlock:
    """The image, if this server takes it."""
    if image.url and not profile.image_urls:
        raise ValueError(
            f"a server of profile {profile.name!r} does not fetch images from {image.url[:80]!r}: "
            "send the bytes with ImageBlock.from_path() or ImageBlock.from_bytes()"
        )
    return image


def arguments_text(arguments: dict[str, Any]) -> str:
    """The arguments of a past call, as JSON that every server can read back."""
    try:
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return msgspec.json.encode(arguments).decode()  # what is no number in JSON becomes null
