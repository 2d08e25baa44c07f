"""The database of the named agents: a SQLite file, or Postgres.

Every statement is written once, in the SQL that both understand, with `:name` for a value, and `{now}`,
`{for_update}`, `{kept}` and `{skip_locked}` where they differ. Whatever is done is a function of a transaction that
may be run again (the server was restarted, two transactions were in each other's way), so it must be a function of
what it finds.

The engine's own library needs a while to be imported; this needs none, so that commands answer at once.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, TypeVar

from any_agent.folders import user_folder
from any_agent.orchestration.durable.drivers import Driver, driver_for
from any_agent.orchestration.durable.errors import StoreError
from any_agent.orchestration.durable.schema import SCHEMA, VERSION

__all__ = ("PATIENCE_S", "PAUSE_S", "Database", "Transaction", "database_url")

_T = TypeVar("_T")
#: how long a database is waited for that went away, and how long before each attempt
PATIENCE_S = 60.0
PAUSE_S = (0.05, 0.1, 0.2, 0.5, 1.0)
_VERSION_FOUND = "SELECT value FROM aa_meta WHERE name = 'version'"


def database_url(given: str | None = None) -> str:
    """The database to use: the one given, that of `ANY_AGENT_DB`, or a file of this user.

    >>> database_url("postgres://localhost/agents")
    'postgresql://localhost/agents'
    >>> database_url("/tmp/a.db")
    'sqlite:////tmp/a.db'
    """
    url = given or os.environ.get("ANY_AGENT_DB") or str(user_folder("data") / "agents.db")
    if url.startswith("postgres://"):
        return f"postgresql://{url.removeprefix('postgres://')}"
    if "://" not in url:
        return f"sqlite:///{Path(url).expanduser().absolute()}"
    if not url.startswith(("postgresql://", "sqlite:///")):
        kind = url.partition("://")[0]
        raise StoreError(
            f"ANY_AGENT_DB: {kind}:// is no database for agents: give postgresql://… or the path of a file"
        )
    if url.partition("://")[2].partition("/")[0].count("@") > 1:
        # what comes before the last one would be taken for the host, and shown
        raise StoreError("ANY_AGENT_DB: an @ in the user's name or the password is written as %40")
    return url


class Transaction:
    """What a function of a transaction works with."""

    def __init__(self, cursor: Any, driver: Driver) -> None:
        self._cursor = cursor
        self._driver = driver

    def run(self, statement: str, **values: Any) -> int:
        """Do something; to how many rows it was done."""
        self._cursor.execute(self._driver.translated(statement), values)
        return int(self._cursor.rowcount)

    def run_many(self, statement: str, rows: Iterable[dict[str, Any]]) -> None:
        """Do the same with many values."""
        self._cursor.executemany(self._driver.translated(statement), list(rows))

    def all(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """All rows."""
        self._cursor.execute(self._driver.translated(statement), values)
        return list(self._cursor.fetchall())

    def one(self, statement: str, **values: Any) -> tuple[Any, ...] | None:
        """The first row, if there is one."""
        found = self.all(statement, **values)
        return found[0] if found else None


class Database:
    """One connection, made when it is needed, and made again when it is lost. Threads take turns.

    >>> database = Database(":memory:")  # doctest: +SKIP
    >>> database.read("SELECT name FROM aa_agents")  # doctest: +SKIP
    []
    """

    def __init__(self, url: str | None = None) -> None:
        self.url = database_url(url)
        self.driver = driver_for(self.url)
        self._lazily_kept = False
        self._lock = threading.RLock()
        self._connection: Any = None
        #: set for those that are not to wait for a database that went away
        self._haste = threading.Event()

    def another(self, *, lazily_kept: bool = False) -> Database:
        """One more connection to the same database; what one has learned of the server, both know."""
        other = Database(self.url)
        other.driver, other._lazily_kept = self.driver, lazily_kept
        return other

    def read(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """All rows of one query."""
        return self.transact(lambda transaction: transaction.all(statement, **values), writes=False)

    def transact(self, work: Callable[[Transaction], _T], *, writes: bool = True) -> _T:
        """What `work` returns, all of which is done, or nothing. What does not write is a single query."""
        began = time.monotonic()  # who had to wait for others that wait need not wait as long again
        haste = self._haste
        with self._lock:
            attempt = 0
            while True:
                try:
                    if self._connection is None:
                        self._connection = self._connected()
                    return self._tried(self._connection, work, writes=writes)
                except Exception as problem:
                    is_lost = self.driver.is_lost(problem)
                    if is_lost:
                        self._disconnect()
                    if not is_lost or haste.is_set() or time.monotonic() - began > PATIENCE_S:
                        explained = self.driver.explained(problem)
                        if explained is problem:
                            raise
                        raise explained from problem
                haste.wait(PAUSE_S[min(attempt, len(PAUSE_S) - 1)])
                attempt += 1

    @contextlib.contextmanager
    def in_haste(self) -> Generator[None]:
        """Nobody waits for a database that went away: neither those who do already, nor those who come meanwhile."""
        is_outermost = not self._haste.is_set()
        self._haste.set()
        try:
            yield
        finally:
            if is_outermost:
                self._haste = threading.Event()

    def close(self) -> None:
        """Close the connection; it is opened again when it is needed."""
        with self.in_haste(), self._lock:
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> Any:
        connection = self.driver.connect(lazily_kept=self._lazily_kept)
        try:
            if self._tried(connection, lambda new: new.one(self.driver.finds_tables), writes=False) is None:
                self._tried(connection, self._make_tables)
            found = self._tried(connection, lambda new: new.all(_VERSION_FOUND), writes=False)
        except BaseException:
            connection.close()
            raise
        if int(found[0][0]) > VERSION:
            connection.close()
            raise StoreError(
                f"the database {self.driver.name} is of version {found[0][0]}, and this any_agent knows versions up to "
                f"{VERSION}: upgrade any-agent-sdk (nothing was changed)"
            )
        return connection

    def _make_tables(self, transaction: Transaction) -> None:
        transaction.one(self.driver.waits_to_make)
        if transaction.one(self.driver.finds_tables) is not None:
            return  # another process was faster
        for statement in SCHEMA:
            transaction.run(statement)
        transaction.run("INSERT INTO aa_meta (name, value) VALUES ('version', :version)", version=str(VERSION))

    def _tried(self, connection: Any, work: Callable[[Transaction], _T], *, writes: bool = True) -> _T:
        cursor = connection.cursor()
        try:
            if writes:
                cursor.execute(self.driver.begins)
            result = work(Transaction(cursor, self.driver))
            if writes:
                connection.commit()
        except BaseException:
            with contextlib.suppress(Exception):
                connection.rollback()
            raise
        cursor.close()
        return result
