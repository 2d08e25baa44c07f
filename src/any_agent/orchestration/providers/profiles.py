"""All servers that differ by their profile alone: OpenRouter, LM Studio, llama.cpp, vLLM, Gemini, and so on."""

from any_agent.orchestration.providers.openai.provider import OpenAICompatibleProvider
from any_agent.orchestration.registry import profile_providers, register_provider

for name in profile_providers():
    register_provider(OpenAICompatibleProvider(name))
