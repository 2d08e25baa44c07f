"""What makes a server the one that a client wants: processes that want the same share it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from any_agent.embedded.folder import ServerFolder, private_folder
from any_agent.embedded.weights import ALIAS, find_gguf
from any_agent.folders import user_folder

__all__ = ("Settings",)

#: of the files that processes share; another version of any_agent with another format has servers of its own
_FORMAT = 1
#: llama.cpp counts the tokens of both conversations together, with 32 bits
_MOST_CONTEXT = 2**30 - 1


@dataclass(frozen=True, slots=True)
class Settings:
    """The model file, `None` for the default model, and the tokens that fit into one conversation.

    >>> Settings.of(None, 4096).alias
    'smollm2'
    """

    path: str | None
    context: int

    @classmethod
    def of(cls, model: str | os.PathLike[str] | None, context: int) -> Settings:
        """The settings that a user means."""
        if not 1 <= context <= _MOST_CONTEXT:
            raise ValueError(f"context must be at least 1, and at most {_MOST_CONTEXT}; it is {context!r}")
        return cls(None if model is None or model == ALIAS else str(find_gguf(model)), context)

    @property
    def alias(self) -> str:
        """What the server calls the model."""
        return ALIAS if self.path is None else Path(self.path).stem

    def folder(self) -> ServerFolder:
        """The folder of the server with these settings. A file that was replaced is another model."""
        facts: list[object] = [_FORMAT, platform.node(), self.path, self.context]
        if self.path is not None:
            file = os.stat(self.path)
            facts += [file.st_size, file.st_mtime_ns]
        name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        return ServerFolder(private_folder(private_folder(user_folder("cache") / "servers") / name))
