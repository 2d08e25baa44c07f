"""What this server refuses, and what it lets pass."""

from __future__ import annotations

import traceback

import pytest

from any_agent import ContextLengthExceeded, Failed, ProviderAuthError, ProviderError
from any_agent.adapters.base import BaseAdapter
from any_agent.events import Event, to_dict
from real_server.helpers import ADAPTERS, HELLO, events_of, prompt_of
from real_server.server import MODEL, WINDOW, LlamaServer

pytestmark = pytest.mark.real_server

_WRONG_KEY = "sk-this-is-not-the-key"


@pytest.mark.row("A29", "D11")
async def test_prompt_that_does_not_fit_is_refused_with_the_size_of_the_window(adapter: BaseAdapter) -> None:
    """A29, D11: with the numbers, and with what to do."""
    prompt = prompt_of(WINDOW + 2000)
    with pytest.raises(ContextLengthExceeded) as caught:
        await adapter.invoke(prompt, max_tokens=4)
    for error in (caught.value, _error_of(await events_of(adapter.stream(prompt, max_tokens=4)))):
        assert isinstance(error, ContextLengthExceeded)
        assert error.details["n_ctx"] == WINDOW
        assert error.details["n_prompt_tokens"] > WINDOW
        assert (error.kind, error.retryable, error.status_code) == ("context_length", False, 400)
        assert "shorten the conversation" in str(error)


@pytest.mark.row("A29", "C4")
@pytest.mark.parametrize("protocol", ADAPTERS)
async def test_wrong_key_is_an_auth_error_that_does_not_repeat_it(protocol: str, llama: LlamaServer) -> None:
    """A29, C4: streamed, whole, and for the list of models."""
    async with ADAPTERS[protocol](MODEL, llama.address, api_key=_WRONG_KEY) as adapter:
        errors = [_error_of(await events_of(adapter.stream(HELLO)))]
        for asking in (adapter.invoke(HELLO), adapter.list_models()):
            with pytest.raises(ProviderAuthError) as caught:
                await asking
            errors.append(caught.value)
        for error in errors:
            assert isinstance(error, ProviderAuthError)
            assert (error.kind, error.retryable, error.status_code) == ("auth", False, 401)
            told = [str(error), repr(error), error.body, error.details, *traceback.format_exception(error)]
            assert _WRONG_KEY not in f"{told} {adapter!r}"


@pytest.mark.row("D14")
async def test_no_key_is_sent_if_none_is_given(llama: LlamaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """D14: not even one that is in the environment for others."""
    monkeypatch.setenv("OPENAI_API_KEY", llama.key)
    async with ADAPTERS["chat"](MODEL, llama.address) as adapter:
        error = _error_of(await events_of(adapter.stream(HELLO)))
    assert isinstance(error, ProviderAuthError)


@pytest.mark.row("A29")
async def test_name_of_the_model_does_not_matter_to_this_server(adapter: BaseAdapter) -> None:
    """A29: it has one model, answers 200 under any name, and the response tells which one it was."""
    response = await adapter.invoke(HELLO, temperature=0, max_tokens=8, model="no-such-model")
    assert response.text
    assert response.model == MODEL


@pytest.mark.row("E1")
async def test_models_are_listed_with_the_window_really_loaded(adapter: BaseAdapter) -> None:
    """E1: that of one slot, not the 8192 tokens for which the model was trained."""
    (model,) = await adapter.list_models()
    assert (model.id, model.context_window) == (MODEL, WINDOW)


def _error_of(events: list[Event]) -> ProviderError:
    """The error that is all there is, and that can be written down."""
    (event,) = events
    assert isinstance(event, Failed)
    assert _WRONG_KEY not in str(to_dict(event))
    return event.error
