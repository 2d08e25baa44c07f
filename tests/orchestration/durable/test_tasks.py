"""The queue: in order, one at a time for each conversation, nothing twice and nothing lost."""

from __future__ import annotations

import random
import threading
from collections import defaultdict

import pytest

from any_agent.orchestration import AgentConfig
from any_agent.orchestration.durable.agents import AgentRecords
from any_agent.orchestration.durable.database import Database
from any_agent.orchestration.durable.errors import (
    AgentExists,
    AgentStopped,
    TaskConflict,
    UnknownAgent,
    UnknownTask,
)
from any_agent.orchestration.durable.tasks import Scope, Task, Tasks
from orchestration.durable.support import NOWHERE, add_agents, appear, at_once, states

ALL = Scope()


def claim(tasks: Tasks, worker: str = "w", room: int = 10, scope: Scope = ALL) -> list[str]:
    return [task.id for task in tasks.claim(worker, scope, room)]


def claim_one(tasks: Tasks, worker: str = "w") -> Task:
    (task,) = tasks.claim(worker, ALL, 1)
    return task


def end(tasks: Tasks, task: Task, worker: str = "w") -> bool:
    return tasks.finish(task, worker, "done", {"text": "ok"})


# order


@pytest.mark.row("C14")
def test_the_tasks_of_an_agent_are_done_one_at_a_time_in_their_order(database: Database) -> None:
    tasks = add_agents(database, "a")
    ids = [tasks.submit("a", f"{number}").id for number in range(12)]
    assert ids == [f"a:{number:010d}" for number in range(1, 13)]
    done: list[str] = []
    for _ in ids:
        task = claim_one(tasks)
        assert claim(tasks) == []
        assert end(tasks, task)
        done.append(task.id)
    assert done == ids
    assert claim(tasks) == []


def test_many_agents_are_worked_for_side_by_side(database: Database) -> None:
    tasks = add_agents(database, "a", "b", "c")
    for name in "abcabc":
        tasks.submit(name, "x")
    assert claim(tasks, room=2) == ["a:0000000001", "b:0000000001"]
    assert claim(tasks) == ["c:0000000001"]


def test_the_order_is_that_of_sortable_ids_and_not_of_clocks(database: Database) -> None:
    """sortable ids: a clock that is turned back, or two tasks in one moment, change nothing."""
    tasks = add_agents(database, "a")
    ids = [tasks.submit("a", "x").id for _ in range(11)]
    assert sorted(ids) == ids
    database.transact(lambda transaction: transaction.run("UPDATE aa_tasks SET submitted = 1000 - seq"))
    done: list[str] = []
    for _ in ids:
        done.append((task := claim_one(tasks)).id)
        end(tasks, task)
    assert done == ids


def test_a_fresh_task_is_a_conversation_of_its_own_and_waits_for_nobody(database: Database) -> None:
    tasks = add_agents(database, "a")
    first, fresh = tasks.submit("a", "x"), tasks.submit("a", "y", is_fresh=True)
    assert first.conversation != fresh.conversation
    assert claim(tasks) == [first.id, fresh.id]


def test_a_worker_may_keep_to_some_agents_and_to_what_there_was(database: Database) -> None:
    tasks = add_agents(database, "a", "b")
    before = tasks.submit("a", "x")
    tasks.submit("b", "x")
    after = tasks.submit("a", "later", is_fresh=True)
    database.transact(lambda new: new.run("UPDATE aa_tasks SET submitted = submitted + 5 WHERE id = :id", id=after.id))
    assert claim(tasks, scope=Scope(("a",), before.submitted)) == [before.id]
    assert claim(tasks, scope=Scope(("a",))) == [after.id]


@pytest.mark.parametrize("room", [1, 3])
def test_a_worker_never_gets_more_than_it_has_room_for(database: Database, room: int) -> None:
    names = [f"a{number}" for number in range(40)]
    tasks = add_agents(database, *names)
    for name in names:
        tasks.submit(name, "x")
    for analysed in (False, True):
        if analysed and "postgres" in database.url:  # another plan, perhaps
            database.transact(lambda transaction: transaction.run("ANALYZE"))
        for _ in range(3):
            assert len(claim(tasks, room=room)) == room
    database.transact(lambda transaction: transaction.run("UPDATE aa_tasks SET worker = 'dead'"))
    for _ in range(3):
        assert len(tasks.take_over("w", ALL, room)) <= room


# who has what


