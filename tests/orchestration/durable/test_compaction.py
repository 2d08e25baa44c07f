"""A conversation that outgrows the window: what the model knows of it, and what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from any_agent import Done, Event, Failed, Notice
from any_agent.orchestration import AgentConfig
from any_agent.orchestration.durable.host import Agents
from any_agent.testing import Received, Reply, ScriptedServer, chat_events

LONG = "word " * 400


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANY_AGENT_DATA", str(tmp_path))
    monkeypatch.delenv("ANY_AGENT_DB", raising=False)


def small_window(request: Received) -> Reply:
    """A server with a window of 1,000 tokens, which counts them as a server does."""
    sent = sum(len(str(message["content"])) for message in request.json["messages"]) // 5
    if sent > 1000:
        problem = {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": 1000}
        return Reply.json({"error": {**problem, "n_prompt_tokens": sent}}, 400)
    usage = {"prompt_tokens": sent, "completion_tokens": 2, "total_tokens": sent + 2}
    return Reply(chat_events("fine", usage=usage))


async def ask(agents: Agents, prompt: str) -> list[Event]:
    return [event async for event in agents.work_on(await agents.submit("gpt", prompt))]


async def talk(server: ScriptedServer, agents: Agents, **config: Any) -> list[list[Event]]:
    await agents.spawn(AgentConfig("gpt", "local", "m", base_url=server.url, **config))
    return [await ask(agents, f"{number} {LONG}") for number in range(4)]


async def test_without_a_policy_the_task_fails_and_says_what_to_do() -> None:
    async with ScriptedServer(small_window) as server, Agents() as agents:
        *_, last = await talk(server, agents)
        assert isinstance(last[-1], Failed) and last[-1].error.kind == "context_length"


@pytest.mark.parametrize("policy", ["drop-oldest", "summarise"])
async def test_with_a_policy_the_model_knows_less_and_nothing_is_lost(policy: str) -> None:
    async with ScriptedServer(small_window) as server, Agents() as agents:
        turns = await talk(server, agents, compaction=policy)
        assert all(isinstance(events[-1], Done) for events in turns)
        assert any(isinstance(event, Notice) and event.kind == "compacted" for events in turns for event in events)
        prompts = [message.content for message in await agents.history("gpt") if message.role == "user"]
        assert [str(prompt)[0] for prompt in prompts] == ["0", "1", "2", "3"]
        await ask(agents, "and now?")
        sent = [str(message["content"]) for message in server.requests[-1].json["messages"]]
        assert not any(text.startswith("0 ") for text in sent), "the model does not know the beginning any more"
