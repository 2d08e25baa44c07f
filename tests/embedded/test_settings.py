"""Which server is wanted: the same settings are the same server, in every process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from any_agent.embedded import EmbeddedError
from any_agent.embedded.settings import Settings


def test_default_model_has_a_name_of_its_own() -> None:
    assert Settings.of(None, 4096) == Settings.of("smollm2", 4096)
    assert Settings.of(None, 4096).alias == "smollm2"


def test_any_path_to_a_file_is_the_same_server(gguf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link.gguf").symlink_to(gguf)
    monkeypatch.chdir(tmp_path)
    settings = {Settings.of(path, 4096) for path in (gguf, Path(gguf), "tiny.gguf", "./link.gguf")}
    assert {one.alias for one in settings} == {"tiny"}
    assert len({one.folder().path for one in settings}) == 1


def test_replaced_file_is_another_server(gguf: str) -> None:
    settings = Settings.of(gguf, 4096)
    before = settings.folder().path
    os.utime(gguf, ns=(1, 1))
    assert settings.folder().path != before


@pytest.mark.parametrize("context", [0, 2**30])
def test_window_that_cannot_be_is_refused(gguf: str, context: int) -> None:
    with pytest.raises(ValueError, match=f"context must be at least 1, and at most 1073741823; it is {context}"):
        Settings.of(gguf, context)


@pytest.mark.row("C16")
def test_file_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match=rf"there is no file {tmp_path}/none\.gguf; give the path"):
        Settings.of(tmp_path / "none.gguf", 4096)
