"""Agents on models that you run yourself: LM Studio, Ollama, llama.cpp, vLLM, and every gateway like them.

Names are imported when they are first used, so that `import any_agent` costs next to nothing.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if os.path.isdir(os.path.join(os.path.dirname(__file__), "frameworks")):
    raise ImportError(
        "Two distributions are installed here that share the import name any_agent: any-agent-sdk (this one) and "
        "any-agent (Mozilla's). Their files are mixed now. Keep one: `pip uninstall any-agent any-agent-sdk`, then "
        "`pip install any-agent-sdk`."
    )

if TYPE_CHECKING:
    from any_agent.adapters.base import LLMAdapter
    from any_agent.adapters.create import create_adapter
    from any_agent.adapters.discovery import ModelInfo
    from any_agent.adapters.openai_sdk import ToolCallAggregator, create_client, format_messages
    from any_agent.adapters.protocols import AnthropicAdapter, OllamaAdapter, OpenAIAdapter, ResponsesAdapter
    from any_agent.agent.client import Client
    from any_agent.agent.compaction import Compaction, DropOldest, Summarise
    from any_agent.agent.context import estimate_tokens, is_approaching_limit, truncate_messages
    from any_agent.agent.hooks import (
        Allow,
        Deny,
        HookDecision,
        Hooks,
        PostToolUseEvent,
        PreToolUseEvent,
        UserPromptSubmitEvent,
    )
    from any_agent.agent.options import AgentOptions
    from any_agent.agent.query import query
    from any_agent.errors import (
        AgentSDKError,
        ContextLengthExceeded,
        MaxTurnsExceeded,
        ModelNotFound,
        PromptBlocked,
        ProviderAPIError,
        ProviderAuthError,
        ProviderConnectionError,
        ProviderError,
        ProviderTimeoutError,
        StreamInterrupted,
    )
    from any_agent.events import (
        Done,
        Event,
        Failed,
        ModelState,
        Notice,
        Reset,
        ResponseEnd,
        Retry,
        TextDelta,
        ThinkingDelta,
        ToolCall,
        ToolInputDelta,
        ToolInputStart,
        ToolProgress,
        ToolResult,
        ToolRunning,
    )
    from any_agent.profiles import get_profile
    from any_agent.tools.context import ToolContext
    from any_agent.tools.define import Tool, tool
    from any_agent.types import (
        AssistantMessage,
        ImageBlock,
        LLMResponse,
        Message,
        Profile,
        RetryConfig,
        StopReason,
        TextBlock,
        ThinkingBlock,
        Timeouts,
        ToolResultBlock,
        ToolSpec,
        ToolUseBlock,
        ToolUseError,
        Usage,
    )

_HOMES = {
    "adapters.base": "LLMAdapter",
    "adapters.create": "create_adapter",
    "adapters.discovery": "ModelInfo",
    "adapters.openai_sdk": "ToolCallAggregator create_client format_messages",
    "adapters.protocols": "AnthropicAdapter OllamaAdapter OpenAIAdapter ResponsesAdapter",
    "agent.client": "Client",
    "agent.compaction": "Compaction DropOldest Summarise",
    "agent.context": "estimate_tokens is_approaching_limit truncate_messages",
    "agent.hooks": "Allow Deny HookDecision Hooks PostToolUseEvent PreToolUseEvent UserPromptSubmitEvent",
    "agent.options": "AgentOptions",
    "agent.query": "query",
    "errors": (
        "AgentSDKError ContextLengthExceeded MaxTurnsExceeded ModelNotFound PromptBlocked ProviderAPIError "
        "ProviderAuthError ProviderConnectionError ProviderError ProviderTimeoutError StreamInterrupted"
    ),
    "events": (
        "Done Event Failed ModelState Notice Reset ResponseEnd Retry TextDelta ThinkingDelta ToolCall "
        "ToolInputDelta ToolInputStart ToolProgress ToolResult ToolRunning"
    ),
    "profiles": "get_profile",
    "tools.context": "ToolContext",
    "tools.define": "Tool tool",
    "types": (
        "AssistantMessage ImageBlock LLMResponse Message Profile RetryConfig StopReason TextBlock ThinkingBlock "
        "Timeouts ToolResultBlock ToolSpec ToolUseBlock ToolUseError Usage"
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = (  # noqa: RUF022 - in the order of the documentation
    "query", "Client", "AgentOptions", "RetryConfig", "Timeouts",
    "Message", "AssistantMessage", "LLMResponse", "Usage", "StopReason",
    "TextBlock", "ThinkingBlock", "ImageBlock", "ToolUseBlock", "ToolUseError", "ToolResultBlock",
    "TextDelta", "ThinkingDelta", "ToolInputStart", "ToolInputDelta", "ToolCall", "ToolRunning", "ToolProgress",
    "ToolResult", "ModelState", "Reset", "Retry", "Notice", "ResponseEnd", "Done", "Failed", "Event",
    "tool", "Tool", "ToolContext", "ToolSpec", "Allow", "Deny", "PromptBlocked", "Hooks", "HookDecision",
    "PreToolUseEvent", "PostToolUseEvent", "UserPromptSubmitEvent",
    "LLMAdapter", "OpenAIAdapter", "OllamaAdapter", "AnthropicAdapter", "ResponsesAdapter", "create_adapter",
    "ModelInfo",
    "Profile", "get_profile", "create_client", "format_messages", "ToolCallAggregator",
    "estimate_tokens", "is_approaching_limit", "truncate_messages", "Compaction", "DropOldest", "Summarise",
    "AgentSDKError", "ProviderError", "ProviderAuthError", "ProviderAPIError", "ProviderTimeoutError",
    "ProviderConnectionError", "StreamInterrupted", "ContextLengthExceeded", "ModelNotFound", "MaxTurnsExceeded",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'any_agent' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"any_agent.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
