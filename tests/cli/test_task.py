"""`any-agent task` and `any-agent attach`: who works, who reads along, and what Ctrl-C does."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess

import pytest

from any_agent.events import Done, Event, TextDelta, from_dict
from any_agent.testing import HANG, Received, Reply, chat_events

from .support import COMMAND, DANGEROUS, Home, Process, serving, working

HELLO = Reply(chat_events("Hello ", "there"))
ENDLESS = Reply([*chat_events("Once upon", finish=None)[:2], HANG])


def echo(request: Received) -> Reply:
    return Reply(chat_events(f"You said {request.json['messages'][-1]['content']}"))


def read(process: Process, text: bytes) -> None:
    """Wait until this has come."""
    assert process.stdout is not None
    assert process.stdout.read(len(text)) == text


@pytest.mark.row("C12", "B1")
@pytest.mark.parametrize("has_worker", [False, True], ids=["alone", "with a worker"])
def test_the_answer_streams_while_the_server_is_still_sending(home: Home, has_worker: bool) -> None:
    more = asyncio.Event()
    first, *rest = chat_events("Hel", "lo")[1:]
    with serving(Reply([first, more, *rest])) as backend:
        home.spawn(backend, "gpt")
        with working(home) if has_worker else open("/dev/null"):
            process = home.start("task", "gpt", "hi")
            read(process, b"Hel")
            backend.set(more)
            assert process.communicate() == (b"lo\n", b"")
            assert process.returncode == 0


def test_what_is_piped_in_is_the_prompt(home: Home) -> None:
    with serving(echo) as backend:
        home.spawn(backend, "gpt")
        assert home.run("task", "gpt", piped=b"this").out == "You said this\n"


@pytest.mark.row("C12")
def test_the_same_id_is_one_task(home: Home) -> None:
    with serving(echo) as backend:
        home.spawn(backend, "gpt", "other")
        results = [home.run("task", "gpt", "this", "--id", "X") for _ in range(2)]
        assert [(result.code, result.out) for result in results] == [(0, "You said this\n")] * 2
        assert len(backend.questions) == 1
        assert "there is a task 'X' already, of gpt" in home.run("task", "gpt", "that", "--id", "X").complaint
        assert "there is a task 'X' already, of gpt" in home.run("task", "other", "this", "--id", "X").complaint


@pytest.mark.row("C12", "E7")
def test_a_detached_task_can_be_read_later_from_any_place(home: Home) -> None:
    with serving(HELLO) as backend:
        home.spawn(backend, "gpt")
        detached = home.run("task", "gpt", "hi", "--detach")
        assert (detached.code, detached.out) == (0, "gpt:0000000001\n")
        assert detached.err == "any-agent: no worker runs: the task waits until `any-agent worker` is started\n"
        assert home.run("list").err == "any-agent: tasks wait, and nobody works on them: `any-agent worker` does\n"
        assert not backend.questions
        with working(home):
            attached = home.run("attach", "gpt:0000000001")
            assert (attached.code, attached.out) == (0, "Hello there\n")
            assert attached.err == "user → gpt (gpt:0000000001): hi\n"
            assert home.run("attach", "gpt").out == "Hello there\n", "the last task of an agent"
            events = [from_dict(json.loads(line)) for line in home.run("attach", "gpt", "--json").out.splitlines()]
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            position = next(event.seq for event in events if isinstance(event, TextDelta))
            after = home.run("attach", "gpt", "--json", "--after", str(position)).out.splitlines()
            assert [json.loads(line) for line in after] == [json.loads(line) for line in lines_of(events[position:])]
            live = [
                from_dict(json.loads(line)) for line in home.run("attach", "gpt", "--json", "--live").out.splitlines()
            ]
            assert len(live) == 1
            assert isinstance(live[0], Done)
        assert len(backend.questions) == 1


def lines_of(events: list[Event]) -> list[str]:
    from any_agent.events import to_dict

    return [json.dumps(to_dict(event)) for event in events]


@pytest.mark.row("E7")
def test_live_begins_with_what_happens_from_now_on(home: Home) -> None:
    more = asyncio.Event()
    first, *rest = chat_events("Hel", "lo")[1:]
    with serving(Reply([first, more, *rest])) as backend:
        home.spawn(backend, "gpt")
        process = home.start("task", "gpt", "hi")
        read(process, b"Hel")
        with home.open("attach", "gpt", "--live") as terminal:
            terminal.wait_for("Ctrl-C ends the reading; the task goes on")
            backend.set(more)
            assert terminal.ends() == 0
            assert "lo" in terminal.text.split()
            assert "Hello" not in terminal.text
        assert process.communicate()[0] == b"lo\n"


@pytest.mark.row("C16", "B13")
@pytest.mark.parametrize("has_worker", [False, True], ids=["alone", "with a worker"])
def test_ctrl_c_in_task_cancels_the_task_and_stops_the_model(home: Home, has_worker: bool) -> None:
    with serving(ENDLESS, HELLO) as backend:
        home.spawn(backend, "gpt")
        with working(home) if has_worker else open("/dev/null"):
            process = home.start("task", "gpt", "hi", "--id", "X")
            read(process, b"Once upon")
            process.send_signal(signal.SIGINT)
            backend.wait(backend.server.disconnected())
            out, err = process.communicate()
            assert (process.returncode, out, err) == (130, b"\n", b"cancelled\n")
            [task] = home.ask(lambda agents: agents.task("X"))
            assert task.state == "cancelled"
            assert home.run("task", "gpt", "hi").out == "Hello there\n", "the agent takes the next one"


@pytest.mark.row("C16")
def test_ctrl_c_in_attach_ends_the_reading_and_nothing_else(home: Home) -> None:
    more = asyncio.Event()
    first, *rest = chat_events("Hel", "lo")[1:]
    with serving(Reply([first, more, *rest])) as backend:
        home.spawn(backend, "gpt")
        process = home.start("task", "gpt", "hi", "--id", "X")
        read(process, b"Hel")
        reader = home.start("attach", "X")
        read(reader, b"Hel")
        reader.send_signal(signal.SIGINT)
        _, err = reader.communicate()
        assert reader.returncode == 130
        assert err.decode().splitlines()[-1] == "it goes on: any-agent attach X"
        assert not backend.server.disconnects
        backend.set(more)
        assert process.communicate() == (b"lo\n", b"")


@pytest.mark.row("C16", "C15")
def test_attach_goes_on_with_what_was_interrupted_and_can_be_left_again(home: Home) -> None:
    with serving(ENDLESS, ENDLESS, HELLO) as backend:
        home.spawn(backend, "gpt")
        process = home.start("task", "gpt", "hi", "--id", "X")
        read(process, b"Once upon")
        process.kill()
        process.communicate()
        with home.open("attach", "X") as terminal:
            terminal.wait_for("nobody else works on it, so this does; Ctrl-C leaves it where it is")
            terminal.wait_for("the answer begins again")
            backend.wait(backend.server.received(2))
            terminal.type("\x03")
            assert terminal.ends() == 130
            assert "nobody works on it now; `any-agent attach X` or a worker goes on with it" in terminal.text
        attached = home.run("attach", "X")
        assert (attached.code, attached.out.splitlines()[-1]) == (0, "Hello there")


@pytest.mark.row("C14")
@pytest.mark.parametrize("has_worker", [False, True], ids=["without a worker", "with a worker"])
def test_two_terminals_ask_one_agent_at_once(home: Home, has_worker: bool) -> None:
    more = asyncio.Event()

    def answer(request: Received) -> Reply:
        messages = [message["content"] for message in request.json["messages"]]
        gate = [] if len(messages) > 1 else [more]
        return Reply([*chat_events("I heard ", finish=None)[:2], *gate, *chat_events(", ".join(messages))[1:]])

    with serving(answer) as backend:
        home.spawn(backend, "gpt")
        with working(home) if has_worker else open("/dev/null"):
            with home.open("task", "gpt", "one") as first:
                first.wait_for("I heard")
                with home.open("task", "gpt", "two") as second:
                    second.wait_for("gpt has 1 task to end before this one")
                    assert len(backend.questions) == 1
                    backend.set(more)
                    assert (first.ends(), second.ends()) == (0, 0)
                    assert first.lines == ["I heard one"]
                    assert second.lines[-1] == "I heard one, I heard one, two"
        assert len(backend.questions) == 2


@pytest.mark.row("C14", "C15")
def test_who_waits_goes_on_with_what_the_one_before_left(home: Home) -> None:
    with serving(ENDLESS, echo) as backend:
        home.spawn(backend, "gpt")
        first = home.start("task", "gpt", "one", "--id", "one")
        read(first, b"Once upon")
        second = home.start("task", "gpt", "two")
        assert second.stderr is not None
        assert second.stderr.readline() == b"gpt has 1 task to end before this one\n"
        first.kill()
        first.communicate()
        assert second.communicate() == (b"You said two\n", b"")
        [one] = home.ask(lambda agents: agents.task("one"))
        assert (one.state, one.outcome["text"]) == ("done", "You said one")


@pytest.mark.row("C15")
def test_a_worker_that_dies_is_followed_by_the_one_who_asked(home: Home) -> None:
    with serving(ENDLESS, echo) as backend:
        home.spawn(backend, "gpt")
        with working(home) as worker:
            process = home.start("task", "gpt", "hi")
            read(process, b"Once upon")
            worker.kill()
            out, err = process.communicate()
            assert (process.returncode, out) == (0, b"\nYou said hi\n")
            assert b"the answer begins again: the process that worked on this ended" in err


@pytest.mark.row("C12")
def test_a_fresh_task_knows_nothing_and_leaves_nothing(home: Home) -> None:
    def count(request: Received) -> Reply:
        return Reply(chat_events(str(len(request.json["messages"]))))

    with serving(count) as backend:
        home.spawn(backend, "gpt")
        assert [home.run("task", "gpt", "hi").out, home.run("task", "gpt", "hi", "--fresh").out] == ["1\n", "1\n"]
        assert home.run("task", "gpt", "hi").out == "3\n"


@pytest.mark.row("C12", "C14")
def test_all_are_asked_at_once_and_a_terminal_shows_who_is_at_it(home: Home) -> None:
    gates = {name: asyncio.Event() for name in "abc"}

    def answer(request: Received) -> Reply:
        name = request.json["messages"][0]["content"]
        if name == "c":
            return Reply.json({"error": {"message": "no such\x1b[31m model"}}, 400)
        return Reply([gates[name], *chat_events(f"{name} says hi")])

    with serving(answer) as backend:
        for name in "abc":
            home.spawn(backend, name, system_prompt=name)
        with home.open("task", "--all", "hi", columns=40) as terminal:
            terminal.wait_for(re.compile(r"^● .* s  a$"))
            terminal.wait_for("no such␛[31m model")
            backend.set(gates["b"])
            terminal.wait_for("b says hi")
            terminal.wait_for(lambda: any(line.endswith("s  a") for line in terminal.lines))
            assert not any(line.endswith("s  b") for line in terminal.lines)
            backend.set(gates["a"])
            assert terminal.ends() == 1
            assert not any(line.startswith("●") for line in terminal.lines)
            assert "── b b says hi ── a a says hi" in terminal.text


def test_what_all_answer_is_json_too_and_goes_through_pipes(home: Home) -> None:
    with serving(echo) as backend:
        home.spawn(backend, "a", "b")
        rows = [json.loads(line) for line in home.run("task", "--all", "hi", "--json", "--id", "X").out.splitlines()]
        assert {row["task"]: (row["agent"], row["state"], row["text"]) for row in rows} == {
            "X:a": ("a", "done", "You said hi"),
            "X:b": ("b", "done", "You said hi"),
        }
        plain = home.run("task", "--all", "hi", "--id", "X")
        assert plain.err == ""
        assert sorted(plain.out.split("\n\n")) == ["", "── a\nYou said hi", "── b\nYou said hi"]
        assert len(backend.questions) == 2
        assert home.run("task", "--all", "more", "--id", "Y", "--detach").out == "Y:a\nY:b\n"


@pytest.mark.row("C16")
def test_ctrl_c_cancels_what_all_were_asked(home: Home) -> None:
    with serving(ENDLESS) as backend:
        home.spawn(backend, "a", "b")
        process = home.start("task", "--all", "hi")
        backend.wait(backend.server.received(2))
        process.send_signal(signal.SIGINT)
        backend.wait(backend.server.disconnected(2))
        assert process.communicate() == (b"", b"cancelled\n")
        assert process.returncode == 130
        tasks = [task for name in "ab" for task in home.ask(lambda agents, name=name: agents.tasks(name))[0]]
        assert [task.state for task in tasks] == ["cancelled"] * 2


def test_nothing_that_others_write_is_obeyed(home: Home) -> None:
    bad = "\x1b]0;owned\x07\x1b[2J\x9b31m"
    with serving(Reply(chat_events(bad))) as backend:
        home.spawn(backend, "gpt")
        outputs = [home.run("task", "gpt", bad), home.run("attach", "gpt"), home.run("history", "gpt")]
        outputs += [home.run("show", "gpt"), home.run("task", "--all", bad)]
        for result in outputs:
            assert result.code == 0
            assert "␛]0;owned␇" in result.out
            assert not DANGEROUS.search((result.out + result.err).replace("\n", "").replace("\t", ""))


def test_a_reader_that_goes_away_is_no_error(home: Home) -> None:
    with serving(Reply(chat_events(*(f"{number}\n" for number in range(2000))))) as backend:
        home.spawn(backend, "gpt")
        shell = ["/bin/sh", "-c", '"$@" | head -n 1', "sh", *COMMAND, "task", "gpt", "count"]
        result = subprocess.run(shell, env=home.environment, cwd=home.folder, capture_output=True, check=False)
        assert (result.stdout, result.stderr) == (b"0\n", b"")
