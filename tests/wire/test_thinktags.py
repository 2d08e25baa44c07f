"""Thoughts inside the text: told apart at the start of the output, wherever the tags are cut."""

from __future__ import annotations

import pytest

from any_agent.wire.thinktags import ThinkSplitter, held_back

from .support import seconds


def split(*parts: str, think_open: bool = False) -> tuple[str, str]:
    """All the (thinking, text) of an output."""
    splitter = ThinkSplitter(think_open=think_open)
    found = [*(splitter.feed(part) for part in parts), splitter.close()]
    return "".join(thinking for thinking, _ in found), "".join(text for _, text in found)


def assert_split(output: str, expected: tuple[str, str], *, think_open: bool = False) -> None:
    """Whole, letter by letter, and cut in two at every place."""
    assert split(output, think_open=think_open) == expected
    assert split(*output, think_open=think_open) == expected
    for cut in range(1, len(output)):
        assert split(output[:cut], output[cut:], think_open=think_open) == expected, cut


@pytest.mark.row("B12", "think_inline", "think_other_tags")
@pytest.mark.parametrize(
    ("opener", "closer"),
    [
        ("<think>", "</think>"),
        ("<thinking>", "</thinking>"),
        ("<thought>", "</thought>"),
        ("[THINK]", "[/THINK]"),
        ("<mm:think>", "</mm:think>"),
        ("<seed:think>", "</seed:think>"),
        ("<reasoning>", "</reasoning>"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("◁think▷", "◁/think▷"),
    ],
)
def test_each_pair_of_tags_is_known(opener: str, closer: str) -> None:
    assert_split(f"{opener}Let me < see{closer}\n\nIt is 4.", ("Let me < see", "It is 4."))


@pytest.mark.row("think_other_tags")
def test_only_its_own_tag_closes_a_thought() -> None:
    assert_split("<think>a</thinking>b[/THINK]c</think>d", ("a</thinking>b[/THINK]c", "d"))
    assert_split("<thinking>a</think>b</thinking>c", ("a</think>b", "c"))


@pytest.mark.row("think_inline")
def test_white_space_around_the_tags_goes_and_that_inside_the_text_stays() -> None:
    assert_split(" \n<think>\nsum\n</think>\n\n4 \n", ("\nsum\n", "4 \n"))


@pytest.mark.row("think_inline")
@pytest.mark.parametrize("output", ["<think></think>4", "<think></think>\n\n4"])
def test_an_empty_thought_leaves_the_text(output: str) -> None:
    assert_split(output, ("", "4"))


@pytest.mark.row("think_unclosed")
@pytest.mark.parametrize("tail", ["", "<", "</thin", "</think"])
def test_a_thought_without_an_end_is_all_thought(tail: str) -> None:
    assert_split(f"<think>Let me{tail}", (f"Let me{tail}", ""))


@pytest.mark.row("think_literal")
@pytest.mark.parametrize(
    "output",
    [
        "Use <think> and </think>.",
        "a<think>b</think>",
        "<b>bold</b>",
        "</think>",
        "x</think>y",
        "<think",
        "<",
        "[TH",
        "",
    ],
)
def test_tags_that_are_quoted_are_text(output: str) -> None:
    assert_split(output, ("", output))


@pytest.mark.row("think_literal")
def test_a_second_thought_is_text() -> None:
    assert_split("<think>a</think>b<think>c</think>", ("a", "b<think>c</think>"))


@pytest.mark.row("think_missing_open")
def test_the_template_may_have_opened_the_thought() -> None:
    assert_split("Let me see.</think>\n\nIt is 4.", ("Let me see.", "It is 4."), think_open=True)
    assert_split("a[/THINK]b", ("a", "b"), think_open=True)
    assert_split("never closed", ("never closed", ""), think_open=True)


@pytest.mark.row("harmony_raw")
@pytest.mark.parametrize("start", ["<|channel|>", "<|start|>"])
def test_the_harmony_format_is_left_to_its_own_splitter(start: str) -> None:
    for cut in range(len(start)):
        splitter = ThinkSplitter()
        assert splitter.feed(start[:cut]) == ("", "")
        assert not splitter.harmony
        assert splitter.feed(f"{start[cut:]}analysis") == ("", f"{start}analysis")
        assert splitter.harmony
        assert splitter.settled


@pytest.mark.parametrize(("output", "held"), [("Hi", False), ("<b", False), ("<thi", True), ("  ", True)])
def test_text_is_held_only_while_it_may_become_a_tag(output: str, held: bool) -> None:
    splitter = ThinkSplitter()
    assert splitter.feed(output) == ("", "" if held else output)
    assert splitter.settled is not held


def test_whether_something_waits_is_known() -> None:
    splitter = ThinkSplitter()
    assert not splitter.is_holding
    splitter.feed(" \n")
    assert not splitter.is_holding
    splitter.feed("<thi")
    assert splitter.is_holding
    splitter.feed("nk>a")
    assert not splitter.is_holding
    splitter.feed("</")
    assert splitter.is_holding
    assert splitter.close() == ("</", "")
    assert not splitter.is_holding


def test_thoughts_pass_by_as_they_come() -> None:
    splitter = ThinkSplitter()
    assert splitter.feed("<think>one") == ("one", "")
    assert splitter.feed(" two</") == (" two", "")
    assert splitter.feed("x") == ("</x", "")
    assert splitter.feed("</think>") == ("", "")
    assert not splitter.settled
    assert splitter.feed(" \n") == ("", "")
    assert splitter.feed(" text") == ("", "text")
    assert splitter.settled
    assert splitter.feed(" <think>") == ("", " <think>")


def test_what_may_be_the_beginning_of_a_marker_is_held_back() -> None:
    assert held_back("so </th", ("</think>", "[")) == 4
    assert held_back("so </think>", ("</think>",)) == 0
    assert held_back("<<", ("<a>", "<<<b>")) == 2
    assert held_back("", ("<a>",)) == 0


def test_blanks_before_the_text_take_time_in_proportion() -> None:
    splitter = ThinkSplitter()

    def feed() -> None:
        for _ in range(60_000):
            splitter.feed("\n")

    assert seconds(feed) < 0.4
