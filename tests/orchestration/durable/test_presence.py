"""Who lives and who is dead: locks tell at once, silence after a while, and nobody who was silent judges others."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from any_agent.orchestration.durable.database import Database, Transaction
from any_agent.orchestration.durable.errors import StoreError
from any_agent.orchestration.durable.presence import (
    BEAT_S,
    LOST,
    SILENCE_S,
    Presence,
    check_known,
    is_alive,
    workers,
)
from orchestration.durable.support import appear

_PROGRAM = """
import sys
import threading
from any_agent.orchestration.durable.database import Database, Transaction
from any_agent.orchestration.durable.presence import Presence
presence = Presence(Database(sys.argv[1]), agents=("a",), room=3)
presence.begin(lambda: None)
print(presence.id, flush=True)
sys.stdin.read()
presence.end()
"""


@contextmanager
def worker_process(url: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _PROGRAM, url], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


@contextmanager
def presence_here(database: Database) -> Iterator[Presence]:
    presence = Presence(Database(database.url), agents=None, room=10)
    presence.begin(lambda: None)
    try:
        yield presence
    finally:
        presence.end()


def silence(database: Database, id: str, seconds: float) -> None:
    """Turn the clock: somebody was heard so much earlier."""
    database.transact(
        lambda new: new.run("UPDATE aa_workers SET beat = {now} - :seconds WHERE id = :id", id=id, seconds=seconds)
    )


def ids(database: Database) -> list[str]:
    return [worker.id for worker in workers(database)]


def has_beaten(presence: Presence, times: float = SILENCE_S / BEAT_S + 1) -> None:
    for _ in range(int(times)):
        presence._database.transact(presence._say)


def test_who_is_killed_is_noticed_at_once(database: Database) -> None:
    """dead workers"""
    with worker_process(database.url) as (id, process), presence_here(database) as presence:
        presence.bury()
        (other,) = [worker for worker in workers(database) if worker.id == id]
        assert (other.agents, other.room, other.pid) == ("a", 3, process.pid)
        assert is_alive(other)
        process.kill()
        process.wait()
        assert not is_alive(other)
        presence.bury()
        assert ids(database) == [presence.id]


def test_who_stands_still_lives(database: Database) -> None:
    with worker_process(database.url) as (id, process), presence_here(database) as presence:
        has_beaten(presence)
        process.send_signal(signal.SIGSTOP)
        silence(database, id, 1000)
        presence.bury()
        assert id in ids(database)
        process.send_signal(signal.SIGCONT)


def test_who_ends_is_gone_and_leaves_no_file(database: Database, data: Path) -> None:
    with worker_process(database.url) as (id, process):
        assert id in ids(database)
        assert len(list((data / "workers").iterdir())) == 1
        process.communicate("")
        assert ids(database) == []
        assert list((data / "workers").iterdir()) == []


def test_elsewhere_only_a_long_silence_is_a_death(database: Database) -> None:
    appear(database, "far", silent=SILENCE_S - 3)
    with presence_here(database) as presence:
        has_beaten(presence)
        presence.bury()
        assert "far" in ids(database)
        (far,) = [worker for worker in workers(database) if worker.id == "far"]
        assert is_alive(far)
        silence(database, "far", SILENCE_S + 3)
        (far,) = [worker for worker in workers(database) if worker.id == "far"]
        assert not is_alive(far)
        presence.bury()
        assert ids(database) == [presence.id]


def test_who_has_just_come_buries_nobody_for_silence(database: Database) -> None:
    appear(database, "far", silent=1000)
    with presence_here(database) as presence:
        presence.bury()
        has_beaten(presence, 2)
        presence.bury()
        assert "far" in ids(database)
        has_beaten(presence)
        presence.bury()
        assert ids(database) == [presence.id]


def test_who_was_silent_itself_gives_others_time_to_be_heard(database: Database) -> None:
    """The database was away: nobody could be heard, and the first to come back must not bury the rest."""
    appear(database, "far")
    with presence_here(database) as presence:
        has_beaten(presence)
        for id in ("far", presence.id):
            silence(database, id, 30)
        presence.bury()
        assert set(ids(database)) == {"far", presence.id}
        has_beaten(presence, 2)  # now it is heard again
        presence.bury()
        assert "far" in ids(database)
        has_beaten(presence)  # and has waited as long as it would for anybody
        presence.bury()
        assert ids(database) == [presence.id]


def test_who_was_buried_is_told_and_can_write_nothing_more(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any_agent.orchestration.durable.presence.BEAT_S", 0.01)
    lost = threading.Event()
    presence = Presence(Database(database.url), agents=None, room=10)
    presence.begin(lost.set)
    try:
        database.transact(lambda transaction: check_known(transaction, presence.id))
        database.transact(lambda transaction: transaction.run("DELETE FROM aa_workers"))
        assert lost.wait(20)
        with pytest.raises(StoreError, match="took over its tasks") as raised:
            database.transact(lambda transaction: check_known(transaction, presence.id))
        assert str(raised.value) == LOST
    finally:
        presence.end()


def test_who_vanishes_while_it_writes_holds_nobody_up(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without power closes no connection, and Postgres would wait for it for hours."""
    monkeypatch.setattr("any_agent.orchestration.durable.drivers._STANDSTILL_S", 0.2)
    attempts = 0
    with closing(Database(postgres_url)) as database, psycopg.connect(postgres_url, autocommit=True) as other:
        appear(database, "w")

        def work(transaction: Transaction) -> None:
            nonlocal attempts
            attempts += 1
            check_known(transaction, "w")
            assert other.execute("DELETE FROM aa_workers").rowcount == 1
            check_known(transaction, "w")

        with pytest.raises(StoreError, match="took over its tasks"):
            database.transact(work)
        assert attempts == 2  # it came back, and learned of it


def test_nobody_is_buried_while_they_write(postgres_url: str) -> None:
    with closing(Database(postgres_url)) as database, psycopg.connect(postgres_url, autocommit=True) as other:
        appear(database, "w")

        def work(transaction: Transaction) -> None:
            check_known(transaction, "w")
            other.execute("SET lock_timeout = 50")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("DELETE FROM aa_workers")
            other.execute("UPDATE aa_workers SET beat = beat + 1")  # while its heart may beat

        database.transact(work)
        assert other.execute("DELETE FROM aa_workers").rowcount == 1
