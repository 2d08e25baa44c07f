"""What the words of a command line stand for: names, tools, images, keys. What is wrong with one is a `ValueError`."""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING

import click

from any_agent.cli.clean import one_line
from any_agent.orchestration.settings import find_alias, load_settings
from any_agent.tools import load
from any_agent.types import ImageBlock

if TYPE_CHECKING:
    from any_agent.orchestration.settings import ProviderAlias
    from any_agent.tools.define import Tool

__all__ = ("find_named", "load_tool", "read_image", "read_key", "whole_prompt")

_PATIENCE_S = 2


def load_tool(name: str) -> Tool:
    """The tool that `--tool module:function` names."""
    try:
        return load.load_tool(name)
    except ValueError as problem:
        raise ValueError(f"--tool {problem}") from problem


def find_named(model: str | None, profile: str | None) -> ProviderAlias | None:
    """What a name stands for in the settings; if that is said by the current folder, so is this."""
    alias = find_alias(load_settings(), model=model, profile=profile)
    if alias is not None and alias.is_local:
        click.echo(one_line(f"any-agent: {alias.name} is what {alias.file} says"), err=True)
    return alias


def read_image(source: str) -> ImageBlock:
    """The image in a file, or behind an address."""
    if source.startswith(("http://", "https://", "data:")):
        return ImageBlock.from_url(source)
    return ImageBlock.from_path(os.path.expanduser(source))


def read_key(variable: str) -> str:
    """The key in an environment variable."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ValueError(f"--api-key-env {variable}: there is no such environment variable, or it is empty")
    return key


def whole_prompt(prompt: str | None) -> str:
    """What is asked: the words of the command line, and what is piped in."""
    words = None if prompt == "-" else prompt
    piped = _piped(waits=words is None) if prompt == "-" or not sys.stdin.isatty() else ""
    text = "\n\n".join(part for part in (words, piped) if part and part.strip())
    if not text:
        raise ValueError("there is nothing to ask: give a question, or pipe text into the command")
    return text


def _piped(*, waits: bool) -> str:
    """What is piped in. With a prompt, a pipe that stays silent is likely a mistake: say what is waited for."""
    if not waits and sys.platform != "win32" and not select.select([sys.stdin], [], [], _PATIENCE_S)[0]:
        click.echo("any-agent: waiting for the end of standard input (without any: < /dev/null)", err=True)
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("what is piped in is no text in UTF-8") from None
