"""Every test has a database of its own, on SQLite and on Postgres, and a data folder of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from any_agent.orchestration.durable.database import Database
from any_agent.orchestration.durable.host import Agents
from any_agent.testing import ScriptedServer
from orchestration.durable import processes
from orchestration.durable.postgres import Postgres
from orchestration.durable.support import DEEDS, Model


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder; what the user has set does not count."""
    folder = tmp_path / "data"
    monkeypatch.setenv("ANY_AGENT_DATA", str(folder))
    monkeypatch.delenv("ANY_AGENT_DB", raising=False)
    return folder


@pytest.fixture
def postgres_url(postgres: Postgres) -> str:
    return postgres.emptied()


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path / 'agents.db'}"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


@pytest.fixture
def home(tmp_path: Path, database_url: str) -> Iterator[processes.Home]:
    (tmp_path / "deeds.py").write_text(DEEDS, "utf-8")
    with processes.home(tmp_path, database_url) as place:
        yield place


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
async def server(model: Model) -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer(model) as server:
        yield server


@pytest.fixture
async def agents(database_url: str) -> AsyncIterator[Agents]:
    async with Agents(database_url) as agents:
        yield agents
