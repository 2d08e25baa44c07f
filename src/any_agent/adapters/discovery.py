"""What servers say of their models, and of the windows that they loaded them with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from any_agent.wire.failures import invalid_response
from any_agent.wire.values import as_list, as_object, as_objects, as_word, read_json

__all__ = ("ModelInfo", "read_models", "read_window")

#: how servers call the window that is really there; what a model could have at most is another thing
_LOADED = ("n_ctx", "context_length", "loaded_context_length", "max_model_len")
_WINDOWS = ("context_length", "max_model_len", "context_window", "max_context_length", "loaded_context_length", "n_ctx")


@dataclass(slots=True)
class ModelInfo:
    """One model of a server: its name, and its context window and abilities where the server tells."""

    id: str
    context_window: int | None = None
    capabilities: list[str] = field(default_factory=list[str])
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)


def read_models(body: bytes, address: str) -> list[ModelInfo]:
    """The models in a reply, in the shapes of OpenAI, Ollama and Anthropic.

    >>> read_models(b'{"data": [{"id": "qwen3", "max_model_len": 8192}]}', "http://localhost")
    [ModelInfo(id='qwen3', context_window=8192, capabilities=[])]
    """
    try:
        payload = read_json(body)
    except ValueError:
        message = f"{address} answers, but not with a list of models: is base_url right?"
        raise invalid_response(message, body[:400]) from None
    data = as_object(payload)
    if "data" not in data and "models" not in data and not isinstance(payload, list):
        raise invalid_response(f"{address} answers, but not with a list of models: is base_url right?", body[:400])
    items = as_objects(data.get("data")) or as_objects(data.get("models")) or as_objects(as_list(payload))
    models = [_model(item) for item in items]
    return [model for model in models if model.id]


def read_window(body: bytes, model: str) -> int | None:
    """The window that is loaded, in the shapes of llama.cpp, Ollama, LM Studio and vLLM; `None` if it is not said.

    >>> read_window(b'{"default_generation_settings": {"n_ctx": 4096}}', "any")
    4096
    >>> read_window(b'{"models": [{"name": "qwen3:latest", "context_length": 8192}]}', "qwen3")
    8192
    """
    try:
        data = as_object(read_json(body))
    except ValueError:
        return None
    models = as_objects(data.get("data")) or as_objects(data.get("models"))
    item = next((item for item in models if _is_called(item, model)), models[0] if len(models) == 1 else {})
    for place in (as_object(data.get("default_generation_settings")), data, item, as_object(item.get("meta"))):
        for name in _LOADED:
            window = place.get(name)
            if isinstance(window, int) and window > 0:
                return window
    return None


def _is_called(item: dict[str, Any], model: str) -> bool:
    names = [item.get(key) for key in ("id", "name", "model")]
    return model in names or f"{model}:latest" in names


def _model(item: dict[str, Any]) -> ModelInfo:
    places = (item, as_object(item.get("meta")), as_object(item.get("details")))
    windows = [place[name] for place in places for name in _WINDOWS if isinstance(place.get(name), int)]
    identifier = as_word(item.get("id")) or as_word(item.get("model")) or as_word(item.get("name")) or ""
    capabilities = [str(word) for word in as_list(item.get("capabilities"))]
    return ModelInfo(identifier, windows[0] if windows else None, capabilities, item)
