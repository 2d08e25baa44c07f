"""`any-agent worker`: it begins, works, and ends."""

from __future__ import annotations

import asyncio
import signal

import pytest

from any_agent.testing import HANG, Reply, chat_events

from .support import Home, serving, working

HELLO = Reply(chat_events("Hello"))


@pytest.mark.row("C12")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_without_work_ends_at_once(home: Home, number: signal.Signals) -> None:
    with working(home) as worker:
        worker.send_signal(number)
        out, err = worker.communicate()
        assert (worker.returncode, out, err) == (0, b"", b"")
    assert home.ask(lambda agents: agents.workers()) == [[]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_being_done_is_ended_and_nothing_else_is_begun(home: Home, number: signal.Signals) -> None:
    more = asyncio.Event()
    first, *rest = chat_events("Hel", "lo")[1:]
    with serving(Reply([first, more, *rest])) as backend:
        home.spawn(backend, "gpt")
        ids = [home.run("task", "gpt", "hi", "--detach").out.strip() for _ in range(2)]
        with working(home) as worker:
            assert worker.stderr is not None
            backend.wait(backend.server.received())
            worker.send_signal(number)
            assert b"1 task is being ended; Ctrl-C once more leaves it to others" in worker.stderr.readline()
            backend.set(more)
            assert worker.wait() == 0
        done, waiting = home.ask(*(lambda agents, id=id: agents.task(id) for id in ids))
        assert (done.state, done.outcome["text"], waiting.state) == ("done", "Hello", "ready")


@pytest.mark.row("C15")
def test_a_second_ctrl_c_leaves_the_task_to_others(home: Home) -> None:
    with serving(Reply([*chat_events("Once upon", finish=None)[:2], HANG]), HELLO) as backend:
        home.spawn(backend, "gpt")
        id = home.run("task", "gpt", "hi", "--detach").out.strip()
        with home.open("worker") as terminal:
            terminal.wait_for("working on the tasks in")
            backend.wait(backend.server.received())
            terminal.type("\x03")
            terminal.wait_for("Ctrl-C once more leaves it to others")
            terminal.type("\x03")
            assert terminal.ends() == 0
        backend.wait(backend.server.disconnected())
        assert home.run("list").out.split("\t")[1] == "interrupted"
        with working(home):
            assert home.run("attach", id).out.splitlines()[-1] == "Hello"


@pytest.mark.row("C14", "C15")
def test_two_workers_share_the_work_and_one_goes_on_when_the_other_dies(home: Home) -> None:
    gate = asyncio.Event()
    with serving(Reply([gate, *chat_events("Hello")])) as backend:
        names = [f"agent-{number}" for number in range(6)]
        home.spawn(backend, *names)
        with working(home, "--concurrency", "3") as one, working(home, "--concurrency", "3"):
            detached = home.run("task", "--all", "hi", "--detach", "--id", "X")
            assert detached.err == ""
            with home.open("list") as terminal:
                assert terminal.ends() == 0
                assert terminal.text.count("(process ") == 2
            backend.wait(backend.server.received(6))
            one.kill()
            one.wait()
            backend.set(gate)
            again = home.run("task", "--all", "hi", "--id", "X")
        assert again.code == 0
        assert again.out.count("Hello") == 6
        assert 6 <= len(backend.questions) <= 9
