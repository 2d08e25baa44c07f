"""What can be asked from here, as `any-agent profiles` shows it."""

from __future__ import annotations

import sys

import pytest

from any_agent.orchestration.keys import KeyPlace
from any_agent.orchestration.overview import Entry, overview
from any_agent.orchestration.settings import ProviderAlias


def entry_of(alias: ProviderAlias) -> Entry:
    return overview({alias.name: alias})[0]


@pytest.mark.row("C13")
def test_an_alias_tells_where_its_key_is_and_whether_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    alias = ProviderAlias("gw", "openai", "m", "https://gw.example/v1", "GW_KEY")
    monkeypatch.delenv("GW_KEY", raising=False)
    place = KeyPlace("variable", "GW_KEY", required=True)
    assert entry_of(alias) == Entry(alias, "https://gw.example/v1", place, has_key=False)
    monkeypatch.setenv("GW_KEY", "the secret")
    assert entry_of(alias) == Entry(alias, "https://gw.example/v1", place, has_key=True)
    assert "the secret" not in repr(entry_of(alias))


@pytest.mark.row("C13")
def test_every_provider_is_there_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_OPENAI_API_KEY", raising=False)
    entries = {entry.alias.name: entry for entry in overview({})}
    assert entries["vllm"].base_url == "http://localhost:8000/v1"
    assert entries["vllm"].key.kind == "none"
    assert entries["azure"].base_url is None
    assert entries["azure"].key == KeyPlace("variable", "AZURE_OPENAI_API_KEY", required=True)
    assert entries["generic"].key == KeyPlace("none", "", required=False)


def test_what_is_wrong_with_an_alias_is_said_and_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    aliases = [
        ProviderAlias("a", "nix"),
        ProviderAlias("b", "openai", api_key_keyring="s/u"),
        ProviderAlias("c", "vllm"),
    ]
    a, b, c, *_ = overview({alias.name: alias for alias in aliases})
    assert a.problem == "Unknown provider 'nix'"
    assert "keyring is not installed" in str(b.problem)
    assert c.problem is None
