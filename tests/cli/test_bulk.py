"""`any-agent task --file`: many prompts, broken off anywhere, and gone on with."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections import Counter
from typing import Any

import pytest

from any_agent.testing import Received, Reply, chat_events

from .support import LIMIT_S, Backend, Home, serving, working


def echo(request: Received) -> Reply:
    return Reply(chat_events(f"You said {request.json['messages'][-1]['content']}"))


def after(gate: asyncio.Event, count: int) -> Any:
    """Answers so many prompts, and the others when they may be."""
    asked = Counter[str]()

    def answer(request: Received) -> Reply:
        asked["all"] += 1
        return Reply([*([gate] if asked["all"] > count else []), *list(echo(request).steps)])

    return answer


def write_prompts(home: Home, count: int, **more: Any) -> None:
    lines = (json.dumps({"prompt": f"number {number}", **more}) for number in range(count))
    (home.folder / "prompts.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def rows(home: Home) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home.folder / "out.jsonl").read_bytes().splitlines()]


def wait_for_rows(home: Home, count: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not (home.folder / "out.jsonl").exists() or len(rows(home)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def bulk(*arguments: str) -> list[str]:
    return ["task", *arguments, "--file", "prompts.jsonl", "--out", "out.jsonl"]


def spawned(home: Home, backend: Backend) -> None:
    home.spawn(backend, "a", "b", "c")


@pytest.mark.row("C12")
def test_prompts_are_dealt_out_to_the_agents_that_are_named(home: Home) -> None:
    with serving(echo) as backend:
        spawned(home, backend)
        write_prompts(home, 6)
        result = home.run(*bulk("a", "b"))
        assert (result.code, result.out, result.err) == (0, "", "6 answers are in out.jsonl (6 new)\n")
        found = sorted(rows(home), key=lambda row: row["line"])
        assert [(row["line"], row["agent"], row["prompt"], row["state"], row["text"]) for row in found] == [
            (number + 1, "ab"[number % 2], f"number {number}", "done", f"You said number {number}")
            for number in range(6)
        ]
        again = home.run(*bulk("a", "b"))
        assert (again.code, again.err) == (0, "6 answers are in out.jsonl (0 new)\n")
        assert len(backend.questions) == len(rows(home)) == 6


def test_a_line_may_name_its_agent_and_itself(home: Home) -> None:
    with serving(echo) as backend:
        spawned(home, backend)
        lines = [{"prompt": "u2028 \u2028 is no new line", "agent": "c", "id": "x"}, {"prompt": "other"}]
        text = "\ufeff" + "\r\n\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
        (home.folder / "prompts.jsonl").write_text(text, "utf-8")
        assert home.run(*bulk("a", "--id", "batch")).code == 0
        first, second = sorted(rows(home), key=lambda row: row["line"])
        assert (first["agent"], first["task"], first["line"]) == ("c", "batch:x", 1)
        assert (second["agent"], second["line"]) == ("a", 3)


def test_an_agent_remembers_unless_each_prompt_is_to_be_fresh(home: Home) -> None:
    def count(request: Received) -> Reply:
        return Reply(chat_events(str(len(request.json["messages"]))))

    with serving(count) as backend:
        spawned(home, backend)
        write_prompts(home, 3)
        home.run(*bulk("a", "--id", "one"))
        assert [row["text"] for row in rows(home)] == ["1", "3", "5"]
        (home.folder / "out.jsonl").unlink()
        home.run(*bulk("--all", "--id", "two", "--fresh"))
        assert [row["text"] for row in rows(home)] == ["1", "1", "1"]


@pytest.mark.row("C15")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("has_worker", [False, True], ids=["alone", "with a worker"])
def test_what_is_broken_off_goes_on_and_nothing_is_answered_twice(
    home: Home, number: signal.Signals, has_worker: bool
) -> None:
    gate = asyncio.Event()
    with serving(after(gate, 10)) as backend:
        spawned(home, backend)
        write_prompts(home, 24)
        with working(home) if has_worker else open("/dev/null"):
            process = home.start(*bulk("--all", "--concurrency", "6"))
            wait_for_rows(home, 8)
            process.send_signal(number)
            _, err = process.communicate()
            if number == signal.SIGINT:
                assert process.returncode == 130
                assert err.decode().splitlines()[-1].startswith("broken off: the same command goes on where it stopped")
            before = len(rows(home))
            assert 8 <= before < 24
            with (home.folder / "out.jsonl").open("ab") as out:
                out.write(b'{"task": "half a l')  # what a crash of the machine leaves
            backend.set(gate)
            again = home.run(*bulk("--all", "--concurrency", "6"))
        assert (again.code, again.err) == (0, f"24 answers are in out.jsonl ({24 - before} new)\n")
        assert Counter(row["prompt"] for row in rows(home)) == {f"number {number}": 1 for number in range(24)}
        assert all(row["text"] == f"You said {row['prompt']}" for row in rows(home))
        in_flight = len(backend.questions) - 24
        assert in_flight <= 3, "of each agent at most what it was doing is asked again"
        for name in "abc":
            conversation = json.loads(home.run("history", name, "--json").out)
            said = [message["content"] for message in conversation if message["role"] == "user"]
            assert said == sorted(set(said), key=lambda words: int(words.split()[1])), "in order, and once"


@pytest.mark.row("C15")
def test_a_batch_outlives_the_worker_that_did_it(home: Home) -> None:
    gate = asyncio.Event()
    with serving(after(gate, 4)) as backend:
        spawned(home, backend)
        write_prompts(home, 9)
        with working(home) as worker:
            process = home.start(*bulk("--all"))
            wait_for_rows(home, 4)
            worker.kill()
            worker.wait()
            backend.set(gate)
            _, err = process.communicate()
        assert (process.returncode, err) == (0, b"9 answers are in out.jsonl (9 new)\n")


def test_a_terminal_shows_how_far_it_is(home: Home) -> None:
    gate = asyncio.Event()
    with serving(after(gate, 4)) as backend:
        spawned(home, backend)
        write_prompts(home, 9)
        with home.open(*bulk("--all"), columns=50) as terminal:
            terminal.wait_for("4/9")
            assert terminal.lines[-1].startswith("prompts.jsonl ━")
            terminal.type("\x03")
            assert terminal.ends() == 130
            assert "broken off" in terminal.text
        backend.set(gate)
        with home.open(*bulk("--all"), columns=50, NO_COLOR="1") as terminal:
            terminal.wait_for(re.compile("[4-9]/9"))
            assert terminal.ends() == 0
            assert "9 answers are in out.jsonl (5 new)" in terminal.text
            assert b"\x1b[3" not in terminal.raw


@pytest.mark.row("C16")
def test_one_that_fails_does_not_keep_the_others_from_being_answered(home: Home) -> None:
    def answer(request: Received) -> Reply:
        wrong = request.json["messages"][-1]["content"] == "number 1"
        return Reply.json({"error": {"message": "no such thing"}}, 400) if wrong else echo(request)

    with serving(answer) as backend:
        spawned(home, backend)
        write_prompts(home, 3)
        result = home.run(*bulk("a"))
        assert (result.code, result.err) == (1, "3 answers are in out.jsonl (3 new, 1 of them errors)\n")
        assert [row["state"] for row in rows(home)] == ["done", "failed", "done"]
        assert "no such thing" in rows(home)[1]["error"]


@pytest.mark.row("C16")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"prompt": "hi"}\n{"prompt: }\n', "prompts.jsonl:2: no JSON: "),
        ('{"prompt": "hi"}\n["hi"]\n', 'prompts.jsonl:2: a line is {"prompt": "…"}, perhaps with "agent" and "id"'),
        ('{"prompt": " "}\n', "prompts.jsonl:1: a line is"),
        ('{"prompt": "a", "id": 1}\n{"prompt": "b", "id": "1"}\n', "prompts.jsonl:1: the \"id\" '1' is there twice"),
        ('{"prompt": "a", "agent": "nope"}\n', "there is no agent 'nope'"),
        ("\n", "prompts.jsonl has no prompts"),
        ("\udcff", "prompts.jsonl is no text in UTF-8"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_before_anybody_is_asked(home: Home, text: str, words: str) -> None:
    with serving(echo) as backend:
        spawned(home, backend)
        (home.folder / "prompts.jsonl").write_bytes(text.encode(errors="surrogateescape"))
        assert words in home.run(*bulk("a")).complaint
        assert not backend.questions
        assert not (home.folder / "out.jsonl").exists()


@pytest.mark.row("C16")
def test_a_file_without_agents_is_refused(home: Home) -> None:
    write_prompts(home, 1)
    assert "prompts.jsonl:1: names no agent: name one here, or on the command line" in home.run(*bulk()).complaint


@pytest.mark.row("C16")
def test_results_of_something_else_are_left_alone(home: Home) -> None:
    with serving(echo) as backend:
        spawned(home, backend)
        write_prompts(home, 2)
        home.run(*bulk("a"))
        before = rows(home)
        complaint = home.run(*bulk("b")).complaint
        assert "out.jsonl has the answers to other prompts, or of other agents: name another file" in complaint
        assert rows(home) == before
        (home.folder / "out.jsonl").write_text("Dear diary\n")
        assert "out.jsonl is there, and is no file of results: name another one" in home.run(*bulk("a")).complaint
        assert (home.folder / "out.jsonl").read_text() == "Dear diary\n"
        assert "out.jsonl" in home.run(*bulk("a")[:-1], "/nowhere/out.jsonl").complaint
        assert len(backend.questions) == 2
