"""Where an agent's key is kept. What is stored and shown is the place, never the key."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from any_agent.errors import ProviderAuthError
from any_agent.profiles import guess_profile, is_loopback, is_own_host

if TYPE_CHECKING:
    from any_agent.orchestration.types import AgentConfig
    from any_agent.types import Profile

__all__ = ("KeyPlace", "find_key", "key_place", "wire_profile")


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Where a key is looked for, and whether there is no way without one."""

    kind: Literal["variable", "keyring", "none"]
    #: the name of the variable, or "service/user"
    name: str
    required: bool

    def read(self) -> str | None:
        """The key, if there is one; a keyring that cannot be asked is a `ProviderAuthError`."""
        if self.kind == "variable":
            return os.environ.get(self.name, "").strip() or None
        return _from_keyring(self.name) if self.kind == "keyring" else None


def wire_profile(profile: Profile, base_url: str) -> Profile:
    """What the server at that address is: "openai" stands for all that speak like it."""
    return guess_profile(base_url) if profile.name == "openai" and not is_own_host(profile, base_url) else profile


def key_place(profile: Profile, base_url: str, *, variable: str | None = None, keyring: str | None = None) -> KeyPlace:
    """Where the key for an address is: at the place that was named, else in the variable of a service's own profile.

    >>> from any_agent.profiles import get_profile
    >>> key_place(get_profile("openai"), "https://api.openai.com/v1")
    KeyPlace(kind='variable', name='OPENAI_API_KEY', required=True)
    >>> key_place(get_profile("openai"), "https://gateway.example/v1")
    KeyPlace(kind='none', name='', required=True)
    """
    if variable:
        return KeyPlace("variable", variable, required=True)
    if keyring:
        return KeyPlace("keyring", keyring, required=True)
    needed = profile.api_key_env is not None and (not profile.local or _is_service(profile, base_url))
    required = needed and not is_loopback(urlsplit(base_url).hostname or "")
    wire = wire_profile(profile, base_url)
    if wire.api_key_env is not None and is_own_host(wire, base_url):
        return KeyPlace("variable", wire.api_key_env, required)
    return KeyPlace("none", "", required)


def find_key(config: AgentConfig, profile: Profile, base_url: str) -> str | None:
    """The key for an address; `None` if there is none and none is needed. Without one that is, it is an error."""
    if config.api_key:
        return config.api_key
    place = key_place(profile, base_url, variable=config.api_key_env, keyring=config.api_key_keyring)
    key = place.read()
    if key is None and place.required:
        raise ProviderAuthError(_missing(place, profile, base_url), provider=profile.name)
    return key


def _is_service(profile: Profile, base_url: str) -> bool:
    """Whether an address is the service behind a profile of servers that people also run themselves."""
    return is_own_host(profile, base_url) and not is_loopback(urlsplit(base_url).hostname or "")


def _missing(place: KeyPlace, profile: Profile, base_url: str) -> str:
    host = urlsplit(base_url).hostname
    if place.kind == "variable":
        return f"there is no key for {host}: set the environment variable {place.name}"
    if place.kind == "keyring":
        service, _, user = place.name.rpartition("/")
        return f"there is no key for {host}: the keyring has no entry {place.name!r} (`keyring set {service} {user}`)"
    return (
        f"there is no key for {host}, and the one in {profile.api_key_env} is not for it: name the environment "
        "variable that holds its key (api_key_env), or the provider 'local' if it needs none"
    )


def _from_keyring(entry: str) -> str | None:
    try:
        keyring: Any = importlib.import_module("keyring")
        errors: Any = importlib.import_module("keyring.errors")
    except ModuleNotFoundError as problem:
        raise ProviderAuthError(
            f'the key is in the keyring ({entry}), and keyring is not installed: pip install "any-agent-sdk[keyring]"'
        ) from problem
    service, _, user = entry.rpartition("/")
    try:
        return keyring.get_password(service, user) or None
    except errors.KeyringError as problem:
        what = type(problem).__name__
        raise ProviderAuthError(
            f"the keyring does not give the entry {entry!r} ({what}): is it locked, or is there none here?"
        ) from problem
