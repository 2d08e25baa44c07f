"""Text of others, made harmless."""

from __future__ import annotations

import pytest

from any_agent.cli.clean import cleaned, cut, one_line

from .support import DANGEROUS


def test_no_character_that_a_terminal_obeys_is_left() -> None:
    everything = "".join(map(chr, [*range(0x250), *range(0x2000, 0x2100), 0xFEFF, 0x1F642]))
    harmless = cleaned(everything)
    assert not DANGEROUS.search(harmless)
    assert {"\n", "\t", "ü", "🙂", "\u200d"} <= set(harmless)
    assert len(harmless) == len(everything) - 1  # all but carriage returns can still be seen


def test_words_stay_as_they_are() -> None:
    text = "naïve [bold]x[/] \N{ARABIC LETTER BEH}\u200c\n\tx = 1"
    assert cleaned(text) == text


@pytest.mark.parametrize(
    ("text", "short"),
    [("", ""), ("12345", "12345"), ("123456", "1234…"), ("1\n\x85 2\u20283", "1 2 3"), ("1" + " " * 99 + "2", "1…")],
)
def test_cut_is_one_line_of_that_length(text: str, short: str) -> None:
    assert cut(text, 5) == short
    assert "\n" not in one_line(text)
