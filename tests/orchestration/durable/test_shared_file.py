"""One SQLite file, several connections in each of several processes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from any_agent.orchestration.durable.database import Database
from any_agent.orchestration.durable.errors import StoreError

_WRITE = "INSERT INTO aa_meta (name, value) VALUES (:name, '')"
_READ = "SELECT name FROM aa_meta WHERE name <> 'version' ORDER BY name"
_VISIT = f"""
import sys
from any_agent.orchestration.durable.database import Database
database = Database(sys.argv[1])
print([name for (name,) in database.read({_READ!r})])
database.close()
"""


def visited(path: Path) -> str:
    """What another process finds, which opens the file and closes it."""
    done = subprocess.run([sys.executable, "-c", _VISIT, str(path)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_what_is_written_after_another_process_came_and_went_is_there(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    with closing(Database(str(path))) as first, closing(Database(str(path))) as second:
        first.transact(lambda transaction: transaction.run(_WRITE, name="a"))
        second.transact(lambda transaction: transaction.run(_WRITE, name="b"))
        assert visited(path) == "['a', 'b']"
        first.transact(lambda transaction: transaction.run(_WRITE, name="c"))
        assert visited(path) == "['a', 'b', 'c']"
        assert second.read(_READ) == [("a",), ("b",), ("c",)]


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Is a directory; set ANY_AGENT_DB to another file"):
        Database(str(tmp_path)).read("SELECT 1")


def test_the_file_is_the_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    with closing(Database(str(path))) as database:
        database.read("SELECT 1")
    assert path.stat().st_mode & 0o077 == 0
