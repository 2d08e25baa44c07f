"""The folders of this user, as the system has them: what can be fetched anew, settings, agents, and traces of use."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

__all__ = ("user_folder",)

Kind = Literal["cache", "config", "data", "state"]
_UNIX: dict[Kind, tuple[str, str]] = {
    "cache": ("XDG_CACHE_HOME", ".cache"),
    "config": ("XDG_CONFIG_HOME", ".config"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "state": ("XDG_STATE_HOME", ".local/state"),
}


def user_folder(kind: Kind) -> Path:
    """The one that `ANY_AGENT_CACHE`, `…_CONFIG`, `…_DATA` or `…_STATE` names, or what is usual on the system.

    >>> user_folder("data").is_absolute()
    True
    """
    chosen = os.environ.get(f"ANY_AGENT_{kind.upper()}")
    if chosen:
        return Path(chosen).expanduser().absolute()
    home = Path.home()
    if sys.platform == "win32":
        # settings follow the user to other machines
        variable, usual = ("APPDATA", "Roaming") if kind == "config" else ("LOCALAPPDATA", "Local")
        base = Path(os.environ.get(variable) or home / "AppData" / usual)
    elif sys.platform == "darwin":
        base = home / "Library" / ("Caches" if kind == "cache" else "Application Support")
    else:
        variable, usual = _UNIX[kind]
        named = os.environ.get(variable, "")
        base = Path(named) if os.path.isabs(named) else home / usual
    return base / "any-agent"
