"""Records what goes over the wire as fixtures, and plays them back.

A recording is a set of files with one name: `NAME.stream` (the body of the reply, byte for byte),
`NAME.expect.json` (what came out of it, in the format of `tests/conformance`) and `NAME.request.json`
(what was sent). Keys never get there: of the headers only harmless ones are kept, and the key itself is
blotted out wherever it occurs.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from any_agent.transport.http import Reply
from any_agent.wire.failures import classify_body, retry_after
from any_agent.wire.values import as_object, as_objects

if TYPE_CHECKING:
    from any_agent.errors import ProviderError
    from any_agent.types import LLMResponse

__all__ = ("Recorder", "Recording", "Replay", "Tape", "read_recordings")

_KEPT_HEADERS = ("server", "retry-after", "retry-after-ms", "content-encoding", "transfer-encoding")
_counter = itertools.count(1)


@dataclass(slots=True)
class Tape:
    """One exchange while it is being recorded."""

    request: dict[str, Any]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytearray = field(default_factory=bytearray)


class Recorder:
    """Writes tapes into a folder, which only the user can read."""

    def __init__(self, folder: str | Path, *, protocol: str, server: str, secret: str | None) -> None:
        self._folder = Path(folder)
        self._protocol = protocol
        self._server = server
        self._secret = secret

    def write(self, tape: Tape, response: LLMResponse, error: ProviderError | None) -> Path:
        """Write one exchange; returns the path of its `.stream` file."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{next(_counter):06}"  # in order by name
        stream = self._folder / f"{name}.stream"
        stream.write_bytes(self._without_secret(bytes(tape.body)))
        expect = {"name": name, **_expectation(self._protocol, self._server, tape, response, error)}
        for suffix, content in (("expect", expect), ("request", tape.request)):
            text = json.dumps(content, ensure_ascii=False, indent=1).encode()
            (self._folder / f"{name}.{suffix}.json").write_bytes(self._without_secret(text))
        return stream

    def _without_secret(self, data: bytes) -> bytes:
        return data.replace(self._secret.encode(), b"***") if self._secret and len(self._secret) > 3 else data


def _expectation(
    protocol: str, server: str, tape: Tape, response: LLMResponse, error: ProviderError | None
) -> dict[str, Any]:
    usage = response.usage
    counts = ("input_tokens", "output_tokens", "reasoning_tokens")
    tools = [as_object(tool.get("function")) or tool for tool in as_objects(tape.request.get("tools"))]
    limits = ("max_tokens", "max_completion_tokens", "max_output_tokens")
    given = next((tape.request[name] for name in limits if name in tape.request), None)
    schemas = {str(tool.get("name")): as_object(tool.get("parameters") or tool.get("input_schema")) for tool in tools}
    return {
        "protocol": protocol,
        "server": server,
        "shape": "recorded",
        "http": {
            "status": tape.status,
            "content_type": tape.headers.get("content-type", ""),
            "headers": {name: tape.headers[name] for name in _KEPT_HEADERS if name in tape.headers},
        },
        "request": {
            "tools": list(schemas),
            "tool_schemas": schemas,
            **({"max_tokens": given} if given is not None else {}),
            **({"stop": tape.request["stop"]} if tape.request.get("stop") else {}),
        },
        "text": response.text or "",
        "thinking": response.thinking or "",
        "tool_calls": [{"id": call.id, "name": call.name, "input": call.input} for call in response.tool_calls],
        "tool_errors": len(response.tool_errors),
        "stop_reason": "error" if error else response.stop_reason,
        "usage": {name: getattr(usage, name) for name in counts if getattr(usage, name) is not None} if usage else None,
        "error": {"kind": error.kind, "message_contains": error.message[:80]} if error else None,
    }


@dataclass(slots=True)
class Recording:
    """One recorded exchange, read back."""

    name: str
    status: int
    headers: dict[str, str]
    body: bytes
    #: what was sent; empty for a fixture that was not recorded
    request: dict[str, Any]


def read_recordings(path: str | Path) -> Iterator[Recording]:
    """The recordings in a folder, in the order of their names; or the one of a `.stream` file."""
    given = Path(path)
    files = sorted(given.glob("*.stream")) if given.is_dir() else [given]
    if not files or not all(file.is_file() for file in files):
        raise FileNotFoundError(f"there is no recording at {str(given)!r}: a folder with *.stream, or one such file")
    return map(_read_recording, files)


def _read_recording(file: Path) -> Recording:
    base = file.with_suffix("")
    http = json.loads(base.with_suffix(".expect.json").read_text("utf-8"))["http"]
    headers = {"content-type": http["content_type"], **{key.lower(): value for key, value in http["headers"].items()}}
    sent = base.with_suffix(".request.json")
    request = as_object(json.loads(sent.read_text("utf-8"))) if sent.is_file() else {}
    return Recording(base.name, http["status"], headers, file.read_bytes(), request)


class Replay:
    """A transport that plays recordings back, one for each request, in the order of their names.

    `path` is a folder of recordings or one `.stream` file; `requests` is what was asked meanwhile. With
    `chunk_size` the bodies come in pieces of so many bytes.
    """

    def __init__(self, path: str | Path, *, chunk_size: int = 16384) -> None:
        self.requests: list[dict[str, Any]] = []
        self._recordings = read_recordings(path)
        self._path = path
        self._chunk_size = chunk_size

    async def open(self, method: Literal["GET", "POST"], path: str, body: dict[str, Any] | None) -> Reply:
        """The next recording, as if a server sent it."""
        recording = next(self._recordings, None)
        if recording is None:
            raise RuntimeError(
                f"the recordings at {str(self._path)!r} are used up: {len(self.requests)} requests so far"
            )
        self.requests.append(body or {})
        data, headers = recording.body, recording.headers
        if recording.status >= 300:
            wait = retry_after(headers, time.time())
            raise classify_body(recording.status, data, provider="replay", wait=wait)
        pieces = (data[start : start + self._chunk_size] for start in range(0, len(data), self._chunk_size))

        async def read() -> bytes:
            return next(pieces, b"")

        return Reply(recording.status, headers, read, self.aclose)

    async def aclose(self) -> None:
        """Nothing is open."""
