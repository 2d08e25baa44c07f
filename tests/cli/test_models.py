"""`any-agent models`: which servers run here, and what they have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from any_agent import embedded
from any_agent.adapters import probe
from any_agent.cli.models import models_command
from any_agent.testing import Received, Reply

from .support import STYLE, Backend, Home, serving

NOTHING = Reply.json({"detail": "Not Found"}, 404)
LMSTUDIO = {
    "id": "qwen3-4b",
    "type": "llm",
    "state": "loaded",
    "max_context_length": 40960,
    "loaded_context_length": 8192,
    "capabilities": ["tool_use"],
}


def lmstudio(request: Received) -> Reply:
    if request.path == "/v1/models":
        return Reply.json({"object": "list", "data": [{"id": LMSTUDIO["id"], "owned_by": "organization_owner"}]})
    return Reply.json({"data": [LMSTUDIO]}) if request.path == "/api/v0/models" else NOTHING


def vllm(request: Received) -> Reply:
    model = {"id": "gemma\x1b[31m", "owned_by": "vllm", "max_model_len": 4096}
    return Reply.json({"object": "list", "data": [model]}) if request.path == "/v1/models" else NOTHING


def locked(request: Received) -> Reply:
    return Reply.json({"error": {"message": "an api key is required", "type": "authentication_error"}}, 401)


def at(*backends: Backend) -> list[str]:
    return [word for backend in backends for word in ("--base-url", backend.url)]


@pytest.mark.row("A32", "E1")
def test_each_model_is_a_line_with_what_its_server_says_of_it(home: Home) -> None:
    with serving(lmstudio) as first, serving(vllm) as second, serving(locked) as third:
        result = home.run("models", *at(first, second, third))
    assert (result.code, result.err) == (0, "")
    assert [line.split("\t") for line in result.out.splitlines()] == [
        ["lmstudio", first.url, "qwen3-4b", "8192 of 40960 tokens", "tools"],
        ["vllm", second.url, "gemma␛[31m", "4096 tokens", "?"],
        ["local", third.url, "(wants a key: --base-url … --api-key-env NAME)", "", ""],
    ]


def test_json_is_for_programs(home: Home) -> None:
    with serving(lmstudio) as backend:
        result = home.run("models", *at(backend), "--json")
    [server] = json.loads(result.out)["servers"]
    assert (result.code, server["profile"], server["base_url"]) == (0, "lmstudio", backend.url)
    [model] = server["models"]
    assert (model["id"], model["context_window"], model["abilities"]) == ("qwen3-4b", 8192, ["tools"])


@pytest.mark.parametrize("columns", [100, 34])
def test_on_a_terminal_it_is_a_table_that_fits(home: Home, columns: int) -> None:
    with serving(vllm) as backend:
        with home.open("models", *at(backend), columns=columns) as terminal:
            assert terminal.ends() == 0
            server, model = terminal.lines
            assert server == f"vllm  {backend.url}"
            assert model.split("  ") == ["", "gemma␛[31m", "4096 tokens", "?"]
            assert STYLE.search(terminal.raw)
        with home.open("models", *at(backend), columns=columns, NO_COLOR="1") as terminal:
            assert terminal.ends() == 0
            assert b"\x1b[3" not in terminal.raw


@pytest.mark.row("C16")
def test_an_address_where_nothing_is_is_one_line(home: Home) -> None:
    with serving() as backend:
        url = backend.url
    complaint = home.run("models", "--base-url", url).complaint
    assert complaint.endswith(f"no model server answers at {url}: `any-agent doctor --base-url {url}` says why")


@pytest.mark.row("C4", "C16")
def test_a_key_goes_to_named_servers_only(home: Home) -> None:
    assert "needs --base-url" in home.run("models", "--api-key-env", "MY_KEY", MY_KEY="secret").complaint
    with serving(vllm) as backend:
        assert home.run("models", *at(backend), "--api-key-env", "MY_KEY", MY_KEY="secret").code == 0
        assert {request.headers["authorization"] for request in backend.server.requests} == {"Bearer secret"}


def found_here(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> tuple[int, str, str]:
    """What the command says on a machine with model servers at these addresses alone."""
    monkeypatch.setattr(probe, "usual_addresses", lambda: list(addresses))
    result = CliRunner().invoke(models_command, standalone_mode=False)
    words = result.exception.format_message() if result.exception else ""  # type: ignore[attr-defined]
    code: Any = 1 if result.exception else result.return_value
    return code, result.output, words


def test_without_an_address_the_usual_ones_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lmstudio) as first, serving(vllm) as second:
        code, out, _ = found_here(monkeypatch, first.url, second.url, "http://127.0.0.1:9/v1")
    assert code == 0
    assert [line.split("\t")[0] for line in out.splitlines()] == ["lmstudio", "vllm"]


def test_where_no_server_runs_it_is_said_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, words = found_here(monkeypatch)
    assert (code, out) == (1, "")
    assert words.startswith("no model server runs here; start one: LM Studio")
    assert "any-agent chat --profile embedded" in words


@pytest.mark.row("C4", "C13")
def test_servers_in_the_users_settings_are_asked_with_their_keys(
    monkeypatch: pytest.MonkeyPatch, config: Path, tmp_path: Path
) -> None:
    """Those in the settings of the current folder are not: it may be somebody else's."""
    with serving(vllm) as office, serving(vllm) as here, serving(vllm) as foreign:
        alias = '[{}]\nprovider = "openai"\nbase_url = "{}"\napi_key_env_var = "OFFICE_KEY"\n'
        away = alias.format("away", "http://127.0.0.1:9/v1")
        (config / "providers.toml").write_text(alias.format("office", office.url) + away)
        (tmp_path / "any-agent.toml").write_text(alias.format("foreign", foreign.url))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("OFFICE_KEY", "secret")
        code, out, _ = found_here(monkeypatch, here.url, office.url)
        listed = [line.split("\t")[1] for line in out.splitlines() if "\t" in line]
        assert (code, listed) == (0, [here.url, office.url])
        assert "no model server answers at http://127.0.0.1:9/v1" in out
        assert {request.headers.get("authorization") for request in here.server.requests} == {None}
        assert "Bearer secret" in {request.headers.get("authorization") for request in office.server.requests}
        assert not foreign.server.requests


@pytest.mark.real_server
def test_the_embedded_server_is_listed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANY_AGENT_CACHE", home.environment["ANY_AGENT_CACHE"])
    with embedded.lease() as server:
        arguments = ("models", "--base-url", server.base_url, "--api-key-env", "MY_KEY")
        result = home.run(*arguments, MY_KEY=server.api_key)
    [line] = result.out.splitlines()
    assert line.split("\t")[:4] == ["llamacpp", server.base_url, "smollm2", "4096 of 8192 tokens"]
    assert server.api_key not in result.out
