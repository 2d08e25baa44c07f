"""Every behaviour that was promised is named by a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
_MARKER = re.compile(r"mark\.row\(([^)]*)\)")
_ROW = re.compile(r'"([A-E]\d+)"')

#: the rows of the acceptance list that hold by now
PROMISED = [
    *(f"A{number}" for number in range(1, 33)),
    *(f"B{number}" for number in range(1, 21)),
    *(f"C{number}" for number in range(1, 18)),
    *(f"D{number}" for number in range(1, 15)),
    *(f"E{number}" for number in range(1, 13)),
]


def rows() -> set[str]:
    texts = (file.read_text("utf-8") for file in TESTS.rglob("test_*.py"))
    return {row for text in texts for marker in _MARKER.findall(text) for row in _ROW.findall(marker)}


@pytest.mark.parametrize("row", PROMISED)
def test_row_has_a_test(row: str) -> None:
    assert row in rows()
