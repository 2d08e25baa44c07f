"""The program that keeps one server: it fetches the weights, runs llama.cpp, and ends with the last lease.

A client starts it in a session of its own, with the lock `alive` open (see `folder`). It looks for leases every now and
then, whatever it does: what it has begun by then, a client that is being fetched for or a model that is being loaded,
ends at once.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from any_agent.embedded.errors import EmbeddedError
from any_agent.embedded.folder import ServerFolder, Status
from any_agent.embedded.settings import Settings
from any_agent.embedded.weights import default_model

__all__ = ("keep",)

_POLL_S = 0.2
#: how llama.cpp marks what went wrong in its log; the first is the cause of the others
_ERROR = re.compile(r"\bE +(.+)")


class _Unused(Exception):
    """The last lease has ended."""


def keep(folder: ServerFolder, settings: Settings) -> None:
    """Serve until nobody needs it any more, or it cannot go on."""
    try:
        path = settings.path or str(default_model(lambda fraction: _tell_fetching(folder, fraction)))
        _serve(folder, settings, path)
    except _Unused:
        folder.forget()
    except EmbeddedError as error:
        folder.write(Status("failed", os.getpid(), error=str(error)))


def _tell_fetching(folder: ServerFolder, fraction: float) -> None:
    _check(folder)
    folder.write(Status("fetching", os.getpid(), round(fraction, 2)))


def _serve(folder: ServerFolder, settings: Settings, path: str) -> None:
    folder.write(Status("loading", os.getpid()))
    key = secrets.token_hex(32)
    command = [sys.executable, "-P", "-m", "any_agent.embedded.llama", msgspec.json.encode(settings).decode(), path]
    llama = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert llama.stdin is not None
    assert llama.stdout is not None
    with suppress(BrokenPipeError), llama:  # the pipe breaks if llama.cpp ends before it reads its key
        try:
            llama.stdin.write(f"{key}\n")
            llama.stdin.flush()
            while address := _next_line(llama.stdout, folder):
                folder.write(Status("ready", os.getpid(), address=address.strip(), key=key))
        finally:
            llama.kill()
    log = folder.last_words()
    raise EmbeddedError(_explain(llama.returncode, path, log) + log)


def _next_line(output: IO[str], folder: ServerFolder) -> str:
    """What llama.cpp says next; nothing if it has ended."""
    while not select.select([output], [], [], _POLL_S)[0]:
        _check(folder)
    return output.readline()


def _check(folder: ServerFolder) -> None:
    if folder.is_unused():
        raise _Unused


def _explain(code: int, path: str, log: str) -> str:
    if code == -signal.SIGKILL:
        how, advice = "was killed", "if nobody did that, the memory was not enough: take a smaller model or context"
    elif code < 0:
        how, advice = f"was ended by {signal.Signals(-code).name}", "try again"
    else:
        reason = _ERROR.search(log)
        how = f"could not load it ({reason[1]})" if reason else "could not load it"
        advice = "it may be damaged, or of a kind that this llama.cpp does not know"
        if "memory" in how:
            advice = "take a smaller model or context"
    return f"the embedded server has ended: llama.cpp with {path} {how}; {advice}"


if __name__ == "__main__":
    keep(ServerFolder(Path(sys.argv[1])), msgspec.json.decode(sys.argv[2], type=Settings))
