"""What the words of a command line stand for: tools, images, keys. Whatever is wrong with one is a `ValueError`."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from typing import Any

from any_agent.tools.define import Tool, tool
from any_agent.types import ImageBlock

__all__ = ("load_tool", "read_image", "read_key")


def load_tool(name: str) -> Tool:
    """The tool at `module:function`, with modules of the current folder too.

    >>> load_tool("textwrap:dedent")
    Traceback (most recent call last):
    ValueError: --tool textwrap:dedent: the parameter 'text' of the tool 'dedent' has no type hint: \
the model could not know what to give; write `text: str`
    """
    module, colon, function = name.partition(":")
    if not colon or not module or not function or module.endswith(".py") or "/" in module:
        raise ValueError(f"--tool {name}: write module:function, as in --tool weather:get_weather for weather.py")
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        found: Any = getattr(importlib.import_module(module), function, None)
    except (Exception, SystemExit) as problem:  # the module is the user's own, and may fail in any way
        raise ValueError(f"--tool {name}: {module} fails to import: {_cause(problem)}") from problem
    finally:
        # what the module imports later is still found, and nothing in this folder hides what the SDK imports later
        sys.path.remove(folder)
        sys.path.append(folder)
    if found is None:
        raise ValueError(f"--tool {name}: there is no {function!r} in {module}")
    if isinstance(found, Tool):
        return found
    if not inspect.isroutine(found):
        raise ValueError(f"--tool {name}: {function!r} is no function, but of type {type(found).__name__}")
    try:
        return tool(found)
    except (TypeError, NameError) as problem:
        raise ValueError(f"--tool {name}: {problem}") from problem


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


def _cause(problem: BaseException) -> str:
    where = f" (line {problem.lineno})" if isinstance(problem, SyntaxError) else ""
    return f"{type(problem).__name__}: {problem}{where}"
