"""How a turn looks in a terminal, while it goes on and afterwards."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator

import pytest

from any_agent.cli.screen import Screen
from any_agent.cli.view import View, watch
from any_agent.errors import ProviderError
from any_agent.events import (
    Done,
    Event,
    Failed,
    ModelState,
    Notice,
    Reset,
    Retry,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
    ToolProgress,
    ToolResult,
    ToolRunning,
)
from any_agent.testing import HANG, Reply, chat_events, sse
from any_agent.types import ImageBlock, LLMResponse, TextBlock, ToolUseBlock, ToolUseError

from .support import CALL, COMMAND, STYLE, Backend, Home, Terminal, serving

TOOL_ROUND = Reply(chat_events("Let me look.", tool_calls=[CALL], finish="tool_calls"))
ANSWER = Reply(chat_events("It is ", "21 degrees."))
#: runs until the test lets it go on
SLOW = '''
import pathlib, time
def get_weather(city: str) -> dict:
    """The weather in a city."""
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    return {"city": city, "celsius": 21}
'''


def opened(
    home: Home, backend: Backend, *options: str, columns: int = 80, rows: int = 24, **variables: str
) -> Terminal:
    arguments = ["run", "hi", "-m", "x", "--base-url", backend.url, *options]
    return home.open(*arguments, columns=columns, rows=rows, **variables)


@pytest.fixture
def slow(home: Home) -> Home:
    (home.folder / "slow.py").write_text(SLOW, "utf-8")
    return home


@pytest.mark.row("B2", "B3")
def test_a_tool_is_a_live_card_that_becomes_its_result(slow: Home) -> None:
    with serving(TOOL_ROUND, ANSWER) as backend:
        with opened(slow, backend, "--tool", "slow:get_weather") as terminal:
            for tenths in range(2, 30, 9):  # the time goes on
                terminal.wait_for(lambda least=tenths: seconds(terminal) * 10 >= least)
            assert terminal.lines[0] == "Let me look."
            assert terminal.lines[1].endswith('s  get_weather  city="Oslo"')
            assert len(terminal.lines) == 2
            (slow.folder / "go").touch()
            assert terminal.ends() == 0
            first, card, output, answer = terminal.lines
            assert (first, answer) == ("Let me look.", "It is 21 degrees.")
            assert re.fullmatch(r'✓ \d\.\d s  get_weather  city="Oslo"', card)
            assert output == '  {"city": "Oslo", "celsius": 21}'


def seconds(terminal: Terminal) -> float:
    cards = (re.match(r"● (\d+\.\d) s", line) for line in terminal.lines)
    return max((float(card[1]) for card in cards if card), default=0.0)


def test_a_failed_tool_is_red(home: Home) -> None:
    call = {"id": "c1", "function": {"name": "broken", "arguments": '{"city": "Oslo"}'}}
    with serving(Reply(chat_events(tool_calls=[call], finish="tool_calls")), ANSWER) as backend:
        with opened(home, backend, "--tool", "weather:broken") as terminal:
            assert terminal.ends() == 0
            assert re.search(rb"\x1b\[31m\xe2\x9c\x97[^\x1b]*broken", terminal.raw)
            assert "the station is closed" in terminal.text


def test_no_color_means_none(home: Home) -> None:
    with serving(TOOL_ROUND, ANSWER) as backend:
        options = ("--tool", "weather:get_weather", "--show-thinking")
        with opened(home, backend, *options) as terminal:
            terminal.ends()
            assert STYLE.search(terminal.raw)
        with opened(home, backend, *options, NO_COLOR="1") as terminal:
            terminal.ends()
            assert not STYLE.search(terminal.raw)


def test_a_terminal_that_can_do_nothing_gets_lines(home: Home) -> None:
    with serving(TOOL_ROUND, ANSWER) as backend:
        with opened(home, backend, "--tool", "weather:get_weather", TERM="dumb") as terminal:
            assert terminal.ends() == 0
            assert b"\x1b" not in terminal.raw
            assert "It is 21 degrees." in terminal.lines


def test_twenty_columns_are_enough(slow: Home) -> None:
    with serving(TOOL_ROUND, ANSWER) as backend:
        with opened(slow, backend, "--tool", "slow:get_weather", columns=20, rows=10) as terminal:
            terminal.wait_for(lambda: seconds(terminal) >= 0.3)
            assert len(terminal.lines) == 2
            (slow.folder / "go").touch()
            assert terminal.ends() == 0
            first, card, *rest = terminal.lines
            assert (first, card[:1], rest[-1]) == ("Let me look.", "✓", "It is 21 degrees.")


def test_a_resize_leaves_the_answer_alone(slow: Home) -> None:
    with serving(TOOL_ROUND, ANSWER) as backend:
        with opened(slow, backend, "--tool", "slow:get_weather") as terminal:
            terminal.wait_for(lambda: seconds(terminal) >= 0.2)
            terminal.resize(25, 24)
            now = seconds(terminal)
            terminal.wait_for(lambda: seconds(terminal) > now)
            (slow.folder / "go").touch()
            assert terminal.ends() == 0
            assert terminal.lines[0] == "Let me look."
            assert terminal.lines[-1] == "It is 21 degrees."
            assert "●" not in terminal.text


def test_each_token_is_written_once(home: Home) -> None:
    words = [f"word{number} " for number in range(300)]
    with serving(Reply(chat_events(*words))) as backend:
        with opened(home, backend) as terminal:
            assert terminal.ends() == 0
            # what was live before the first word is gone by then, and nothing is drawn in between
            _, _, answer = terminal.raw.partition(b"word0 ")
            assert answer.decode() == f"{''.join(words[1:])}\r\n"


@pytest.mark.row("E2")
def test_what_the_model_does_can_be_seen(home: Home) -> None:
    loading = Reply.json({"error": {"message": "Loading model", "code": 503, "type": "unavailable_error"}}, 503)
    read, think, answer = asyncio.Event(), asyncio.Event(), asyncio.Event()
    progress = {"choices": [], "prompt_progress": {"total": 100, "cache": 0, "processed": 42}}
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}
    steps = [
        read,
        *sse(progress, done=False),
        think,
        *sse(thought, done=False),
        answer,
        *chat_events("42"),
    ]
    with serving(loading, Reply(steps)) as backend:
        with opened(home, backend) as terminal:
            for words, step in (("loading the model", read), ("reading the prompt 42%", think), ("thinking…", answer)):
                terminal.wait_for(words)
                backend.set(step)
            assert terminal.ends() == 0
            assert terminal.lines == ["42"]


@pytest.mark.row("B12")
def test_thoughts_are_dim(home: Home) -> None:
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "hm, \x1b[2J"}}]}
    with serving(Reply([*sse(thought, thought, done=False), *chat_events("42")])) as backend:
        with opened(home, backend, "--show-thinking") as terminal:
            assert terminal.ends() == 0
            assert terminal.lines == ["hm, ␛[2Jhm, ␛[2J", "42"]
            assert "\x1b[2mhm, ␛[2Jhm, ␛[2J\x1b[22m\r\n42\r\n".encode() in terminal.raw


@pytest.mark.row("A27")
def test_ctrl_c_leaves_a_clean_terminal(slow: Home) -> None:
    with serving(TOOL_ROUND, Reply([HANG])) as backend:
        with opened(slow, backend, "--tool", "slow:get_weather") as terminal:
            terminal.wait_for(lambda: seconds(terminal) > 0)
            terminal.type("\x03")
            assert terminal.ends() == 130
            assert terminal.lines == ["Let me look.", '✗ get_weather  stopped  city="Oslo"']
            assert terminal.raw.rstrip().rfind(b"\x1b[?25h") > terminal.raw.rfind(b"\x1b[?25l")


def test_the_answer_alone_goes_to_a_file(home: Home) -> None:
    with serving(TOOL_ROUND, ANSWER) as backend:
        command = f'"$@" {backend.url} --tool weather:get_weather > answer.txt'
        arguments = ["/bin/sh", "-c", command, "sh", *COMMAND, "run", "hi", "-m", "x", "--base-url"]
        with Terminal(arguments, home.environment, home.folder, 80, 24) as terminal:
            assert terminal.ends() == 0
            assert terminal.lines[0].startswith("✓ ")
            assert (home.folder / "answer.txt").read_text("utf-8") == "Let me look.\nIt is 21 degrees.\n"


def shown(events: list[Event], capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """What a view writes without a terminal: the answer, and the lines of the rest."""
    view = View(Screen())
    for event in events:
        view.show(event)
    view.close()
    out, err = capsys.readouterr()
    return out, err.splitlines()


def test_calls_that_wait_for_approval_or_never_ran_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    events: list[Event] = [
        ToolInputStart("a", "write"),
        ToolInputDelta("a", '{"path": "x"}'),
        ToolInputStart("b", "read"),
        ToolCall(ToolUseBlock("a", "write", {"path": "x"})),
        ToolCall(ToolUseError("Invalid JSON", id="b", name="read")),
        ToolResult("b", "read", "The call was not understood", is_error=True),
        ToolRunning("a", "write", {"path": "y"}, waiting_for_approval=True),
        ToolProgress("a", "write", {"percent": 50}),
    ]
    assert shown(events, capsys) == (
        "",
        ["✗ 0.0 s  read", "  The call was not understood", '? write  waiting for approval  path="y"',
         '✗ write  stopped  {\'percent\': 50}  path="y"'],
    )  # fmt: skip


def test_long_results_are_cut_and_pictures_counted(capsys: pytest.CaptureFixture[str]) -> None:
    picture = ImageBlock.from_bytes(b"GIF89a")
    events: list[Event] = [
        ToolResult("a", "read", "x" * 5000),
        ToolResult("b", "draw", [TextBlock("two\nlines"), picture]),
    ]
    _, lines = shown(events, capsys)
    assert lines == ["✓ 0.0 s  read", f"  {'x' * 199}…", "✓ 0.0 s  draw", "  two lines and 1 image(s)"]


def test_everything_else_is_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    busy = ProviderError("busy", kind="overloaded")
    events: list[Event] = [
        ModelState("queued"),
        ModelState("loading", 0.1),
        ModelState("loading", 0.9),
        ModelState("prefill", 0.5),
        Notice("repair", "a comma\ntoo many"),
        Retry(2, 0.5, busy),
        TextDelta("half an ans"),
        Reset("a step is run again"),
        TextDelta("an answer"),
        Done(LLMResponse(stop_reason="refusal")),
    ]
    assert shown(events, capsys) == (
        "half an ans\nan answer\n",
        ["queued at the server", "loading the model", "a comma too many", "trying again in 0.5 s (attempt 2): busy",
         "the answer begins again: a step is run again", "the model refused to answer"],
    )  # fmt: skip


def test_attempts_that_came_to_nothing_are_left_to_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    busy = ProviderError("busy", kind="overloaded")
    assert shown([Retry(2, 0.5, busy), Retry(3, 1.0, busy), Failed(busy, LLMResponse())], capsys) == ("", [])


async def test_whoever_stops_watching_stops_the_turn(capsys: pytest.CaptureFixture[str]) -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def turn() -> AsyncGenerator[Event, None]:
        try:
            yield TextDelta("some words")
            begun.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    watching = asyncio.create_task(watch(turn(), View(Screen())))
    await begun.wait()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert closed.is_set()
    assert capsys.readouterr().out == "some words\n"
