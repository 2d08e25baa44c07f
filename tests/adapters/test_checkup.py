"""The checkup tells the truth about servers that behave, and about those that do not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from adapters.scripts import (
    NUMBERS,
    PAGE,
    USAGE,
    Answers,
    asks_for,
    calls,
    good,
    listing,
    paced,
    refusal,
    script,
    text,
)
from any_agent.adapters import checkup as checkup_module
from any_agent.adapters import probe
from any_agent.adapters.checkup import BASIC, CHECKS, Check, checkup
from any_agent.testing import HANG, Received, Reply, ScriptedServer, chat_events, sse
from any_agent.testing.server import Step


async def examine(server: ScriptedServer, path: str = "", model: str | None = None, **more: Any) -> dict[str, Check]:
    """All checks by name; whatever happened, each comes once, in order, and has something to say."""
    more = {"limit": 10.0, **more}
    checks = [check async for check in checkup(f"{server.address}{path}", model, **more)]
    assert tuple(check.name for check in checks) == CHECKS
    assert all(check.found for check in checks)
    failed = next((check.name for check in checks if check.name in BASIC and check.state == "failed"), None)
    if failed is not None:
        rest = checks[CHECKS.index(failed) + 1 :]
        assert {(check.state, check.found) for check in rest} <= {("skipped", f"not tried, since {failed!r} failed")}
    return {check.name: check for check in checks}


async def examined(answers: Answers | Reply, path: str = "", model: str | None = None, **more: Any) -> dict[str, Check]:
    async with ScriptedServer(answers) as server:  # type: ignore[arg-type]
        return await examine(server, path, model, **more)


def states(checks: dict[str, Check]) -> dict[str, str]:
    return {name: check.state for name, check in checks.items()}


# ---- a server with which all is well


@pytest.mark.row("A32", "E1")
async def test_all_is_well() -> None:
    async with ScriptedServer(script()) as server:
        checks = await examine(server)
        await server.disconnected()
    assert states(checks) == {**dict.fromkeys(CHECKS, "ok"), "cancellation": "unknown"}
    assert checks["reachable"].found == f"vllm at {server.url}"
    assert checks["key"].found == "none is needed"
    assert checks["model"].found == "qwen3"
    assert checks["streaming"].found.startswith("4 pieces, the first after")
    assert checks["usage"].found == "9 tokens in, 4 out"
    assert checks["tool call"].found == "the model called get_weather({'city': 'Oslo'})"
    assert checks["parallel calls"].found == "2 calls in one answer"
    assert checks["cancellation"].found == "the connection was dropped; the server does not tell what it did then"
    assert checks["context window"].found == "16384 tokens"
    assert not any(check.remedy for check in checks.values())


async def test_questions_are_short_and_at_temperature_0() -> None:
    async with ScriptedServer(script()) as server:
        await examine(server)
    questions = [request.json for request in server.requests if request.method == "POST"]
    assert len(questions) == 6
    assert {question["temperature"] for question in questions} == {0}
    assert max(question["max_tokens"] for question in questions) <= 512


# ---- reachable


async def test_nothing_listens() -> None:
    async with ScriptedServer(PAGE) as server:
        pass
    checks = await examine(server)
    assert checks["reachable"].state == "failed"
    assert "Nothing listens at 127.0.0.1" in checks["reachable"].found
    assert "start the server" in checks["reachable"].remedy


@pytest.mark.row("html_body")
async def test_web_page_is_no_server_also_if_a_model_is_named() -> None:
    for model in (None, "qwen3"):
        checks = await examined(PAGE, model=model)
        assert checks["reachable"].state == "failed"
        assert "HTML page: App" in checks["reachable"].found
        assert "/v1" in checks["reachable"].remedy


@pytest.mark.row("html_body")
async def test_error_page_of_a_proxy_blames_what_is_behind_it() -> None:
    bad_gateway = Reply([b"<html><h1>502 Bad Gateway</h1></html>"], 502, {"Content-Type": "text/html"})
    checks = await examined(bad_gateway, model="qwen3")
    assert checks["reachable"].state == "failed"
    assert "502 Bad Gateway" in checks["reachable"].found
    assert "behind" in checks["reachable"].remedy


@pytest.mark.row("A32")
async def test_wrong_path_is_put_right() -> None:
    unexpected = Reply.json({"error": "Unexpected endpoint or method. (GET /api/models). Returning 200 anyway"})
    async with ScriptedServer(script(pages={"/openai/models": unexpected})) as server:
        checks = await examine(server, "/openai")
    assert checks["reachable"].state == "failed"
    assert checks["reachable"].remedy == f"give {server.url} as base_url"


async def test_redirect_is_not_followed_but_named() -> None:
    checks = await examined(Reply([], 301, {"Location": "https://example.org/v1"}))
    assert checks["reachable"].state == "failed"
    assert "https://example.org/v1" in checks["reachable"].found


@pytest.mark.row("http_error_plain")
async def test_server_that_cannot_list_its_models_is_checked_if_one_is_named() -> None:
    broken = Reply([b"Internal Server Error"], 500, {"Content-Type": "text/plain"})
    checks = await examined(script(models=broken))
    assert states(checks)["reachable"] == "limited"
    assert (checks["key"].state, checks["model"].state) == ("unknown", "failed")
    assert checks["model"].remedy == "name one with -m"
    checks = await examined(script(models=broken), model="qwen3")
    assert "does not list its models (Internal Server Error" in checks["reachable"].found
    assert (checks["model"].state, checks["streaming"].state, checks["tool call"].state) == ("ok", "ok", "ok")
    assert checks["context window"].state == "unknown"


@pytest.mark.row("http_read_stall")
async def test_server_that_does_not_even_list_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_LISTING_S", 0.1)
    monkeypatch.setattr(checkup_module, "_PROBE_S", 0.1)
    checks = await examined(Reply([b"{", HANG]))
    assert checks["reachable"].state == "failed"
    assert "within 0.1 s" in checks["reachable"].found


@pytest.mark.row("http_503_loading")
async def test_model_that_still_loads_is_waited_for() -> None:
    loading = refusal("Loading model", 503)
    seen: list[str] = []

    def answer(request: Received) -> Reply:
        seen.append(request.method)
        return loading if request.method == "GET" or seen.count("POST") == 1 else good(asks_for(request))

    checks = await examined(answer, model="qwen3")
    assert (checks["reachable"].state, checks["streaming"].state) == ("ok", "ok")


# ---- key


@pytest.mark.row("http_auth", "C4")
async def test_key_that_is_wanted_or_wrong() -> None:
    denied = Reply.json({"error": {"message": "Invalid API Key", "type": "authentication_error"}}, 401)
    checks = await examined(denied)
    assert (checks["reachable"].state, checks["key"].state) == ("ok", "failed")
    assert checks["key"].found.startswith("a key is wanted: Invalid API Key")
    assert "--api-key-env" in checks["key"].remedy
    checks = await examined(denied, api_key="sk-this-is-wrong")
    assert checks["key"].found.startswith("the key is refused: ")
    assert "sk-this-is-wrong" not in str(checks)


@pytest.mark.row("http_auth")
async def test_key_is_wanted_by_a_server_whose_list_is_public() -> None:
    checks = await examined(script(first=refusal("Invalid API Key", 401)))
    assert (checks["reachable"].state, checks["key"].state) == ("ok", "failed")


async def test_key_that_is_accepted() -> None:
    async with ScriptedServer(script()) as server:
        checks = await examine(server, api_key="sk-right")
    assert (checks["key"].state, checks["key"].found) == ("ok", "accepted")
    assert {request.headers.get("authorization") for request in server.requests} == {"Bearer sk-right"}


# ---- model


@pytest.mark.row("http_404")
async def test_model_that_is_not_there() -> None:
    missing = Reply.json({"error": {"message": "The model `qwen9` does not exist.", "type": "NotFoundError"}}, 404)
    checks = await examined(script(first=missing), model="qwen9")
    assert checks["model"].state == "failed"
    assert "qwen9" in checks["model"].found
    assert checks["model"].remedy == "take one that it has: qwen3"


async def test_name_that_the_server_ignores() -> None:
    checks = await examined(script(), model="gpt-4")
    assert checks["model"].state == "limited"
    assert checks["model"].found == "'gpt-4' is not in the list (qwen3), but the server answers, as 'scripted'"


async def test_name_that_is_not_in_the_list_of_a_server_that_does_not_answer() -> None:
    checks = await examined(script(first=Reply.json({"error": "boom"}, 500)), model="qwen9")
    assert (checks["model"].state, checks["model"].found) == ("unknown", "'qwen9' is not in the list (qwen3)")
    assert (checks["streaming"].state, "boom" in checks["streaming"].found) == ("failed", True)


async def test_first_model_that_can_chat_is_taken_and_that_is_said() -> None:
    models = listing({"id": "embed", "type": "embedding"}, {"id": "a"}, {"id": "b", "context_length": 9000})
    async with ScriptedServer(script(models=models)) as server:
        checks = await examine(server)
    assert checks["model"].found == "b, the first of 3"
    assert {request.json["model"] for request in server.requests if request.method == "POST"} == {"b"}


@pytest.mark.parametrize("models", [(), ({"id": "embed", "capabilities": ["embedding"]},)])
async def test_server_without_a_model_that_can_chat(models: Any) -> None:
    checks = await examined(script(models=listing(*models)))
    assert checks["model"].state == "failed"
    assert checks["model"].found == "the server has none that can chat"
    assert checks["model"].remedy


# ---- streaming and usage


@pytest.mark.row("json_not_sse")
async def test_server_that_ignores_stream() -> None:
    whole = Reply.json({"choices": [{"message": {"content": "1 2 3"}, "finish_reason": "stop"}], "usage": USAGE})
    checks = await examined(script(first=whole))
    assert checks["streaming"].state == "limited"
    assert "one piece: the server ignores stream=true" in checks["streaming"].found
    assert checks["usage"].state == "ok"
    assert checks["cancellation"].state == "unknown"
    assert "all at once" in checks["cancellation"].found


async def test_server_that_sends_one_delta() -> None:
    checks = await examined(script(first=text("1 2 3 4")))
    assert checks["streaming"].state == "limited"
    assert "one piece: the server sends it in one event" in checks["streaming"].found


async def test_proxy_that_holds_the_answer_back() -> None:
    checks = await examined(script(first=Reply([b"".join(chat_events(*NUMBERS, usage=USAGE))])))
    assert checks["streaming"].state == "limited"
    assert "all at once, at the end" in checks["streaming"].found
    assert "proxy" in checks["streaming"].remedy


@pytest.mark.row("content_cumulative", "A11")
async def test_server_that_repeats_the_text_so_far() -> None:
    checks = await examined(script(first=text("1 ", "1 2 ", "1 2 3 ", "1 2 3 4 ")))
    assert checks["streaming"].state == "limited"
    assert "repeats all the text so far" in checks["streaming"].found
    assert checks["cancellation"].found.startswith("the connection was dropped")


@pytest.mark.row("empty_success", "E11")
async def test_stream_without_anything_in_it() -> None:
    checks = await examined(script(first=paced(chat_events(usage=USAGE))))
    assert checks["streaming"].state == "failed"
    assert "nothing at all" in checks["streaming"].found


@pytest.mark.row("error_in_stream", "error_200_json")
@pytest.mark.parametrize(
    "reply",
    [
        Reply(sse({"error": {"message": "CUDA out of memory", "code": 500}}, done=False)),
        Reply.json({"error": "CUDA out of memory"}),
        Reply([*chat_events("1 ")[:2], *sse({"error": {"message": "CUDA out of memory"}})]),
    ],
    ids=["event", "body", "in the middle"],
)
async def test_error_inside_a_good_status(reply: Reply) -> None:
    checks = await examined(script(first=reply))
    assert checks["streaming"].state == "failed"
    assert "CUDA out of memory" in checks["streaming"].found
    assert checks["key"].state in ("ok", "unknown")


@pytest.mark.row("eof_truncated")
async def test_stream_that_breaks_off() -> None:
    checks = await examined(script(first=Reply(chat_events("1 ")[:2])))
    assert checks["streaming"].state == "failed"
    assert "cut off" in checks["streaming"].found


@pytest.mark.row("http_read_stall")
async def test_server_that_falls_silent_after_its_headers() -> None:
    async with ScriptedServer(script(first=Reply([b"", HANG]))) as server:
        checks = await examine(server, limit=0.3)
        await server.disconnected()
    assert checks["streaming"].state == "failed"
    assert "sent nothing for 0.3 s" in checks["streaming"].found
    assert checks["key"].state == "unknown"


@pytest.mark.row("http_read_stall")
async def test_answer_that_never_ends_is_given_up() -> None:
    endless: list[Step] = [*chat_events("1 ")[:2], *[part for _ in range(1000) for part in (b": ping\n\n", 0.05)]]
    async with ScriptedServer(script(first=Reply(endless))) as server:
        checks = await examine(server, limit=0.3)
        await server.disconnected()
    assert checks["streaming"].state == "failed"
    assert "did not end within 0.6 s" in checks["streaming"].found


@pytest.mark.row("usage_absent")
async def test_server_that_sends_no_usage() -> None:
    checks = await examined(script(first=paced(chat_events(*NUMBERS))))
    assert (checks["streaming"].state, checks["usage"].state) == ("ok", "limited")
    assert "estimate_tokens()" in checks["usage"].found


# ---- tools


REFUSALS = {
    "vllm": ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', 400),
    "ollama": ("registry.ollama.ai/library/gemma:2b does not support tools", 400),
    "llamacpp": ("tools param requires --jinja flag", 500),
}


@pytest.mark.row("http_unsupported", "req_tools_flag", "B19")
@pytest.mark.parametrize("server", REFUSALS)
async def test_server_that_refuses_tools(server: str) -> None:
    message, status = REFUSALS[server]
    owner = {"ollama": "library"}.get(server, server)
    call = text('{"tool": "get_weather", ', '"arguments": {"city": "Oslo"}}')

    def answer(request: Received) -> Reply:
        if request.method == "POST" and request.json.get("tools"):
            return refusal(message, status)
        words = request.body.decode()
        return call if "You can call tools" in words else base(request)

    base = script(models=listing({"id": "m", "owned_by": owner}))
    checks = await examined(answer, "/v1")
    assert checks["tool call"].state == "limited"
    assert f"the server refuses tools ({message}" in checks["tool call"].found
    assert "in words, and so the model calls them" in checks["tool call"].found
    expected = {"vllm": "--tool-call-parser", "ollama": "ollama show", "llamacpp": "--jinja"}[server]
    assert expected in checks["tool call"].remedy
    assert checks["parallel calls"].state == "skipped"


@pytest.mark.row("http_unsupported")
async def test_refused_tools_told_in_words_to_a_model_that_does_not_call_either() -> None:
    checks = await examined(
        script(call=refusal("this model does not support tools"), schema=text('{"answer": ', '"x"}'))
    )
    assert checks["tool call"].state == "limited"
    assert "this model made no call then either" in checks["tool call"].found


async def test_model_that_does_not_call_is_not_held_against_its_server() -> None:
    checks = await examined(script(call=text("It is ", "sunny.")))
    assert checks["tool call"].state == "unknown"
    assert checks["tool call"].found == "the server takes tools, but the model said 'It is sunny.' instead"
    assert "larger model" in checks["tool call"].remedy
    assert "--tool-call-parser" not in checks["tool call"].remedy
    assert checks["parallel calls"].state == "skipped"


async def test_model_that_is_cut_off_before_it_calls() -> None:
    checks = await examined(script(call=text("Let me think ", "about it", finish="length")))
    assert checks["tool call"].state == "unknown"
    assert "cut off before it made a call" in checks["tool call"].found


async def test_model_without_tools_by_its_servers_own_word() -> None:
    models = listing({"id": "m", "owned_by": "vllm", "capabilities": ["completion"]})
    checks = await examined(script(models=models, call=text("It is ", "sunny.")))
    assert checks["tool call"].state == "limited"
    assert "says itself" in checks["tool call"].found


async def test_model_that_calls_only_if_it_must() -> None:
    def answer(request: Received) -> Reply:
        if request.method == "POST" and request.json.get("tools") and request.json.get("tool_choice") != "required":
            return text("It is ", "sunny.")
        return script()(request) or PAGE

    checks = await examined(answer)
    assert checks["tool call"].state == "limited"
    assert "only if it must" in checks["tool call"].found
    assert checks["parallel calls"].state == "ok"


@pytest.mark.row("text_tool_calls", "E3")
async def test_server_that_passes_calls_on_as_text() -> None:
    written = text("<tool_call>", '{"name": "get_weather", "arguments": {"city": "Oslo"}}', "</tool_call>")
    checks = await examined(script(call=written))
    assert checks["tool call"].state == "limited"
    assert "calls come as text" in checks["tool call"].found
    assert "any_agent recovers them" in checks["tool call"].found
    assert "--tool-call-parser" in checks["tool call"].remedy


@pytest.mark.row("tc_args_python", "E9")
async def test_arguments_that_need_repair() -> None:
    checks = await examined(script(call=calls("{'city': 'Oslo',}")))
    assert checks["tool call"].state == "limited"
    assert "the arguments of get_weather were repaired" in checks["tool call"].found
    assert checks["parallel calls"].state == "ok"


@pytest.mark.row("tc_args_garbage")
@pytest.mark.parametrize("arguments", ['{"city": ', '{"town": "Oslo"}', '{"city": 7}'])
async def test_arguments_that_cannot_be_used(arguments: str) -> None:
    checks = await examined(script(call=calls(arguments)))
    assert checks["tool call"].state == "limited"
    assert "the model's call cannot be used" in checks["tool call"].found
    assert checks["parallel calls"].state == "skipped"


@pytest.mark.row("groq_tool_use_failed")
async def test_call_that_the_server_cannot_read_is_the_models_fault() -> None:
    failed = refusal("Failed to parse tool call: missing brace", 500)
    checks = await examined(script(call=failed))
    assert checks["tool call"].state == "unknown"


async def test_server_that_breaks_down_over_tools() -> None:
    checks = await examined(script(call=refusal("segmentation fault", 500)))
    assert checks["tool call"].state == "failed"
    assert "segmentation fault" in checks["tool call"].found
    assert states(checks)["JSON schema"] == "ok", "what is not basic does not end the checkup"


async def test_one_call_where_two_were_asked_for() -> None:
    checks = await examined(script(two_calls=calls('{"city": "Oslo"}')))
    assert checks["parallel calls"].state == "unknown"
    assert "made 1 where two" in checks["parallel calls"].found
    checks = await examined(script(two_calls=refusal("only one call is allowed")))
    assert checks["parallel calls"].state == "failed"


# ---- thinking


async def test_model_that_shows_no_thoughts() -> None:
    checks = await examined(script(thinking=text("4", "2")))
    assert checks["thinking"].state == "unknown"


@pytest.mark.row("think_missing_open")
async def test_thoughts_that_come_as_text() -> None:
    checks = await examined(script(thinking=text("17 + 25 is", " 42\n</think>\n", "42")))
    assert checks["thinking"].state == "limited"
    assert "--reasoning-parser" in checks["thinking"].remedy


async def test_thoughts_that_the_server_keeps_to_itself() -> None:
    models = listing({"id": "m", "owned_by": "vllm", "capabilities": ["tools", "thinking"]})
    checks = await examined(script(models=models, thinking=text("42")))
    assert checks["thinking"].state == "limited"
    assert "shows no thoughts" in checks["thinking"].found


@pytest.mark.row("req_think_unsupported")
async def test_server_that_refuses_to_let_the_model_think() -> None:
    def answer(request: Received) -> Reply:
        if request.method == "POST" and request.json.get("chat_template_kwargs", {}).get("enable_thinking"):
            return refusal("unknown field chat_template_kwargs")
        return script(thinking=text("4", "2"))(request) or PAGE

    checks = await examined(answer)
    assert checks["thinking"].state == "skipped"


async def test_error_over_thinking() -> None:
    checks = await examined(script(thinking=refusal("no", 500)))
    assert checks["thinking"].state == "failed"


# ---- JSON schema


@pytest.mark.parametrize("output", ["Yes, it is.", '{"city": "Oslo"}', '{"verdict": "maybe"}', '["yes"]'])
async def test_server_that_ignores_the_schema(output: str) -> None:
    checks = await examined(script(schema=text(output[:3], output[3:])))
    assert checks["JSON schema"].state == "limited"
    assert checks["JSON schema"].found.startswith("the server takes a schema and ignores it; with output_type")


async def test_output_that_is_cut_off_proves_nothing() -> None:
    checks = await examined(script(schema=text('{"verd', finish="length")))
    assert checks["JSON schema"].state == "unknown"


async def test_server_that_refuses_the_field_of_the_schema() -> None:
    def answer(request: Received) -> Reply:
        if request.method == "POST" and "response_format" in request.json:
            return refusal("response_format is not supported")
        return script(schema=text("Yes, ", "it is."))(request) or PAGE

    checks = await examined(answer)
    assert checks["JSON schema"].state == "limited"
    assert "refuses 'response_format'; it is left out from now on" in checks["JSON schema"].found


async def test_server_that_fails_over_the_schema() -> None:
    checks = await examined(script(schema=refusal("failed to parse grammar")))
    assert (checks["JSON schema"].state, "failed to parse grammar" in checks["JSON schema"].found) == ("limited", True)
    checks = await examined(script(schema=Reply.json({"error": "boom"}, 500)))
    assert checks["JSON schema"].state == "failed"


async def test_profile_that_knows_that_schemas_are_ignored() -> None:
    async with ScriptedServer(script(schema=text("Yes, ", "it is."))) as server:
        checks = await examine(server, profile="mlx")
    assert checks["JSON schema"].state == "limited"
    assert "cannot bind an answer to a schema" in checks["JSON schema"].found
    assert checks["reachable"].found == f"mlx at {server.url}, though it looks like vllm"


# ---- cancellation


def llamacpp(slots: Callable[[], list[bool] | None], **answers: Reply) -> Answers:
    """A llama.cpp whose slots are busy or not."""
    models = listing({"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 4096, "n_ctx_train": 32768}})
    base = script(models, {"/props": Reply.json({"default_generation_settings": {"n_ctx": 4096}})}, **answers)

    def answer(request: Received) -> Reply:
        busy = slots() if request.path == "/slots" else None
        if busy is not None:
            return Reply.json([{"id": number, "is_processing": is_busy} for number, is_busy in enumerate(busy)])
        return base(request) or PAGE

    return answer


@pytest.mark.row("B13")
async def test_slot_is_free_again_after_the_connection_was_dropped() -> None:
    def slots() -> list[bool]:
        drops = [request for request in server.requests if request.method == "POST" and asks_for(request) == "drop"]
        return [True, bool(drops) and not server.disconnects]

    async with ScriptedServer(llamacpp(slots)) as server:
        checks = await examine(server)
    assert checks["cancellation"].state == "ok", checks["cancellation"]
    assert "the slot is free again" in checks["cancellation"].found
    assert len(server.disconnects) == 1


@pytest.mark.row("B13")
async def test_server_that_goes_on_generating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup_module, "_NOTICE_S", 0.1)
    asked: list[bool] = []

    def slots() -> list[bool]:
        asked.append(True)
        return [len(asked) > 1]

    checks = await examined(llamacpp(slots))
    assert checks["cancellation"].state == "limited"
    assert "still generates" in checks["cancellation"].found


async def test_slots_that_say_nothing_prove_nothing() -> None:
    checks = await examined(llamacpp(lambda: None))
    assert checks["cancellation"].found == "the connection was dropped; the server does not tell what it did then"
    checks = await examined(llamacpp(lambda: [False]))
    assert checks["cancellation"].found == "the answer was over before it could be dropped"


async def test_nothing_came_that_could_have_been_dropped() -> None:
    checks = await examined(script(drop=refusal("no", 500)))
    assert checks["cancellation"].state == "unknown"
    assert "no answer came" in checks["cancellation"].found
    checks = await examined(script(drop=Reply([b"", HANG]), first=text(*NUMBERS)), limit=0.4)
    assert "no answer came" in checks["cancellation"].found


# ---- context window


@pytest.mark.row("E1", "B17")
async def test_small_window_is_told_with_what_could_be_done() -> None:
    checks = await examined(llamacpp(lambda: None))
    assert checks["context window"].state == "limited"
    assert checks["context window"].found.startswith("4096 tokens")
    assert checks["context window"].found.endswith("the model could have 32768")
    assert "larger -c" in checks["context window"].remedy


# ---- Ollama's own protocol


def ollama(request: Received) -> Reply:
    """Ollama with a model that it has loaded, in a small window."""
    if request.path == "/api/show":
        info = {"capabilities": ["completion", "tools"], "model_info": {"qwen3.context_length": 40960}}
        return Reply.json(info)
    if request.method == "GET":
        tags = [{"name": name, "model": name} for name in ("big:70b", "qwen3:latest")]
        pages = {
            "/v1/models": listing(*({"id": tag["name"], "owned_by": "library"} for tag in tags)),
            "/api/tags": Reply.json({"models": tags}),
            "/api/ps": Reply.json({"models": [{**tags[1], "context_length": 4096}]}),
        }
        return pages.get(request.path, Reply([b"404 page not found"], 404))
    return Reply([part for line in ollama_lines(request) for part in (json.dumps(line).encode() + b"\n", 0.005)])


def ollama_lines(request: Received) -> list[dict[str, Any]]:
    what = asks_for(request)
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 4}
    if what in ("call", "two calls"):
        message: dict[str, Any] = {"tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]}
        return [{"message": message}, end]
    words = ('{"verdict": ', '"no"}') if what == "schema" else NUMBERS
    return [*({"message": {"content": word}} for word in words), end]


@pytest.mark.row("A32", "B17", "ol_num_ctx")
async def test_ollama_is_checked_in_its_own_protocol() -> None:
    async with ScriptedServer(ollama) as server:
        checks = await examine(server)
    assert checks["reachable"].found == f"ollama at {server.address}/api"
    assert checks["model"].found == "qwen3:latest, the first of 2", "the one that is loaded"
    assert (checks["streaming"].state, checks["usage"].state, checks["tool call"].state) == ("ok", "ok", "ok")
    assert checks["thinking"].found == "not a model that thinks, says the server"
    assert checks["JSON schema"].state == "ok"
    assert checks["context window"].state == "limited"
    assert checks["context window"].found.endswith("the model could have 40960")
    assert "num_ctx" in checks["context window"].remedy
    assert {request.path for request in server.requests if request.method == "POST"} == {"/api/chat", "/api/show"}


async def test_ollama_whose_model_does_not_call_is_asked_once() -> None:
    def answer(request: Received) -> Reply:
        if request.method == "POST" and request.path == "/api/chat" and request.json.get("tools"):
            return Reply([b'{"message": {"content": "Sunny."}}\n{"done": true, "done_reason": "stop"}\n'])
        return ollama(request)

    async with ScriptedServer(answer) as server:
        checks = await examine(server, model="qwen3")
    assert checks["tool call"].state == "unknown"
    assert len([request for request in server.requests if b'"tools"' in request.body]) == 1, "it has no tool_choice"
    assert checks["model"].found == "qwen3"


# ---- which server


async def test_without_an_address_the_server_with_the_model_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    other = script(models=listing({"id": "other", "owned_by": "vllm"}))
    async with ScriptedServer(other) as one, ScriptedServer(script()) as two:
        monkeypatch.setattr(probe, "usual_addresses", lambda: [one.address, two.address])
        checks = [check async for check in checkup(model="qwen3", limit=10)]
        assert checks[0].found == f"vllm at {two.url}; {one.url} as well"
        checks = [check async for check in checkup(limit=10)]
        assert checks[0].found == f"vllm at {one.url}; {two.url} as well"


async def test_without_any_server_it_says_what_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "usual_addresses", list)
    checks = [check async for check in checkup()]
    assert [check.state for check in checks] == ["failed", *["skipped"] * (len(CHECKS) - 1)]
    assert checks[0].found == "no model server runs here"
    assert "LM Studio" in checks[0].remedy


async def test_profile_or_key_without_an_address_is_refused() -> None:
    for more in ({"profile": "generic"}, {"api_key": "sk-1"}):
        with pytest.raises(ValueError, match="base_url is missing"):
            [check async for check in checkup(**more)]


async def test_checkup_that_is_left_early_closes_its_connections() -> None:
    async with ScriptedServer(script(first=Reply([*chat_events("1 ")[:2], HANG]))) as server:
        checking = checkup(server.address, limit=30)
        assert (await anext(checking)).name == "reachable"
        waiting = asyncio.ensure_future(anext(checking))
        await server.received(3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await checking.aclose()
        await server.disconnected()
