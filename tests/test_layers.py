"""Imports go downwards only, and what is heavy is imported where it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "any_agent"

#: from the top down; a module may import from its own room and from rooms below
ROOMS = [
    ["__main__"],
    ["cli"],
    ["web", "claude"],
    ["orchestration"],
    ["agent"],
    ["testing"],
    ["tools"],
    ["adapters"],
    ["embedded"],
    ["transport"],
    ["wire"],
    ["profiles"],
    ["events"],
    ["types"],
    ["errors"],
    ["folders"],
]
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}


def room_of(module: str) -> str:
    return module.removeprefix("any_agent").strip(".").partition(".")[0]


def imports(file: Path) -> list[str]:
    """What a module imports when it runs; what only type checkers see does not count."""
    tree = ast.parse(file.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module)
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found


@pytest.mark.parametrize("file", sorted(SRC.rglob("*.py")), ids=lambda file: str(file.relative_to(SRC)))
def test_imports_go_downwards(file: Path) -> None:
    own = file.relative_to(SRC).with_suffix("").parts[0]
    if own == "__init__":
        return
    assert own in LEVEL, f"no room for {own!r}: give it a place in ROOMS"
    for module in imports(file):
        if module.startswith("any_agent."):
            room = room_of(module)
            assert LEVEL[own] <= LEVEL[room], f"{own} must not import from {room}"


WIRE_MAY_NOT = {"asyncio", "time", "random", "socket", "openai", "httpx2", "aiohttp", "uuid", "os"}


@pytest.mark.parametrize("file", sorted((SRC / "wire").glob("*.py")), ids=lambda file: file.name)
def test_the_wire_has_no_io_no_clock_and_no_dice(file: Path) -> None:
    assert not {module.partition(".")[0] for module in imports(file)} & WIRE_MAY_NOT


@pytest.mark.row("A31")
def test_importing_any_agent_imports_no_http_stack() -> None:
    program = (
        "import sys, any_agent\n"
        "any_agent.OpenAIAdapter('m', 'http://localhost:1234'); any_agent.AgentOptions; any_agent.Tool\n"
        "heavy = {'openai', 'httpx', 'httpx2', 'aiohttp', 'pydantic'}\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & heavy))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


SIZES_BEYOND: dict[str, str] = {
    # path or path:function → why it is longer than 400 lines or 60 lines
}


def test_files_and_functions_stay_small() -> None:
    beyond: set[str] = set()
    for file in SRC.rglob("*.py"):
        path = file.relative_to(SRC).as_posix()
        text = file.read_text("utf-8")
        if text.count("\n") > 400:
            beyond.add(path)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                if node.end_lineno - node.lineno > 60:
                    beyond.add(f"{path}:{node.name}")
    assert beyond <= set(SIZES_BEYOND), f"too long: {beyond - set(SIZES_BEYOND)}"
    assert set(SIZES_BEYOND) <= beyond, f"no longer too long, take it off the list: {set(SIZES_BEYOND) - beyond}"
