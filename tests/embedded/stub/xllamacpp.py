"""Stands in for xllamacpp where the model does not matter: on the PYTHONPATH of a server, it is up at once.

`STUB=deaf` makes it load for ever, and hold the interpreter meanwhile as the real one does; `STUB=crash` makes it fail.
It fails if it is not the only one with its model and window in its cache.
"""

from __future__ import annotations

import ctypes
import fcntl
import http.server
import os
import sys
import threading
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class CommonParams:
    def __init__(self) -> None:
        self.model: Any = SimpleNamespace()
        self.cpuparams: Any = SimpleNamespace()
        self.api_keys: list[str] = []


class Server:
    def __init__(self, params: CommonParams) -> None:
        cache = Path(os.environ["ANY_AGENT_CACHE"])
        with (cache / "starts").open("a") as starts:
            starts.write("one more\n")
        self._only = (cache / f"only-{zlib.crc32(params.model.path.encode())}-{params.n_ctx}").open("w")
        fcntl.flock(self._only, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.environ.get("STUB") == "deaf":
            ctypes.PyDLL(None).sleep(600)
        if os.environ.get("STUB") == "crash":
            sys.stderr.write("E tensor 'token_embd.weight' data is not within the file bounds\n")
            raise RuntimeError("Failed to init server")

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                knows_key = self.headers["Authorization"] == f"Bearer {params.api_keys[0]}"
                self.send_response(200 if knows_key else 401)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{server.server_port}"
