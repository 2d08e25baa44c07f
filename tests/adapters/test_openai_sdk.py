"""What is offered to programs that use the OpenAI SDK themselves."""

from __future__ import annotations

from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionChunk

from any_agent import (
    AgentOptions,
    TextBlock,
    ToolCallAggregator,
    ToolUseBlock,
    ToolUseError,
    create_client,
    format_messages,
)
from any_agent.testing import Reply, ScriptedServer, chat_events
from any_agent.wire.openai_chat import read_chunk


@pytest.mark.row("A6")
async def test_client_has_the_address_and_key_of_the_options_and_works() -> None:
    async with ScriptedServer(Reply(chat_events("Hel", "lo"))) as server:
        options = AgentOptions("", "m", server.address, api_key="sk-1")
        client = create_client(options)
        assert isinstance(client, AsyncOpenAI)
        assert (str(client.base_url), client.api_key) == (f"{server.url}/", "sk-1")
        async with client:
            stream = await client.chat.completions.create(model="m", messages=[], stream=True)
            chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello"


async def test_client_raises_the_errors_of_the_sdk() -> None:
    import openai

    async with create_client(AgentOptions("", "m", "http://127.0.0.1:1")) as client:
        with pytest.raises(openai.APIConnectionError):
            await client.models.list()


@pytest.mark.row("A7")
def test_messages_are_formatted_without_touching_the_history() -> None:
    history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    before = [dict(message) for message in history]
    messages = format_messages("sys", "new", history)
    assert messages == [{"role": "system", "content": "sys"}, *before, {"role": "user", "content": "new"}]
    assert history == before
    assert format_messages("", "new") == [{"role": "user", "content": "new"}]


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def call(
    index: int = 0, id: str | None = None, name: str | None = None, arguments: str | None = None
) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]}


FORMS = {
    "dict": lambda payload: payload,
    "ours": read_chunk,
    "openai": ChatCompletionChunk.model_validate,
}


@pytest.fixture(params=FORMS)
def feed(request: pytest.FixtureRequest) -> Any:
    def run(*payloads: dict[str, Any]) -> tuple[str, list[ToolUseBlock | ToolUseError]]:
        aggregator = ToolCallAggregator()
        texts = [aggregator.process_chunk(FORMS[request.param](payload)) for payload in payloads]
        assert all(text is None or isinstance(text, TextBlock) for text in texts)
        tools = aggregator.finalize_tools()
        assert aggregator.finalize_tools() == []
        return "".join(text.text for text in texts if text), tools

    return run


@pytest.mark.row("A12", "A8")
def test_fragments_of_one_call_are_joined(feed: Any) -> None:
    first = chunk(**call(id="call_abc", name="search", arguments='{"q": "par'))
    _, tools = feed(first, chunk(**call(arguments='is"}')), chunk(finish="tool_calls"))
    assert tools == [ToolUseBlock("call_abc", "search", {"q": "paris"})]


@pytest.mark.row("A9")
def test_text_and_calls_in_one_chunk_are_both_kept(feed: Any) -> None:
    text, tools = feed(chunk(content="Look.", **call(id="c", name="search", arguments="")))
    assert text == "Look."
    assert tools == [ToolUseBlock("c", "search", {})]


@pytest.mark.row("A9")
def test_id_and_name_may_come_late_and_apart(feed: Any) -> None:
    _, tools = feed(chunk(**call(name="search")), chunk(**call(id="c")), chunk(**call(arguments='{"a": 1}')))
    assert tools == [ToolUseBlock("c", "search", {"a": 1})]


@pytest.mark.row("A10")
def test_invalid_json_is_an_error_that_quotes_it(feed: Any) -> None:
    _, [error] = feed(chunk(**call(id="c", name="search", arguments='{"q": ')))
    assert isinstance(error, ToolUseError)
    assert error.error.startswith("Invalid JSON: ")
    assert (error.raw_data, error.id, error.name) == ('{"q": ', "c", "search")


@pytest.mark.row("A10")
def test_missing_name_is_an_error_and_a_missing_id_is_not(feed: Any) -> None:
    _, [nameless] = feed(chunk(**call(id="c", arguments="{}")))
    assert isinstance(nameless, ToolUseError)
    assert "name" in nameless.error
    _, [made_up] = feed(chunk(**call(name="search", arguments="{}")))
    assert isinstance(made_up, ToolUseBlock)
    assert made_up.id


@pytest.mark.row("A11")
@pytest.mark.parametrize(
    ("texts", "answer"),
    [
        (["Hello", "Hello world", "Hello world, hi"], "Hello world, hi"),
        (["ha", "ha"], "haha"),
        (["1", "10", "0"], "1100"),
        (["a", "b", "ab"], "abab"),
    ],
)
def test_cumulative_text_is_recognised_and_nothing_else(feed: Any, texts: list[str], answer: str) -> None:
    text, _ = feed(*(chunk(content=text) for text in texts))
    assert text == answer
