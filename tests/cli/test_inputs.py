"""Tools, images and keys, as they are named on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from any_agent.cli.inputs import load_tool, read_image, read_key


def test_a_tool_that_is_none_says_which_option_is_meant() -> None:
    with pytest.raises(ValueError, match=r"^--tool json:nope: there is no 'nope' in json"):
        load_tool("json:nope")


def test_images_come_from_files_and_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cat.gif").write_bytes(b"GIF89a")
    monkeypatch.setenv("HOME", str(tmp_path))
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
