"""The examples run as programs, and the page that compares one of them counts right."""

from __future__ import annotations

import ast
import asyncio
import difflib
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from any_agent import AgentOptions, Client, Tool, ToolResult, ToolRunning, tool
from any_agent.testing import HANG, Received, Reply, ScriptedServer, chat_events

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "copy-editor.md"

LETTER = """\
# A letter

Their is a cat in the garden. It
sleeps alot.

Nothing is wrong here.
"""


def call(name: str, **arguments: Any) -> Reply:
    """The model says a word and calls a tool."""
    calls = [{"id": "c1", "function": {"name": name, "arguments": json.dumps(arguments)}}]
    return Reply(chat_events("So.", tool_calls=calls, finish="tool_calls"))


def say(text: str) -> Reply:
    return Reply(chat_events(text))


async def start(example: str, *arguments: str, server: ScriptedServer) -> asyncio.subprocess.Process:
    environment = {**os.environ, "ANY_AGENT_BASE_URL": server.url, "ANY_AGENT_MODEL": "scripted"}
    if arguments:
        environment["ANY_AGENT_DATA"] = f"{arguments[0]}.data"
    return await asyncio.create_subprocess_exec(
        sys.executable,
        EXAMPLES / example,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )


async def finished(process: asyncio.subprocess.Process) -> tuple[str, str, int | None]:
    """Standard output, standard error, and the exit code."""
    out, err = await process.communicate()
    return out.decode(), err.decode(), process.returncode


@pytest.fixture
def letter(tmp_path: Path) -> str:
    file = tmp_path / "letter.md"
    file.write_text(LETTER, "utf-8")
    return str(file)


@pytest.mark.row("B1", "B2", "E10")
async def test_timeline_shows_a_tool_while_it_runs() -> None:
    async with ScriptedServer(call("get_weather", city="Paris"), say("It is\nsunny.")) as server:
        process = await start("timeline.py", server.url, "from-the-command-line", server=server)
        assert process.stdout is not None
        before = await process.stdout.readuntil(b"tool_running")
        running = time.monotonic()
        between = await process.stdout.readuntil(b"tool_result")
        assert time.monotonic() - running >= 1.9
        out, err, code = await finished(process)
    assert (err, code) == ("", 0)
    lines = (before + between).decode() + out
    assert re.findall(r"^ +\d+\.\d\d s  (\w+)", lines, re.MULTILINE) == [
        "text", "tool_input_start", "tool_input_delta", "tool_use", "response",
        "tool_running", *["tool_progress"] * 4, "tool_result", "text", "response", "done",
    ]  # fmt: skip
    assert "Paris: 18 degrees, sunny (after 2.0" in lines
    assert "It is sunny." in lines
    assert server.requests[0].json["model"] == "from-the-command-line"


async def test_timeline_takes_the_server_from_the_environment_and_shows_what_went_wrong() -> None:
    async with ScriptedServer(Reply.json({"error": {"message": "no such thing"}}, 404)) as server:
        out, err, code = await finished(await start("timeline.py", server=server))
    assert (err, code) == ("", 0)
    assert re.search(r" s  error +.*no such thing", out)


@tool
def blocking() -> str:
    """Takes two seconds of a thread."""
    time.sleep(2)
    return "done"


@tool
async def waiting() -> str:
    """Takes two seconds of nothing."""
    await asyncio.sleep(2)
    return "done"


@pytest.mark.row("B2")
@pytest.mark.parametrize("slow", [blocking, waiting], ids=lambda slow: slow.name)
async def test_two_seconds_of_a_tool_are_two_seconds_of_frames(slow: Tool) -> None:
    seen: dict[type, float] = {}
    frames = 0

    async def render() -> None:
        nonlocal frames
        while ToolResult not in seen:
            frames += ToolRunning in seen
            await asyncio.sleep(0.05)

    async with ScriptedServer(call(slow.name), say("Done.")) as server:
        async with Client(AgentOptions("", "m", server.url, tools=[slow], auto_execute_tools=True)) as client:
            await client.query("go")
            renderer = asyncio.create_task(render())
            async for event in client.events():
                seen.setdefault(type(event), time.monotonic())
            await renderer
    assert seen[ToolResult] - seen[ToolRunning] >= 1.9
    assert frames >= 25  # of 40; the machine may be busy


