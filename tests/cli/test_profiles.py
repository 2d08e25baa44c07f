"""`any-agent profiles`."""

from __future__ import annotations

import json

import pytest

from .support import Home

SETTINGS = '[gw]\nprovider = "openai"\nmodel = "big"\nbase_url = "https://gw.example/v1"\napi_key_env_var = "GW_KEY"\n'


@pytest.mark.row("C13")
def test_names_are_listed_with_the_places_of_their_keys(home: Home) -> None:
    file = home.folder / ".config" / "any-agent" / "providers.toml"
    file.write_text(SETTINGS, "utf-8")
    (home.folder / "any-agent.toml").write_text(
        '[odd]\nprovider = "nix"\n[free]\nprovider = "openai"\nbase_url = "http://gw"\n'
    )
    result = home.run("profiles", GW_KEY="the secret", XDG_CONFIG_HOME="", ANY_AGENT_CONFIG="")
    assert (result.code, result.err) == (0, "")
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in result.out.splitlines()}
    assert rows["gw"] == ["openai", "big", "https://gw.example/v1", "GW_KEY is there", str(file)]
    assert rows["odd"][3] == "Unknown provider 'nix'"
    assert rows["free"][3] == "missing: api_key_env_var names it"
    assert rows["openai"][3:] == ["OPENAI_API_KEY is missing", "built in"]
    assert rows["ollama"][3] == "OLLAMA_API_KEY is not there, and not needed"
    assert rows["lmstudio"] == ["lmstudio", "-", "http://localhost:1234/v1", "none needed", "built in"]
    assert "the secret" not in result.out


@pytest.mark.row("C13")
def test_names_are_listed_as_json(home: Home) -> None:
    (home.folder / "any-agent.toml").write_text(SETTINGS, "utf-8")
    result = home.run("profiles", "--json", GW_KEY="the secret")
    first, *others = json.loads(result.out)["profiles"]
    assert first == {
        "name": "gw",
        "provider": "openai",
        "model": "big",
        "base_url": "https://gw.example/v1",
        "key": {"kind": "variable", "name": "GW_KEY", "required": True, "found": True},
        "file": str(home.folder / "any-agent.toml"),
        "problem": None,
    }
    assert {"openai", "local"} <= {other["name"] for other in others}
    assert "the secret" not in result.out


@pytest.mark.row("C13", "C16")
def test_a_key_in_a_file_is_one_clear_line(home: Home) -> None:
    (home.folder / "any-agent.toml").write_text('[gw]\nprovider = "openai"\napi_key = "hush"\n', "utf-8")
    complaint = home.run("profiles").complaint
    assert "any-agent.toml: [gw]: 'api_key' looks like a key" in complaint
    assert "api_key_env_var" in complaint
    assert "hush" not in complaint
