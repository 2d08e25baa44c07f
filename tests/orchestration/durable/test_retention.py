"""What is old is thrown away; what was said is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from any_agent import Done, TextDelta
from any_agent.orchestration import AgentConfig
from any_agent.orchestration.durable.database import Database
from any_agent.orchestration.durable.host import Agents
from any_agent.testing import Reply, ScriptedServer, chat_events

WEEK = 7 * 24 * 3600


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANY_AGENT_DATA", str(tmp_path))
    monkeypatch.delenv("ANY_AGENT_DB", raising=False)


def make_old(database: Database, task: str) -> None:
    database.transact(
        lambda transaction: transaction.run(
            "UPDATE aa_tasks SET finished = finished - :age WHERE id = :task", age=WEEK + 60, task=task
        )
    )


@pytest.mark.row("E7")
async def test_of_old_tasks_the_events_and_the_journal_go_and_the_words_stay() -> None:
    async with ScriptedServer(Reply(chat_events("Hello"))) as server, Agents() as agents:
        await agents.spawn(AgentConfig("gpt", "local", "m", base_url=server.url))
        old, new = await agents.submit("gpt", "one"), await agents.submit("gpt", "two")
        async for _ in agents.work_on(new):
            pass
        make_old(agents.database, old.id)
        journal = "SELECT workflow_uuid FROM workflow_status ORDER BY workflow_uuid"
        async with agents.worker():
            while len(agents.database.read(journal)) == 2:
                await asyncio.sleep(0.01)
        assert agents.database.read(journal) == [(new.id,)]
        assert agents.database.read("SELECT DISTINCT task FROM aa_events") == [(new.id,)]
        remembered = [event async for event in agents.events(old.id)]
        assert isinstance(remembered[0], TextDelta) and remembered[0].text == "Hello"
        assert isinstance(remembered[-1], Done)
        assert [message.content for message in await agents.history("gpt") if message.role == "user"] == ["one", "two"]
        assert (await agents.submit("gpt", "one", id=old.id)).state == "done"
