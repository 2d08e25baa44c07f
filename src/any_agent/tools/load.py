"""Finds a tool by its name, `module:function`; whatever is wrong with one is a `ValueError`."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from typing import Any

from any_agent.tools.define import Tool, tool

__all__ = ("load_tool",)


def load_tool(name: str) -> Tool:
    """The tool at `module:function`, with modules of the current folder too.

    >>> load_tool("textwrap:dedent")
    Traceback (most recent call last):
    ValueError: textwrap:dedent: the parameter 'text' of the tool 'dedent' has no type hint: \
the model could not know what to give; write `text: str`
    """
    module, colon, function = name.partition(":")
    if not colon or not module or not function or module.endswith(".py") or "/" in module:
        raise ValueError(f"{name}: write module:function, as in weather:get_weather for weather.py")
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        found: Any = getattr(importlib.import_module(module), function, None)
    except (Exception, SystemExit) as problem:  # the module is the user's own, and may fail in any way
        raise ValueError(f"{name}: {module} fails to import: {_cause(problem)}") from problem
    finally:
        # what the module imports later is still found, and nothing in this folder hides what the SDK imports later
        sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)
    if found is None:
        raise ValueError(f"{name}: there is no {function!r} in {module}")
    if isinstance(found, Tool):
        return found
    if not inspect.isroutine(found):
        raise ValueError(f"{name}: {function!r} is no function, but of type {type(found).__name__}")
    try:
        return tool(found)
    except (TypeError, NameError) as problem:
        raise ValueError(f"{name}: {problem}") from problem


def _cause(problem: BaseException) -> str:
    where = f" (line {problem.lineno})" if isinstance(problem, SyntaxError) else ""
    return f"{type(problem).__name__}: {problem}{where}"
