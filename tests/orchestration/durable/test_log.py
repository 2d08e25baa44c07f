"""The log of events: whatever is written when, it reads back in order, whole, and from any position."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from any_agent import Event, Notice, Reset, TextDelta, ThinkingDelta
from any_agent.events import ToolInputDelta
from any_agent.orchestration.durable.database import Database
from any_agent.orchestration.durable.errors import StoreError
from any_agent.orchestration.durable.log import EventLog, TaskLog, last_position, read_events
from orchestration.durable.postgres import Postgres
from orchestration.durable.processes import until
from orchestration.durable.support import appear


@pytest.fixture
async def log(database: Database) -> AsyncIterator[EventLog]:
    appear(database, "w")
    log = EventLog(database, "w")
    yield log
    await log.close()


def rows(database: Database) -> int:
    return int(database.read("SELECT COUNT(*) FROM aa_events")[0][0])


@pytest.mark.row("E7")
async def test_pieces_are_put_together_and_numbered(database: Database, log: EventLog) -> None:
    task = await log.open("t")
    events: list[Event] = [
        *(TextDelta("a"), TextDelta("b"), ThinkingDelta("c"), ThinkingDelta("d"), TextDelta("e")),
        *(
            ToolInputDelta("1", "x"),
            ToolInputDelta("1", "y"),
            ToolInputDelta("2", "z"),
            Notice("k", "m"),
            Notice("k", "m"),
        ),
    ]
    for event in events:
        log.put(task, "1", event)
    await log.flush()
    assert read_events(database, "t") == [
        TextDelta("ab", 1),
        ThinkingDelta("cd", 2),
        TextDelta("e", 3),
        ToolInputDelta("1", "xy", 4),
        ToolInputDelta("2", "z", 5),
        Notice("k", "m", seq=6),
        Notice("k", "m", seq=7),
    ]
    assert read_events(database, "t", 5) == [Notice("k", "m", seq=6), Notice("k", "m", seq=7)]
    assert last_position(database, "t") == 7
    assert (last_position(database, "u"), read_events(database, "u")) == (0, [])


async def test_pieces_of_different_steps_stay_apart(database: Database, log: EventLog) -> None:
    task = await log.open("t")
    for step in ("1", "1", "2", None):
        log.put(task, step, TextDelta(step or "-"))
    await log.flush()
    assert [event.text for event in read_events(database, "t") if isinstance(event, TextDelta)] == ["11", "2", "-"]
    again = await log.open("t")
    assert (again.seq, again.steps, again.between) == (3, {"1", "2"}, 1)


async def test_what_is_put_is_written_by_itself(database: Database, log: EventLog) -> None:
    task = await log.open("t")
    log.put(task, None, TextDelta("a"))
    await until(lambda: rows(database))
    log.put(task, None, TextDelta("b"))
    log.put(task, None, Notice("k", "m"))
    await until(lambda: rows(database) == 3)


async def test_the_tasks_of_a_process_are_written_together(database: Database, log: EventLog) -> None:
    tasks = [await log.open(f"t{number}") for number in range(5)]
    for number in range(20):
        log.put(tasks[number % 5], None, TextDelta(str(number)))
    await log.flush()
    for number, task in enumerate(tasks):
        assert read_events(database, task.task) == [TextDelta("".join(str(n) for n in range(number, 20, 5)), 1)]


async def test_writing_that_fails_loses_nothing(database: Database, log: EventLog) -> None:
    task = await log.open("t")
    log.put(task, None, TextDelta("a"))
    database.transact(lambda new: new.run("ALTER TABLE aa_events RENAME TO away"))
    with pytest.raises(StoreError):
        await log.flush()
    log.put(task, None, TextDelta("b"))
    log.put(task, None, Notice("k", "m"))
    with pytest.raises(StoreError):
        await log.flush()
    database.transact(lambda new: new.run("ALTER TABLE away RENAME TO aa_events"))
    await log.flush()
    assert read_events(database, "t") == [TextDelta("a", 1), TextDelta("b", 2), Notice("k", "m", seq=3)]


async def test_whoever_is_cancelled_while_it_writes_loses_nothing_and_writes_nothing_twice(
    database: Database, log: EventLog
) -> None:
    task = await log.open("t")
    for number in range(20):
        log.put(task, None, Notice("k", str(number)))
        flushing = asyncio.create_task(log.flush())
        for _ in range(number % 4):
            await asyncio.sleep(0)
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
    await log.flush()
    events = read_events(database, "t")
    assert [event.message for event in events if isinstance(event, Notice)] == [str(number) for number in range(20)]
    assert [event.seq for event in events] == list(range(1, 21))


async def test_whoever_is_given_up_writes_nothing_more(database: Database, log: EventLog) -> None:
    task = await log.open("t")
    database.transact(lambda new: new.run("DELETE FROM aa_workers"))
    log.put(task, None, TextDelta("a"))
    with pytest.raises(StoreError, match="took over its tasks"):
        await log.flush()
    assert rows(database) == 0


async def test_what_is_written_is_there_when_the_server_is_killed(postgres: Postgres, postgres_url: str) -> None:
    """The worker lives on, and would go on with the next number."""
    with closing(Database(postgres_url)) as database, closing(database.another(lazily_kept=True)) as own:
        appear(database, "w")
        log = EventLog(own, "w")
        task = await log.open("t")
        for number in range(1, 6):
            log.put(task, None, Notice("k", str(number)))
            await log.flush()
            postgres.kill()
            postgres.start()
        assert [event.seq for event in read_events(database, "t")] == [1, 2, 3, 4, 5]


_EVENTS = st.one_of(
    st.builds(TextDelta, st.text(max_size=5)),
    st.builds(ThinkingDelta, st.text(max_size=5)),
    st.builds(ToolInputDelta, st.sampled_from("12"), st.text(max_size=5)),
    st.builds(Reset, st.just("r")),
    st.builds(Notice, st.just("k"), st.text(max_size=3)),
)
_STEPS = st.lists(st.one_of(st.tuples(st.sampled_from("tu"), st.sampled_from([None, "1", "2"]), _EVENTS), st.none()))


@pytest.fixture(scope="module")
def one_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = Database(str(tmp_path_factory.mktemp("log") / "agents.db"))
    appear(database, "w")
    yield database
    database.close()


def condensed(events: list[Event]) -> list[tuple[str, str]]:
    """What a reader makes of it: pieces of one kind that follow each other are one."""
    parts: list[tuple[str, str]] = []
    for event in events:
        kind = f"{event.type} {getattr(event, 'id', '')}"
        text = getattr(event, "text", None) or getattr(event, "partial_json", None) or getattr(event, "message", "")
        if parts and parts[-1][0] == kind and event.type not in ("notice", "reset"):
            parts[-1] = (kind, parts[-1][1] + text)
        else:
            parts.append((kind, text))
    return parts


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_STEPS, offset=st.integers(0, 10))
def test_any_events_written_at_any_times_read_back_the_same(
    one_database: Database, steps: list[tuple[str, str | None, Event] | None], offset: int
) -> None:
    async def write() -> None:
        log = EventLog(one_database, "w")
        tasks: dict[str, TaskLog] = {name: await log.open(name) for name in "tu"}
        for step in steps:
            if step is None:
                await log.flush()
            else:
                log.put(tasks[step[0]], *step[1:])
        await log.flush()
        await log.close()

    one_database.transact(lambda new: new.run("DELETE FROM aa_events"))
    asyncio.run(write())
    for name in "tu":
        given_events = [step[2] for step in steps if step is not None and step[0] == name]
        events = read_events(one_database, name)
        assert condensed(events) == condensed(given_events)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert read_events(one_database, name, offset) == events[offset:]


async def test_a_task_that_was_begun_elsewhere_is_gone_on_with_at_the_right_number(
    database: Database, tmp_path: Path, log: EventLog
) -> None:
    first = await log.open("t")
    log.put(first, "1", Notice("k", "a"))
    await log.flush()
    appear(database, "w2")
    other = EventLog(database, "w2")
    second = await other.open("t")
    other.put(second, "1", Reset("again"))
    await other.flush()
    await other.close()
    assert [event.seq for event in read_events(database, "t")] == [1, 2]
