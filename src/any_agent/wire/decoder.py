"""What every decoder is: `feed(bytes)` and `close()`, both giving events, and no I/O.

A decoder never raises for what a server sends: whatever is wrong becomes one `Failed`, and it ends there.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from any_agent.wire.assembly import Assembly, DecodeSettings
from any_agent.wire.failures import classify_payload, invalid_response
from any_agent.wire.framing import FrameKind, Framer, FrameTooLarge
from any_agent.wire.values import as_number, is_cut, read_json

if TYPE_CHECKING:
    from any_agent.events import Event

__all__ = ("Decoder",)


class Decoder(ABC):
    """Reads one response of one protocol."""

    lines = False

    def __init__(self, settings: DecodeSettings | None = None) -> None:
        self.assembly = Assembly(settings or DecodeSettings())
        self._framer = Framer(lines=self.lines)
        self._saw_event = False

    @property
    def ended(self) -> bool:
        """`Done` or `Failed` has been given."""
        return self.assembly.ended

    @property
    def may_end(self) -> bool:
        """The server has said why it stopped: silence or the end of the connection is a normal end now."""
        return self.assembly.label is not None

    @property
    def streamed(self) -> bool:
        """The response came event by event, not as one body."""
        return self._framer.body_kind == "events"

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete."""
        assembly = self.assembly
        if assembly.ended or not data:
            return []
        try:
            frames = self._framer.feed(data)
        except FrameTooLarge as error:
            assembly.fail(invalid_response(f"The server sends too much: {error}"))
            return assembly.take()
        for kind, payload in frames:
            try:
                if kind == "data":
                    self._event(payload)
                else:
                    self._other(kind, payload)
            except (ValueError, RecursionError) as problem:
                self._not_json(payload, problem)
            if assembly.ended:
                break
        self._saw_event = self._saw_event or bool(frames)
        return assembly.take()

    def close(self) -> list[Event]:
        """The events that remain, now that no more bytes come; the last of them is `Done` or `Failed`."""
        assembly = self.assembly
        if not assembly.ended:
            for kind, payload in self._framer.close():
                self._saw_event = True
                # an event that is not JSON means here that the connection broke inside it
                with contextlib.suppress(ValueError, RecursionError):
                    if kind == "data":
                        self._event(payload)
                    else:
                        self._other(kind, payload)
            if not assembly.ended:
                self._end_of_stream()
        return assembly.take()

    @abstractmethod
    def _event(self, data: bytes) -> None:
        """One event of the stream; `ValueError` if it is not JSON."""

    @abstractmethod
    def _body(self, payload: Any) -> None:
        """A whole response that came as one JSON value."""

    def _comment(self, text: bytes) -> None:
        """A comment between the events; mlx-lm and OpenRouter say in them how far they are."""
        word, _, numbers = text.partition(b" ")
        if word == b"keepalive" and b"/" in numbers:
            done, _, total = numbers.decode("latin-1").partition("/")
            self.assembly.read_progress({"processed": as_number(done), "total": as_number(total)})
        elif text.endswith(b"PROCESSING"):
            self.assembly.state("queued", None)

    def _other(self, kind: FrameKind, data: bytes) -> None:
        """A frame that is not simply the data of an event."""
        if kind == "comment":
            self._comment(data)
        elif kind == "json":
            self._whole_body(data)
        else:
            self._error_event(data)

    def _not_json(self, data: bytes, problem: Exception) -> None:
        why = "nested too deeply" if isinstance(problem, RecursionError) else problem
        self.assembly.fail(invalid_response(f"The server sent an event that is not JSON ({why})", data[:400]))

    def _error_event(self, data: bytes) -> None:
        """An event named `error`, whatever its data look like."""
        try:
            payload = read_json(data)
        except ValueError:
            payload = data.decode("utf-8", "replace")
        self.assembly.fail(classify_payload(payload))

    def _whole_body(self, data: bytes) -> None:
        if data.lstrip()[:1] == b"<":
            message = "The server answered with an HTML page, not with a model's answer: is base_url right?"
            self.assembly.fail(invalid_response(message, data[:4000]))
            return
        # `data: [DONE]` glued to the end, as some servers have it
        body = data.rpartition(b"data:")[0] if data.rstrip().endswith(b"[DONE]") else data
        try:
            self._body(read_json(body))
        except (ValueError, RecursionError) as problem:
            if is_cut(body):
                self.assembly.cut("the connection ended inside a JSON reply")
            else:
                self.assembly.fail(invalid_response(f"The reply is not JSON ({problem})", data[:400]))
            return
        if not self.assembly.ended and not self.assembly.begun and not self.may_end:
            message = "The server answered with JSON that is no model's answer: is base_url right?"
            self.assembly.fail(invalid_response(message, data[:400]))
        elif not self.assembly.ended:
            self._end_of_stream()

    def _end_of_stream(self) -> None:
        assembly = self.assembly
        if assembly.label is not None:
            assembly.finish()
        elif self._framer.body_kind == "empty":
            assembly.cut("the server closed the connection without sending anything: is base_url right?")
        elif not self._saw_event and self._framer.body_kind == "events":
            message = "The server answered with something that is no stream of events: is base_url right?"
            assembly.fail(invalid_response(message, self._framer.head))
        else:
            assembly.cut("the connection ended before the answer did")
