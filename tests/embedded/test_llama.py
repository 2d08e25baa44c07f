"""The real thing: llama.cpp in a process of its own, with the small model, asked through an adapter."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from any_agent import Message, OpenAIAdapter, ToolResultBlock, ToolSpec, embedded
from any_agent.embedded import EmbeddedError, Lease
from embedded.processes import STUB, Address, folder, holder, kill, servers, status, wait_for_stage, wait_until
from embedded.test_weights import GGUF, PACKAGE

pytestmark = pytest.mark.real_server

WEATHER = ToolSpec(
    "get_weather",
    "Get the current weather for a city",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
PARIS = [Message("user", "What is the weather in Paris?")]


def props(lease: Lease) -> dict[str, Any]:
    """What the server says of its settings."""
    headers = {"Authorization": f"Bearer {lease.api_key}"}
    request = urllib.request.Request(lease.base_url.removesuffix("/v1") + "/props", headers=headers)
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


async def test_default_model_calls_a_tool_and_answers() -> None:
    async with embedded.server() as lease:
        adapter = OpenAIAdapter(lease.model, lease.base_url, api_key=lease.api_key, profile="embedded")
        async with adapter:
            response = await adapter.invoke(PARIS, [WEATHER], temperature=0, max_tokens=60)
            (call,) = response.tool_calls
            assert (call.name, call.input) == ("get_weather", {"city": "Paris"})
            result = Message("tool", [ToolResultBlock(call.id, {"celsius": 21})])
            conversation = [*PARIS, Message("assistant", response.content), result]
            answer = await adapter.invoke(conversation, [WEATHER], temperature=0, max_tokens=30)
            assert answer.text
            (model,) = await adapter.list_models()
            assert (model.id, model.context_window) == ("smollm2", 4096)
        assert folder().log.read_text() == ""


def test_profile_alone_gives_an_agent_that_runs() -> None:
    """The server is there while the program runs, and no longer."""
    program = """
import asyncio
from any_agent import AgentOptions, Client, tool

@tool
def get_weather(city: str) -> str:
    "Get the current weather for a city"
    return f"sunny in {city}"

async def main():
    options = AgentOptions.for_profile("embedded", tools=[get_weather], auto_execute_tools=True)
    async with Client(options) as client:
        await client.query("What is the weather in Paris?")
        print([event.output async for event in client.events() if event.type == "tool_result"])

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("['sunny in Paris']\n", "")
    wait_until(lambda: not servers())


@pytest.mark.row("E6")
def test_server_listens_on_loopback_and_nowhere_else() -> None:
    with embedded.lease() as lease:
        port = urlsplit(lease.base_url).port
        assert port is not None
        lines = [
            line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()
        ]
        listening = {words[1] for words in lines if words[3] == "0A" and words[1].endswith(f":{port:04X}")}
        assert listening == {f"0100007F:{port:04X}"}


def test_real_server_is_shared_by_processes_and_ends_with_the_last() -> None:
    with holder() as first, holder() as second:
        for one in (first, second):
            one.go()
        address = first.address()
        assert second.address() == address
        assert address.ask() == 200
        assert address.ask("wrong") == 401
        first.kill()
        assert address.ask() == 200
        second.kill()
        wait_until(lambda: not servers())


def test_client_that_is_killed_while_the_real_model_loads_leaves_nothing() -> None:
    with holder() as one:
        one.go()
        wait_for_stage("loading")
        one.kill()
        wait_until(lambda: not servers())
    assert status() is None


def test_real_server_that_was_killed_has_a_successor() -> None:
    with embedded.lease() as first:
        kill(*servers("any_agent.embedded.llama"))
        wait_until(lambda: not servers())
        with embedded.lease() as second:
            assert Address.of(second) != Address.of(first)
            assert Address.of(second).ask() == 200


def test_another_gguf_keeps_its_own_template_and_has_the_window_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "my-model.gguf"
    shutil.copy(PACKAGE / GGUF, path)
    with embedded.lease(path, context=1024) as lease, embedded.lease() as default:
        assert lease.model == props(lease)["model_alias"] == "my-model"
        assert props(lease)["default_generation_settings"]["n_ctx"] == 1024
        assert props(lease)["total_slots"] == 2
        assert "<tool_call>" not in props(lease)["chat_template"]
        assert "<tool_call>" in props(default)["chat_template"]


@pytest.mark.row("C16")
def test_too_little_memory_is_one_clear_error() -> None:
    """The server inherits how much its client may have."""
    program = """
import resource
from any_agent import embedded

resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
try:
    embedded.lease(context=100_000)
except embedded.EmbeddedError as error:
    print(str(error).splitlines()[0])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "insufficient memory" in done.stdout
    assert done.stdout.endswith("; take a smaller model or context\n")


@pytest.mark.row("C16")
def test_damaged_gguf_is_one_clear_error_with_the_words_of_llama_cpp(tmp_path: Path) -> None:
    path = tmp_path / "half.gguf"
    with (PACKAGE / GGUF).open("rb") as whole:
        path.write_bytes(whole.read(3_000_000))
    with pytest.raises(EmbeddedError, match=r"half\.gguf could not load it \(.*corrupted or incomplete\)") as error:
        embedded.lease(path)
    assert "model is corrupted or incomplete" in str(error.value)
    assert "Traceback" not in str(error.value)


def test_default_model_is_fetched_with_the_package_client_of_the_user(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """From the package index, as `make env` does; the licence is told once, and kept."""
    monkeypatch.setenv("PYTHONPATH", str(STUB / "no_weights"))
    told: list[tuple[str, float | None]] = []
    for _ in range(2):
        with embedded.lease(on_progress=lambda *step: told.append(step)) as lease:
            assert Address.of(lease).ask() == 200
        wait_until(lambda: not servers())
    *fetching, loading, loading_again = told
    assert {stage for stage, _ in fetching} == {"fetching"}
    assert loading == loading_again == ("loading", None)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "Apache License 2.0" in caplog.text
    assert str(cache / "models") in caplog.text
    assert "Apache License" in (cache / "models" / "SmolLM2-135M-Instruct.LICENSE").read_text()
    assert (cache / "models" / GGUF).exists()
