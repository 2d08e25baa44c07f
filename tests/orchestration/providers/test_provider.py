"""What a configuration becomes before anybody is asked."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from any_agent import ProviderAuthError, ProviderError, tool
from any_agent.orchestration import AgentConfig, Message, get_provider
from any_agent.orchestration.providers.openai import OpenAICompatibleAgent, OpenAICompatibleProvider
from any_agent.testing import Received, Reply, ScriptedServer, chat_events

LOCAL = "http://127.0.0.1:5123/v1"


@tool
def search(q: str) -> str:
    """Search."""
    return q


def config(provider: str = "openai", **more: Any) -> AgentConfig:
    return AgentConfig("a", provider, **{"model": "m", "base_url": LOCAL, **more})


@pytest.mark.row("C3")
async def test_the_provider_for_openai_makes_its_agents() -> None:
    provider = OpenAICompatibleProvider()
    assert provider.provider_type == "openai"
    agent = await provider.create_agent(config())
    assert isinstance(agent, OpenAICompatibleAgent)
    assert repr(provider) == "OpenAICompatibleProvider('openai')"
    await agent.shutdown()


def test_what_is_not_given_is_left_to_the_options() -> None:
    options = OpenAICompatibleProvider().options(config())
    assert (options.model, options.base_url, options.api_key) == ("m", LOCAL, "not-needed")
    assert (options.system_prompt, options.temperature, options.max_tokens, options.thinking) == ("", 0.7, 4096, None)
    assert (options.tools, options.auto_execute_tools, options.max_turns) == ([], False, sys.maxsize)


def test_what_is_given_counts() -> None:
    given = config(system_prompt="Be brief.", temperature=0.0, max_tokens=5, thinking=False, api_key="mine")
    options = OpenAICompatibleProvider().options(given, [search])
    assert (options.system_prompt, options.temperature, options.max_tokens, options.thinking) == (
        "Be brief.",
        0,
        5,
        False,
    )
    assert (options.tools, options.auto_execute_tools, options.api_key) == ([search], True, "mine")
    assert "mine" not in repr(options)


@pytest.mark.parametrize(
    ("provider", "base_url", "protocol", "profile"),
    [
        ("openai", None, "openai", "openai"),
        ("openai", "http://localhost:1234/v1", "openai", "lmstudio"),
        ("ollama", None, "ollama", "ollama"),
        ("ollama", "http://localhost:9999", "ollama", "ollama"),
        ("anthropic", None, "anthropic", "anthropic"),
        ("anthropic", LOCAL, "anthropic", "anthropic"),
        ("openrouter", None, "openai", "openrouter"),
        ("lmstudio", None, "openai", "lmstudio"),
        ("vllm", "http://10.0.0.7:8000/v1", "openai", "vllm"),
    ],
)
@pytest.mark.row("C3")
def test_a_provider_knows_the_protocol_and_the_address(
    provider: str, base_url: str | None, protocol: str, profile: str
) -> None:
    options = get_provider(provider).options(config(provider, base_url=base_url, api_key="k"))
    assert (options.protocol, options.profile) == (protocol, profile)
    assert options.base_url.startswith("http")


@pytest.mark.row("C5")
@pytest.mark.parametrize("model", [None, ""])
async def test_there_is_no_model_that_nobody_named(model: str | None) -> None:
    with pytest.raises(ProviderError, match=r"^model is required for OpenAI-compatible agents$"):
        await OpenAICompatibleProvider().create_agent(config(model=model))


@pytest.mark.row("C4")
async def test_an_agent_without_a_key_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ProviderAuthError, match="OPENAI_API_KEY"):
        await OpenAICompatibleProvider().create_agent(config(base_url=None))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"base_url": "localhost:1234"}, "must begin with http:// or https://"),
        ({"tools": ["nix:nix"]}, "^nix:nix: nix fails to import: ModuleNotFoundError"),
        ({"temperature": -1}, "temperature must be at least 0"),
    ],
)
def test_what_is_wrong_is_said_before_anybody_is_asked(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        get_provider("local").options(config("local", **more))


def test_an_address_is_needed_where_none_is_usual() -> None:
    with pytest.raises(ProviderError, match="provider 'generic' has no usual address: give base_url"):
        get_provider("generic").options(config("generic", base_url=None))


def test_tools_are_found_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agents_tools.py").write_text("def add(a: int) -> int:\n    return a\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    options = OpenAICompatibleProvider().options(config(tools=["agents_tools:add"]))
    assert [found.name for found in options.tools] == ["add"]
    assert options.auto_execute_tools
    assert OpenAICompatibleProvider().options(config(tools=["agents_tools:add"]), [search]).tools == [search]


@pytest.mark.row("C6")
async def test_two_agents_have_two_keys_and_two_addresses() -> None:
    async with ScriptedServer(Reply(chat_events("one"))) as one, ScriptedServer(Reply(chat_events("two"))) as two:
        provider = get_provider("openai")
        servers = {"one": one, "two": two}
        agents = [
            await provider.create_agent(
                AgentConfig(name, "openai", "m", f"{server.address}/{name}", api_key=f"key-{name}")
            )
            for name, server in servers.items()
        ]
        for agent in agents:
            assert [reply.content async for reply in agent.handle_message(Message("hi"))] == [agent.name]
            await agent.shutdown()
        for name, server in servers.items():
            [request] = server.requests
            assert request.path == f"/{name}/chat/completions"
            assert request.headers["authorization"] == f"Bearer key-{name}"


@pytest.mark.row("C3")
@pytest.mark.parametrize(("provider", "path"), [("ollama", "/api/chat"), ("anthropic", "/v1/messages")])
async def test_each_provider_speaks_its_own_protocol(provider: str, path: str) -> None:
    def refuse(request: Received) -> Reply:
        return Reply.json({"error": {"message": "enough"}}, 400)

    async with ScriptedServer(refuse) as server:
        agent = await get_provider(provider).create_agent(config(provider, base_url=server.address))
        with pytest.raises(ProviderError):
            async for _ in agent.handle_message(Message("hi")):
                pass
        await agent.shutdown()
        assert server.requests[0].path == path


@pytest.mark.row("C7")
def test_credentials_are_valid_if_the_key_is_there_or_none_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert not get_provider("openai").validate_credentials()
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert not get_provider("openai").validate_credentials()
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert get_provider("openai").validate_credentials()
    for name in ("lmstudio", "ollama", "local", "generic"):
        assert get_provider(name).validate_credentials()


@pytest.mark.row("C7")
def test_credentials_are_worth_nothing_without_the_openai_package(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "openai" else find(name))
    assert not get_provider("lmstudio").validate_credentials()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "openai", types.ModuleType("openai"))
    assert get_provider("lmstudio").validate_credentials()
