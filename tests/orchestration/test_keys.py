"""Where keys are looked for, and where they never go."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from any_agent.errors import ProviderAuthError
from any_agent.orchestration import AgentConfig
from any_agent.orchestration.keys import KeyPlace, find_key, key_place, wire_profile
from any_agent.profiles import get_profile

OPENAI = "https://api.openai.com/v1"
GATEWAY = "https://gateway.example/v1"
#: as the library `keyring` behaves: it has entries, or it fails
KEYRING = """
def get_password(service, user):
    from keyring.errors import NoKeyringError
    if service == "locked":
        raise NoKeyringError("no backend")
    return {("https://x.example", "me"): "from-the-keyring"}.get((service, user))
"""


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keyring").mkdir()
    (tmp_path / "keyring" / "__init__.py").write_text(KEYRING, "utf-8")
    errors = "class KeyringError(Exception): ...\nclass NoKeyringError(KeyringError): ...\n"
    (tmp_path / "keyring" / "errors.py").write_text(errors, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("keyring", "keyring.errors"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def config(**more: str) -> AgentConfig:
    return AgentConfig("a", "openai", "m", **more)


@pytest.mark.row("C4")
def test_the_key_of_the_program_comes_before_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " of the environment\n")
    monkeypatch.setenv("MY_KEY", "mine")
    openai = get_profile("openai")
    assert find_key(config(api_key="given", api_key_env="MY_KEY"), openai, OPENAI) == "given"
    assert find_key(config(api_key_env="MY_KEY"), openai, OPENAI) == "mine"
    assert find_key(config(), openai, OPENAI) == "of the environment"


@pytest.mark.row("C4")
def test_without_a_key_it_is_said_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("MY_KEY", "")
    with pytest.raises(ProviderAuthError, match=r"no key for api\.openai\.com: set .* OPENAI_API_KEY"):
        find_key(config(), get_profile("openai"), OPENAI)
    with pytest.raises(ProviderAuthError, match="set the environment variable MY_KEY"):
        find_key(config(api_key_env="MY_KEY"), get_profile("openai"), "http://localhost:1234/v1")


@pytest.mark.row("C4")
def test_the_key_of_a_service_goes_to_no_other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "for openai alone")
    openai = get_profile("openai")
    with pytest.raises(ProviderAuthError, match=r"gateway\.example, and the one in OPENAI_API_KEY is not for it"):
        find_key(config(), openai, GATEWAY)
    assert find_key(config(), openai, "http://127.0.0.1:8000/v1") is None
    assert find_key(config(api_key_env="OPENAI_API_KEY"), openai, GATEWAY) == "for openai alone"


@pytest.mark.row("C4")
def test_a_service_that_speaks_like_openai_has_its_own_variable() -> None:
    place = key_place(get_profile("openai"), "https://openrouter.ai/api/v1")
    assert place == KeyPlace("variable", "OPENROUTER_API_KEY", required=True)


@pytest.mark.row("C4")
@pytest.mark.parametrize(
    ("profile", "base_url", "required"),
    [
        ("openai", "http://localhost:1234/v1", False),
        ("openai", "http://[::1]:1234/v1", False),
        ("openai", "http://192.168.1.7:1234/v1", True),
        ("anthropic", "http://127.0.0.1:9/v1", False),
        ("local", "http://192.168.1.7:1234/v1", False),
        ("vllm", GATEWAY, False),
        ("ollama", "http://192.168.1.7:11434", False),
        ("ollama", "http://localhost:11434", False),
        ("ollama", "https://ollama.com", True),
        ("litellm", GATEWAY, False),
        ("generic", GATEWAY, False),
        ("openrouter", GATEWAY, True),
    ],
)
def test_servers_of_ones_own_need_no_key(profile: str, base_url: str, required: bool) -> None:
    assert key_place(get_profile(profile), base_url).required is required


@pytest.mark.parametrize(
    ("profile", "base_url", "found"),
    [
        ("openai", OPENAI, "openai"),
        ("openai", "http://localhost:11434/v1", "ollama-openai"),
        ("openai", GATEWAY, "generic"),
        ("vllm", "http://localhost:11434/v1", "vllm"),
    ],
)
def test_openai_stands_for_all_that_speak_like_it(profile: str, base_url: str, found: str) -> None:
    assert wire_profile(get_profile(profile), base_url).name == found


@pytest.mark.row("C4")
@pytest.mark.usefixtures("keyring")
def test_a_key_may_be_in_the_keyring() -> None:
    openai = get_profile("openai")
    assert find_key(config(api_key_keyring="https://x.example/me"), openai, GATEWAY) == "from-the-keyring"
    with pytest.raises(ProviderAuthError, match=r"the keyring has no entry 'x/you' \(`keyring set x you`\)"):
        find_key(config(api_key_keyring="x/you"), openai, GATEWAY)
    with pytest.raises(ProviderAuthError, match=r"does not give the entry 'locked/me' \(NoKeyringError\)"):
        find_key(config(api_key_keyring="locked/me"), openai, GATEWAY)


@pytest.mark.row("C4")
def test_without_the_library_the_keyring_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ProviderAuthError, match=r"pip install \"any-agent-sdk\[keyring\]\""):
        find_key(config(api_key_keyring="x/you"), get_profile("openai"), OPENAI)
