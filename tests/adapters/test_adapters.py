"""The contract of adapters that is not about connections."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from any_agent import (
    AgentOptions,
    AnthropicAdapter,
    Done,
    LLMAdapter,
    Message,
    ModelNotFound,
    Notice,
    OllamaAdapter,
    OpenAIAdapter,
    ProviderAPIError,
    ProviderAuthError,
    ProviderError,
    ResponsesAdapter,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
    ToolResultBlock,
    ToolUseBlock,
    create_adapter,
    get_profile,
)
from any_agent.adapters.base import BaseAdapter
from any_agent.events import Event, from_dict, to_dict
from any_agent.testing import Reply, ScriptedServer, chat_events, sse

HI = [Message("user", "hi")]
WEATHER = Tool("get_weather", "Weather of a city", {"type": "object", "properties": {"city": {"type": "string"}}})
ADAPTERS: list[type[BaseAdapter]] = [OpenAIAdapter, OllamaAdapter, AnthropicAdapter, ResponsesAdapter]

TOOL_USE = {"type": "tool_use", "name": "get_weather"}
FUNCTION_CALL = {"type": "function_call", "name": "get_weather"}
#: the same answer, in the words of each protocol: a thought, a text, a call, and usage
ANSWERS: dict[str, list[bytes]] = {
    "openai": sse(
        {"id": "r1", "model": "q", "choices": [{"delta": {"reasoning_content": "Hm."}}]},
        {"choices": [{"delta": {"content": "Let me see."}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "get_weather"}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": "Oslo"}'}}]}}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}},
    ),
    "ollama": [
        b'{"model": "q", "message": {"thinking": "Hm."}, "done": false}\n',
        b'{"model": "q", "message": {"content": "Let me see."}, "done": false}\n',
        b'{"message": {"tool_calls": [{"id": "c1", "function": {"name": "get_weather", '
        b'"arguments": {"city": "Oslo"}}}]}, "done": false}\n',
        b'{"message": {"content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 5}\n',
    ],
    "anthropic": sse(
        {"type": "message_start", "message": {"id": "r1", "model": "q", "usage": {"input_tokens": 7}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Let me see."}},
        {"type": "content_block_start", "index": 2, "content_block": {**TOOL_USE, "id": "c1"}},
        {"type": "content_block_delta", "index": 2, "delta": {"partial_json": '{"city": "Oslo"}'}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
        done=False,
    ),
    "responses": sse(
        {"type": "response.created", "response": {"id": "r1", "model": "q"}},
        {"type": "response.reasoning_text.delta", "output_index": 0, "delta": "Hm."},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "Let me see."},
        {"type": "response.output_item.added", "output_index": 2, "item": {**FUNCTION_CALL, "call_id": "c1"}},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"city": "Oslo"}'},
        {"type": "response.completed", "response": {"usage": {"input_tokens": 7, "output_tokens": 5}}},
        done=False,
    ),
}


async def collect(stream: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in stream]


@pytest.mark.row("D1", "D2", "D3", "D4", "D9")
@pytest.mark.parametrize("kind", ADAPTERS)
async def test_the_same_program_runs_on_each_protocol(kind: type[BaseAdapter]) -> None:
    async with ScriptedServer(Reply(ANSWERS[kind.protocol])) as server, kind("q", server.address) as adapter:
        assert isinstance(adapter, LLMAdapter)
        events = await collect(adapter.stream(HI, [WEATHER]))
        streamed = [event for event in events if isinstance(event, ToolInputStart | ToolInputDelta | ToolCall)]
        assert [type(event) for event in streamed] == [ToolInputStart, ToolInputDelta, ToolCall]
        last = events[-1]
        assert isinstance(last, Done)
        for response in (last.response, await adapter.invoke(HI, [WEATHER]), await adapter.chat(HI, [WEATHER])):
            assert response.thinking == "Hm."
            assert response.text == "Let me see."
            assert response.tool_calls == [ToolUseBlock("c1", "get_weather", {"city": "Oslo"})]
            assert response.stop_reason == "tool_use"
            assert response.model == "q"
            assert [type(block) for block in response.content] == [ThinkingBlock, TextBlock, ToolUseBlock]
            assert response.usage is not None
            assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (
                7,
                5,
                12,
            )
            assert response.usage.first_token_s is not None


@pytest.mark.row("D6", "D5")
@pytest.mark.parametrize("kind", ADAPTERS)
async def test_a_whole_tool_round_can_be_sent_back(kind: type[BaseAdapter]) -> None:
    async with ScriptedServer(Reply(ANSWERS[kind.protocol])) as server, kind("q", server.address) as adapter:
        first = await adapter.invoke([Message("system", "Be brief."), *HI], [WEATHER])
        result = Message("tool", [ToolResultBlock("c1", {"celsius": 21})])
        await adapter.invoke(
            [Message("system", "Be brief."), *HI, Message("assistant", first.content), result], [WEATHER]
        )
        sent = json.dumps(server.requests[1].json)
    assert "celsius" in sent
    assert "Be brief." in sent
    assert "null" not in sent.replace('"content": null', "")


@pytest.mark.row("D9")
async def test_invoke_raises_what_a_stream_ends_with() -> None:
    async with ScriptedServer(Reply.json({"error": {"message": "model 'x' not found"}}, 404)) as server:
        async with OpenAIAdapter("x", server.url) as adapter:
            with pytest.raises(ModelNotFound) as caught:
                await adapter.invoke(HI)
    assert isinstance(caught.value, ProviderAPIError)
    assert caught.value.__cause__ is not None
    assert caught.value.provider == "local"


@pytest.mark.row("D3")
async def test_invoke_asks_for_a_plain_reply_and_keeps_it_raw() -> None:
    reply = {"id": "r", "choices": [{"message": {"content": "4"}, "finish_reason": "stop"}], "x": 1}
    async with ScriptedServer(Reply.json(reply)) as server, OpenAIAdapter("m", server.url) as adapter:
        response = await adapter.invoke(HI)
        assert "stream" not in server.requests[0].json
    assert response.raw == reply
    assert response.text == "4"
    assert response.usage is None


@pytest.mark.row("D8")
async def test_settings_of_a_call_go_into_its_request() -> None:
    async with ScriptedServer(Reply(chat_events("ok"))) as server:
        async with OpenAIAdapter(
            "m", server.url, extra_body={"top_k": 1, "a": 1}, extra_headers={"X-Team": "a"}
        ) as adapter:
            await collect(
                adapter.stream(
                    HI, temperature=0, max_tokens=5, stop="END", top_p=0.5, seed=1, top_k=2, extra_body={"b": 2}
                )
            )
            await collect(adapter.stream(HI, [WEATHER], tool_choice="get_weather"))
        first, second = (request.json for request in server.requests)
        assert server.requests[0].headers["x-team"] == "a"
    expected = {"temperature": 0, "max_tokens": 5, "stop": ["END"], "top_p": 0.5, "seed": 1, "top_k": 2, "a": 1, "b": 2}
    assert {name: first[name] for name in expected} == expected
    assert "tools" not in first
    assert second["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
    assert second["tools"][0]["function"]["name"] == "get_weather"


@pytest.mark.row("E9", "B18")
async def test_repairs_are_shown_and_counted() -> None:
    call = {"id": "c1", "function": {"name": "get_weather", "arguments": "{'city': 'Oslo',}"}}
    async with ScriptedServer(Reply(chat_events(tool_calls=[call], finish="tool_calls"))) as server:
        async with OpenAIAdapter("m", server.url) as adapter:
            events = await collect(adapter.stream(HI, [WEATHER]))
            response = await adapter.invoke(HI, [WEATHER])
            assert adapter.repairs == {("scripted", "python_literal"): 2}
        async with OpenAIAdapter("m", server.url, allow_lenient_tool_json=False) as strict:
            refused = await strict.invoke(HI, [WEATHER])
    [notice] = [event for event in events if isinstance(event, Notice)]
    assert notice.kind == "arguments_repaired"
    assert notice.data == {"id": "c1", "name": "get_weather", "rules": ["python_literal"]}
    assert [notice.kind for notice in response.notices] == ["arguments_repaired"]
    assert refused.tool_errors[0].error.startswith("Invalid JSON: ")


@pytest.mark.row("B18", "E3")
async def test_services_are_read_strictly_and_own_servers_leniently() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
    async with ScriptedServer(Reply(chat_events(text))) as server:
        async with OpenAIAdapter("m", server.url) as own, OpenAIAdapter("m", server.url, profile="openai") as service:
            assert (await own.invoke(HI, [WEATHER])).tool_calls[0].input == {"city": "Oslo"}
            assert (await service.invoke(HI, [WEATHER])).text == text


async def test_made_up_ids_differ_between_responses() -> None:
    call = {"function": {"name": "get_weather", "arguments": "{}"}}
    async with ScriptedServer(Reply(chat_events(tool_calls=[call], finish="tool_calls"))) as server:
        async with OpenAIAdapter("m", server.url) as adapter:
            ids = [(await adapter.invoke(HI, [WEATHER])).tool_calls[0].id for _ in range(3)]
    assert len(set(ids)) == 3


@pytest.mark.row("think_missing_open")
async def test_think_open_begins_inside_a_thought() -> None:
    async with ScriptedServer(Reply(chat_events("Let me ", "see.</think>\n\n4"))) as server:
        async with OpenAIAdapter("m", server.url, think_open=True) as adapter:
            response = await adapter.invoke(HI)
    assert (response.thinking, response.text) == ("Let me see.", "4")


async def test_server_that_names_itself_is_known_from_then_on() -> None:
    headers = {"Content-Type": "text/event-stream", "Server": "llama.cpp"}
    async with ScriptedServer(Reply(chat_events("ok"), headers=headers)) as server:
        async with OpenAIAdapter("m", server.url) as adapter:
            assert adapter.profile.name == "local"
            await collect(adapter.stream(HI))
            assert adapter.profile.name == "llamacpp"
            await collect(adapter.stream(HI))
            assert server.requests[1].json["return_progress"] is True
        async with OpenAIAdapter("m", server.url, profile="vllm") as told:
            await collect(told.stream(HI))
            assert told.profile.name == "vllm"


@pytest.mark.parametrize(
    ("kind", "path", "body"),
    [
        (OpenAIAdapter, "/v1/models", {"data": [{"id": "qwen3", "max_model_len": 8192}]}),
        (OpenAIAdapter, "/v1/models", {"object": "list", "data": [{"id": "qwen3", "meta": {"n_ctx": 8192}}]}),
        (OllamaAdapter, "/api/tags", {"models": [{"name": "qwen3", "context_length": 8192}]}),
        (AnthropicAdapter, "/v1/models", {"data": [{"type": "model", "id": "qwen3", "context_window": 8192}]}),
        (ResponsesAdapter, "/v1/models", [{"id": "qwen3", "context_length": 8192}]),
    ],
)
async def test_models_are_listed_with_their_window(kind: type[BaseAdapter], path: str, body: Any) -> None:
    async with ScriptedServer(Reply.json(body)) as server, kind("m", server.address) as adapter:
        [model] = await adapter.list_models()
        assert server.requests[0].path == path
    assert (model.id, model.context_window) == ("qwen3", 8192)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply([b"<html>"], headers={}), "invalid_response"),
        (Reply([], headers={}), "invalid_response"),
        (Reply.json({"status": "ok"}), "invalid_response"),
        (Reply.json({"error": "no"}, 401), "auth"),
    ],
)
async def test_what_is_no_list_of_models_is_said_clearly(reply: Reply, kind: str) -> None:
    async with ScriptedServer(reply) as server, OpenAIAdapter("m", server.url) as adapter:
        with pytest.raises(ProviderError) as caught:
            await adapter.list_models()
    assert caught.value.kind == kind


@pytest.mark.row("D14", "C4")
async def test_key_of_the_environment_goes_only_to_its_own_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or")
    async with ScriptedServer(Reply(chat_events("ok"))) as server:
        async with OpenAIAdapter("m", server.url, profile="openrouter") as adapter:
            await collect(adapter.stream(HI))
        assert "authorization" not in server.requests[0].headers
        async with OpenAIAdapter("m", server.url, profile="openrouter", api_key="sk-given") as adapter:
            await collect(adapter.stream(HI))
        assert server.requests[1].headers["authorization"] == "Bearer sk-given"


@pytest.mark.row("D1")
@pytest.mark.parametrize("kind", ADAPTERS)
def test_adapter_is_made_from_options(kind: type[BaseAdapter]) -> None:
    adapter = create_adapter(AgentOptions("", "m", "http://localhost:9", protocol=kind.protocol, api_key="sk-secret"))
    assert type(adapter) is kind
    assert "sk-secret" not in repr(adapter) + repr(AgentOptions("", "m", "http://x", api_key="sk-secret"))


def test_options_for_a_profile_know_its_address() -> None:
    options = AgentOptions.for_profile("lmstudio", model="qwen3", system_prompt="Be brief.", temperature=0)
    assert (options.base_url, options.temperature, options.profile) == ("http://localhost:1234/v1", 0, "lmstudio")
    with pytest.raises(ValueError, match="base_url"):
        AgentOptions.for_profile("generic", model="m")
    with pytest.raises(ValueError, match="model"):
        AgentOptions.for_profile("lmstudio")


@pytest.mark.parametrize("kind", ADAPTERS)
async def test_every_event_can_be_written_as_json_and_read_back(kind: type[BaseAdapter]) -> None:
    bad = Reply.json({"error": {"message": "Unauthorized"}}, 401)
    async with ScriptedServer(Reply(ANSWERS[kind.protocol]), bad) as server, kind("q", server.address) as adapter:
        events = await collect(adapter.stream(HI, [WEATHER])) + await collect(adapter.stream(HI))
    for event in events:
        written = json.dumps(to_dict(event))
        back = from_dict(json.loads(written))
        assert type(back) is type(event)
        assert json.dumps(to_dict(back)) == written
    failed = from_dict(to_dict(events[-1]))
    assert isinstance(getattr(failed, "error", None), ProviderAuthError)


def test_unknown_event_is_refused() -> None:
    with pytest.raises(ValueError, match="no type of event"):
        from_dict({"type": "telepathy"})


def test_profiles_are_all_readable() -> None:
    wanted = (
        "generic openai azure openrouter ollama ollama-openai lmstudio llamacpp vllm sglang tgi mlx koboldcpp "
        "tabbyapi localai litellm groq together fireworks deepseek mistral gemini xai cerebras moonshot dashscope "
        "anthropic local embedded"
    )
    for name in wanted.split():
        assert get_profile(name).name == name


async def test_tool_runs_its_function() -> None:
    async def later(a: int) -> int:
        return a + 1

    assert await Tool("inc", "", {}, later).execute({"a": 1}) == 2
    assert await Tool("inc", "", {}, lambda a: a + 2).execute({"a": 1}) == 3
    with pytest.raises(TypeError, match="no function"):
        await Tool("inc", "", {}).execute({})
