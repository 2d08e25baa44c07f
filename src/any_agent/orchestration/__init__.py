"""Named agents: what they are, who makes them, and how they talk with each other."""

from any_agent.orchestration.bus import DeliveryError, MessageBus
from any_agent.orchestration.registry import get_provider, list_providers, register_provider
from any_agent.orchestration.types import Agent, AgentConfig, AgentProvider, AgentState, Message, MessageType

__all__ = (
    "Agent",
    "AgentConfig",
    "AgentProvider",
    "AgentState",
    "DeliveryError",
    "Message",
    "MessageBus",
    "MessageType",
    "get_provider",
    "list_providers",
    "register_provider",
)
