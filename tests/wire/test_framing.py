"""Framing: where lines and events end, what a body is, and what is too much."""

from __future__ import annotations

import pytest

from any_agent.wire import framing
from any_agent.wire.framing import Frame, Framer, FrameTooLarge

from .support import pieces, seconds


def frames(*parts: bytes, lines: bool = False) -> list[Frame]:
    framer = Framer(lines=lines)
    return [frame for part in parts for frame in framer.feed(part)] + framer.close()


def assert_frames(body: bytes, expected: list[Frame], *, lines: bool = False) -> None:
    """Whole, byte by byte, and cut in two at every place."""
    assert frames(body, lines=lines) == expected
    assert frames(*pieces(body, 1), lines=lines) == expected
    for cut in range(1, len(body)):
        assert frames(body[:cut], body[cut:], lines=lines) == expected, cut


@pytest.mark.row("sse_crlf")
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_with_lf_cr_or_crlf(end: bytes) -> None:
    body = b'data: {"a": 1}' + end * 2 + b": ping" + end * 2 + b"data: 2222" + end * 2
    assert_frames(body, [("data", b'{"a": 1}'), ("comment", b"ping"), ("data", b"2222")])


def test_a_cr_at_the_end_of_the_data_ends_its_event_at_once() -> None:
    framer = Framer()
    assert framer.feed(b"data: one\r\r") == [("data", b"one")]
    assert framer.feed(b"\n") == []
    assert framer.feed(b"\rdata: two\r\n\r") == [("data", b"two")]


def test_lf_after_a_cr_of_the_last_bytes_is_no_second_line_end() -> None:
    framer = Framer()
    assert framer.feed(b"data: a\r") == []
    assert framer.feed(b"\ndata: b\r\n\r\n") == [("data", b"a\nb")]


