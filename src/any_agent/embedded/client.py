"""Leases on a server: found, or started; the server lives as long as one of them."""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import msgspec

from any_agent.embedded.errors import EmbeddedError
from any_agent.embedded.settings import Settings
from any_agent.embedded.weights import ALIAS, NOTICE
from any_agent.folders import user_folder

if TYPE_CHECKING:
    from any_agent.embedded.folder import ServerFolder, Status

__all__ = ("Lease", "OnProgress", "hold", "lease", "server")

OnProgress = Callable[[Literal["fetching", "loading"], float | None], object]

_log = logging.getLogger("any_agent.embedded")
_CONTEXT = 4096
_POLL_S = 0.03
_ANSWER_S = 30.0


class _Stopped(Exception):
    """Whoever wanted the server wants it no more."""


@dataclass(slots=True)
class Lease:
    """A server that runs for as long as this is open: its address, its key, and what it calls its model.

    >>> from any_agent import OpenAIAdapter, embedded
    >>> with embedded.lease() as server:  # doctest: +SKIP
    ...     adapter = OpenAIAdapter(server.model, server.base_url, api_key=server.api_key, profile="embedded")
    """

    base_url: str
    api_key: str = field(repr=False)
    model: str
    # a number and not a file object: a lease that is forgotten lasts as long as the process
    _lock: int | None = field(repr=False)

    @property
    def settings(self) -> dict[str, Any]:
        """What `AgentOptions("…", **lease.settings)` has to know.

        The small model calls tools only at temperature 0, and turns in circles before it has said much.
        """
        settings = {"model": self.model, "base_url": self.base_url, "api_key": self.api_key, "profile": "embedded"}
        return {**settings, "temperature": 0.0, "max_tokens": 400} if self.model == ALIAS else settings

    def close(self) -> None:
        """Give the server up; it ends if nobody else has a lease on it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)  # not unlocked: a forked process may have the same lease, and need it still

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lease(
    model: str | os.PathLike[str] | None = None, *, context: int = _CONTEXT, on_progress: OnProgress | None = None
) -> Lease:
    """A lease on a server with that model, which starts if it does not run yet; returns when it is ready.

    `model` is the path of a GGUF file, or `None` for the small default model, which is fetched once. There is room for
    two conversations at a time, of `context` tokens each. Without `close()` the lease lasts until the process ends.

    >>> with lease() as server:  # doctest: +SKIP
    ...     print(server.base_url)
    http://127.0.0.1:40123/v1
    """
    return _Opening(on_progress).run(model, context)


@asynccontextmanager
async def server(
    model: str | os.PathLike[str] | None = None, *, context: int = _CONTEXT, on_progress: OnProgress | None = None
) -> AsyncGenerator[Lease]:
    """`lease()` for the time of an `async with` block; the event loop goes on while the server starts.

    >>> async def main():
    ...     async with server() as s:
    ...         print(s.base_url)
    """
    loop = asyncio.get_running_loop()

    def report(stage: Literal["fetching", "loading"], fraction: float | None) -> None:
        if on_progress is not None:
            loop.call_soon_threadsafe(on_progress, stage, fraction)

    opening = _Opening(report)
    executor = ThreadPoolExecutor(1, "any-agent-embedded")
    starting = executor.submit(opening.run, model, context)
    executor.shutdown(wait=False)
    try:
        found = await asyncio.wrap_future(starting)
    except asyncio.CancelledError:
        released = asyncio.Event()

        def release(starting: Future[Lease]) -> None:
            if not starting.cancelled() and starting.exception() is None:
                starting.result().close()
            loop.call_soon_threadsafe(released.set)

        opening.stop.set()
        starting.add_done_callback(release)
        await released.wait()
        raise
    with found:
        yield found


_held: dict[str, Lease] = {}


def hold(
    model: str | os.PathLike[str] | None = None, *, context: int = _CONTEXT, on_progress: OnProgress | None = None
) -> Lease:
    """`lease()` for the rest of the process: however often it is called, one lease on a server is kept.

    >>> hold().base_url == hold().base_url  # doctest: +SKIP
    True
    """
    new = lease(model, context=context, on_progress=on_progress)
    old = _held.pop(new.base_url, None)
    _held[new.base_url] = new
    if old is not None:
        old.close()
    return new


class _Opening:
    """The way to a lease; `stop` is for another thread that wants it to end."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self.stop = threading.Event()
        self._on_progress = on_progress
        self._told: object = None
        self._has_started_one = False
        self._silent_since: float | None = None

    def run(self, model: str | os.PathLike[str] | None, context: int) -> Lease:
        """Wait until a server is ready, and start it if there is none."""
        settings = Settings.of(model, context)
        if importlib.util.find_spec("xllamacpp") is None:
            raise EmbeddedError('the embedded server is not installed: pip install "any-agent-sdk[embedded]"')
        folder = settings.folder()
        while (lock := folder.take_lease()) is None:  # a server is just about to end
            self._pause()
        try:
            while (status := self._look(folder, settings)) is None:
                self._pause()
        except BaseException:
            os.close(lock)
            raise
        return Lease(f"{status.address}/v1", status.key, settings.alias, lock)

    def _pause(self) -> None:
        if self.stop.wait(_POLL_S):
            raise _Stopped

    def _look(self, folder: ServerFolder, settings: Settings) -> Status | None:
        """The status of the server if it is ready; starts one if there is none."""
        alive = folder.claim()
        if alive is not None:
            try:
                if self._has_started_one:
                    raise _failure(folder)
                self._has_started_one = True
                _start_keeper(folder, settings, alive)
            finally:
                os.close(alive)
        status = folder.read()
        if status is None or status.stage == "failed":
            return None  # there is another one in a moment, or none
        if status.stage == "ready":
            return status if self._is_well(status) else None
        self._report(status.stage, status.fraction)
        return None

    def _report(self, stage: Literal["fetching", "loading"], fraction: float | None) -> None:
        if self._told == (stage, fraction):
            return
        if self._told is None and stage == "fetching":
            _log.warning(NOTICE, user_folder("cache") / "models")
        self._told = (stage, fraction)
        if self._on_progress is not None:
            self._on_progress(stage, fraction)

    def _is_well(self, status: Status) -> bool:
        """Whether the server answers to its key; the status may be that of one that was killed."""
        if _answers(status):
            return True
        now = time.monotonic()
        self._silent_since = self._silent_since or now
        if now - self._silent_since > _ANSWER_S:
            raise EmbeddedError(
                f"the embedded server at {status.address} runs, but has not answered for {_ANSWER_S:.0f} s: end it "
                f"with `kill {status.pid}`, and try again"
            )
        return False


def _start_keeper(folder: ServerFolder, settings: Settings, alive: int) -> None:
    folder.forget()
    words = msgspec.json.encode(settings).decode()
    keeper = [sys.executable, "-P", "-m", "any_agent.embedded.keeper", str(folder.path), words]
    log = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    try:
        # the shell ends at once: the keeper is nobody's child, so nobody has to wait for its end
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", *keeper],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[alive],
            start_new_session=True,
            check=True,
        )
    finally:
        os.close(log)


def _answers(status: Status) -> bool:
    connection = http.client.HTTPConnection(urlsplit(status.address).netloc, timeout=5)
    try:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {status.key}"})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _failure(folder: ServerFolder) -> EmbeddedError:
    status = folder.read()
    if status is not None and status.error:
        return EmbeddedError(status.error)
    return EmbeddedError(
        "the embedded server ended before it was ready, and could not say why; perhaps somebody killed it: try again"
        f"{folder.last_words()}"
    )
