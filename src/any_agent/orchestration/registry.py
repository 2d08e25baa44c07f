"""The providers by their names; those that come with any_agent are imported when they are asked for."""

from __future__ import annotations

import importlib

from any_agent.errors import AgentSDKError
from any_agent.orchestration.types import AgentProvider
from any_agent.profiles import list_profiles

__all__ = ("UnknownProvider", "get_provider", "list_providers", "profile_providers", "register_provider")

_HOME = "any_agent.orchestration.providers"
#: these have packages of their own; all others are profiles and nothing else
_PACKAGES = ("openai", "ollama", "anthropic", "embedded")

_registered: dict[str, AgentProvider] = {}


class UnknownProvider(AgentSDKError, KeyError):
    """There is no provider of that name."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would put it into quotes


def register_provider(provider: AgentProvider) -> None:
    """Make a provider known under its `provider_type`, in the place of any other of that name."""
    if not isinstance(provider, AgentProvider):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{provider!r} is no provider: it lacks something that AgentProvider names")
    _import_built_in(provider.provider_type)  # or else it would come later, and take the name back
    _registered[provider.provider_type] = provider


def get_provider(name: str) -> AgentProvider:
    """The provider of that name.

    >>> get_provider("openai").provider_type
    'openai'
    """
    if name not in _registered:
        _import_built_in(name)
    if name not in _registered:
        raise UnknownProvider(f"Unknown provider {name!r}; known are {', '.join(list_providers())}")
    return _registered[name]


def list_providers() -> list[str]:
    """The names of all providers.

    >>> {"openai", "ollama", "anthropic", "lmstudio"} <= set(list_providers())
    True
    """
    return list(dict.fromkeys([*_PACKAGES, *profile_providers(), *_registered]))


def profile_providers() -> list[str]:
    """The names of the providers that are profiles and nothing else."""
    return [name for name in list_profiles() if name not in _PACKAGES]


def _import_built_in(name: str) -> None:
    """Importing a provider's package registers it."""
    if name in _PACKAGES:
        importlib.import_module(f"{_HOME}.{name}")
    elif name in profile_providers():
        importlib.import_module(f"{_HOME}.profiles")
