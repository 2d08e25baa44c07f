"""The server that comes with any_agent, leased for as long as the process lives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from any_agent import embedded
from any_agent.orchestration.providers.openai.provider import OpenAICompatibleProvider
from any_agent.orchestration.registry import register_provider

if TYPE_CHECKING:
    from collections.abc import Sequence

    from any_agent.agent.options import AgentOptions
    from any_agent.orchestration.types import AgentConfig
    from any_agent.tools.define import Tool

__all__ = ("EmbeddedProvider",)


class EmbeddedProvider(OpenAICompatibleProvider):
    """Its model is the small default one, or that of a GGUF file.

    >>> EmbeddedProvider().provider_type
    'embedded'
    """

    def __init__(self) -> None:
        super().__init__("embedded")

    def options(self, config: AgentConfig, tools: Sequence[Tool] | None = None) -> AgentOptions:
        """Everything that is needed to ask the model; its server is started if it does not run."""
        settings = embedded.hold(config.model).settings
        del settings["profile"]
        said = {name: value for name in ("temperature", "max_tokens") if (value := getattr(config, name)) is not None}
        return super().options(replace(config, **settings | said), tools)


register_provider(EmbeddedProvider())
