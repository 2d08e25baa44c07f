"""The four adapters. The same program runs on each; only the address and the words on the wire differ."""

from __future__ import annotations

from any_agent.adapters.base import BaseAdapter
from any_agent.wire.anthropic import AnthropicDecoder, encode_anthropic
from any_agent.wire.ollama import OllamaDecoder, encode_ollama
from any_agent.wire.openai_chat import OpenAIChatDecoder
from any_agent.wire.openai_request import encode_chat
from any_agent.wire.responses import ResponsesDecoder, encode_responses

__all__ = ("AnthropicAdapter", "OllamaAdapter", "OpenAIAdapter", "ResponsesAdapter")


class OpenAIAdapter(BaseAdapter):
    """Chat Completions: LM Studio, llama.cpp, vLLM, Ollama under `/v1`, gateways, OpenAI.

    >>> OpenAIAdapter(model="qwen3", base_url="http://localhost:1234")
    OpenAIAdapter(model='qwen3', base_url='http://localhost:1234/v1', profile='lmstudio')

    - `api_key`: else the variable that the profile names is read, and sent only to that profile's hosts.
    - `profile`: the name of a server's profile, or a `Profile`; guessed from the address if left out.
    - `retry`, `timeouts`: by default one attempt, ten minutes for the first byte.
    - `client`: your own `AsyncOpenAI`, for proxies, certificates or Azure; its address and key count.
    - `text_stream`: whether deltas are pieces or the whole text so far, if the server's habit is known.
    - `think_open`: the model's template opens `<think>` itself, so the text begins inside a thought.
    - `allow_lenient_tool_json`: repair the arguments of calls; by default for servers that users run themselves.
    - `extra_headers`, `extra_body`: sent as they are.
    - `record_to`: a folder that gets a fixture of each exchange, without keys.
    - `transport`: in place of HTTP, for instance a `Replay` of recordings.
    """

    protocol = "openai"
    _path = "/chat/completions"
    _usual_path = "/v1"
    _decoder = OpenAIChatDecoder
    _encode = encode_chat


class OllamaAdapter(BaseAdapter):
    """Ollama's native protocol, which knows more than its OpenAI one: `num_ctx`, thinking, load times.

    >>> OllamaAdapter(model="qwen3", base_url="http://localhost:11434").base_url
    'http://localhost:11434/api'
    """

    protocol = "ollama"
    _path = "/chat"
    _models_path = "/tags"
    _usual_path = "/api"
    _decoder = OllamaDecoder
    _encode = encode_ollama


class AnthropicAdapter(BaseAdapter):
    """Anthropic Messages: Anthropic itself, and llama.cpp, Ollama, vLLM and gateways that speak it too."""

    protocol = "anthropic"
    _path = "/messages"
    _usual_path = "/v1"
    _decoder = AnthropicDecoder
    _encode = encode_anthropic


class ResponsesAdapter(BaseAdapter):
    """OpenAI Responses: OpenAI itself, and llama.cpp, LM Studio and vLLM. Nothing is stored on the server."""

    protocol = "responses"
    _path = "/responses"
    _usual_path = "/v1"
    _decoder = ResponsesDecoder
    _encode = encode_responses
