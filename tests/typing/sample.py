"""A program as users write it; pyright checks it in strict mode, and nothing runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_type

from any_agent import (
    AgentOptions,
    Done,
    Event,
    Failed,
    LLMResponse,
    Message,
    OpenAIAdapter,
    ProviderError,
    TextDelta,
    Tool,
    ToolUseBlock,
    Usage,
    create_adapter,
    tool,
)
from any_agent.orchestration import (
    Agent,
    AgentConfig,
    AgentProvider,
    AgentState,
    MessageBus,
    MessageType,
    get_provider,
    register_provider,
)
from any_agent.orchestration import Message as AgentMessage
from any_agent.orchestration.providers.openai import OpenAICompatibleAgent, OpenAICompatibleProvider


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


assert_type(add, Tool)


async def main() -> None:
    async with OpenAIAdapter("qwen3", "http://localhost:1234") as model:
        async for event in model.stream([Message("user", "hi")], [add], temperature=0):
            assert_type(event, Event)
            match event:
                case TextDelta(text=text):
                    assert_type(text, str)
                case Done(response=response):
                    assert_type(response.usage, Usage | None)
                    assert_type(response.tool_calls, list[ToolUseBlock])
                case Failed(error=error):
                    assert_type(error, ProviderError)
                case _:
                    pass
            if event.type == "text":
                assert_type(event.text, str)
        answer = await model.invoke([{"role": "user", "content": "hi"}])
        assert_type(answer, LLMResponse)
    assert_type(create_adapter.__name__, str)


class Pool:
    """A provider as a program writes its own: nothing of any_agent has to be inherited."""

    provider_type = "pool"

    async def create_agent(self, config: AgentConfig) -> Agent:
        return OpenAICompatibleAgent(config, self.options(config))

    def validate_credentials(self) -> bool:
        return True

    def options(self, config: AgentConfig, tools: Sequence[Tool] | None = None) -> AgentOptions:
        return OpenAICompatibleProvider("vllm").options(config, tools)


async def named_agents() -> None:
    register_provider(Pool())
    provider = get_provider("pool")
    assert_type(provider, AgentProvider)
    agent = await provider.create_agent(AgentConfig(name="a", provider="pool", model="qwen3", api_key=None))
    assert_type(agent, Agent)
    assert_type(agent.state, AgentState)
    bus = MessageBus()
    bus.register(agent)
    async for reply in bus.send(AgentMessage(content="hi", sender="user", recipients=["a"])):
        assert_type(reply, AgentMessage)
        assert_type(reply.message_type, MessageType)
    async for event in agent.stream_message(AgentMessage("hi")):
        assert_type(event, Event)
    await agent.shutdown()