async def test_copy_editor_collects_what_holds_and_the_model_corrects_the_rest(letter: str) -> None:
    async with ScriptedServer(
        call("read_paragraph", number=1),
        call("read_paragraph", number=2),
        call("report_issue", paragraph=2, kind="spelling", quote="a lot", suggestion="alot"),
        call("report_issue", paragraph=2, kind="spelling", quote="It sleeps alot", suggestion="It sleeps a lot"),
        call("report_issue", paragraph=2, kind="nonsense", quote="Their is", suggestion="There is"),
        call("report_issue", paragraph=2, kind="grammar", quote="Their is", suggestion="There is"),
        call("read_paragraph", number=3),
        call("finish", summary="Two mistakes in a short letter."),
        say("Goodbye!"),
    ) as server:
        out, err, code = await finished(await start("copy_editor.py", letter, server=server))
    assert (err, code) == ("", 0)
    told = [request.json["messages"][-1]["content"] for request in server.requests]
    assert told[2].startswith("Their is a cat in the garden. It\nsleeps alot.\n")
    assert "Paragraph 2 does not contain 'a lot'" in told[3]
    assert told[4] == told[6] == "Noted."
    assert "The arguments of report_issue are not valid" in told[5]
    assert "\n> report_issue 2 spelling a lot alot\n! report_issue failed" in out
    assert out.endswith(
        "Goodbye!\n\n"
        f"{letter}:3: spelling: 'It sleeps alot' -> 'It sleeps a lot'\n"
        f"{letter}:3: grammar: 'Their is' -> 'There is'\n"
        "3 of 3 paragraphs read\n"
        "Two mistakes in a short letter.\n"
    )


async def test_copy_editor_reminds_a_model_that_stops_early(letter: str) -> None:
    async with ScriptedServer(
        call("finish", summary="Fine, I guess."),
        say("I did it."),
        call("read_paragraph", number=1),
        call("read_paragraph", number=2),
        call("read_paragraph", number=4),
        call("read_paragraph", number=3),
        say("That was all."),
        call("finish", summary="It is fine."),
        say("Goodbye!"),
    ) as server:
        out, err, code = await finished(await start("copy_editor.py", letter, server=server))
    assert (err, code) == ("", 0)
    told = [request.json["messages"][-1]["content"] for request in server.requests]
    assert told[0] == "The text has 3 paragraphs. Begin with paragraph 1."
    assert told[1].endswith("You are not done: read paragraph 1.")
    assert told[2] == "You are not done: read paragraph 1."
    assert told[5].endswith("There is no paragraph 4; they are numbered from 1 to 3.")
    assert told[7] == "You are not done: call finish."
    assert out.endswith("3 of 3 paragraphs read\nIt is fine.\n")


async def test_copy_editor_prints_what_it_found_when_it_is_stopped(letter: str) -> None:
    async with ScriptedServer(
        call("read_paragraph", number=2),
        call("report_issue", paragraph=2, kind="spelling", quote="alot", suggestion="a lot"),
        Reply([*chat_events("I go", finish=None)[:-1], HANG]),
    ) as server:
        process = await start("copy_editor.py", letter, server=server)
        assert process.stdout is not None
        before = await process.stdout.readuntil(b"I go")
        process.send_signal(signal.SIGINT)
        await server.disconnected()
        out, err, code = await finished(process)
    assert b"\n> report_issue 2 spelling alot a lot\n" in before
    assert (err, code) == ("", 0)
    assert out == f"\n(stopped)\n\n{letter}:3: spelling: 'alot' -> 'a lot'\n1 of 3 paragraphs read\n(not finished)\n"


async def test_copy_editor_prints_what_it_found_when_the_server_fails(letter: str) -> None:
    async with ScriptedServer(
        call("read_paragraph", number=2),
        call("report_issue", paragraph=2, kind="spelling", quote="alot", suggestion="a lot"),
        Reply.json({"error": {"message": "the model is gone"}}, 404),
    ) as server:
        out, err, code = await finished(await start("copy_editor.py", letter, server=server))
    assert code == 1
    assert "the model is gone" in err
    assert out.endswith(f"{letter}:3: spelling: 'alot' -> 'a lot'\n1 of 3 paragraphs read\n(not finished)\n")


def about(request: Received) -> str:
    """Which agent asks."""
    instructions: str = request.json["messages"][0]["content"]
    return next(name for name, words in REVIEWS.items() if words in instructions)


