"""What can be asked from here: the aliases of the settings and the providers, each with the place of its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from any_agent.errors import ProviderAuthError
from any_agent.orchestration.keys import KeyPlace, key_place
from any_agent.orchestration.registry import list_providers
from any_agent.orchestration.settings import ProviderAlias
from any_agent.profiles import get_profile, list_profiles

__all__ = ("Entry", "overview")


@dataclass(frozen=True, slots=True)
class Entry:
    """A name, and what is known of it without asking any server."""

    alias: ProviderAlias
    base_url: str | None
    key: KeyPlace
    #: whether there is a key at that place, which never comes out here
    has_key: bool
    problem: str | None = None


def overview(settings: Mapping[str, ProviderAlias]) -> list[Entry]:
    """An entry for each alias, then one for each provider."""
    return [_entry(alias) for alias in [*settings.values(), *(ProviderAlias(name, name) for name in list_providers())]]


def _entry(alias: ProviderAlias) -> Entry:
    if alias.provider not in list_providers():
        nowhere = KeyPlace("none", "", required=False)
        return Entry(alias, alias.base_url, nowhere, False, f"Unknown provider {alias.provider!r}")
    # a provider that some program has registered is no profile: only its own code knows its address and its key
    profile = get_profile(alias.provider if alias.provider in list_profiles() else "generic")
    base_url = alias.base_url or profile.base_url
    if base_url is None:
        variable = profile.api_key_env
        place = KeyPlace("variable", variable, required=True) if variable else KeyPlace("none", "", required=False)
    else:
        place = key_place(profile, base_url, variable=alias.api_key_env, keyring=alias.api_key_keyring)
    try:
        return Entry(alias, base_url, place, place.read() is not None)
    except ProviderAuthError as problem:
        return Entry(alias, base_url, place, False, problem.message)
