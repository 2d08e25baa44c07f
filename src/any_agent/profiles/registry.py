"""Finds the profile of a server: by name, by address, or by what the server says of itself."""

from __future__ import annotations

import functools
import ipaddress
import os
import tomllib
from importlib import resources
from typing import Any, cast
from urllib.parse import urlsplit

from any_agent.types import Profile, Protocol

__all__ = (
    "get_profile",
    "guess_profile",
    "is_loopback",
    "is_own_host",
    "key_for",
    "list_profiles",
    "profile_from_headers",
)

#: what `like` does not hand on: by these a server is recognised
_OWN = ("name", "hosts", "ports", "server_header", "api_key_env", "base_url")


@functools.cache
def _profiles() -> dict[str, Profile]:
    text = resources.files("any_agent.profiles").joinpath("builtin.toml").read_text("utf-8")
    rows = cast("dict[str, dict[str, Any]]", tomllib.loads(text))
    return {name: _profile(name, rows) for name in rows}


def _profile(name: str, rows: dict[str, dict[str, Any]]) -> Profile:
    row = dict(rows[name])
    while "like" in row:
        base = rows[row.pop("like")]
        row = {**{key: value for key, value in base.items() if key not in _OWN}, **row}
    for key in ("hosts", "ports", "schema_drop"):
        row[key] = tuple(row.get(key, ()))
    return Profile(name, **row)


def list_profiles() -> list[str]:
    """The names of the built-in profiles.

    >>> "lmstudio" in list_profiles()
    True
    """
    return list(_profiles())


def get_profile(name: str) -> Profile:
    """The built-in profile of that name.

    >>> get_profile("llamacpp").local
    True
    """
    profile = _profiles().get(name)
    if profile is None:
        raise ValueError(f"there is no profile {name!r}; known are {', '.join(_profiles())}")
    return profile


def guess_profile(base_url: str, protocol: Protocol = "openai") -> Profile:
    """The profile that an address suggests: a known host, the usual port of a local server, or neither.

    >>> guess_profile("https://openrouter.ai/api/v1").name
    'openrouter'
    >>> guess_profile("http://127.0.0.1:1234/v1").name, guess_profile("http://127.0.0.1:5123").name
    ('lmstudio', 'local')
    """
    parts = urlsplit(base_url)
    host = (parts.hostname or "").lower()
    for profile in _profiles().values():
        if profile.protocol == protocol and any(_is_host(host, known) for known in profile.hosts):
            return profile
    if is_loopback(host):
        for profile in _profiles().values():
            if profile.protocol == protocol and parts.port in profile.ports:
                return profile
        return get_profile("ollama" if protocol == "ollama" else "local")
    return get_profile(protocol if protocol == "ollama" else "generic")


def profile_from_headers(headers: dict[str, str], known: Profile) -> Profile:
    """The profile that the response headers prove; only a guess (`local`, `generic`) gives way to it."""
    if known.name in ("local", "generic"):
        server = headers.get("server", "")
        for profile in _profiles().values():
            if profile.server_header and server.startswith(profile.server_header):
                return profile
    return known


def key_for(profile: Profile, base_url: str) -> str | None:
    """The key from the profile's environment variable, if the address is one of the profile's own hosts."""
    if profile.api_key_env is None or not is_own_host(profile, base_url):
        return None
    return os.environ.get(profile.api_key_env) or None


def is_own_host(profile: Profile, base_url: str) -> bool:
    """Whether an address is that of the profile's service, which may see its key.

    >>> is_own_host(get_profile("openai"), "https://eu.api.openai.com/v1")
    True
    """
    host = (urlsplit(base_url).hostname or "").lower()
    own = {*profile.hosts, urlsplit(profile.base_url or "").hostname}
    return any(known and _is_host(host, known) for known in own)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine.

    >>> is_loopback("localhost"), is_loopback("127.0.0.9"), is_loopback("example.org")
    (True, True, False)
    """
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_host(host: str, known: str) -> bool:
    return host == known or host.endswith(f".{known}")
