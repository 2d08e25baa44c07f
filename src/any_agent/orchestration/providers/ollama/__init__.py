"""Ollama in its own protocol."""

from any_agent.orchestration.providers.openai.provider import OpenAICompatibleProvider
from any_agent.orchestration.registry import register_provider

register_provider(OpenAICompatibleProvider("ollama"))
