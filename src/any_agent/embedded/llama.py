"""The program that is the llama.cpp server; `keeper` runs it.

It reads a key from the first line of its input, writes its address as one line, and serves until its input ends:
because the keeper has gone. While it loads it is deaf, since xllamacpp holds the interpreter for that long: that is
why there is a keeper.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib import resources
from typing import Any

import msgspec

from any_agent.embedded.settings import Settings

__all__ = ()

_SLOTS = 2


def _parameters(xllamacpp: Any, settings: Settings, path: str, key: str) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.model_alias = {settings.alias}
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.api_keys = [key]
    params.n_parallel, params.n_ctx = _SLOTS, _SLOTS * settings.context
    # several threads wait for each other in a loop, and crawl as soon as anything else needs their processors
    params.cpuparams.n_threads = max(1, (os.cpu_count() or 1) // 2)
    # of prompts that were read before, at most so much is kept beside the slots
    params.cache_ram_mib = 512
    params.use_jinja = True
    params.ui = False
    params.verbosity = 1
    if settings.path is None:
        template = resources.files("any_agent.embedded").joinpath("smollm2-tools.jinja")
        params.chat_template = template.read_text("utf-8")
        # one processor reads 128 tokens in a second: after each piece the server notices who has gone
        params.n_batch = params.n_ubatch = 128
        # it fits: looking whether it does means loading it twice
        params.fit_params = False
    return params


def main() -> None:
    """Load, and serve until the input ends."""
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    key = sys.stdin.readline().strip()
    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types
    try:
        server = xllamacpp.Server(_parameters(xllamacpp, settings, sys.argv[2], key))  # serves as long as it is held
    except RuntimeError as error:
        sys.exit(f"{error}")  # llama.cpp has said more in its log
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)  # the server's threads would finish their answers first


if __name__ == "__main__":
    main()
