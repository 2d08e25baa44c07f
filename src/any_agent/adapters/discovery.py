"""What servers say of their models, and of the windows that they loaded them with; and how to have them do more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from any_agent.wire.failures import invalid_response
from any_agent.wire.values import as_list, as_object, as_objects, as_word, read_json

if TYPE_CHECKING:
    from any_agent.types import Protocol

__all__ = (
    "START_ONE",
    "Ability",
    "FoundModel",
    "FoundServer",
    "ModelInfo",
    "advice",
    "is_listing",
    "read_abilities",
    "read_loaded",
    "read_longest",
    "read_models",
    "read_window",
)

Ability = Literal["tools", "thinking", "vision", "embedding"]

#: how servers call the window that is really there; what a model could have at most is another thing
_LOADED = ("n_ctx", "context_length", "loaded_context_length", "max_model_len")
_LONGEST = ("max_context_length", "n_ctx_train")
_WINDOWS = (*_LOADED, "context_window", "max_context_length")
#: how servers call what a model can do
_ABILITIES: dict[str, Ability] = {
    "tools": "tools",
    "tool_use": "tools",
    "trained_for_tool_use": "tools",
    "function_calling": "tools",
    "supports_tools": "tools",
    "thinking": "thinking",
    "reasoning": "thinking",
    "vision": "vision",
    "image": "vision",
    "multimodal": "vision",
    "vlm": "vision",
    "embedding": "embedding",
    "embeddings": "embedding",
}
#: where a server that knows of tools would tell of them
_TELLING = ("capabilities", "supported_parameters", "chat_template_caps")

#: what to do where no server runs
START_ONE = (
    "start one: LM Studio (Developer > Start server), `ollama serve` or `llama-server -m MODEL.gguf`; name one that "
    "listens elsewhere with --base-url; or talk to the small model that any_agent brings along: "
    "`any-agent chat --profile embedded`"
)
#: how a server is made to do more, by what it lacks and by its profile
_ADVICE: dict[str, dict[str, str]] = {
    "models": {
        "ollama": "fetch one with `ollama pull MODEL`",
        "lmstudio": "download a model in LM Studio, and load it",
        "": "load a model, or name one with -m",
    },
    "tools": {
        "llamacpp": "start llama-server with --jinja, and if need be with a --chat-template-file that knows tools",
        "vllm": "start vLLM with --enable-auto-tool-choice --tool-call-parser NAME (the parser of this model)",
        "sglang": "start SGLang with --tool-call-parser NAME (the parser of this model)",
        "ollama": "take a model that has tools according to `ollama show MODEL`",
        "lmstudio": "take a model that LM Studio marks with a hammer",
        "": "take a model that was trained for tools, and see how its server parses their calls",
    },
    "thinking": {
        "llamacpp": "start llama-server with --jinja --reasoning-format deepseek",
        "vllm": "start vLLM with --reasoning-parser NAME (the parser of this model)",
        "sglang": "start SGLang with --reasoning-parser NAME (the parser of this model)",
        "": "see how the server separates thoughts; if its template opens <think> itself, give think_open=True",
    },
    "window": {
        "llamacpp": "start llama-server with a larger -c (its slots, -np, share it)",
        "embedded": "ask for more: embedded.server(context=…)",
        "vllm": "start vLLM with a larger --max-model-len",
        "sglang": "start SGLang with a larger --context-length",
        "ollama": "give num_ctx=… with each request, or start Ollama with OLLAMA_CONTEXT_LENGTH=…",
        "ollama-openai": "start Ollama with OLLAMA_CONTEXT_LENGTH=…, or talk to it with OllamaAdapter and num_ctx=…",
        "lmstudio": "load the model again, with its context length slider further to the right",
        "": "load the model with a larger context window",
    },
}
_LIKE = {"embedded": "llamacpp", "ollama-openai": "ollama"}


@dataclass(slots=True)
class ModelInfo:
    """One model of a server: its name, and its context window and abilities where the server tells."""

    id: str
    context_window: int | None = None
    capabilities: list[str] = field(default_factory=list[str])
    raw: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)


@dataclass(slots=True)
class FoundModel:
    """One model of a server that was found. What is `None` the server does not say."""

    id: str
    #: the window that is loaded; for a server that loads on demand only known while it is
    context_window: int | None = None
    #: the largest window that it could be loaded with
    longest: int | None = None
    abilities: tuple[Ability, ...] | None = None


@dataclass(slots=True)
class FoundServer:
    """A server that answered: the name of its profile, its address as adapters take it, and its models."""

    profile: str
    base_url: str
    protocol: Protocol = "openai"
    models: list[FoundModel] = field(default_factory=list[FoundModel])
    #: whether it said what it has, or wants a key first, or is still loading its model
    state: Literal["ready", "needs_key", "loading"] = "ready"

    def choice(self) -> FoundModel | None:
        """The model to take if nobody names one: the first that can chat, one that is loaded before others."""
        able = [model for model in self.models if "embedding" not in (model.abilities or ())]
        return next((model for model in able if model.context_window), next(iter(able), None))


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


def is_listing(body: bytes) -> bool:
    """Whether a reply is a list of models beyond doubt: many a web service has `data` in its replies.

    >>> is_listing(b'{"object": "list", "data": []}'), is_listing(b'{"data": [{"id": 7}]}')
    (True, False)
    """
    try:
        payload = read_json(body)
    except ValueError:
        return False
    data = as_object(payload)
    items = as_objects(data.get("data")) or as_objects(payload)
    is_list = data.get("object") == "list" and "data" in data
    return is_list or any("model" in (item.get("object"), item.get("type")) for item in items)


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
    return read_loaded(data) or read_loaded(item)


def read_loaded(item: dict[str, Any]) -> int | None:
    """The window that one model is loaded with, by one thing that its server says.

    >>> read_loaded({"max_context_length": 32768}) is None
    True
    """
    return _size(_LOADED, as_object(item.get("default_generation_settings")), item, as_object(item.get("meta")))


def read_longest(item: dict[str, Any]) -> int | None:
    """The largest window that a model could be loaded with, by one thing that its server says.

    >>> read_longest({"model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960}})
    40960
    """
    details = as_object(item.get("model_info"))
    names = [name for name in details if name.endswith(".context_length")]
    return _size(_LONGEST, item, as_object(item.get("meta"))) or _size(names, details)


def read_abilities(*items: dict[str, Any]) -> tuple[Ability, ...] | None:
    """What a model can do, by all that its server says of it; `None` if it says nothing of such things.

    >>> read_abilities({"type": "vlm", "capabilities": ["tool_use"]})
    ('tools', 'vision')
    >>> read_abilities({"id": "qwen3"}) is None
    True
    """
    found = {_ABILITIES[word] for item in items for word in _words(item) if word in _ABILITIES}
    if not found and not any(name in item for item in items for name in _TELLING):
        return None
    return tuple(name for name in dict.fromkeys(_ABILITIES.values()) if name in found)


def advice(lack: str, profile: str) -> str:
    """What a user can do about something that the server of a profile lacks.

    >>> advice("window", "vllm")
    'start vLLM with a larger --max-model-len'
    """
    known = _ADVICE[lack]
    return known.get(profile) or known.get(_LIKE.get(profile, "")) or known[""]


def _words(item: dict[str, Any]) -> Iterator[str]:
    """The names of abilities in the places where servers put them: in lists, and as keys of what is true."""
    modalities = as_object(item.get("architecture")).get("input_modalities")
    places = (*(item.get(name) for name in _TELLING), item.get("modalities"), modalities, [item.get("type")])
    for place in places:
        yield from (str(word) for word in as_list(place))
        yield from (word for word, is_so in as_object(place).items() if is_so)


def _size(names: tuple[str, ...] | list[str], *places: dict[str, Any]) -> int | None:
    sizes = (place.get(name) for place in places for name in names)
    return next((size for size in sizes if isinstance(size, int) and size > 0), None)


def _is_called(item: dict[str, Any], model: str) -> bool:
    names = [item.get(key) for key in ("id", "name", "model")]
    return model in names or f"{model}:latest" in names


def _model(item: dict[str, Any]) -> ModelInfo:
    window = _size(_WINDOWS, item, as_object(item.get("meta")), as_object(item.get("details")))
    identifier = as_word(item.get("id")) or as_word(item.get("model")) or as_word(item.get("name")) or ""
    capabilities = [str(word) for word in as_list(item.get("capabilities"))]
    return ModelInfo(identifier, window, capabilities, item)
