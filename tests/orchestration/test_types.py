"""Configurations, messages and protocols of named agents."""

from __future__ import annotations

import pytest

from any_agent.orchestration import (
    Agent,
    AgentConfig,
    AgentProvider,
    AgentState,
    Message,
    MessageType,
    get_provider,
)

KEY = "sk-proj-a1B2c3D4e5F6g7H8"


@pytest.mark.row("C1")
def test_a_message_is_for_everybody_unless_it_says_otherwise() -> None:
    message = Message(content="hi")
    assert (message.sender, message.recipients, message.message_type) == ("user", ["all"], MessageType.CHAT)
    message.recipients.append("gpt")
    message.metadata["a"] = 1
    assert Message("hi") == Message("hi", "user", ["all"], MessageType.CHAT, {})


@pytest.mark.row("C1")
def test_states_and_types_are_their_words() -> None:
    assert list(AgentState) == ["idle", "processing", "failed", "terminated"]
    assert list(MessageType) == ["chat", "system"]


@pytest.mark.row("C1")
async def test_agents_and_providers_are_known_by_what_they_can_do() -> None:
    provider = get_provider("lmstudio")
    agent = await provider.create_agent(AgentConfig("gpt", "lmstudio", "m"))
    assert isinstance(provider, AgentProvider)
    assert isinstance(agent, Agent)
    assert not isinstance(provider, Agent)
    assert not isinstance(agent, AgentProvider)
    await agent.shutdown()


@pytest.mark.row("C4")
def test_a_key_is_in_nothing_that_is_stored_or_shown() -> None:
    config = AgentConfig("gpt", "openai", "m", api_key=KEY, tools=["a:b"], temperature=0.0, thinking=False)
    assert KEY not in repr(config)
    stored = config.to_dict()
    assert stored == {
        "name": "gpt",
        "provider": "openai",
        "model": "m",
        "agent_type": "api",
        "tools": ["a:b"],
        "temperature": 0.0,
        "thinking": False,
    }
    again = AgentConfig.from_dict(stored)
    assert again.api_key is None
    again.api_key = KEY
    assert again == config


def test_a_configuration_with_unknown_fields_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown fields: colour, size"):
        AgentConfig.from_dict({"name": "a", "provider": "openai", "size": 1, "colour": "red"})


@pytest.mark.parametrize("name", ["", "a b", "-x", ".x", "all", "user", "a/b", "é", "x" * 65, "a\n"])
def test_names_are_words_that_a_command_line_can_say(name: str) -> None:
    with pytest.raises(ValueError, match="is no name for an agent"):
        AgentConfig(name, "openai")


@pytest.mark.parametrize("name", ["a", "gpt-4.o_mini", "0", "x" * 64])
def test_names_may_have_dots_and_dashes(name: str) -> None:
    assert AgentConfig(name, "openai").name == name


def test_only_agents_of_an_api_are_known() -> None:
    with pytest.raises(ValueError, match="agent_type must be 'api'; it is 'cli'"):
        AgentConfig("a", "openai", agent_type="cli")


@pytest.mark.row("C4")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("api_key_env", KEY),
        ("api_key_env", KEY.replace("-", "_")),
        ("api_key_env", "Zk2pLq9ZtR4vBn7cWdXy"),
        ("api_key_env", "two words"),
        ("api_key_env", ""),
        ("api_key_keyring", KEY),
        ("api_key_keyring", f"{KEY}/me"),
        ("api_key_keyring", "my-service/"),
        ("api_key_keyring", "/my-user"),
        ("base_url", f"https://me:{KEY}@example.org/v1"),
        ("base_url", f"https://example.org/v1?key={KEY}"),
        ("base_url", f"https://example.org/v1#{KEY}"),
    ],
)
def test_a_key_in_the_place_of_a_name_is_refused_and_not_shown(field: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^{field} must") as problem:
        AgentConfig("a", "openai", **{field: value})
    assert not value or value not in str(problem.value)


def test_a_key_has_one_place() -> None:
    with pytest.raises(ValueError, match="name one of them"):
        AgentConfig("a", "openai", api_key_env="A_KEY", api_key_keyring="service/me")
    assert AgentConfig("a", "openai", api_key_keyring="https://x.example/me").api_key_keyring
