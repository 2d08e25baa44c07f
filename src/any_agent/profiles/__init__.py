"""What servers can do: data in `builtin.toml`, and the few rules by which a profile is found."""

from any_agent.profiles.registry import (
    get_profile,
    guess_profile,
    is_loopback,
    is_own_host,
    key_for,
    list_profiles,
    profile_from_headers,
)

__all__ = (
    "get_profile",
    "guess_profile",
    "is_loopback",
    "is_own_host",
    "key_for",
    "list_profiles",
    "profile_from_headers",
)
