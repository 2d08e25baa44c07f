"""Tools, images and keys, as they are named on a command line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from any_agent.cli.inputs import load_tool, read_image, read_key
from any_agent.tools.define import Tool

MODULE = '''
import sys
from any_agent import tool

@tool
def ready(city: str) -> str:
    """Made with @tool."""
    import cli_helper
    return cli_helper.WORD + city

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
    (tmp_path / "cli_tools.py").write_text(MODULE, "utf-8")
    (tmp_path / "cli_helper.py").write_text("WORD = 'hello '", "utf-8")
    (tmp_path / "cli_exits.py").write_text("raise SystemExit(0)", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path  # pyright: ignore[reportReturnType]
    for name in set(sys.modules) - before:
        if name.startswith("cli_"):
            del sys.modules[name]


async def test_a_tool_is_taken_as_it_is_and_finds_its_neighbours(folder: Path) -> None:
    found = load_tool("cli_tools:ready")
    assert found.description == "Made with @tool."
    assert await found.execute({"city": "Oslo"}) == "hello Oslo"
    assert sys.path[-1] == str(folder)  # not in front of what the SDK imports later
    assert sys.path[0] != str(folder)


async def test_a_typed_function_becomes_a_tool() -> None:
    found = load_tool("cli_tools:plain")
    assert isinstance(found, Tool)
    assert found.parameters["properties"]["days"] == {"type": "integer", "default": 1}
    assert await found.execute({}) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cli_tools:untyped", "the parameter 'days' of the tool 'untyped' has no type hint"),
        ("cli_tools:NUMBER", "'NUMBER' is no function, but of type int"),
        ("cli_tools:nope", "there is no 'nope' in cli_tools"),
        ("cli_exits:f", "cli_exits fails to import: SystemExit"),
        ("cli_tools", "write module:function"),
        (":f", "write module:function"),
        ("cli_tools:", "write module:function"),
        ("./cli_tools:f", "write module:function"),
    ],
)
def test_a_name_without_a_tool_says_what_is_wrong(name: str, words: str) -> None:
    with pytest.raises(ValueError, match="--tool") as problem:
        load_tool(name)
    assert words in str(problem.value)


def test_images_come_from_files_and_addresses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cat.gif").write_bytes(b"GIF89a")
    monkeypatch.setenv("HOME", str(folder))
    assert read_image("cat.gif") == read_image("~/cat.gif")
    assert read_image("https://example.org/cat.gif").url == "https://example.org/cat.gif"
    with pytest.raises(FileNotFoundError, match=r"dog\.gif"):
        read_image("dog.gif")


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", " secret\n")
    assert read_key("SOME_KEY") == "secret"
    monkeypatch.setenv("SOME_KEY", "")
    with pytest.raises(ValueError, match="SOME_KEY: there is no such environment variable, or it is empty"):
        read_key("SOME_KEY")
