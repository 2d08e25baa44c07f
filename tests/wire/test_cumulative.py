"""Text that servers repeat in each delta: nothing is lost, and nothing is shown twice."""

from __future__ import annotations

import pytest

from any_agent.wire.cumulative import CumulativeText, TextStream


def shown(mode: TextStream, *deltas: str) -> list[str]:
    """What each delta shows, and at the end what was held."""
    text = CumulativeText(mode)
    return [*(delta if text.settled else text.feed(delta) for delta in deltas), text.close()]


@pytest.mark.row("A11", "content_cumulative")
def test_two_strict_extensions_in_a_row_are_cumulative_text() -> None:
    assert shown("auto", "Hello", "Hello wor", "Hello world", "Hello world!") == ["Hello", "", " world", "!", ""]


@pytest.mark.row("A11", "content_cumulative")
@pytest.mark.parametrize(
    "deltas",
    [
        ["ha", "ha"],
        ["1", "10"],
        ["ha", "haha", "ha"],
        ["a", "ab", "b"],
        ["1", "10", "1"],
        ["x"],
        ["a", "a", "ab", "abc"],
    ],
)
def test_what_only_looks_so_loses_nothing(deltas: list[str]) -> None:
    assert "".join(shown("auto", *deltas)) == "".join(deltas)


@pytest.mark.row("A11")
def test_a_delta_that_extends_all_so_far_waits_for_the_next() -> None:
    text = CumulativeText("auto")
    assert text.feed("1") == "1"
    assert text.feed("10") == ""
    assert not text.settled
    assert text.feed("0") == "100"
    assert text.settled


@pytest.mark.row("A11")
def test_nothing_is_held_once_it_is_settled() -> None:
    text = CumulativeText("auto")
    assert [text.feed("a"), text.feed("b")] == ["a", "b"]
    assert text.settled


@pytest.mark.row("A11")
def test_known_cumulative_text_shows_what_is_new() -> None:
    assert shown("cumulative", "Hel", "Hello", "Hello", "Hell", "Hello!") == ["Hel", "lo", "", "", "!", ""]


@pytest.mark.row("A11")
@pytest.mark.parametrize("mode", ["auto", "cumulative"])
def test_a_delta_that_does_not_continue_is_more_text(mode: TextStream) -> None:
    deltas = ["Hel", "Hello", "Hello w", " and more", "Hello w and more!"]
    assert "".join(shown(mode, *deltas)) == "Hello w and more!"


@pytest.mark.row("A11")
def test_deltas_that_are_known_to_be_deltas_pass_by() -> None:
    assert CumulativeText("delta").settled


def test_empty_deltas_change_nothing() -> None:
    assert "".join(shown("cumulative", "", "a", "", "ab")) == "ab"