def test_what_is_claimed_is_the_workers_and_only_it_ends_it(database: Database) -> None:
    tasks = add_agents(database, "a")
    id = tasks.submit("a", "x").id
    task = claim_one(tasks, "one")
    assert (task.state, task.worker, task.attempts) == ("running", "one", 1)
    assert tasks.owned("one") == {id: False}
    assert tasks.owned("two") == {}
    assert not end(tasks, task, "two")
    assert tasks.find(id).state == "running"
    assert end(tasks, task, "one")
    assert not end(tasks, task, "one")
    assert (tasks.find(id).state, tasks.find(id).outcome) == ("done", {"text": "ok"})


def test_workers_that_claim_at_once_never_get_the_same(database: Database) -> None:
    names = [f"a{number}" for number in range(30)]
    tasks = add_agents(database, *names)
    for name in names:
        tasks.submit(name, "x")

    def greedy(worker: str):
        def work(own: Database) -> list[str]:
            got: list[str] = []
            while new := claim(Tasks(own), worker, room=2):
                got += new
            return got

        return work

    got = at_once(database, *[greedy(f"w{number}") for number in range(4)])
    assert sorted(id for ids in got for id in ids) == sorted(f"{name}:0000000001" for name in names)


def test_tasks_are_taken_over_from_the_dead_only(database: Database) -> None:
    """dead workers"""
    tasks = add_agents(database, "a", "b", "c")
    for name in "abc":
        tasks.submit(name, "x")
    appear(database, "alive", "other")
    claim(tasks, "dead", room=1)
    claim(tasks, "alive", room=1)
    assert [(task.id, task.attempts, task.worker) for task in tasks.take_over("other", ALL, 10)] == [
        ("a:0000000001", 2, "other")
    ]
    assert tasks.take_over("other", ALL, 10) == []
    assert tasks.owned("alive") == {"b:0000000001": False}
    assert tasks.find("c:0000000001").state == "ready"


def test_workers_that_take_over_at_once_never_get_the_same(database: Database) -> None:
    names = [f"a{number}" for number in range(20)]
    tasks = add_agents(database, *names)
    for name in names:
        tasks.submit(name, "x")
    claim(tasks, "dead", room=20)
    workers = [f"w{number}" for number in range(4)]
    appear(database, *workers)

    def heir(worker: str):
        def work(own: Database) -> list[str]:
            got: list[str] = []
            while new := Tasks(own).take_over(worker, ALL, 3):
                got += [task.id for task in new]
            return got

        return work

    got = at_once(database, *[heir(worker) for worker in workers])
    assert sorted(id for ids in got for id in ids) == sorted(f"{name}:0000000001" for name in names)


# the same task twice


def test_a_task_that_is_sent_twice_is_there_once(database: Database) -> None:
    """idempotent task ids"""
    tasks = add_agents(database, "a", "b")
    first = tasks.submit("a", {"n": 1}, id="mine")
    assert tasks.submit("a", {"n": 1}, id="mine") == first
    end(tasks, claim_one(tasks))
    assert tasks.submit("a", {"n": 1}, id="mine").state == "done"
    assert claim(tasks) == []
    for agent, prompt in (("a", "something else"), ("b", {"n": 1})):
        with pytest.raises(TaskConflict, match="there is a task 'mine' already, of a"):
            tasks.submit(agent, prompt, id="mine")


@pytest.mark.row("C14")
def test_a_task_that_many_send_at_once_is_there_once(database: Database) -> None:
    """idempotent task ids"""
    add_agents(database, "a", "b")
    for id in ("one", "two", "three"):
        sent = at_once(database, *[lambda own, id=id: Tasks(own).submit("a", "x", id=id)] * 6)
        assert {task.id for task in sent} == {id}
    assert len(Tasks(database).of("a")) == 3


def test_one_id_for_two_agents_at_once_is_a_conflict_for_one_of_them(database: Database) -> None:
    add_agents(database, "a", "b")

    def submit(agent: str):
        def work(own: Database) -> str:
            try:
                return Tasks(own).submit(agent, "x", id="mine").agent
            except TaskConflict:
                return "conflict"

        return work

    for _ in range(5):
        sent = at_once(database, submit("a"), submit("b"))
        assert "conflict" in sent and set(sent) & {"a", "b"}
        database.transact(lambda transaction: transaction.run("DELETE FROM aa_tasks"))


