"""Named agents that outlive a process, with a real model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from any_agent import Done, Reset, ToolResult
from any_agent.orchestration import AgentConfig, Agents
from real_server.helpers import wait_for_slots
from real_server.server import MODEL, LlamaServer

pytestmark = pytest.mark.real_server

PROGRAM = [sys.executable, "-m", "any_agent"]
TOOLS = '''
def get_population(city: str) -> int:
    """How many people live in a city."""
    return 717710
'''


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, llama: LlamaServer) -> None:
    (tmp_path / "population.py").write_text(TOOLS, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANY_AGENT_DATA", str(tmp_path))
    monkeypatch.delenv("ANY_AGENT_DB", raising=False)
    monkeypatch.setenv("LLAMA_KEY", llama.key)


def config(llama: LlamaServer, **more: object) -> AgentConfig:
    made = AgentConfig("smol", "llamacpp", MODEL, llama.address, api_key_env="LLAMA_KEY", temperature=0)
    for field, value in more.items():
        setattr(made, field, value)
    return made


@pytest.mark.row("C15", "E7")
async def test_a_process_killed_while_the_model_writes_frees_the_slot_and_the_answer_is_begun_anew(
    llama: LlamaServer,
) -> None:
    async with Agents() as agents:
        await agents.spawn(config(llama, max_tokens=400))
        prompt = "Repeat the word hello for ever: hello hello hello hello hello"
        program = await asyncio.create_subprocess_exec(*PROGRAM, "task", "smol", prompt, stdout=subprocess.PIPE)
        assert program.stdout is not None
        assert await program.stdout.read(1)
        program.kill()
        await program.wait()
        await wait_for_slots(llama, 0, 10)
        [task] = await agents.tasks("smol")
        assert task.state == "running"
        events = [event async for event in agents.work_on(task)]
    assert any(isinstance(event, Reset) for event in events)
    assert isinstance(events[-1], Done)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


@pytest.mark.row("C12", "C15")
async def test_a_tool_round_is_kept_and_the_conversation_goes_on(llama: LlamaServer) -> None:
    async with Agents() as agents:
        await agents.spawn(config(llama, tools=["population:get_population"], max_tokens=60))
        task = await agents.submit("smol", "How many people live in Oslo?")
        events = [event async for event in agents.work_on(task)]
        assert any(isinstance(event, ToolResult) and event.output == "717710" for event in events)
        roles = [message.role for message in await agents.history("smol")]
        assert roles[:3] == ["user", "assistant", "tool"]
