"""What a program gives an adapter, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from any_agent.types import ToolSpec

__all__ = ("checked_address", "checked_tools")


def checked_address(base_url: str | None, usual_path: str, endpoint: str) -> str:
    """The address without a slash at its end, and with the protocol's usual path if it has none.

    >>> checked_address("http://localhost:1234", "/v1", "/chat/completions")
    'http://localhost:1234/v1'
    """
    if not base_url or not base_url.strip():
        raise ValueError("base_url is missing: give the address of the server, such as 'http://localhost:1234/v1'")
    address = base_url.strip()
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https"):
        suggestion = f"http://{address}" if "://" not in address else "http://localhost:1234/v1"
        raise ValueError(f"base_url {address!r} must begin with http:// or https://; did you mean {suggestion!r}?")
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"base_url {address!r} has a port that is no number from 0 to 65535") from None
    if not parts.hostname or port == 0:
        raise ValueError(f"base_url {address!r} names no host that can be reached")
    if parts.username is not None or parts.password is not None:
        raise ValueError("base_url must not hold a user name or password: give the key as api_key")
    path = parts.path.rstrip("/")
    if path.endswith(endpoint):
        shorter = urlunsplit(parts._replace(path=path.removesuffix(endpoint)))
        raise ValueError(f"base_url {address!r} is the address of one call: leave {endpoint!r} out, as in {shorter!r}")
    return urlunsplit(parts._replace(path=path or usual_path))


def checked_tools(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """The tools, if each has a name of its own that servers take."""
    seen: set[str] = set()
    for tool in tools:
        if not tool.name:
            raise ValueError(f"a tool has no name; its description is {tool.description[:60]!r}")
        if tool.name in seen:
            raise ValueError(f"two tools are called {tool.name!r}: the model could not tell them apart")
        if len(tool.name) > 64 or not tool.name.replace("_", "a").replace("-", "a").replace(".", "a").isalnum():
            raise ValueError(f"the tool name {tool.name!r} is not usable: up to 64 letters, digits, '_', '-' and '.'")
        seen.add(tool.name)
    return list(tools)