@pytest.mark.row("sse_linesplit")
@pytest.mark.parametrize("char", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_nothing_else_ends_a_line(char: str) -> None:
    data = f'{{"a": "x{char}y"}}'.encode()
    assert_frames(b"data: " + data + b"\n\n", [("data", data)])
    assert_frames(data + b"\n", [("data", data)], lines=True)


@pytest.mark.row("sse_no_space")
def test_exactly_one_space_after_the_colon_is_dropped() -> None:
    assert_frames(
        b"data:one\n\ndata: two\n\ndata:  three\n\n", [("data", b"one"), ("data", b"two"), ("data", b" three")]
    )


@pytest.mark.row("sse_multiline")
def test_several_data_lines_are_one_event() -> None:
    assert_frames(b'data: {"a":\ndata: 1,\ndata:\ndata: "b": 2}\n\n', [("data", b'{"a":\n1,\n\n"b": 2}')])


@pytest.mark.row("sse_comments")
def test_comments_are_told_without_their_colon_and_do_not_end_an_event() -> None:
    assert_frames(
        b": OPENROUTER PROCESSING\n\n:\n\ndata: {\n:  x \ndata: }\n\n",
        [("comment", b"OPENROUTER PROCESSING"), ("comment", b""), ("comment", b"x"), ("data", b"{\n}")],
    )


@pytest.mark.row("sse_other_fields")
def test_other_fields_are_passed_over() -> None:
    assert_frames(b"event: message\nid: 7\nretry: 10\nfoo\ndata: x\nid: 8\n\n", [("data", b"x")])


def test_an_event_named_error_is_told_apart_and_its_name_is_not_kept() -> None:
    assert_frames(
        b"event: error\ndata: one\n\ndata: two\n\nevent:error\n\ndata: three\n\n",
        [("error", b"one"), ("data", b"two"), ("data", b"three")],
    )


@pytest.mark.row("empty_event")
@pytest.mark.parametrize("data", [b"data:", b"data: ", b"data:  \t", b"data: " + b" " * 9, b"data:\ndata:"])
def test_events_without_words_are_skipped(data: bytes) -> None:
    assert_frames(data + b"\n\n" + b"data: x\n\n", [("data", b"x")])


@pytest.mark.row("done_no_newline")
@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n"])
def test_the_end_of_the_body_completes_the_last_event(end: bytes) -> None:
    assert_frames(b"data: x\n\ndata: [DONE]" + end, [("data", b"x"), ("data", b"[DONE]")])


@pytest.mark.row("sse_bom")
def test_one_byte_order_mark_at_the_start_is_dropped() -> None:
    bom = b"\xef\xbb\xbf"
    assert_frames(bom + b"data: x\n\n", [("data", b"x")])
    assert_frames(bom + b'{"a": 1}', [("json", b'{"a": 1}')])
    assert_frames(b"data: " + bom + b"\n\n", [("data", bom)])
    assert_frames(bom + bom + b"\ndata: x\n\n", [("data", b"x")])
    assert_frames(bom + b"\xef", [])


def test_the_beginning_of_a_byte_order_mark_alone_is_no_mark() -> None:
    assert_frames(b"\xef\xbb", [("json", b"\xef\xbb")])
    assert_frames(b"\xefdata: x\n\ndata: y\n\n", [("data", b"y")])


@pytest.mark.row("json_not_sse", "html_body")
@pytest.mark.parametrize("body", [b'{"a": 1}', b'[{"a": 1}]', b"<!doctype html>\n<p>\n\n", b'{"a":\n\n1}'])
def test_what_begins_like_json_or_html_is_one_body(body: bytes) -> None:
    assert_frames(body, [("json", body)])
    assert_frames(b"\n \r\n" + body, [("json", body)])


def test_a_body_is_given_only_at_its_end() -> None:
    framer = Framer()
    assert framer.body_kind == "empty"
    assert framer.feed(b'{"a": ') == []
    assert framer.body_kind == "body"
    assert framer.feed(b"1}\n\n") == []
    assert framer.close() == [("json", b'{"a": 1}\n\n')]


@pytest.mark.row("ol_eof")
def test_each_line_of_ndjson_is_a_frame_and_blank_lines_are_none() -> None:
    body = b'{"a": 1}\r\n\r\n  \n{"b": 2}\n\n{"c": 3}'
    assert_frames(body, [("data", b'{"a": 1}'), ("data", b'{"b": 2}'), ("data", b'{"c": 3}')], lines=True)


def test_ndjson_that_is_no_object_is_a_body() -> None:
    assert_frames(b"[1]\n[2]", [("json", b"[1]\n[2]")], lines=True)
    assert_frames(b"<html>", [("json", b"<html>")], lines=True)


@pytest.mark.parametrize("body", [b"", b" ", b"\r\n\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_a_body_without_words_is_empty(body: bytes) -> None:
    framer = Framer()
    assert framer.feed(body) == []
    assert framer.close() == []
    assert framer.body_kind == "empty"


def test_words_that_are_no_events_give_no_frames() -> None:
    framer = Framer()
    assert framer.feed(b"upstream connect error\n") == []
    assert framer.close() == []
    assert framer.body_kind == "events"


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_the_head_says_how_the_body_begins_however_it_was_cut(size: int) -> None:
    framer = Framer()
    for part in pieces(b"\n\nupstream connect error" + b"x" * 900, size):
        framer.feed(part)
    assert framer.head.startswith(b"upstream connect error")
    assert len(framer.head) <= 400


def test_a_line_without_an_end_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_EVENT", 20)
    framer = Framer()
    framer.feed(b"data: " + b"x" * 14)
    with pytest.raises(FrameTooLarge, match="a line"):
        framer.feed(b"x")


def test_the_limit_is_for_one_line_not_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_EVENT", 20)
    framer = Framer()
    for _ in range(10):
        framer.feed(b"data: 123456")
        assert framer.feed(b"\n\n") == [("data", b"123456")]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_has_a_limit_however_it_was_cut(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_EVENT", 20)
    with pytest.raises(FrameTooLarge):
        frames(*pieces(b"data: " + b"x" * 30 + b"\n\n", size))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_of_many_lines_has_a_limit(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_EVENT", 20)
    with pytest.raises(FrameTooLarge, match="an event"):
        frames(*pieces(b"data: 1234567890\n" * 3, size))
    assert frames(*pieces(b"data: 1234567890\n\n" * 3, size)) == [("data", b"1234567890")] * 3


def test_a_body_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_EVENT", 20)
    framer = Framer()
    framer.feed(b"{" + b" " * 19)
    with pytest.raises(FrameTooLarge, match="the body"):
        framer.feed(b"\n")


def test_blanks_before_the_body_end_at_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_EVENT", 20)
    monkeypatch.setattr(framing, "MAX_RESPONSE", 40)
    framer = Framer()
    with pytest.raises(FrameTooLarge):
        for _ in range(50):
            framer.feed(b"\n")


def test_a_whole_response_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_RESPONSE", 20)
    framer = Framer()
    framer.feed(b"data: 1\n\n" * 2)
    with pytest.raises(FrameTooLarge, match="the response"):
        framer.feed(b"data: 1\n\n")


@pytest.mark.parametrize("lines", [False, True])
def test_a_long_line_byte_by_byte_takes_time_in_proportion(lines: bool) -> None:
    framer = Framer(lines=lines)
    framer.feed(b'{"a": "' if lines else b"data: ")

    def feed() -> None:
        for _ in range(200_000):
            framer.feed(b"x")

    assert seconds(feed) < 2
    assert len(framer.feed(b"\n\n")[0][1]) >= 200_000


def test_blank_bytes_before_the_body_take_time_in_proportion() -> None:
    framer = Framer()

    def feed() -> None:
        for _ in range(60_000):
            framer.feed(b"\n")

    assert seconds(feed) < 0.4
    assert framer.feed(b"data: x\n\n") == [("data", b"x")]
