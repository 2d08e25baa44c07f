"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from .support import Home


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the settings; what the user has written there does not count."""
    folder = tmp_path / ".config" / "any-agent"
    folder.mkdir(parents=True)
    monkeypatch.setenv("ANY_AGENT_CONFIG", str(folder))
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path)
    monkeypatch.setenv("ANY_AGENT_DATA", home.environment["ANY_AGENT_DATA"])
    return home