@pytest.mark.parametrize("id", ["", "a\0b", "a\nb", "caf\udce9"])
def test_an_id_must_be_printable(database: Database, id: str) -> None:
    with pytest.raises(ValueError, match="is no id for a task"):
        add_agents(database, "a").submit("a", "x", id=id)


def test_an_id_that_looks_like_one_of_ours_takes_nothing_away(database: Database) -> None:
    tasks = add_agents(database, "a")
    tasks.submit("a", "x", id="a:0000000003")
    ids = [tasks.submit("a", f"{number}").id for number in range(3)]
    assert len({*ids, "a:0000000003"}) == 4
    assert len(tasks.of("a")) == 4


@pytest.mark.row("C14")
def test_processes_that_task_one_agent_at_once_lose_nothing(database: Database) -> None:
    add_agents(database, "a")

    def work(own: Database) -> list[str]:
        return [Tasks(own).submit("a", f"{number}").id for number in range(10)]

    sent = at_once(database, *[work] * 4)
    assert sorted(id for ids in sent for id in ids) == [f"a:{number:010d}" for number in range(1, 41)]
    for ids in sent:
        assert sorted(ids) == ids  # whoever sends several gets them in the order in which they were sent


# nothing known of it


def test_who_is_not_there_gets_no_tasks(database: Database) -> None:
    tasks = add_agents(database, "a")
    with pytest.raises(UnknownAgent, match="there is no agent 'b': `any-agent spawn --name b …` makes one"):
        tasks.submit("b", "x")
    with pytest.raises(UnknownTask, match="there is no task 'x'; `any-agent show AGENT` lists"):
        tasks.find("x")
    with pytest.raises(UnknownTask):
        tasks.cancel("x")
    with pytest.raises(UnknownAgent):
        AgentRecords(database).stop("b")
    AgentRecords(database).stop("a")
    with pytest.raises(AgentStopped, match="the agent 'a' is stopped: `any-agent spawn --name a …` begins anew"):
        tasks.submit("a", "x")


# cancel and stop


def test_a_task_that_waits_is_cancelled_at_once_and_the_next_moves_up(database: Database) -> None:
    tasks = add_agents(database, "a")
    ids = [tasks.submit("a", "x").id for _ in range(4)]
    assert tasks.cancel(ids[1]).state == "cancelled"  # it waited
    assert tasks.cancel(ids[0]).state == "cancelled"  # it was ready
    assert states(tasks, ids) == ["cancelled", "cancelled", "ready", "waiting"]
    assert claim(tasks) == [ids[2]]


def test_a_task_that_runs_is_stopped_by_its_worker(database: Database) -> None:
    tasks = add_agents(database, "a")
    appear(database, "w")
    ids = [tasks.submit("a", "x").id for _ in range(2)]
    task = claim_one(tasks)
    assert (tasks.cancel(task.id).state, tasks.find(task.id).cancelled) == ("running", True)
    assert tasks.owned("w") == {task.id: True}
    assert claim(tasks) == []
    tasks.finish(task, "w", "cancelled", {})
    assert states(tasks, ids) == ["cancelled", "ready"]


def test_a_task_whose_worker_is_dead_is_cancelled_at_once(database: Database) -> None:
    tasks = add_agents(database, "a")
    ids = [tasks.submit("a", "x").id for _ in range(2)]
    task = claim_one(tasks, "dead")
    assert tasks.cancel(task.id).state == "cancelled"
    assert states(tasks, ids) == ["cancelled", "ready"]
    assert not end(tasks, task, "dead")


@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_what_is_over_stays_as_it_is(database: Database, state: str) -> None:
    tasks = add_agents(database, "a")
    tasks.submit("a", "x")
    task = claim_one(tasks)
    tasks.finish(task, "w", state, {"text": "t"})  # pyright: ignore[reportArgumentType]
    before = tasks.find(task.id)
    assert before.is_over and before.finished is not None
    assert tasks.cancel(task.id) == before


def test_an_agent_that_is_stopped_ends_everything_and_may_begin_anew(database: Database) -> None:
    tasks, records = add_agents(database, "a", "b"), AgentRecords(database)
    appear(database, "w")
    old = [tasks.submit("a", "x").id for _ in range(3)]
    other = tasks.submit("b", "x").id
    running = claim_one(tasks)
    records.stop("a")
    assert states(tasks, [*old, other]) == ["running", "cancelled", "cancelled", "ready"]
    assert tasks.owned("w") == {running.id: True}
    assert records.find("a").state == "terminated"
    with pytest.raises(AgentExists, match="there is an agent 'b' already"):
        add_agents(database, "b")
    add_agents(database, "a")
    new = tasks.submit("a", "x")
    assert new.conversation != running.conversation
    assert new.id not in old
    tasks.finish(running, "w", "cancelled", {})
    assert records.find("a").state == "idle"
    assert claim(tasks) == [other, new.id]


