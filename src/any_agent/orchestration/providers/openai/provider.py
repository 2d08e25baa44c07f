"""The provider for every server that has a profile; what differs between them is data."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from any_agent.adapters.create import create_adapter
from any_agent.agent.compaction import POLICIES
from any_agent.agent.options import AgentOptions
from any_agent.errors import ProviderError
from any_agent.orchestration.keys import find_key, wire_profile
from any_agent.orchestration.providers.openai.agent import OpenAICompatibleAgent
from any_agent.profiles import get_profile
from any_agent.tools.load import load_tool

if TYPE_CHECKING:
    from any_agent.orchestration.types import AgentConfig
    from any_agent.tools.define import Tool

__all__ = ("OpenAICompatibleProvider",)


class OpenAICompatibleProvider:
    """Makes agents for a server that has a profile; "openai" is for all that speak like OpenAI.

    >>> OpenAICompatibleProvider("openrouter").provider_type
    'openrouter'
    """

    def __init__(self, profile: str = "openai") -> None:
        self._profile = get_profile(profile)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.provider_type!r})"

    @property
    def provider_type(self) -> str:
        """The name of the profile."""
        return self._profile.name

    async def create_agent(self, config: AgentConfig) -> OpenAICompatibleAgent:
        """An agent in this process. Nothing is sent yet."""
        return OpenAICompatibleAgent(config, self.options(config))

    def validate_credentials(self) -> bool:
        """Whether an agent for the usual address could be made without giving a key."""
        variable = self._profile.api_key_env
        has_key = variable is None or self._profile.local or bool(os.environ.get(variable, "").strip())
        try:
            return has_key and importlib.util.find_spec("openai") is not None
        except ValueError:  # it has been imported from somewhere that has no spec
            return has_key

    def options(self, config: AgentConfig, tools: Sequence[Tool] | None = None) -> AgentOptions:
        """Everything that is needed to ask the model, the key included. Nobody is asked for it but the keyring.

        `tools` come in the place of those that `config` names.
        """
        if not config.model:
            raise ProviderError("model is required for OpenAI-compatible agents", kind="invalid_request")
        base_url = config.base_url or self._profile.base_url
        if not base_url:
            message = f"provider {self.provider_type!r} has no usual address: give base_url (--base-url)"
            raise ProviderError(message, kind="invalid_request")
        wire = wire_profile(self._profile, base_url)
        usable = [_tool(name) for name in config.tools] if tools is None else list(tools)
        given = {name: getattr(config, name) for name in ("temperature", "max_tokens", "thinking")}
        options = AgentOptions(
            system_prompt=config.system_prompt or "",
            model=config.model,
            base_url=base_url,
            api_key=find_key(config, self._profile, base_url) or "not-needed",
            protocol=wire.protocol,
            profile=wire.name,
            tools=usable,
            auto_execute_tools=bool(usable),
            max_turns=sys.maxsize,
            compaction=POLICIES[config.compaction],
            **{name: value for name, value in given.items() if value is not None},
        )
        create_adapter(options)  # an address that is none is refused here, and not in the middle of a turn
        return options


def _tool(name: str) -> Tool:
    try:
        return load_tool(name)
    except ValueError as problem:
        raise ValueError(f"tool {problem}") from problem
