"""`providers.toml` of the user, and `./any-agent.toml`: what a name stands for.

    [fast]
    provider = "openrouter"
    model = "qwen/qwen3-32b"
    api_key_env_var = "MY_ROUTER_KEY"

A key itself is never in these files.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from any_agent.folders import user_folder
from any_agent.orchestration.registry import list_providers
from any_agent.orchestration.types import (
    AgentConfig,
    checked_keyring,
    checked_url,
    checked_variable,
    looks_like_known_key,
)

__all__ = ("ProviderAlias", "find_alias", "load_own_settings", "load_settings", "resolve")

_USERS = "providers.toml"
_LOCAL = "any-agent.toml"
_SECRETIVE = re.compile(r"key|token|secret|password|passwd|credential|authorization", re.IGNORECASE)
_PLACES = ("api_key", "api_key_env", "api_key_keyring")
_INSTEAD = 'write api_key_env_var = "NAME_OF_A_VARIABLE", or api_key_keyring = "service/user"'


@dataclass(frozen=True, slots=True)
class ProviderAlias:
    """What a name in the settings stands for."""

    name: str
    provider: str
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    api_key_keyring: str | None = None
    system_prompt: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    thinking: bool | None = None
    tools: list[str] = field(default_factory=list[str])
    #: the file that it comes from; `None` if it is a provider under its own name
    file: Path | None = None
    compaction: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is from the current folder, where it may be somebody else's."""
        return self.file is not None and self.file.name == _LOCAL


def load_settings() -> dict[str, ProviderAlias]:
    """The aliases of both files by name; those of the current folder win."""
    local = _read(Path(_LOCAL).absolute())
    for name in local.keys() & set(list_providers()):
        # whoever names a provider means that one, and sends it a key, in whatever folder that happens
        raise ValueError(f"{local[name].file}: [{name}] is a provider's own name: take another in this file")
    return {**load_own_settings(), **local}


def load_own_settings() -> dict[str, ProviderAlias]:
    """The aliases of the user's own file by name."""
    return _read(user_folder("config") / _USERS)


def find_alias(
    settings: Mapping[str, ProviderAlias], *, model: str | None = None, profile: str | None = None
) -> ProviderAlias | None:
    """What a profile stands for, which may also be a provider; else what a model does, if it is an alias.

    >>> find_alias({}, profile="lmstudio").provider
    'lmstudio'
    >>> find_alias({}, model="gpt-4o-mini")
    """
    if profile is None:
        return settings.get(model or "")
    if profile in settings:
        return settings[profile]
    if profile in list_providers():
        return ProviderAlias(profile, profile)
    known = ", ".join(dict.fromkeys([*settings, *list_providers()]))
    raise ValueError(f"there is no profile {profile!r} in {_USERS} or ./{_LOCAL}; known are {known}")


def resolve(given: Mapping[str, Any], alias: ProviderAlias | None) -> AgentConfig:
    """The configuration of an agent from the fields that were given, and for the others from an alias.

    >>> resolve({"name": "a", "model": "fast", "base_url": None}, ProviderAlias("fast", "openai", "gpt-4o-mini")).model
    'gpt-4o-mini'
    """
    explicit = {name: value for name, value in given.items() if value is not None and value not in ([], ())}
    values: dict[str, Any] = {}
    if alias is not None:
        values = {item.name: getattr(alias, item.name) for item in fields(alias) if item.name not in ("name", "file")}
        if explicit.get("model") == alias.name:
            del explicit["model"]
    if any(place in explicit for place in _PLACES):
        values = {name: value for name, value in values.items() if name not in _PLACES}
    values |= explicit
    if "provider" not in values:
        raise ValueError(f"provider is missing: name one of {', '.join(list_providers())}, or an alias of {_USERS}")
    return AgentConfig(**values)


def _read(file: Path) -> dict[str, ProviderAlias]:
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise ValueError(f"{file} cannot be read: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ValueError(f"{file} is no TOML: {problem}") from problem
    return {name: _alias(name, table, file) for name, table in tables.items()}


def _alias(name: str, table: Any, file: Path) -> ProviderAlias:
    if not isinstance(table, dict):
        if _SECRETIVE.search(name):
            raise ValueError(f"{file}: {name!r} looks like a key, and keys are not written here: {_INSTEAD}")
        raise ValueError(f"{file}: {name!r} is no table: write [{name}], and below it provider = …")
    where = f"{file}: [{name}]"
    values: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", table).items():
        if key not in _FIELDS and _SECRETIVE.search(key):
            raise ValueError(f"{where}: {key!r} looks like a key, and keys are not written here: {_INSTEAD}")
        if key not in _FIELDS:
            raise ValueError(f"{where}: there is no field {key!r}; there are {', '.join(_FIELDS)}")
        kind, fits = _FIELDS[key]
        if not fits(value):
            raise ValueError(f"{where}: {key} must be {kind}; it is of type {type(value).__name__}")
        if isinstance(value, str) and looks_like_known_key(value):
            raise ValueError(f"{where}: what {key} holds looks like a key, and keys are not written here: {_INSTEAD}")
        values[key] = value
    if not values.get("provider"):
        raise ValueError(f"{where}: provider is missing: name one of {', '.join(list_providers())}")
    if "api_key_env_var" in values:
        values["api_key_env"] = checked_variable(values.pop("api_key_env_var"), f"{where}: api_key_env_var")
    if "api_key_keyring" in values:
        checked_keyring(values["api_key_keyring"], f"{where}: api_key_keyring")
    if "base_url" in values:
        checked_url(values["base_url"], f"{where}: base_url")
    if "api_key_env" in values and "api_key_keyring" in values:
        raise ValueError(f"{where}: api_key_env_var and api_key_keyring are two places for one key: name one of them")
    return ProviderAlias(name, **values, file=file)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))


#: the fields of a table: what they are, and how that is seen
_FIELDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "provider": ("a text", _is_text),
    "model": ("a text", _is_text),
    "base_url": ("a text", _is_text),
    "api_key_env_var": ("a text", _is_text),
    "api_key_keyring": ("a text", _is_text),
    "system_prompt": ("a text", _is_text),
    "temperature": ("a number", _is_number),
    "max_tokens": ("a whole number", _is_whole),
    "thinking": ("true or false", lambda value: isinstance(value, bool)),
    "tools": ("a list of texts", _is_list_of_texts),
    "compaction": ("a text", _is_text),
}
