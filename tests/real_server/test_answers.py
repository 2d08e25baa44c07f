"""Text, thoughts and JSON from real weights: what is streamed is what was answered."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from any_agent import (
    AnthropicAdapter,
    LLMResponse,
    OpenAIAdapter,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
)
from any_agent.adapters.base import BaseAdapter
from any_agent.events import Event
from real_server.helpers import ADAPTERS, HELLO, OSLO, STORY, events_of, only, response_of
from real_server.server import MODEL, LlamaServer

pytestmark = pytest.mark.real_server

_SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Bergen"]}, "is_big": {"type": "boolean"}},
    "required": ["city", "is_big"],
    "additionalProperties": False,
}
_IGNORED = pytest.mark.xfail(reason="llama.cpp takes no schema in /v1/messages, under any name")
_QUESTION = {"role": "user", "content": "What is 2+2?"}
_THOUGHT = "Okay, the user asks for"
#: a thought that the model goes on with, in the words of each protocol
_THOUGHTS: dict[str, dict[str, Any]] = {
    "openai": {
        "messages": [_QUESTION, {"role": "assistant", "content": "", "reasoning_content": _THOUGHT}],
        "reasoning_budget_tokens": 16,
    },
    "anthropic": {
        "messages": [
            _QUESTION,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": _THOUGHT, "signature": ""}]},
        ],
        "thinking": {"type": "enabled", "budget_tokens": 16},
    },
    "responses": {
        "input": [
            _QUESTION,
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": _THOUGHT}]},
        ],
        "reasoning_budget_tokens": 16,
    },
}


@pytest.mark.row("D4", "D9", "E2")
async def test_streamed_text_is_the_answer_and_comes_with_usage(adapter: BaseAdapter) -> None:
    """D4, D9, E2: the deltas add up to the text; tokens are counted and timed."""
    events = await events_of(adapter.stream(HELLO, temperature=0, max_tokens=12))
    response = response_of(events)
    deltas = only(TextDelta, events)
    assert len(deltas) > 3
    assert "".join(delta.text for delta in deltas) == response.text
    usage = response.usage
    assert usage is not None
    assert usage.input_tokens == 24
    assert usage.output_tokens == 12
    assert usage.total_tokens == 36
    assert usage.first_token_s is not None
    assert 0 < usage.first_token_s < 30
    assert usage.tokens_per_s is not None
    assert 0 < usage.tokens_per_s < 2000


@pytest.mark.row("D13")
async def test_invoke_and_stream_give_the_same_answer(adapter: BaseAdapter) -> None:
    """D13: the codecs read both forms alike, and tell alike what a protocol cannot ask for (a seed)."""
    whole = await adapter.invoke(HELLO, temperature=0, max_tokens=12, seed=7)
    streamed = response_of(await events_of(adapter.stream(HELLO, temperature=0, max_tokens=12, seed=7)))
    assert whole.text == streamed.text
    assert [type(block) for block in whole.content] == [type(block) for block in streamed.content]
    assert (whole.stop_reason, whole.raw_stop_reason) == (streamed.stop_reason, streamed.raw_stop_reason)
    assert whole.model == streamed.model
    assert whole.id
    assert whole.usage is not None
    assert streamed.usage is not None
    assert whole.usage.input_tokens == streamed.usage.input_tokens
    assert whole.usage.output_tokens == streamed.usage.output_tokens
    unsupported = ["seed_unsupported"] if isinstance(adapter, AnthropicAdapter) else []
    assert [notice.kind for notice in whole.notices] == unsupported


@pytest.mark.row("D4")
async def test_invoke_reports_a_speed_that_can_be_true_or_none(adapter: BaseAdapter) -> None:
    """D4: nothing is invented, also where a reply comes in one piece."""
    response = await adapter.invoke(HELLO, temperature=0, max_tokens=12)
    assert response.usage is not None
    assert (response.usage.tokens_per_s or 0) < 2000


@pytest.mark.row("E2", "E8")
@pytest.mark.parametrize("protocol", ["chat", "responses"])
async def test_speed_is_the_one_that_the_server_measured(protocol: str, llama: LlamaServer, tmp_path: Path) -> None:
    """E2, E8: in the two protocols in which it tells; what it told is in the recording, and the key is not."""
    async with ADAPTERS[protocol](MODEL, llama.address, api_key=llama.key, record_to=tmp_path) as adapter:
        response = response_of(await events_of(adapter.stream(HELLO, temperature=0, max_tokens=8)))
    recorded = _text_of_files(tmp_path)
    (told,) = re.findall(r'"predicted_per_second":([\d.]+)', recorded)
    assert response.usage is not None
    assert response.usage.tokens_per_s == pytest.approx(float(told))
    assert llama.key not in recorded


@pytest.mark.row("D2")
async def test_length_stop(adapter: BaseAdapter) -> None:
    """D2: `max_tokens`, also from `/v1/responses`, where this server calls it `completed`."""
    for response in (
        await adapter.invoke(STORY, temperature=0, max_tokens=6),
        response_of(await events_of(adapter.stream(STORY, temperature=0, max_tokens=6))),
    ):
        assert response.stop_reason == "max_tokens"
        assert response.usage is not None
        assert response.usage.output_tokens == 6


@pytest.mark.row("D2")
async def test_raw_stop_reason_is_the_word_of_the_server(adapter: BaseAdapter) -> None:
    """D2: whatever is made of it."""
    response = await adapter.invoke(STORY, temperature=0, max_tokens=6)
    words = {"openai": "length", "anthropic": "max_tokens", "responses": "completed"}
    assert response.raw_stop_reason == words[adapter.protocol]


@pytest.mark.row("D2", "D8")
async def test_stop_sequence_ends_the_answer(adapter: BaseAdapter) -> None:
    """D2, D8: Responses has no word for it; llama.cpp takes that of Chat Completions there."""
    response = response_of(await events_of(adapter.stream(OSLO, temperature=0, max_tokens=40, stop="approx")))
    assert response.text is not None
    assert response.text.endswith("population of ")
    # only the Anthropic protocol tells a stop sequence from any other end
    assert response.stop_reason == ("stop_sequence" if isinstance(adapter, AnthropicAdapter) else "end_turn")


@pytest.mark.row("B20")
@pytest.mark.parametrize(
    "adapter",
    ["chat", pytest.param("anthropic", marks=_IGNORED), "responses"],
    indirect=True,
)
async def test_json_schema_shapes_the_answer(adapter: BaseAdapter) -> None:
    """B20: what comes back parses and fits, streamed and whole."""
    whole = await adapter.invoke(OSLO, temperature=0, max_tokens=40, output_schema=_SCHEMA)
    _check_fits(whole.text)
    events = await events_of(adapter.stream(OSLO, temperature=0, max_tokens=40, output_schema=_SCHEMA))
    _check_fits(response_of(events).text)


@pytest.mark.row("B12")
async def test_thoughts_come_in_their_own_channel(adapter: BaseAdapter) -> None:
    """B12: in all three protocols, streamed and whole."""
    body = _THOUGHTS[adapter.protocol]
    whole = await adapter.invoke(HELLO, temperature=0, max_tokens=40, extra_body=body)
    events = await events_of(adapter.stream(HELLO, temperature=0, max_tokens=40, extra_body=body))
    streamed = response_of(events)
    _check_thoughts(streamed, events)
    assert [type(block) for block in whole.content] == [ThinkingBlock, TextBlock]
    # a whole reply repeats the beginning of the thought, a stream does not
    assert whole.thinking == _THOUGHT + (streamed.thinking or "")
    assert whole.text == streamed.text


@pytest.mark.row("B12", "A18")
async def test_thought_that_ends_the_conversation_is_sent_to_be_continued(chat: OpenAIAdapter) -> None:
    """B12, A18: messages in OpenAI's format keep their `reasoning_content`."""
    messages = _THOUGHTS["openai"]["messages"]
    events = await events_of(chat.stream(messages, temperature=0, max_tokens=40, reasoning_budget_tokens=16))
    _check_thoughts(response_of(events), events)


def _text_of_files(folder: Path) -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(folder.iterdir()))


def _check_fits(text: str | None) -> None:
    answer = json.loads(text or "")
    assert set(answer) == {"city", "is_big"}
    assert answer["city"] in ("Oslo", "Bergen")
    assert isinstance(answer["is_big"], bool)


def _check_thoughts(response: LLMResponse, events: list[Event]) -> None:
    """First a thought, then the answer, and neither in the other."""
    assert [type(block) for block in response.content] == [ThinkingBlock, TextBlock]
    shown = [event for event in events if isinstance(event, ThinkingDelta | TextDelta)]
    thoughts = only(ThinkingDelta, events)
    assert shown[: len(thoughts)] == thoughts
    assert len(thoughts) > 3
    assert "".join(delta.text for delta in thoughts) == response.thinking
    assert "".join(delta.text for delta in only(TextDelta, events)) == response.text
    assert "think>" not in f"{response.text}{response.thinking}"
