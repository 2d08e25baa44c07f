"""A transaction is done or not done; what passes is waited for, and what does not is told in one line."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from any_agent.folders import user_folder
from any_agent.orchestration.durable.database import Database, Transaction, database_url
from any_agent.orchestration.durable.errors import StoreError
from any_agent.orchestration.durable.schema import VERSION
from orchestration.durable.postgres import Postgres
from orchestration.durable.support import at_once


def count(database: Database) -> int:
    return int(database.read("SELECT COUNT(*) FROM aa_meta")[0][0])


def add(transaction: Transaction, name: str) -> None:
    transaction.run("INSERT INTO aa_meta (name, value) VALUES (:name, 'x')", name=name)


def test_a_transaction_is_done_as_a_whole_or_not_at_all(database: Database) -> None:
    def work(transaction: Transaction) -> None:
        add(transaction, "one")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        database.transact(work)
    assert count(database) == 1
    database.transact(lambda transaction: add(transaction, "one"))
    assert count(database) == 2


def test_both_databases_have_the_same_clock(database: Database) -> None:
    ((now,),) = database.read("SELECT {now}")
    assert abs(now - time.time()) < 5


def test_processes_that_make_the_tables_at_once_do_not_hinder_each_other(database_url: str) -> None:
    program = (
        "import sys; from any_agent.orchestration.durable.database import Database; sys.stdin.readline();"
        "print(Database(sys.argv[1]).read('SELECT value FROM aa_meta'))"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program, database_url]
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate()[0] for process in processes] == [f"[('{VERSION}',)]\n"] * 4


def test_threads_that_make_the_tables_at_once_do_not_hinder_each_other(database: Database) -> None:
    assert at_once(database, *[count] * 8) == [1] * 8


def test_threads_that_share_a_database_take_turns(database: Database) -> None:
    def work(number: int) -> None:
        database.transact(lambda transaction: add(transaction, f"n{number}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count(database) == 17


def test_a_newer_version_is_refused_and_nothing_is_changed(database: Database) -> None:
    newer = str(VERSION + 1)
    database.transact(lambda new: new.run("UPDATE aa_meta SET value = :newer WHERE name = 'version'", newer=newer))
    with closing(Database(database.url)) as old:
        with pytest.raises(
            StoreError, match=f"is of version {newer}, and this any_agent knows versions up to {VERSION}"
        ):
            old.transact(lambda transaction: add(transaction, "one"))
    assert count(database) == 1


# SQLite


def test_the_file_is_the_users_own_and_in_wal_mode(tmp_path: Path) -> None:
    """WAL"""
    path = tmp_path / "new" / "folder" / "agents.db"
    with closing(Database(str(path))) as database:
        count(database)
        assert database.read("PRAGMA journal_mode") == [("wal",)]
        for file in path.parent.glob("agents.db*"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize("name", ["with space.db", "100%.db", "a#b.db", "ü.db", "a%20b.db", "it's.db"])
def test_any_name_of_a_file_will_do(tmp_path: Path, name: str) -> None:
    with closing(Database(str(tmp_path / name))) as database:
        assert count(database) == 1
    assert (tmp_path / name).exists()


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes " * 1000)
    with pytest.raises(StoreError, match=r"notes.txt is no database, or damaged .*set ANY_AGENT_DB"):
        Database(str(path)).read("SELECT 1")
    assert path.read_text() == "my notes " * 1000


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot use the database .*: Is a directory; set ANY_AGENT_DB"):
        Database(str(tmp_path)).read("SELECT 1")


def test_a_file_that_is_locked_for_long_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any_agent.orchestration.durable.drivers._BUSY_S", 0.05)
    with closing(Database(str(tmp_path / "a.db"))) as database:
        count(database)
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match=r"another process has kept .*a.db locked for 0.05 seconds"):
                database.transact(lambda transaction: add(transaction, "one"))
            assert count(database) == 1  # whoever only reads does not wait
            other.execute("ROLLBACK")
        database.transact(lambda transaction: add(transaction, "one"))


# Postgres


def _terminate(database: Database, pid: int) -> None:
    with psycopg.connect(database.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 30000)", (pid,))


def test_a_lost_connection_is_made_again_and_the_transaction_done_again(postgres_url: str) -> None:
    attempts = 0

    def work(transaction: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        add(transaction, "one")
        row = transaction.one("SELECT pg_backend_pid()")
        assert row is not None
        if attempts == 1:
            _terminate(database, row[0])
        add(transaction, "two")

    with closing(Database(postgres_url)) as database:
        count(database)
        database.transact(work)
        assert (attempts, count(database)) == (2, 3)


def test_a_server_that_is_started_again_is_waited_for(postgres: Postgres, postgres_url: str) -> None:
    with closing(Database(postgres_url)) as database:
        count(database)
        postgres.kill()
        problems: list[BaseException] = []

        def start() -> None:
            try:
                postgres.start()
            except BaseException as problem:
                problems.append(problem)

        starting = threading.Timer(0.2, start)
        starting.start()
        try:
            database.transact(lambda transaction: add(transaction, "one"))
            with closing(database.another()) as other:
                starting.join()
                postgres.kill()
                starting = threading.Timer(0.2, start)
                starting.start()
                assert count(other) == 2  # which had not been connected yet
        finally:
            starting.join()
        assert not problems


def test_closing_ends_the_waiting_for_a_server_that_went_away(postgres: Postgres, postgres_url: str) -> None:
    database = Database(postgres_url)
    count(database)
    is_trying = threading.Event()
    problems: list[StoreError] = []

    def work(transaction: Transaction) -> None:
        is_trying.set()
        transaction.all("SELECT 1")

    def wait() -> None:
        try:
            database.transact(work, writes=False)
        except StoreError as problem:
            problems.append(problem)

    thread = threading.Thread(target=wait, daemon=True)
    postgres.kill()
    try:
        thread.start()
        assert is_trying.wait(30)
        database.close()
        thread.join(30)
        assert not thread.is_alive()
    finally:
        postgres.start()
    assert "is ANY_AGENT_DB right?" in str(problems[0])
    with closing(database):
        assert count(database) == 1  # it can be used again


def test_transactions_in_each_others_way_are_done_again(postgres_url: str) -> None:
    with closing(Database(postgres_url)) as database:
        for name in ("one", "two"):
            database.transact(lambda transaction, name=name: add(transaction, name))

        def cross(first: str, second: str) -> Callable[[Database], None]:
            def work(transaction: Transaction) -> None:
                for name in (first, second):
                    transaction.run("UPDATE aa_meta SET value = value || 'y' WHERE name = :name", name=name)
                    transaction.one("SELECT pg_sleep(0.05)")

            return lambda own: own.transact(work)

        at_once(database, cross("one", "two"), cross("two", "one"))
        assert database.read("SELECT value FROM aa_meta WHERE name IN ('one', 'two')") == [("xyy",)] * 2


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:geheim@127.0.0.1:1/agents",
        "postgresql://user:geheim@127.0.0.1:geheim/agents",
        "postgresql://user:ge/heim@127.0.0.1/agents",
        "postgresql://user:geheim%zz@127.0.0.1:1/agents",
        "postgresql://user:[geheim@127.0.0.1:1/agents",
        "postgresql://127.0.0.1:1/agents?password=geheim&nonsense=1",
        "mysql://user:geheim@127.0.0.1/agents",
    ],
)
def test_a_wrong_address_is_told_without_its_password(url: str) -> None:
    with pytest.raises(StoreError, match=r"ANY_AGENT_DB") as raised:
        Database(url).read("SELECT 1")
    problem: BaseException | None = raised.value
    while problem is not None:
        assert "heim" not in f"{problem!r} {problem}"
        problem = problem.__cause__ if problem.__suppress_context__ else problem.__context__


def test_a_wrong_password_is_told_without_showing_it(postgres: Postgres, postgres_url: str) -> None:
    postgres.run("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    rules = postgres.folder / "data" / "pg_hba.conf"
    trust = rules.read_text()
    try:
        rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{trust}")
        postgres.run("SELECT pg_reload_conf()")
        wrong = postgres_url.replace("postgres@", "guarded:geheim@")
        with pytest.raises(
            StoreError, match=r"password authentication failed for user .*is ANY_AGENT_DB right"
        ) as raised:
            Database(wrong).read("SELECT 1")
        assert "geheim" not in str(raised.value)
    finally:
        rules.write_text(trust)
        postgres.run("SELECT pg_reload_conf()")
        postgres.run("DROP ROLE guarded")


# where


def test_the_database_is_the_one_given_or_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert database_url() == f"sqlite:///{user_folder('data') / 'agents.db'}"
    monkeypatch.setenv("ANY_AGENT_DB", "postgres://somewhere/agents")
    assert database_url() == "postgresql://somewhere/agents"
    assert database_url(str(tmp_path / "a.db")) == f"sqlite:///{tmp_path / 'a.db'}"
    monkeypatch.delenv("ANY_AGENT_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert user_folder("data") == tmp_path / "any-agent"
    assert os.path.isabs(user_folder("data"))
