"""Bytes to frames: server-sent events, lines of JSON, or one plain JSON body.

Rules:
- What the body is, is decided by its first byte that is not blank, never by a header: servers send JSON
  where a stream was asked for, and HTML where nobody expects it.
- Lines end with LF, CR or CRLF, and with nothing else: not with U+2028, not with U+0085. A CR at the end of
  the data ends its line at once; an LF that follows it belongs to it.
- Nothing here parses JSON.
- Nothing grows without bound: a line, an event, a body and a whole response have their limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

MAX_EVENT = 8 * 1024 * 1024
MAX_RESPONSE = 256 * 1024 * 1024

#: `data` of an event, `error` for the data of an event of that name, `comment`, `json` for a whole body
FrameKind = Literal["data", "error", "comment", "json"]
Frame: TypeAlias = tuple[FrameKind, bytes]

_HEAD = 400
_BOM = b"\xef\xbb\xbf"


class FrameTooLarge(Exception):
    """What the server sends is over a limit; the message says which."""


@dataclass(slots=True)
class _Line:
    """The beginning of a line whose end has not come, in pieces, so that no piece is copied twice."""

    parts: list[bytes]
    size: int


class Framer:
    """Cuts a response body into frames. `lines` is for NDJSON: each line is a frame.

    >>> Framer().feed(b'data: {"a": 1}\\n\\n: ping\\n')
    [('data', b'{"a": 1}'), ('comment', b'ping')]
    """

    def __init__(self, *, lines: bool = False) -> None:
        self.head = b""
        self._lines = lines
        self._mode: Literal["start", "events", "body"] = "start"
        self._bom_may_come = True
        self._line = _Line([], 0)
        self._data: list[bytes] = []
        self._data_size = 0
        self._event = b""
        self._after_cr = False
        self._total = 0
        #: whole events have come and nothing is left over, as is the case for nearly every delta
        self._steady = False

    @property
    def body_kind(self) -> Literal["empty", "events", "body"]:
        """What the response turned out to be."""
        return "empty" if self._mode == "start" else self._mode

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete with these bytes."""
        self._total += len(data)
        if self._steady and data[-2:] == b"\n\n" and self._total < MAX_RESPONSE and b"\r" not in data:
            steady: list[Frame] = []
            self._take_events(data, steady)
            return steady
        frames = self._feed(data)
        self._steady = (
            self._mode == "events"
            and bool(frames)
            and not (self._lines or self._line.size or self._data or self._event or self._after_cr)
        )
        return frames

    def _feed(self, data: bytes) -> list[Frame]:
        if self._total > MAX_RESPONSE:
            raise FrameTooLarge(f"the response is larger than {MAX_RESPONSE >> 20} MB")
        if self._mode == "start":
            data = self._start(data)
        elif len(self.head) < _HEAD:
            self.head += data[: _HEAD - len(self.head)]
        if self._mode != "events":
            if data:
                self._keep(data)
            return []
        if self._after_cr:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        if b"\r" in data:
            self._after_cr = data[-1:] == b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        frames: list[Frame] = []
        if b"\n" in data:
            if self._line.size:
                data = b"".join((*self._line.parts, data))
                self._line = _Line([], 0)
            if not (self._lines or self._data or self._event):
                data = self._take_events(data, frames)
            *lines, data = data.split(b"\n")
            self._take_lines(lines, frames)
        if data:
            self._keep(data)
        return frames

    def close(self) -> list[Frame]:
        """The frames that only the end of the body completes."""
        rest = b"".join(self._line.parts)
        self._line = _Line([], 0)
        if self._mode != "events":
            # NDJSON that is one line has the same first byte as a plain JSON body, and is read the same way
            return [("json", rest)] if rest.strip() else []
        frames: list[Frame] = []
        if rest:
            self._take_lines([rest], frames)
        self._dispatch(frames)
        return frames

    def _start(self, data: bytes) -> bytes:
        """Decide what the body is, once a byte that is not blank has come."""
        data = b"".join((*self._line.parts, data))
        self._line = _Line([], 0)
        if self._bom_may_come:
            if len(data) < len(_BOM) and _BOM.startswith(data):
                return data
            self._bom_may_come = False
            data = data.removeprefix(_BOM)
        data = data.lstrip()
        if data:
            self.head = data[:_HEAD]
            is_body = data[:1] in b"{[<" and not (self._lines and data[:1] == b"{")
            self._mode = "body" if is_body else "events"
        return data

    def _keep(self, piece: bytes) -> None:
        self._line.parts.append(piece)
        self._line.size += len(piece)
        if self._line.size > MAX_EVENT:
            what = "a line" if self._mode == "events" else "the body"
            raise FrameTooLarge(f"{what} of the response is larger than {MAX_EVENT >> 20} MB")

    def _take_events(self, data: bytes, frames: list[Frame]) -> bytes:
        """The events that are whole in `data`, nearly always one line each; returns what follows the last one."""
        *events, rest = data.split(b"\n\n")
        for event in events:
            if event[:6] == b"data: " and 8 < len(event) < MAX_EVENT and event[6] > 32 and b"\n" not in event:
                frames.append(("data", event[6:]))
            else:
                self._take_lines([*event.split(b"\n"), b""], frames)
        return rest

    def _take_lines(self, lines: list[bytes], frames: list[Frame]) -> None:
        if self._lines:
            frames.extend(("data", line) for line in lines if line and not line.isspace())
            return
        for line in lines:
            if line[:5] == b"data:":
                self._add_data(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                if self._data:
                    self._dispatch(frames)
                self._event = b""
            elif line[:1] == b":":
                frames.append(("comment", line[1:].strip()))
            elif line[:6] == b"event:":
                self._event = line[6:].strip()

    def _add_data(self, data: bytes) -> None:
        self._data.append(data)
        self._data_size += len(data)
        if self._data_size > MAX_EVENT:
            raise FrameTooLarge(f"an event of the response is larger than {MAX_EVENT >> 20} MB")

    def _dispatch(self, frames: list[Frame]) -> None:
        data = b"\n".join(self._data) if len(self._data) != 1 else self._data[0]
        self._data = []
        self._data_size = 0
        if data and not data.isspace():
            frames.append(("error" if self._event == b"error" else "data", data))
