"""Whoever stops reading stops the generation: the slot of the server is free again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from any_agent import Failed, ModelState, OpenAIAdapter, StreamInterrupted, TextDelta
from any_agent.adapters.base import BaseAdapter
from any_agent.adapters.stream import EventStream
from any_agent.events import Event
from real_server.helpers import ENDLESS, HELLO, only, prompt_of, wait_for_slots
from real_server.server import BATCH, LlamaServer

pytestmark = pytest.mark.real_server

#: to the end it would take half a minute and more
_LONG: dict[str, Any] = {"temperature": 0, "max_tokens": 3500}
_SOON_S = 2.0
_LONG_PROMPT = prompt_of(24 * BATCH)


class _Reader:
    """Reads a stream in a task of its own."""

    def __init__(self, stream: EventStream, until: type[Event]) -> None:
        self.events: list[Event] = []
        self._until = until
        self._there = asyncio.Event()
        self.task = asyncio.create_task(self._read(stream))

    async def _read(self, stream: EventStream) -> None:
        async for event in stream:
            self.events.append(event)
            if isinstance(event, self._until):
                self._there.set()

    async def reached(self) -> None:
        """Wait for the event that the reader is to come to."""
        await asyncio.wait_for(self._there.wait(), 30)


@pytest.mark.row("A15", "B13")
async def test_break_frees_the_slot(adapter: BaseAdapter, llama: LlamaServer) -> None:
    """A15, B13: of a loop over a stream that nobody else holds."""
    async for event in adapter.stream(ENDLESS, **_LONG):
        if isinstance(event, TextDelta):
            await wait_for_slots(llama, 1, _SOON_S)
            break
    await wait_for_slots(llama, 0, _SOON_S)
    assert (await adapter.invoke(HELLO, max_tokens=8)).text


@pytest.mark.row("A15", "B13")
async def test_cancelled_reader_frees_the_slot(adapter: BaseAdapter, llama: LlamaServer) -> None:
    """A15, B13: and the cancellation is the task's own."""
    reader = _Reader(adapter.stream(ENDLESS, **_LONG), TextDelta)
    await reader.reached()
    await wait_for_slots(llama, 1, _SOON_S)
    reader.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader.task
    await wait_for_slots(llama, 0, _SOON_S)
    assert (await adapter.invoke(HELLO, max_tokens=8)).text


@pytest.mark.row("A15", "B13")
async def test_aclose_from_another_task_frees_the_slot(adapter: BaseAdapter, llama: LlamaServer) -> None:
    """A15, B13: the reader gets what had come by then, and lives on."""
    stream = adapter.stream(ENDLESS, **_LONG)
    reader = _Reader(stream, TextDelta)
    await reader.reached()
    await wait_for_slots(llama, 1, _SOON_S)
    await stream.aclose()
    await asyncio.wait_for(reader.task, _SOON_S)
    last = reader.events[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, StreamInterrupted)
    assert last.error.kind == "aborted"
    assert (last.partial.text or "").startswith("".join(delta.text for delta in only(TextDelta, reader.events)))
    await wait_for_slots(llama, 0, _SOON_S)
    assert (await adapter.invoke(HELLO, max_tokens=8)).text


@pytest.mark.row("B13", "E2")
async def test_cancelled_reader_frees_the_slot_while_the_prompt_is_read(
    chat: OpenAIAdapter, llama: LlamaServer
) -> None:
    """B13, E2: after the batch at hand, since the server reports its progress and so notices who has gone."""
    reader = _Reader(chat.stream(_LONG_PROMPT, **_LONG), ModelState)
    await reader.reached()
    await wait_for_slots(llama, 1, _SOON_S)
    reader.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader.task
    await wait_for_slots(llama, 0, 2 * _SOON_S)


@pytest.mark.row("D12")
async def test_closed_adapter_ends_a_call_that_waits(adapter: BaseAdapter, llama: LlamaServer) -> None:
    """D12: `invoke()` raises at once."""
    call = asyncio.create_task(adapter.invoke(ENDLESS, temperature=0, max_tokens=100))
    await wait_for_slots(llama, 1, 5)
    await adapter.aclose()
    with pytest.raises(StreamInterrupted) as caught:
        await asyncio.wait_for(call, 0.5)
    assert caught.value.kind == "aborted"


@pytest.mark.row("B13")
async def test_cancelled_call_frees_the_slot(chat: OpenAIAdapter, llama: LlamaServer) -> None:
    """B13: this server notices who has gone only when it writes, so its profile asks for a stream also here."""
    call = asyncio.create_task(chat.invoke(ENDLESS, temperature=0, max_tokens=250))
    await wait_for_slots(llama, 1, 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await wait_for_slots(llama, 0, 0.5)
