"""`providers.toml` and `./any-agent.toml`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from any_agent.folders import user_folder
from any_agent.orchestration.settings import ProviderAlias, find_alias, load_settings, resolve

KEY = "sk-proj-a1B2c3D4e5F6g7H8"
WHOLE = """
[fast]
provider = "openrouter"
model = "qwen/qwen3-32b"
base_url = "https://openrouter.ai/api/v1"
api_key_env_var = "MY_KEY"
system_prompt = "Be brief."
temperature = 0
max_tokens = 100
thinking = false
tools = ["weather:get_weather"]

[ring]
provider = "openai"
api_key_keyring = "service/me"
"""


@pytest.fixture(autouse=True)
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file; the current folder is next to it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("ANY_AGENT_CONFIG", str(tmp_path / "config"))
    (tmp_path / "config").mkdir()
    return tmp_path / "config" / "providers.toml"


@pytest.mark.row("C13")
def test_an_alias_has_all_that_its_table_says(users: Path) -> None:
    users.write_text(WHOLE, "utf-8")
    assert load_settings() == {
        "fast": ProviderAlias(
            "fast",
            "openrouter",
            "qwen/qwen3-32b",
            "https://openrouter.ai/api/v1",
            "MY_KEY",
            None,
            "Be brief.",
            0,
            100,
            False,
            ["weather:get_weather"],
            users,
        ),
        "ring": ProviderAlias("ring", "openai", api_key_keyring="service/me", file=users),
    }


@pytest.mark.row("C13")
def test_without_files_there_are_no_aliases() -> None:
    assert load_settings() == {}


@pytest.mark.row("C13")
def test_the_file_of_the_current_folder_wins(users: Path) -> None:
    users.write_text('[a]\nprovider = "openai"\nmodel = "m"\n[b]\nprovider = "openai"\n', "utf-8")
    Path("any-agent.toml").write_text('[a]\nprovider = "ollama"\n[c]\nprovider = "openai"\n', "utf-8")
    settings = load_settings()
    assert {name: alias.provider for name, alias in settings.items()} == {"a": "ollama", "b": "openai", "c": "openai"}
    assert settings["a"].model is None
    assert settings["a"].file == Path.cwd() / "any-agent.toml"


@pytest.mark.row("C4", "C13")
def test_the_current_folder_cannot_take_the_name_of_a_provider(users: Path) -> None:
    """Or somebody else's folder would get the key that is meant for the provider; the user's own file may do it."""
    text = '[openrouter]\nprovider = "openai"\nbase_url = "http://mine"\napi_key_env_var = "OPENROUTER_API_KEY"\n'
    users.write_text(text, "utf-8")
    assert load_settings()["openrouter"].base_url == "http://mine"
    Path("any-agent.toml").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"any-agent\.toml: \[openrouter\] is a provider's own name: take another"):
        load_settings()


@pytest.mark.row("C4", "C13")
@pytest.mark.parametrize(
    "line",
    [
        f'api_key = "{KEY}"',
        f'API-KEY = "{KEY}"',
        f'token = "{KEY}"',
        f'client_secret = "{KEY}"',
        f'api_key_env_var = "{KEY}"',
        'api_key_env_var = "Zk2pLq9ZtR4vBn7cWdXy"',
        f'api_key_keyring = "{KEY}"',
        f'model = "{KEY}"',
        f'base_url = "https://{KEY}@example.org"',
        f'base_url = "https://example.org?key={KEY}"',
    ],
)
def test_a_key_in_a_file_is_refused_and_not_shown(users: Path, line: str) -> None:
    users.write_text(f'[fast]\nprovider = "openai"\n{line}\n', "utf-8")
    with pytest.raises(ValueError, match=r"providers\.toml: \[fast\]: ") as problem:
        load_settings()
    assert "key" in str(problem.value)
    assert KEY not in str(problem.value)
    assert "Zk2pLq9" not in str(problem.value)


@pytest.mark.row("C13")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[fast", "is no TOML: Expected ']'"),
        ('provider = "openai"', "'provider' is no table: write [provider]"),
        (f'api_key = "{KEY}"', "'api_key' looks like a key"),
        ("[fast]", "[fast]: provider is missing: name one of openai, ollama"),
        ('[fast]\nprovider = ""', "[fast]: provider is missing"),
        (
            '[fast]\nprovider = "openai"\ncolour = "red"',
            "[fast]: there is no field 'colour'; there are provider, model,",
        ),
        ("[fast]\nprovider = 1", "[fast]: provider must be a text; it is of type int"),
        ("[fast]\ntemperature = true", "[fast]: temperature must be a number; it is of type bool"),
        ("[fast]\nmax_tokens = 1.5", "[fast]: max_tokens must be a whole number; it is of type float"),
        ('[fast]\nthinking = "yes"', "[fast]: thinking must be true or false; it is of type str"),
        ("[fast]\ntools = [1]", "[fast]: tools must be a list of texts; it is of type list"),
        (
            '[fast]\nprovider = "openai"\napi_key_env_var = "A"\napi_key_keyring = "a/b"',
            "[fast]: api_key_env_var and api_key_keyring are two places for one key",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(users: Path, text: str, words: str) -> None:
    users.write_text(text, "utf-8")
    with pytest.raises(ValueError) as problem:
        load_settings()
    assert str(problem.value).startswith(str(users))
    assert words in str(problem.value)
    assert KEY not in str(problem.value)


@pytest.mark.row("C13")
def test_files_that_cannot_be_read_say_so(users: Path) -> None:
    users.mkdir()
    with pytest.raises(ValueError, match=r"providers\.toml cannot be read: Is a directory"):
        load_settings()
    users.rmdir()
    users.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"providers\.toml is no TOML"):
        load_settings()


@pytest.mark.row("C13")
def test_a_profile_is_an_alias_or_a_provider_and_a_model_may_be_an_alias() -> None:
    settings = {name: ProviderAlias(name, "ollama") for name in ("fast", "openai")}
    assert find_alias(settings, profile="fast") is settings["fast"]
    assert find_alias(settings, profile="openai") is settings["openai"]
    assert find_alias(settings, profile="vllm") == ProviderAlias("vllm", "vllm")
    assert find_alias(settings, model="fast") is settings["fast"]
    assert find_alias(settings, model="gpt-4o-mini") is None
    assert find_alias(settings) is None
    with pytest.raises(ValueError, match=r"there is no profile 'nix' .* known are fast, openai, ollama"):
        find_alias(settings, profile="nix")


ALIAS = ProviderAlias(
    "fast", "openrouter", "qwen", "https://a.example", "A_KEY", system_prompt="Be brief.", tools=["a:b"]
)


@pytest.mark.row("C13")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"model": "fast"}, {"model": "qwen"}),
        ({"model": "other"}, {"model": "other"}),
        ({"model": None, "tools": [], "temperature": None}, {}),
        ({"temperature": 0.0, "thinking": False}, {"temperature": 0.0, "thinking": False}),
        ({"base_url": "https://b.example"}, {"base_url": "https://b.example"}),
        ({"provider": "openai", "tools": ["c:d"]}, {"provider": "openai", "tools": ["c:d"]}),
        ({"api_key_keyring": "s/u"}, {"api_key_env": None, "api_key_keyring": "s/u"}),
    ],
)
def test_what_is_given_wins_over_the_alias(given: dict[str, Any], expected: dict[str, Any]) -> None:
    config = resolve({"name": "a", **given}, ALIAS)
    from_alias = {
        "name": "a",
        "provider": "openrouter",
        "model": "qwen",
        "base_url": "https://a.example",
        "api_key_env": "A_KEY",
        "system_prompt": "Be brief.",
        "tools": ["a:b"],
        "temperature": None,
        "thinking": None,
    }
    assert {name: getattr(config, name) for name in (from_alias | expected)} == from_alias | expected


@pytest.mark.row("C13")
def test_without_an_alias_the_provider_has_to_be_named() -> None:
    assert resolve({"name": "a", "provider": "openai", "model": "m"}, None).model == "m"
    with pytest.raises(ValueError, match=r"provider is missing: name one of openai, .* or an alias of providers\.toml"):
        resolve({"name": "a", "model": "m"}, None)


@pytest.mark.row("C13")
@pytest.mark.skipif(sys.platform != "linux", reason="the folders of Linux")
def test_the_settings_are_where_the_system_keeps_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_folder("config") == Path(os.environ["ANY_AGENT_CONFIG"])
    monkeypatch.setenv("ANY_AGENT_CONFIG", "~/mine")
    assert user_folder("config") == tmp_path / "mine"
    monkeypatch.delenv("ANY_AGENT_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert user_folder("config") == tmp_path / ".config" / "any-agent"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert user_folder("config") == tmp_path / "xdg" / "any-agent"
