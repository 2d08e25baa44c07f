"""Real conversations that were recorded, played back by a scripted server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from any_agent.testing.server import Received, Reply
from any_agent.transport.tape import read_recordings
from any_agent.wire.values import as_objects

__all__ = ("recorded",)

_REPLAYED_HEADERS = ("content-type", "server", "retry-after", "retry-after-ms")


def recorded(path: str | Path) -> Callable[[Received], Reply]:
    """What a `ScriptedServer` needs to play a recorded conversation back: `ScriptedServer(recorded("tapes"))`.

    Requests must be those of the recording, but for the system prompt: whoever changes what is asked gets an
    error that says so, and records anew. `path` is the folder of `AgentOptions(record_to=…)`.
    """
    recordings = read_recordings(path)
    played: list[str] = []

    def answer(request: Received) -> Reply:
        if request.method == "GET":
            return _refused("only what was asked of the model is recorded", 404)
        recording = next(recordings, None)
        if recording is None:
            return _refused(f"the recordings at {str(path)!r} are used up after {len(played)} requests", 400)
        played.append(recording.name)
        if recording.request and _gist(recording.request) != _gist(request.json):
            return _refused(f"recording {recording.name!r} was made for other messages: record it anew", 400)
        headers = {name: value for name, value in recording.headers.items() if name in _REPLAYED_HEADERS and value}
        return Reply([recording.body], recording.status, headers)

    return answer


def _refused(message: str, status: int) -> Reply:
    return Reply.json({"error": {"message": message}}, status)


def _gist(body: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Who says what in a request of any protocol; ids may be made up anew each time."""
    messages = as_objects(body.get("messages")) or as_objects(body.get("input"))
    told = [(message.get("role", message.get("type")), message.get("content")) for message in messages]
    return [(role, content) for role, content in told if role != "system"]
