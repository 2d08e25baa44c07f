"""What all tests share: nothing may be left open, and nothing may leave this machine."""

from __future__ import annotations

import gc
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from any_agent.profiles import is_loopback


def pytest_configure() -> None:
    """Shells ignore Ctrl-C for what they start in the background, and so would all programs that the tests start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _frozen() -> None:
    """What the imports have made need not be looked through after each test."""
    import openai

    assert openai.AsyncOpenAI
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    """Warnings are errors; those of forgotten sockets come when the garbage is collected."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not is_loopback(str(address[0])):
            raise AssertionError(f"a test tried to reach {address!r}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
