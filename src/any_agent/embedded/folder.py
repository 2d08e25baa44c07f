"""What the processes that share a server have in common: a folder with two locks and a status.

Rules, on which everything rests:

1. `leases`: whoever needs the server holds a shared lock on this file. The server ends as soon as it gets the
   exclusive lock, and has it until it is gone.
2. `alive`: the server holds an exclusive lock on this file, from its first moment to its last: who starts it takes
   the lock, and the new process inherits it. So there is one server, or none, and never a doubt about it.
3. A client takes its lease first, and looks for the server then. The server that it finds will not end for want of
   leases.
4. Locks belong to open files, and the kernel closes those of a process, however it ends.

The key is in the status: the only secret that any_agent ever writes. Only the user can read it, and it is worth
nothing once the server has ended.
"""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from any_agent.embedded.errors import EmbeddedError

if sys.platform != "win32":
    import fcntl

__all__ = ("ServerFolder", "Status", "private_folder", "try_lock")

_LAST_LINES = 12
_LAST_BYTES = 4000


@dataclass(frozen=True, slots=True)
class Status:
    """What a server says of itself."""

    stage: Literal["fetching", "loading", "ready", "failed"]
    pid: int
    fraction: float | None = None
    address: str = ""
    key: str = field(default="", repr=False)
    error: str = ""


@dataclass(slots=True)
class ServerFolder:
    """The folder of one server, as its clients and the server itself see it."""

    path: Path
    #: the exclusive lock on the leases, once the server has it
    _end: int | None = field(default=None, init=False, repr=False)

    @property
    def log(self) -> Path:
        """Everything that the server and llama.cpp said."""
        return self.path / "log"

    def take_lease(self) -> int | None:
        """A descriptor that is a lease until it is closed; `None` while a server ends."""
        return try_lock(self.path / "leases", shared=True)

    def claim(self) -> int | None:
        """A descriptor for the server that is to be started; `None` if there is one."""
        return try_lock(self.path / "alive")

    def is_unused(self) -> bool:
        """For the server: whether the last lease has ended. From then on nobody gets a new one from it."""
        if self._end is None:
            self._end = try_lock(self.path / "leases")
        return self._end is not None

    def read(self) -> Status | None:
        """What the server said last, if it said anything."""
        try:
            return msgspec.json.decode((self.path / "status").read_bytes(), type=Status)
        except FileNotFoundError:
            return None

    def write(self, status: Status) -> None:
        """Tell the clients; they see the old status or the new one, never half of it."""
        new = self.path / "status.new"
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode(status))
        new.replace(self.path / "status")

    def forget(self) -> None:
        """Take the status away: its server has ended, or is about to."""
        (self.path / "status").unlink(missing_ok=True)

    def last_words(self) -> str:
        """The end of the log, for the lines of an error message after the first."""
        text = self.log.read_bytes()[-_LAST_BYTES:].decode("utf-8", "replace") if self.log.exists() else ""
        lines = [f"\n  {line.rstrip()}" for line in text.splitlines()[-_LAST_LINES:] if line.strip()]
        return f"\nThe end of its log:{''.join(lines)}" if lines else ""


def private_folder(path: Path) -> Path:
    """Make a folder that only this user can enter; one that belongs to somebody else is refused."""
    if sys.platform == "win32":
        raise EmbeddedError(
            "the embedded server needs Linux or macOS, since its leases are locks that only those have: on Windows "
            "use WSL, or start a llama.cpp server yourself and give its base_url"
        )
    try:
        path.mkdir(0o700, parents=True, exist_ok=True)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise EmbeddedError(
                f"{path} belongs to somebody else, who could read the key of the server: remove it, or set "
                "ANY_AGENT_CACHE to a folder of your own"
            )
        if stat.S_IMODE(found.st_mode) != 0o700:
            path.chmod(0o700)
    except OSError as error:
        raise EmbeddedError(
            f"cannot use the folder {path}: {error.strerror}; set ANY_AGENT_CACHE to another one"
        ) from error
    return path


def try_lock(path: Path, *, shared: bool = False) -> int | None:
    """Lock a file without waiting: a descriptor that holds the lock until it is closed, or `None`."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
    except BlockingIOError:
        return None
    except OSError as error:
        raise EmbeddedError(
            f"cannot lock {path}: {error.strerror}; set ANY_AGENT_CACHE to a folder on a local disk"
        ) from error
    return descriptor
