"""What differs between SQLite and Postgres: how to connect, a few words of SQL, and what an error means."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from any_agent.orchestration.durable.errors import StoreError

__all__ = ("Driver", "PostgresDriver", "SqliteDriver", "driver_for")

#: a value in a statement; `::` is none
_VALUE = re.compile(r"(?<!:):([a-z_][a-z_0-9]*)")
#: how long a SQLite file is waited for that another process writes to
_BUSY_S = 30.0
_CONNECT_S = 10
#: how long Postgres keeps the locks of a transaction in which nothing happens: of a machine that lost its power, say
_STANDSTILL_S = 10.0
_NO_ADDRESS = (
    "ANY_AGENT_DB is no address of a Postgres database: write postgresql://user:password@host:port/database, and in a "
    "password %40 for @, %2F for /, %3A for :, %25 for %"
)


class Driver(Protocol):
    """One kind of database."""

    #: what the database is called in messages
    name: str
    #: a query with a row if there are tables already, and one that makes whoever makes them wait for each other
    finds_tables: str
    waits_to_make: str
    #: begins a transaction that writes; a query alone needs none
    begins: str

    def connect(self, *, lazily_kept: bool) -> Any:
        """A new connection. With `lazily_kept`, what it writes last may be lost when the power is: that is for what
        is worth nothing without the process that wrote it, which is lost as well."""
        ...

    def translated(self, statement: str) -> str:
        """A statement in the words of this database."""
        ...

    def is_lost(self, problem: Exception) -> bool:
        """Whether the transaction failed for something that passes: it may be done again."""
        ...

    def explained(self, problem: Exception) -> Exception:
        """The error to raise: what happened, where, and what to do."""
        ...


class SqliteDriver:
    """A file. Several processes share it; one at a time writes."""

    finds_tables = "SELECT name FROM sqlite_master WHERE name = 'aa_meta'"
    waits_to_make = "SELECT 1"  # it is alone as long as it writes
    begins = "BEGIN IMMEDIATE"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def connect(self, *, lazily_kept: bool) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
            if self.path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            # others of this machine have no business in the conversations. A file that is there is left alone: to close
            # it would take SQLite's locks from every other connection of this process
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass
        except OSError as problem:
            raise StoreError(
                f"cannot use the database {self.path}: {problem.strerror}; set ANY_AGENT_DB to another file"
            ) from problem
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            # the file keeps this; readers and the writer do not wait for each other then
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={'NORMAL' if lazily_kept else 'FULL'}")
        except BaseException:
            connection.close()
            raise
        return connection

    @staticmethod
    @cache
    def translated(statement: str) -> str:
        now = "((julianday('now') - 2440587.5) * 86400.0)"
        return (
            statement.replace("{now}", now)
            .replace("{for_update}", "")
            .replace("{skip_locked}", "")
            .replace("{kept}", "")
        )

    def is_lost(self, problem: Exception) -> bool:
        return False  # what passes by itself was waited for by SQLite

    def explained(self, problem: Exception) -> Exception:
        if not isinstance(problem, sqlite3.Error):
            return problem
        words = str(problem)
        if "is full" in words or "disk I/O" in words:
            return StoreError(
                f"cannot write to {self.path}: {words}. What was written is kept: make room on the disk, and the task "
                "goes on where it stopped"
            )
        if "locked" in words or "busy" in words:
            return StoreError(f"another process has kept {self.path} locked for {_BUSY_S:g} seconds: see who uses it")
        if "not a database" in words or "malformed" in words:
            return StoreError(f"{self.path} is no database, or damaged ({words}): move it away, or set ANY_AGENT_DB")
        return StoreError(f"cannot use the database {self.path}: {words}; is ANY_AGENT_DB right?")


class PostgresDriver:
    """A server. A connection that is lost is made again."""

    # of the catalogue itself: what `to_regclass` says may be older than the lock
    finds_tables = "SELECT 1 FROM pg_class WHERE relname = 'aa_meta' AND pg_table_is_visible(oid)"
    waits_to_make = "SELECT pg_advisory_xact_lock(74620011)"
    begins = "BEGIN"

    def __init__(self, url: str) -> None:
        self._url = url
        try:
            parts = urlsplit(url)
            #: without user and password
            self.name = f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"
        except ValueError:  # what it says may hold a part of the password
            raise StoreError(_NO_ADDRESS) from None
        self._was_reached = False

    def connect(self, *, lazily_kept: bool) -> Any:
        # a server may be lost without the process, which would go on after a gap: everything is kept
        try:
            import psycopg
        except ModuleNotFoundError:
            raise StoreError('Postgres needs some more packages: pip install "any-agent-sdk[durable]"') from None
        try:
            connection = psycopg.connect(
                self._url, autocommit=True, connect_timeout=_CONNECT_S, application_name="any-agent"
            )
        except psycopg.ProgrammingError:
            raise StoreError(_NO_ADDRESS) from None
        try:
            milliseconds = str(round(_STANDSTILL_S * 1000))
            connection.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, false)", (milliseconds,))
        except BaseException:
            connection.close()
            raise
        self._was_reached = True
        return connection

    @staticmethod
    @cache
    def translated(statement: str) -> str:
        now = "extract(epoch from clock_timestamp())::double precision"
        words = statement.replace("{now}", now).replace("{for_update}", "FOR UPDATE").replace("{kept}", "FOR KEY SHARE")
        return _VALUE.sub(r"%(\1)s", words.replace("{skip_locked}", "FOR UPDATE SKIP LOCKED"))

    def is_lost(self, problem: Exception) -> bool:
        from psycopg import InterfaceError, OperationalError, errors

        if isinstance(
            problem, errors.SerializationFailure | errors.DeadlockDetected | errors.IdleInTransactionSessionTimeout
        ):
            return True
        # before the first connection a wrong address is likelier than a restart
        passes = isinstance(problem, OperationalError | InterfaceError) and self._was_reached
        return passes and not isinstance(problem, errors.DiskFull)

    def explained(self, problem: Exception) -> Exception:
        from psycopg import Error, errors

        if not isinstance(problem, Error):
            return problem
        words = " ".join(str(problem).split())
        if isinstance(problem, errors.DiskFull):
            return StoreError(
                f"the disk of the Postgres server {self.name} is full. What was written is kept: make room, and the "
                "tasks go on where they stopped"
            )
        return StoreError(f"cannot use the Postgres database {self.name}: {words}; is ANY_AGENT_DB right?")


def driver_for(url: str) -> Driver:
    """The driver of an address as `database_url` gives it."""
    if url.startswith("sqlite:///"):
        return SqliteDriver(Path(url.removeprefix("sqlite:///")))
    return PostgresDriver(url)
