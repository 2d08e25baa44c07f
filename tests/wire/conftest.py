"""The wire does no I/O, so nothing can be left open here, and the garbage need not be collected after each test."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.wire.support")


@pytest.fixture(autouse=True)
def _no_leaks() -> None:
    """In place of the fixture of all tests."""
