"""Providers by their names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from any_agent.errors import AgentSDKError
from any_agent.orchestration import get_provider, list_providers, register_provider, registry
from any_agent.orchestration.providers.openai import OpenAICompatibleProvider

HEAVY = {"openai", "httpx", "httpx2", "aiohttp", "pydantic", "dbos", "sqlalchemy", "keyring"}


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list_providers():
        get_provider(name)  # what is imported is registered once, and must not be forgotten with the rest
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    yield


class Custom(OpenAICompatibleProvider):
    provider_type = "custom"  # pyright: ignore


def python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.row("C1", "C2")
def test_an_unknown_provider_is_a_key_error_that_names_the_known_ones() -> None:
    with pytest.raises(KeyError) as problem:
        get_provider("nix")
    assert str(problem.value).startswith("Unknown provider 'nix'; known are openai, ollama, anthropic, ")
    assert isinstance(problem.value, AgentSDKError)


@pytest.mark.row("C3")
@pytest.mark.parametrize("name", list_providers())
def test_every_provider_is_found_by_its_name(name: str) -> None:
    assert get_provider(name).provider_type == name
    assert get_provider(name) is get_provider(name)


@pytest.mark.row("C3")
def test_the_promised_providers_are_there() -> None:
    assert {
        *("openai", "ollama", "anthropic", "openrouter", "lmstudio", "llamacpp", "vllm", "gemini", "local", "embedded"),
    } <= set(list_providers())


@pytest.mark.row("C2")
@pytest.mark.parametrize(
    ("package", "name"), [("openai",) * 2, ("ollama",) * 2, ("anthropic",) * 2, ("profiles", "vllm")]
)
def test_importing_the_package_of_a_provider_registers_it(package: str, name: str) -> None:
    program = (
        f"import any_agent.orchestration.providers.{package}; from any_agent.orchestration import registry;"
        f"print({name!r} in registry._registered)"
    )
    assert python(program) == "True"


@pytest.mark.row("C2")
def test_providers_are_imported_when_they_are_asked_for() -> None:
    program = (
        "import sys; from any_agent.orchestration import *; list_providers();"
        "print('any_agent.orchestration.providers' in sys.modules);"
        "get_provider('ollama'); print('any_agent.orchestration.providers.anthropic' in sys.modules)"
    )
    assert python(program).split() == ["False", "False"]


@pytest.mark.row("A31", "C2")
@pytest.mark.parametrize("more", ["", "; any_agent.orchestration.get_provider('openai')"])
def test_neither_agents_nor_providers_import_anything_heavy(more: str) -> None:
    program = (
        f"import sys, any_agent.orchestration{more}\n"
        f"print(sorted({{name.partition('.')[0] for name in sys.modules}} & {HEAVY!r}))"
    )
    assert python(program) == "[]"


@pytest.mark.row("C1")
def test_a_provider_of_a_program_is_found_like_any_other() -> None:
    custom = Custom()
    register_provider(custom)
    assert get_provider("custom") is custom
    assert list_providers()[-1] == "custom"


@pytest.mark.row("C1")
def test_what_a_program_registers_stays_although_the_built_in_one_comes_later() -> None:
    program = (
        "from any_agent.orchestration import *\n"
        "class Mine:\n"
        "    provider_type = 'openai'\n"
        "    async def create_agent(self, config): ...\n"
        "    def validate_credentials(self): ...\n"
        "    def options(self, config, tools=None): ...\n"
        "register_provider(Mine())\n"
        "get_provider('ollama')\n"
        "print(type(get_provider('openai')).__name__)"
    )
    assert python(program) == "Mine"


@pytest.mark.row("C1")
def test_what_is_no_provider_is_refused() -> None:
    with pytest.raises(TypeError, match="is no provider"):
        register_provider("openai")  # pyright: ignore[reportArgumentType]
