"""Tools by their names."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from any_agent.tools.define import Tool
from any_agent.tools.load import load_tool

MODULE = '''
import sys
from any_agent import tool

@tool
def ready(city: str) -> str:
    """Made with @tool."""
    import some_helper
    return some_helper.WORD + city

def plain(days: int = 1) -> int:
    """Typed."""
    return days

def untyped(days):
    return days

NUMBER = 3
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with modules, which is the current one; what they do to this process is undone."""
    (tmp_path / "some_tools.py").write_text(MODULE, "utf-8")
    (tmp_path / "some_helper.py").write_text("WORD = 'hello '", "utf-8")
    (tmp_path / "some_exits.py").write_text("raise SystemExit(0)", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path  # pyright: ignore[reportReturnType]
    for name in set(sys.modules) - before:
        if name.startswith("some_"):
            del sys.modules[name]


async def test_a_tool_is_taken_as_it_is_and_finds_its_neighbours(folder: Path) -> None:
    found = load_tool("some_tools:ready")
    assert found.description == "Made with @tool."
    assert await found.execute({"city": "Oslo"}) == "hello Oslo"
    assert sys.path[-1] == str(folder)  # not in front of what the SDK imports later
    assert sys.path[0] != str(folder)


async def test_a_typed_function_becomes_a_tool() -> None:
    found = load_tool("some_tools:plain")
    assert isinstance(found, Tool)
    assert found.parameters["properties"]["days"] == {"type": "integer", "default": 1}
    assert await found.execute({}) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("some_tools:untyped", "the parameter 'days' of the tool 'untyped' has no type hint"),
        ("some_tools:NUMBER", "'NUMBER' is no function, but of type int"),
        ("some_tools:nope", "there is no 'nope' in some_tools"),
        ("some_exits:f", "some_exits fails to import: SystemExit"),
        ("some_tools", "write module:function"),
        (":f", "write module:function"),
        ("some_tools:", "write module:function"),
        ("./some_tools:f", "write module:function"),
    ],
)
def test_a_name_without_a_tool_says_what_is_wrong(name: str, words: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(f"{name}: ")) as problem:
        load_tool(name)
    assert words in str(problem.value)


def test_a_worker_that_loads_its_tools_for_each_task_looks_into_a_folder_once(folder: Path) -> None:
    for _ in range(3):
        load_tool("some_tools:plain")
    assert sys.path.count(str(folder)) == 1
