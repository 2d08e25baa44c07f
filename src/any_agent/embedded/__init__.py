"""A llama.cpp server of one's own, for as long as somebody needs it; what it needs is fetched once.

>>> from any_agent import embedded
>>> with embedded.lease() as server:  # doctest: +SKIP
...     adapter = OpenAIAdapter(server.model, server.base_url, api_key=server.api_key, profile="embedded")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from any_agent.embedded.client import Lease, hold, lease, server
    from any_agent.embedded.errors import EmbeddedError

_HOMES = {"EmbeddedError": "errors", "Lease": "client", "hold": "client", "lease": "client", "server": "client"}

__all__ = ("EmbeddedError", "Lease", "hold", "lease", "server")


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'any_agent.embedded' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"any_agent.embedded.{home}"), name)
    globals()[name] = value
    return value