@pytest.mark.row("C10")
def test_the_state_of_an_agent_is_that_of_its_tasks(database: Database) -> None:
    tasks, records = add_agents(database, "a"), AgentRecords(database)
    assert records.find("a").state == "idle"
    for outcome, state in (("done", "idle"), ("failed", "failed"), ("cancelled", "idle")):
        tasks.submit("a", "x")
        tasks.submit("a", "y")
        assert records.find("a").waiting == 2
        task = claim_one(tasks)
        assert records.find("a").state == "processing"
        tasks.finish(task, "w", outcome, {})  # pyright: ignore[reportArgumentType]
        assert records.find("a").state == state
        tasks.cancel(tasks.of("a")[0].id)
    (record,) = records.all()
    assert (record.tasks, record.waiting) == (6, 0)


def test_agents_of_one_name_made_at_once_are_one(database: Database) -> None:
    config = AgentConfig("new", "openai", "scripted", base_url=NOWHERE)

    def work(own: Database) -> str:
        try:
            AgentRecords(own).add(config)
            return "made"
        except AgentExists:
            return "exists"

    assert sorted(at_once(database, *[work] * 5)) == ["exists"] * 4 + ["made"]
    AgentRecords(database).stop("new")
    assert sorted(at_once(database, *[work] * 5)) == ["exists"] * 4 + ["made"]


def test_those_that_are_over_are_told_in_the_order_in_which_they_ended(database: Database) -> None:
    tasks = add_agents(database, "a", "b", "c")
    ids = [tasks.submit(name, "x").id for name in "abc"]
    one, two, _ = tasks.claim("w", ALL, 3)
    end(tasks, two)
    end(tasks, one)
    # clocks count in milliseconds, and both may be of the same one
    database.transact(lambda new: new.run("UPDATE aa_tasks SET finished = finished + 1 WHERE id = :id", id=one.id))
    assert [task.id for task in tasks.over(ids)] == [ids[1], ids[0]]
    assert tasks.over([]) == []


# everything at once


@pytest.mark.row("C14")
def test_whatever_happens_at_once_the_order_holds(database: Database) -> None:
    """Threads submit, cancel, claim, end, die and take over; of each conversation at most one task is on its way."""
    names = ["a", "b"]
    add_agents(database, *names)
    appear(database, "w0", "w1")
    over = threading.Event()
    begun: dict[str, list[int]] = defaultdict(list)
    lock = threading.Lock()

    def sender(name: str, seed: int):
        def work(own: Database) -> None:
            dice, tasks, sent = random.Random(seed), Tasks(own), []
            for number in range(25):
                sent.append(tasks.submit(name, f"{number}").id)
                if dice.random() < 0.5:
                    tasks.cancel(dice.choice(sent))

        return work

    def worker(id: str, seed: int):
        def work(own: Database) -> None:
            dice, tasks = random.Random(seed), Tasks(own)
            while not over.is_set():
                mine = [*tasks.take_over(id, ALL, 2), *tasks.claim(id, ALL, 2)]
                for task in mine:
                    with lock:
                        if task.attempts == 1:
                            begun[task.conversation].append(task.seq)
                    if dice.random() < 0.2:  # it dies with the task, and another of the name comes
                        own.transact(
                            lambda new, id=task.id: new.run("UPDATE aa_tasks SET worker = 'x' WHERE id = :id", id=id)
                        )
                    else:
                        tasks.finish(task, id, "cancelled" if task.cancelled else "done", {})

        return work

    def watcher(own: Database) -> None:
        alive = "SELECT COUNT(*) FROM aa_tasks WHERE state IN ('waiting', 'ready', 'running')"
        try:
            while sum(len(Tasks(own).of(name)) for name in names) < 100 or own.read(alive)[0][0]:
                pass
        finally:
            over.set()

    senders = [sender(name, number) for number, name in enumerate([*names, *names])]
    at_once(database, *senders, worker("w0", 5), worker("w1", 6), watcher)
    for seqs in begun.values():
        assert seqs == sorted(seqs)
    for name in names:
        assert all(task.is_over for task in Tasks(database).of(name))
