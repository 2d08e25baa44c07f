"""The package as others see it: its names, its neighbours, its wheel."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import any_agent

ROOT = Path(__file__).parent.parent
SURFACE = Path(__file__).with_name("public_surface.txt")


def surface() -> str:
    """Each public name with its signature; a change here is a change for users."""
    lines: list[str] = []
    for name in sorted(any_agent.__all__):
        value = getattr(any_agent, name)
        try:
            signature = str(inspect.signature(value))
        except (TypeError, ValueError):
            signature = f" = {value}"
        lines.append(f"{name}{signature}")
    return re.sub(r" at 0x[0-9a-f]+", "", "\n".join(lines)) + "\n"


def test_public_surface_is_what_was_agreed() -> None:
    assert surface() == SURFACE.read_text("utf-8"), "if the change is wanted: python tests/test_package.py"


def test_every_public_name_is_documented() -> None:
    for name in any_agent.__all__:
        value = getattr(any_agent, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, name
            assert not value.__doc__.startswith(f"{name}("), f"{name} has only the docstring that dataclasses make up"


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(any_agent, "no_such_name")  # noqa: B009 - a constant is what is tested
    assert "OpenAIAdapter" in dir(any_agent)


def test_the_other_distribution_of_this_name_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(Path(any_agent.__file__).parent, tmp_path / "any_agent")
    (tmp_path / "any_agent" / "frameworks").mkdir()
    result = subprocess.run(
        [sys.executable, "-c", "import any_agent"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "pip uninstall any-agent any-agent-sdk" in result.stderr


def test_wheel_holds_the_package_and_its_data(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        ".",
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("any_agent_sdk-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"any_agent/py.typed", "any_agent/profiles/builtin.toml"} <= set(names)
    assert all(name.startswith(("any_agent/", "any_agent_sdk-")) for name in names)


if __name__ == "__main__":
    SURFACE.write_text(surface(), "utf-8")
