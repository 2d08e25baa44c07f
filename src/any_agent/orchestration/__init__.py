"""Named agents: what they are, who makes them, and how they talk with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from any_agent.orchestration.bus import DeliveryError, MessageBus
from any_agent.orchestration.registry import get_provider, list_providers, register_provider
from any_agent.orchestration.types import Agent, AgentConfig, AgentProvider, AgentState, Message, MessageType

if TYPE_CHECKING:
    from any_agent.orchestration.durable.host import Agents

__all__ = (
    "Agent",
    "AgentConfig",
    "AgentProvider",
    "AgentState",
    "Agents",
    "DeliveryError",
    "Message",
    "MessageBus",
    "MessageType",
    "get_provider",
    "list_providers",
    "register_provider",
)


def __getattr__(name: str) -> Any:
    if name != "Agents":
        raise AttributeError(f"module 'any_agent.orchestration' has no attribute {name!r}")
    from any_agent.orchestration.durable.host import Agents

    return Agents
