"""Finding servers: which they are, what they have, and what is no model server at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from any_agent import ProviderAPIError
from any_agent.adapters import probe
from any_agent.adapters.discovery import (
    START_ONE,
    FoundModel,
    FoundServer,
    advice,
    is_listing,
    read_abilities,
    read_models,
    read_window,
)
from any_agent.adapters.probe import find_servers, usual_addresses
from any_agent.profiles import get_profile, is_loopback, list_profiles
from any_agent.testing import HANG, RESET, Received, Reply, ScriptedServer

NOT_FOUND = Reply.json({"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}, 404)
PAGE = Reply([b"<!doctype html><title>App</title>"], headers={"Content-Type": "text/html"})
#: LM Studio answers like this to whatever it does not know, with status 200
UNEXPECTED = Reply.json({"error": "Unexpected endpoint or method. (GET /). Returning 200 anyway"})
CAPS = {"supports_tools": True, "supports_tool_calls": True, "supports_reasoning_effort": False}
PROPS = {
    "default_generation_settings": {"n_ctx": 4096},
    "modalities": {"vision": True, "audio": False},
    "chat_template_caps": CAPS,
}


def site(pages: dict[str, Reply], other: Reply = NOT_FOUND) -> Callable[[Received], Reply]:
    """A server that knows these paths."""
    return lambda request: pages.get(request.path, other)


def listing(*models: dict[str, Any], **headers: str) -> Reply:
    return Reply.json({"object": "list", "data": [{"object": "model", **model} for model in models]}, **headers)


async def found(script: Callable[[Received], Reply] | Reply, path: str = "", limit: float = 5.0) -> FoundServer | None:
    async with ScriptedServer(script) as server:
        servers = await find_servers([f"{server.address}{path}"], limit=limit)
        assert all(item.base_url.startswith(server.address) for item in servers)
    return servers[0] if servers else None


# ---- which server it is, and what it has


@pytest.mark.row("A32", "E1")
async def test_lmstudio_tells_what_is_loaded_and_what_could_be() -> None:
    studio = [
        {"id": "qwen3", "type": "llm", "capabilities": ["tool_use"], "state": "loaded"}
        | {"max_context_length": 32768, "loaded_context_length": 8192},
        {"id": "gemma-3", "type": "vlm", "state": "not-loaded", "max_context_length": 131072},
        {"id": "nomic", "type": "embeddings", "state": "not-loaded", "max_context_length": 2048},
    ]
    pages = {
        "/v1/models": listing(*({"id": item["id"], "owned_by": "organization_owner"} for item in studio)),
        "/api/v0/models": Reply.json({"object": "list", "data": studio}),
    }
    async with ScriptedServer(site(pages, UNEXPECTED)) as server:
        [lmstudio] = await find_servers([server.address])
        asked = [request.path for request in server.requests]
    assert asked == ["/v1/models", "/api/v0/models"], "each other path is an error in its log"
    assert (lmstudio.profile, lmstudio.base_url, lmstudio.protocol) == ("lmstudio", server.url, "openai")
    assert lmstudio.models == [
        FoundModel("qwen3", 8192, 32768, ("tools",)),
        FoundModel("gemma-3", None, 131072, ("vision",)),
        FoundModel("nomic", None, 2048, ("embedding",)),
    ]
    assert lmstudio.state == "ready"


@pytest.mark.row("A32", "E1")
async def test_ollama_tells_what_it_loaded_and_what_each_model_can() -> None:
    shown = {
        "qwen3:latest": {
            "capabilities": ["completion", "tools", "thinking"],
            "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
        },
        "gemma:2b": {"capabilities": ["completion"], "model_info": {"gemma.context_length": 8192}},
    }

    def ollama(request: Received) -> Reply:
        if request.path == "/api/show":
            name = request.json["model"]
            return Reply.json(shown[name]) if name in shown else Reply.json({"error": "model not found"}, 404)
        pages = {
            "/v1/models": listing(*({"id": name, "owned_by": "hf.co"} for name in (*shown, "broken:1b"))),
            "/api/version": Reply.json({"version": "0.12.6"}),
            "/api/ps": Reply.json(
                {"models": [{"name": "qwen3:latest", "model": "qwen3:latest", "context_length": 4096}]}
            ),
        }
        return pages.get(request.path, Reply([b"404 page not found"], 404, {"Content-Type": "text/plain"}))

    async with ScriptedServer(ollama) as server:
        [native] = await find_servers([server.address])
        [same] = await find_servers([f"{server.address}/api"])
        [openai] = await find_servers([f"{server.url}/"])
    assert (native.profile, native.protocol, native.base_url) == ("ollama", "ollama", server.address)
    assert same == native
    assert (openai.profile, openai.protocol, openai.base_url) == ("ollama-openai", "openai", server.url)
    assert (
        openai.models
        == native.models
        == [
            FoundModel("qwen3:latest", 4096, 40960, ("tools", "thinking")),
            FoundModel("gemma:2b", None, 8192, ()),
            FoundModel("broken:1b", None, None, None),
        ]
    )


@pytest.mark.row("A32")
async def test_ollama_without_a_model_is_a_server() -> None:
    pages = {
        "/v1/models": Reply.json({"object": "list", "data": None}),
        "/api/version": Reply.json({"version": "0.12.6"}),
    }
    ollama = await found(site(pages))
    assert ollama is not None
    assert (ollama.profile, ollama.models, ollama.choice()) == ("ollama", [], None)


@pytest.mark.row("A32", "E1")
@pytest.mark.parametrize(
    ("models", "headers"),
    [
        pytest.param({"owned_by": "llamacpp", "meta": {"n_ctx": 4096, "n_ctx_train": 8192}}, {}, id="signature"),
        pytest.param({"owned_by": "me", "meta": {"n_ctx_train": 8192}}, {"Server": "llama.cpp"}, id="header"),
        pytest.param({"meta": {"n_ctx_train": 8192}}, {}, id="props"),
    ],
)
async def test_llamacpp_is_recognised_and_tells_its_window(models: dict[str, Any], headers: dict[str, str]) -> None:
    pages = {"/v1/models": listing({"id": "smollm2", **models}, **headers), "/props": Reply.json(PROPS)}
    llamacpp = await found(site(pages))
    assert llamacpp is not None
    assert llamacpp.profile == "llamacpp"
    assert llamacpp.models == [FoundModel("smollm2", 4096, 8192, ("tools", "vision"))]


async def test_router_of_llamacpp_is_not_asked_about_one_model() -> None:
    models = [
        {"id": name, "owned_by": "llamacpp", "meta": {"n_ctx": size}} for name, size in (("a", 1024), ("b", 2048))
    ]
    router = await found(site({"/v1/models": listing(*models), "/props": Reply.json(PROPS)}))
    assert router is not None
    assert router.models == [FoundModel("a", 1024), FoundModel("b", 2048)]


@pytest.mark.row("A32", "E1")
@pytest.mark.parametrize(
    ("owner", "profile"),
    [("vllm", "vllm"), ("sglang", "sglang"), ("koboldcpp", "koboldcpp"), ("tabbyAPI", "tabbyapi"), ("openai", "local")],
)
async def test_servers_that_share_ports_are_told_apart_by_their_signature(owner: str, profile: str) -> None:
    item = {"id": "org/model", "owned_by": owner, "max_model_len": 16384}
    # KoboldCpp answers at the paths of Ollama and of llama.cpp, too
    emulated = (
        {"/props": Reply.json(PROPS), "/api/version": Reply.json({"version": "0.7.0"})} if owner != "openai" else {}
    )
    server = await found(site({"/v1/models": listing(item), **emulated}))
    assert server is not None
    assert (server.profile, server.models) == (profile, [FoundModel("org/model", 16384)])


async def test_lmstudio_is_recognised_without_its_signature() -> None:
    pages = {
        "/v1/models": listing({"id": "qwen3"}),
        "/api/v0/models": Reply.json({"data": [{"id": "qwen3", "type": "llm", "max_context_length": 32768}]}),
    }
    server = await found(site(pages, UNEXPECTED))
    assert server is not None
    assert (server.profile, server.models) == ("lmstudio", [FoundModel("qwen3", None, 32768)])


@pytest.mark.parametrize("body", [b"", b'{"object": "list", "data": [{"id": "mlx-community/x", "object": "model"}]}'])
async def test_mlx_is_known_by_its_header_also_where_it_lists_nothing(body: bytes) -> None:
    headers = {"Server": "BaseHTTP/0.6 Python/3.11.7", "Content-type": "application/json"}
    server = await found(site({"/v1/models": Reply([body], headers=headers)}))
    assert server is not None
    assert (server.profile, len(server.models)) == ("mlx", int(bool(body)))


async def test_gateway_below_another_path_tells_what_its_models_can() -> None:
    item = {
        "id": "org/model",
        "context_length": 131072,
        "architecture": {"input_modalities": ["text", "image"]},
        "supported_parameters": ["tools", "reasoning", "seed"],
    }
    server = await found(site({"/gateway/openai/models": listing(item)}), "/gateway/openai")
    assert server is not None
    assert server.base_url.endswith("/gateway/openai")
    assert server.models == [FoundModel("org/model", 131072, None, ("tools", "thinking", "vision"))]


# ---- servers that do not say what they have


KEY_WANTED = [
    ("llamacpp", {"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}}),
    ("local", {"detail": "Please provide an API key"}),
    ("local", {"error": {"message": "No token", "type": "invalid_request_error", "code": None}}),
    ("vllm", {"error": "Unauthorized"}),
]


@pytest.mark.row("http_auth")
@pytest.mark.parametrize(("profile", "body"), KEY_WANTED, ids=["llama.cpp", "TabbyAPI", "LM Studio", "vLLM"])
async def test_server_that_wants_a_key_is_found(profile: str, body: dict[str, Any]) -> None:
    pages = {
        "llamacpp": {"/health": Reply.json({"status": "ok"}, Server="llama.cpp")},
        "vllm": {"/version": Reply.json({"version": "0.32.0"})},
    }.get(profile, {})
    server = await found(site({"/v1/models": Reply.json(body, 401), **pages}))
    assert server is not None
    assert (server.profile, server.state, server.models) == (profile, "needs_key", [])


@pytest.mark.row("http_503_loading")
async def test_server_that_still_loads_is_found() -> None:
    loading = Reply.json({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503)
    server = await found(loading)
    assert server is not None
    assert (server.state, server.models) == ("loading", [])


# ---- what is no model server


@pytest.mark.row("html_body")
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(PAGE, id="web page"),
        pytest.param(Reply([b"<html>api key</html>"], 401, {"Content-Type": "text/html"}), id="login page"),
        pytest.param(Reply([b"<html>Loading model</html>"], 503, {"Content-Type": "text/html"}), id="error page"),
        pytest.param(NOT_FOUND, id="404"),
        pytest.param(Reply.json({"detail": "Not authenticated"}, 401), id="another API"),
        pytest.param(Reply.json({"error": "unauthorized"}, 401), id="another API with errors"),
        pytest.param(Reply([], 403, {"Server": "AirTunes/870.14.1"}), id="AirPlay"),
        pytest.param(Reply.json({"data": [{"id": 7, "name": "Corolla"}]}), id="a list of other models"),
        pytest.param(Reply.json([]), id="an empty list"),
        pytest.param(Reply.json({"data": {"models": "none"}}), id="odd types"),
        pytest.param(UNEXPECTED, id="an error with status 200"),
        pytest.param(Reply([b"{"], headers={"Content-Type": "application/json"}), id="half JSON"),
        pytest.param(Reply([], headers={"Content-Type": "application/json"}), id="nothing"),
        pytest.param(Reply([], 302, {"Location": "https://example.org/v1/models"}), id="redirect"),
        pytest.param(Reply([RESET]), id="reset"),
        pytest.param(Reply([b'{"object": "list", ', RESET]), id="reset in the middle"),
    ],
)
async def test_what_is_no_model_server_is_not_found(reply: Reply) -> None:
    assert await found(reply) is None


@pytest.mark.row("http_read_stall")
async def test_server_that_falls_silent_is_left() -> None:
    async with ScriptedServer(Reply([b'{"object": "list", ', HANG])) as server:
        assert await find_servers([server.address], limit=0.2) == []
        await server.disconnected()


async def test_refused_connections_and_what_speaks_no_http_are_nothing() -> None:
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await find_servers([f"http://127.0.0.1:{port}"]) == []
    assert await find_servers([f"http://127.0.0.1:{port}"]) == []


async def test_bad_address_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="must begin with http"):
        await find_servers(["localhost:1234"])


# ---- where is asked, and with which key


@pytest.mark.row("E6")
def test_the_usual_addresses_are_on_this_machine_and_cover_every_local_profile() -> None:
    addresses = usual_addresses()
    assert all(is_loopback(urlsplit(address).hostname or "") for address in addresses)
    assert len({urlsplit(address).netloc for address in addresses}) == len(addresses)
    local = [get_profile(name) for name in list_profiles() if get_profile(name).local]
    ports = {urlsplit(profile.base_url).port for profile in local if profile.base_url}
    assert ports == {urlsplit(address).port for address in addresses}
    assert {1234, 11434, 8080, 8000} <= ports


@pytest.mark.row("E6", "C4")
async def test_without_addresses_the_usual_ones_are_asked_and_no_key_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_API_KEY", "sk-secret-of-litellm")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-openai")
    async with ScriptedServer(listing({"id": "a"})) as one, ScriptedServer(PAGE) as page:
        async with ScriptedServer(listing({"id": "b"})) as other:
            monkeypatch.setattr(probe, "usual_addresses", lambda: [one.address, page.address, other.address])
            servers = await find_servers()
    assert [[model.id for model in server.models] for server in servers] == [["a"], ["b"]]
    sent = [value for server in (one, page, other) for request in server.requests for value in request.headers.items()]
    assert not [value for value in sent if "secret" in value[1] or value[0] == "authorization"]


@pytest.mark.row("C4")
async def test_key_goes_to_addresses_that_are_named_and_nowhere_else() -> None:
    async with ScriptedServer(listing({"id": "a"})) as server:
        assert await find_servers([server.address], api_key="sk-mine")
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer sk-mine"}
    with pytest.raises(ValueError, match="addresses that are named"):
        await find_servers(api_key="sk-mine")


async def test_all_addresses_are_asked_at_once() -> None:
    everyone = asyncio.Event()
    reply = listing({"id": "a", "owned_by": "vllm"})
    waiting = Reply([everyone, *reply.steps], headers=reply.headers)
    async with ScriptedServer(waiting) as one, ScriptedServer(waiting) as other:
        asking = asyncio.create_task(find_servers([one.address, other.address], limit=30))
        await asyncio.gather(one.received(), other.received())
        everyone.set()
        assert len(await asking) == 2


# ---- reading


def test_choice_is_a_model_that_is_loaded_and_can_chat() -> None:
    embedding = FoundModel("embed", 2048, None, ("embedding",))
    unloaded, loaded = FoundModel("big", None, 32768), FoundModel("small", 4096, 8192)
    server = FoundServer("lmstudio", "http://localhost:1234/v1", models=[embedding, unloaded, loaded])
    assert server.choice() is loaded
    server.models.remove(loaded)
    assert server.choice() is unloaded
    server.models.remove(unloaded)
    assert server.choice() is None


@pytest.mark.parametrize(
    ("items", "abilities"),
    [
        ([{}], None),
        ([{"type": "llm"}], None),
        ([{"capabilities": ["completion"]}], ()),
        ([{"capabilities": {"vision": True, "trained_for_tool_use": False}}], ("vision",)),
        ([{"capabilities": {"function_calling": True, "reasoning": {"allowed": ["on"]}}}], ("tools", "thinking")),
        ([{"capabilities": 7, "architecture": "qwen3", "modalities": None}], ()),
        ([{"type": "embeddings"}, {"capabilities": ["tools"]}], ("tools", "embedding")),
        ([{"chat_template_caps": {"supports_tools": False}}], ()),
    ],
)
def test_abilities_are_read_in_the_words_of_each_server(items: list[dict[str, Any]], abilities: Any) -> None:
    assert read_abilities(*items) == abilities


def test_listings_are_told_from_other_lists() -> None:
    assert is_listing(b'{"data": [{"type": "model", "id": "claude"}]}')
    assert is_listing(b'[{"object": "model", "id": "together"}]')
    assert not is_listing(b'{"object": "list"}')
    assert not is_listing(b"no JSON")


@pytest.mark.parametrize("body", [b"<html>", b"", b'{"error": "no"}', b"7"])
def test_what_is_no_list_of_models_is_an_error_that_says_so(body: bytes) -> None:
    with pytest.raises(ProviderAPIError, match="not with a list of models: is base_url right"):
        read_models(body, "http://localhost")


@pytest.mark.row("E1")
def test_window_that_is_loaded_comes_before_what_could_be() -> None:
    item = b'{"data": [{"id": "a", "max_context_length": 32768, "loaded_context_length": 8192}]}'
    assert read_models(item, "http://localhost")[0].context_window == 8192
    assert read_window(item, "a") == 8192
    assert read_window(b'{"data": [{"id": "a", "max_context_length": 32768}]}', "a") is None
    assert read_window(b"no JSON", "a") is None


def test_advice_is_for_the_server_at_hand() -> None:
    assert "--jinja" in advice("tools", "llamacpp") == advice("tools", "embedded")
    assert "--tool-call-parser" in advice("tools", "vllm")
    assert "OLLAMA_CONTEXT_LENGTH" in advice("window", "ollama-openai") != advice("window", "ollama")
    assert "slider" in advice("window", "lmstudio")
    assert advice("models", "ollama-openai") == advice("models", "ollama")
    assert advice("thinking", "generic")
    assert "LM Studio" in START_ONE
