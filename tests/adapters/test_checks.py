"""Wrong input: one clear error each, before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from any_agent import (
    AgentOptions,
    ImageBlock,
    Message,
    OllamaAdapter,
    OpenAIAdapter,
    Timeouts,
    ToolSpec,
    create_adapter,
)

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("", "base_url is missing"),
        (None, "base_url is missing"),
        ("localhost:1234/v1", "did you mean 'http://localhost:1234/v1'"),
        ("ftp://localhost", "must begin with http"),
        ("http://", "no host"),
        ("http://localhost:99999/v1", "port"),
        ("http://localhost:0", "no host that can be reached"),
        ("http://localhost:abc/v1", "port"),
        ("http://user:secret@localhost/v1", "api_key"),
        ("http://localhost:1234/v1/chat/completions", "leave '/chat/completions' out"),
    ],
)
def test_bad_address_is_refused_with_what_to_do(address: str | None, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        OpenAIAdapter("m", address)
    assert "secret" not in str(caught.value)


def test_model_is_required() -> None:
    with pytest.raises(ValueError, match="model is missing"):
        OpenAIAdapter("", "http://localhost:1234")


def test_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no profile 'lmstdio'.*lmstudio"):
        OpenAIAdapter("m", "http://localhost:1234", profile="lmstdio")


def test_unknown_text_stream_is_refused() -> None:
    with pytest.raises(ValueError, match="text_stream"):
        OpenAIAdapter("m", "http://localhost:1234", text_stream="words")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ([ToolSpec("", "Adds", EMPTY)], "no name"),
        ([ToolSpec("add", "Adds", EMPTY), ToolSpec("add", "Adds again", EMPTY)], "two tools are called 'add'"),
        ([ToolSpec("add numbers", "Adds", EMPTY)], "not usable"),
        ([ToolSpec("x" * 65, "Adds", EMPTY)], "not usable"),
    ],
)
def test_impossible_tools_are_refused_at_the_call(tools: list[ToolSpec], says: str) -> None:
    adapter = OpenAIAdapter("m", "http://localhost:1234")
    with pytest.raises(ValueError, match=says):
        adapter.stream([Message("user", "hi")], tools)


async def test_invoke_refuses_them_too() -> None:
    with pytest.raises(ValueError, match="no name"):
        await OpenAIAdapter("m", "http://localhost:1234").invoke([Message("user", "hi")], [ToolSpec("", "", EMPTY)])


@pytest.mark.row("A5")
def test_image_that_is_none_is_refused_before_any_request(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no image")
    with pytest.raises(FileNotFoundError, match=r"cat\.png"):
        ImageBlock.from_path(tmp_path / "cat.png")
    with pytest.raises(ValueError, match=r"notes\.txt.*png, jpeg, webp or gif"):
        ImageBlock.from_path(tmp_path / "notes.txt")
    with pytest.raises(ValueError, match="no image"):
        ImageBlock.from_bytes(b"<svg/>")
    with pytest.raises(ValueError, match=r"image/gif, not image/png"):
        ImageBlock.from_bytes(b"GIF89a", "image/png")
    with pytest.raises(ValueError, match="no image address"):
        ImageBlock.from_url("cat.png")
    with pytest.raises(ValueError, match="base64"):
        ImageBlock.from_url("data:image/png,abc")
    with pytest.raises(ValueError, match="holds no image"):
        ImageBlock.from_url("data:image/png;base64,AAAA")


@pytest.mark.row("req_image_url")
def test_address_of_an_image_is_refused_for_servers_that_do_not_fetch() -> None:
    picture = [Message("user", [ImageBlock.from_url("https://example.org/cat.png")])]
    with pytest.raises(ValueError, match="from_path"):
        OllamaAdapter("m", "http://localhost:11434").stream(picture)


@pytest.mark.row("A1")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"max_turns": 0}, "max_turns"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"max_tool_iterations": 0}, "max_tool_iterations"),
        ({"tool_timeout": 0}, "tool_timeout"),
        ({"protocol": "grpc"}, "protocol"),
        ({"text_stream": "words"}, "text_stream"),
        ({"tool_mode": "magic"}, "tool_mode"),
        ({"profile": "nobody"}, "profile"),
    ],
)
def test_wrong_options_are_refused_with_the_name_of_the_field(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        AgentOptions("", "m", "http://localhost:1234", **change)


def test_unknown_protocol_is_refused_when_the_adapter_is_made() -> None:
    options = AgentOptions("", "m", "http://localhost:1234")
    options.protocol = "grpc"  # type: ignore[assignment]
    with pytest.raises(ValueError, match="protocol must be one of"):
        create_adapter(options)


@pytest.mark.parametrize("name", ["connect", "first_byte", "between_events"])
def test_timeouts_must_be_positive(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Timeouts(**{name: 0})


def test_unknown_role_is_refused() -> None:
    with pytest.raises(ValueError, match="'robot'"):
        Message("robot", "hi")  # type: ignore[arg-type]