#: a word of the instructions of each agent
REVIEWS = {
    "plot": "events",
    "style": "style",
    "facts": "statement",
    "reader": "pleasure",
    "language": "grammar",
    "editor": "editor",
}


@pytest.mark.row("C14", "C15")
async def test_reviewers_that_are_killed_in_the_middle_go_on_and_ask_nothing_twice(letter: str) -> None:
    answers = ["plot", "facts", "language"]

    def answer(request: Received) -> Reply:
        name = about(request)
        return say(f"the {name} is fine") if name in answers else Reply([*chat_events("Well", finish=None)[:2], HANG])

    async with ScriptedServer(answer) as server:
        process = await start("reviewers.py", letter, server=server)
        assert process.stdout is not None
        for _ in answers:
            await process.stdout.readuntil(b" is fine\n")
        await server.received(5)
        process.kill()
        await process.wait()
        answers += ["style", "reader", "editor"]
        out, err, code = await finished(await start("reviewers.py", letter, server=server))
        again, _, _ = await finished(await start("reviewers.py", letter, server=server))
    assert (err, code) == ("", 0)
    assert Counter(map(about, server.requests)) == {
        "plot": 1, "facts": 1, "language": 1, "style": 2, "reader": 2, "editor": 1,
    }  # fmt: skip
    assert out.endswith("── editor\nthe editor is fine\n\n")
    assert sorted(line for line in again.splitlines() if line) == sorted(
        line for name in REVIEWS for line in (f"── {name}", f"the {name} is fine")
    )
    summed_up = next(request for request in server.requests if about(request) == "editor").json["messages"][-1]
    assert summed_up["content"] == "\n\n".join(f"# {name}\n\nthe {name} is fine" for name in list(REVIEWS)[:5])


async def test_reviewers_say_what_is_wrong_and_try_again_when_they_are_started_again(letter: str) -> None:
    fails = [True]

    def answer(request: Received) -> Reply:
        return Reply.json({"error": {"message": "the model is gone"}}, 404) if fails else say("fine")

    async with ScriptedServer(answer) as server:
        out, err, code = await finished(await start("reviewers.py", letter, server=server))
        assert (out, code) == ("", 1)
        assert err.count("the model is gone") == 5
        assert err.endswith("some of it failed; the same command tries that again, and nothing else\n")
        fails.clear()
        out, err, code = await finished(await start("reviewers.py", letter, server=server))
    assert (err, code) == ("", 0)
    assert out.count("fine") == 6


def sides(page: str) -> tuple[list[str], list[str]]:
    """The two programs of the page, in lines: the other one, and ours."""
    [block] = re.findall(r"```diff\n(.*?)```", page, re.DOTALL)
    lines = block.splitlines()
    return [line[1:] for line in lines if line[:1] != "+"], [line[1:] for line in lines if line[:1] != "-"]


def rewritten(page: str) -> str:
    """The page with the example as it is now, and with the lines counted again."""
    theirs, ours = sides(page)[0], (EXAMPLES / "copy_editor.py").read_text("utf-8").splitlines()
    lines = list(difflib.unified_diff(theirs, ours, n=len(ours), lineterm=""))[3:]
    removed, added = (sum(line[0] == sign for line in lines) for sign in "-+")
    counts = iter([(removed, len(theirs)), (added, len(ours))])
    page = re.sub(r"\*\*\d+ of the \d+ lines\*\*", lambda _: "**{} of the {} lines**".format(*next(counts)), page)
    block = "\n".join(["```diff", *lines, "```"])
    return re.sub(r"```diff\n.*?```", lambda _: block, page, flags=re.DOTALL)


def test_page_compares_the_example_as_it_is_and_counts_right() -> None:
    page = PAGE.read_text("utf-8")
    assert len(re.findall(r"\*\*\d+ of the \d+ lines\*\*", page)) == 2
    assert rewritten(page) == page, "after a change of the example: python tests/test_examples.py, and look at the page"


def test_the_other_program_is_python_and_needs_the_other_package_alone() -> None:
    tree = ast.parse("\n".join(sides(PAGE.read_text("utf-8"))[0]))
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert "claude_agent_sdk" in modules
    assert "any_agent" not in modules


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text("utf-8")), "utf-8")
