"""What the words of a command line stand for: tools, images, keys. Whatever is wrong with one is a `ValueError`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from any_agent.tools import load
from any_agent.types import ImageBlock

if TYPE_CHECKING:
    from any_agent.tools.define import Tool

__all__ = ("load_tool", "read_image", "read_key")


def load_tool(name: str) -> Tool:
    """The tool that `--tool module:function` names."""
    try:
        return load.load_tool(name)
    except ValueError as problem:
        raise ValueError(f"--tool {problem}") from problem


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
