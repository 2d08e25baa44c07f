"""Servers that speak like OpenAI's Chat Completions."""

from any_agent.orchestration.providers.openai.agent import OpenAICompatibleAgent
from any_agent.orchestration.providers.openai.provider import OpenAICompatibleProvider
from any_agent.orchestration.registry import register_provider

__all__ = ("OpenAICompatibleAgent", "OpenAICompatibleProvider")

register_provider(OpenAICompatibleProvider())
