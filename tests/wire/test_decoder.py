"""What all decoders have in common: they end exactly once, and never raise."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from any_agent.events import Done, Event, Failed, ModelState, TextDelta
from any_agent.wire import framing
from any_agent.wire.ollama import OllamaDecoder
from any_agent.wire.openai_chat import OpenAIChatDecoder

from .support import DECODERS, SETTINGS, call, chat, chunk, decode, failure, ndjson, pieces, sse, tell, told, trouble

PROTOCOLS = pytest.mark.parametrize("protocol", list(DECODERS))
PART = sse(chunk({"content": "Part"}), done=False)


def ends(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, Done | Failed)]


def test_a_decoder_says_whether_it_has_ended_and_may_end() -> None:
    decoder = OpenAIChatDecoder()
    decoder.feed(PART)
    assert (decoder.ended, decoder.may_end) == (False, False)
    decoder.feed(sse(chunk({}, "stop"), done=False))
    assert (decoder.ended, decoder.may_end) == (False, True)
    assert isinstance(decoder.close()[-1], Done)
    assert decoder.ended


@pytest.mark.parametrize(("body", "streamed"), [(PART, True), (b"\n", False), (b"", False), (b'{"a": 1}', False)])
def test_a_decoder_says_whether_the_reply_is_a_stream(body: bytes, streamed: bool) -> None:
    decoder = OpenAIChatDecoder()
    decoder.feed(body)
    assert decoder.streamed is streamed


@pytest.mark.row("D9")
def test_nothing_comes_after_the_end() -> None:
    decoder = OpenAIChatDecoder()
    assert isinstance(decoder.feed(chat({"content": "Hi"}) + PART)[-1], Done)
    assert decoder.feed(PART) == []
    assert decoder.close() == []
    assert decoder.close() == []


@pytest.mark.row("D9")
@PROTOCOLS
def test_closing_twice_ends_once(protocol: str) -> None:
    decoder = DECODERS[protocol]()
    assert len(ends(decoder.close())) == 1
    assert decoder.close() == []
    assert decoder.feed(b"data: x\n\n") == []


def test_no_bytes_are_no_events() -> None:
    decoder = OpenAIChatDecoder()
    assert decoder.feed(b"") == []
    assert not decoder.ended


@pytest.mark.row("E11", "eof_truncated")
@PROTOCOLS
@pytest.mark.parametrize("body", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_an_empty_body_is_a_cut_that_asks_for_the_address(protocol: str, body: bytes) -> None:
    found = told(protocol, body)
    assert found.error == "stream_truncated"
    assert "base_url" in found.message


@pytest.mark.row("E11", "eof_truncated")
@PROTOCOLS
@pytest.mark.parametrize("body", [b": ping\n\n", b"data: {}\n\n", b": ping\n\ndata: {}\n"])
def test_events_that_say_nothing_are_no_answer(protocol: str, body: bytes) -> None:
    assert told(protocol, b"{}\n" if protocol == "ollama" else body).error == "stream_truncated"


@pytest.mark.row("eof_truncated", "A25")
def test_a_cut_keeps_the_words_and_says_so() -> None:
    found = told("openai", PART)
    assert (found.text, found.error, found.stop_reason) == ("Part", "stream_truncated", "error")


@pytest.mark.row("eof_truncated")
@pytest.mark.parametrize("tail", [b'data: {"choices":[{"del', b"data: {", b'data: {"choices"\n', b"data: {\n\n"[:8]])
def test_an_event_that_the_end_breaks_is_a_cut(tail: bytes) -> None:
    assert told("openai", PART + tail).error == "stream_truncated"
    assert told("openai", pieces(PART + tail, 1)).error == "stream_truncated"


@pytest.mark.row("missing_done")
def test_an_event_that_breaks_after_the_finish_reason_changes_nothing() -> None:
    found = told("openai", PART + sse(chunk({}, "stop"), done=False) + b'data: {"usa')
    assert (found.text, found.stop_reason) == ("Part", "end_turn")


@pytest.mark.row("A30", "bad_json_event")
@pytest.mark.parametrize("protocol", ["openai", "anthropic", "responses"])
@pytest.mark.parametrize("data", ["{oops}", "hello", '{"a":', "{} {}"])
def test_an_event_that_is_not_json_fails_the_turn(protocol: str, data: str) -> None:
    found = told(protocol, f"data: {data}\n\ndata: {{}}\n\n".encode())
    assert found.error == "invalid_response"
    assert data in found.message or data in (failure(decode(protocol, f"data: {data}\n\n".encode())).error.body or "")


@pytest.mark.row("A30")
def test_a_line_that_is_not_json_fails_the_turn() -> None:
    assert told("ollama", b'{"message":{"content":"a"}}\n{oops}\n').error == "invalid_response"


@pytest.mark.row("html_body")
@PROTOCOLS
def test_a_page_is_told_with_its_words_and_asks_for_the_address(protocol: str) -> None:
    page = b"<!doctype html><html><head><title>Sign in</title><style>p{}</style></head><body>Please</body></html>"
    for parts in ([page], pieces(b"\n" + page, 7)):
        found = told(protocol, parts)
        assert found.error == "invalid_response"
        assert "HTML" in found.message
        assert "base_url" in found.message
        assert "Sign in Please" in found.message


@pytest.mark.row("html_body")
@pytest.mark.parametrize("protocol", ["openai", "anthropic", "responses"])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_words_that_are_no_stream_are_told(protocol: str, size: int) -> None:
    found = told(protocol, pieces(b"no healthy upstream\n", size))
    assert found.error == "invalid_response"
    assert "no healthy upstream" in found.message


@PROTOCOLS
@pytest.mark.parametrize("size", [1, 1000])
def test_a_reply_over_the_limit_is_an_invalid_response(
    protocol: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framing, "MAX_EVENT", 50)
    body = b'{"a": "' if protocol == "ollama" else b"data: "
    found = told(protocol, pieces(body + b"x" * 100, size))
    assert found.error == "invalid_response"
    assert "larger than" in found.message


@pytest.mark.row("eof_truncated")
@PROTOCOLS
@pytest.mark.parametrize("body", [b'[{"id": "x", ', b'\n[{"a": [1, 2', b'[{"a": "x'])
def test_a_plain_reply_that_is_cut_is_a_cut(protocol: str, body: bytes) -> None:
    assert told(protocol, body).error == "stream_truncated"


@pytest.mark.row("eof_truncated")
def test_a_plain_object_that_is_cut_is_a_cut() -> None:
    whole = json.dumps({"choices": [{"message": {"content": "Hi", "n": [1, True, None]}, "finish_reason": "stop"}]})
    for end in range(1, len(whole)):
        assert told("openai", whole[:end].encode()).error == "stream_truncated", whole[:end]
    assert told("openai", whole.encode()).text == "Hi"


@pytest.mark.parametrize("body", [b"{oops}", b'{"a": 1} trailing', b'{"a" 1}', b'[{"a": tru}]'])
def test_a_plain_reply_that_is_not_json_is_an_invalid_response(body: bytes) -> None:
    assert told("openai", body).error == "invalid_response"


@pytest.mark.row("json_not_sse")
@pytest.mark.parametrize("tail", [b"data: [DONE]", b"\n\ndata: [DONE]\n\n", b"\ndata:[DONE]\n"])
def test_a_plain_reply_may_have_the_sentinel_of_a_stream(tail: bytes) -> None:
    body = b'{"choices": [{"message": {"content": "Use data: [DONE]"}, "finish_reason": "stop"}]}'
    assert told("openai", body + tail).text == "Use data: [DONE]"


@pytest.mark.row("error_200_json", "http_error_array")
@PROTOCOLS
@pytest.mark.parametrize("body", [b'{"error": {"message": "busy", "code": 503}}', b'{"error": "server busy"}\n'])
def test_an_error_with_status_200_is_an_error(protocol: str, body: bytes) -> None:
    assert told(protocol, body).error == "overloaded"
    assert told(protocol, pieces(body, 1)).error == "overloaded"


@pytest.mark.row("error_200_json", "http_error_array")
@pytest.mark.parametrize("protocol", ["openai", "anthropic", "responses"])
def test_an_array_of_errors_is_an_error(protocol: str) -> None:
    assert told(protocol, b'[{"error": {"message": "busy", "code": 503}}]').error == "overloaded"


@pytest.mark.row("error_in_stream")
@pytest.mark.parametrize("protocol", ["openai", "anthropic", "responses"])
@pytest.mark.parametrize(
    ("data", "kind"),
    [('{"message": "server busy"}', "overloaded"), ("server busy", "overloaded"), ('"x"', "server_error")],
)
def test_an_event_named_error_is_an_error_whatever_its_data(protocol: str, data: str, kind: str) -> None:
    found = told(protocol, f"event: error\ndata: {data}\n\n".encode())
    assert found.error == kind


@pytest.mark.row("E2", "sse_comments")
@pytest.mark.parametrize(
    ("comment", "states"),
    [
        (": keepalive 512/2048", [ModelState("prefill", 0.25)]),
        (": keepalive 4096/2048", [ModelState("prefill", 1.0)]),
        (": OPENROUTER PROCESSING", [ModelState("queued", None)]),
        (": keepalive 1/0", []),
        (": keepalive x/y", []),
        (": keepalive", []),
        (": keep-alive", []),
        (": ping - 2026-01-02", []),
        (":", []),
    ],
)
def test_comments_may_say_how_far_the_server_is(comment: str, states: list[Event]) -> None:
    decoder = OpenAIChatDecoder()
    assert decoder.feed(f"{comment}\n\n".encode()) == states
    assert decoder.feed(sse(chunk({"content": "x"}), done=False)) == [TextDelta("x")]


BIG = "1" + "0" * 400


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        ("openai", f": keepalive {BIG}/1\n\n"),
        ("openai", f": keepalive {'9' * 5000}/1\n\n"),
        ("openai", f'data: {{"error": {{"code": {BIG}, "message": "x"}}}}\n\n'),
        ("openai", f'data: {{"choices": [], "prompt_progress": {{"total": 1, "processed": {BIG}}}}}\n\n'),
        ("openai", f'data: {{"choices": [], "prompt_progress": {{"total": {BIG}, "processed": {BIG}}}}}\n\n'),
        ("openai", f'data: {{"choices": [], "timings": {{"predicted_per_second": {BIG}}}}}\n\n'),
        ("openai", f'data: {{"choices": [], "usage": {{"prompt_tokens": {BIG}}}}}\n\n'),
        ("openai", f'data: {{"choices": [{{"index": {BIG}}}]}}\n\n'),
        ("ollama", f'{{"done": true, "eval_count": {BIG}, "eval_duration": 1}}\n'),
        ("ollama", f'{{"done": true, "eval_count": 3, "eval_duration": {BIG}}}\n'),
        ("anthropic", f'data: {{"type": "message_delta", "usage": {{"output_tokens": {BIG}}}}}\n\n'),
        ("responses", f'data: {{"type": "response.failed", "response": {{"error": {{"code": {BIG}}}}}}}\n\n'),
        ("responses", f'data: {{"type": "response.output_text.delta", "output_index": {BIG}, "delta": "x"}}\n\n'),
    ],
)
def test_huge_numbers_do_not_raise(protocol: str, body: str) -> None:
    assert trouble(protocol, body.encode()) == ""


@PROTOCOLS
@pytest.mark.parametrize("depth", [100, 450, 700, 950])
def test_deep_nesting_does_not_raise(protocol: str, depth: int) -> None:
    errors, lists = '{"error":' * depth + '"x"' + "}" * depth, "[" * depth + "]" * depth
    for shape in (errors, lists, '{"a":' * depth, f'{{"error": {json.dumps(errors)}}}'):
        for frame in ("%s", "%s\n", "data: %s\n\n", "event: error\ndata: %s\n\n"):
            assert trouble(protocol, (frame % shape).encode()) == "", (frame, shape[:20])


@PROTOCOLS
@pytest.mark.parametrize("frame", [b"%s", b"data: %s\n\n"])
def test_very_deep_nesting_does_not_raise(protocol: str, frame: bytes) -> None:
    assert trouble(protocol, frame % (b'{"a":' * 100_000)) == ""
    assert trouble(protocol, frame % (b"[" * 100_000)) == ""


@pytest.mark.parametrize("depth", [100, 450, 700, 950])
def test_deep_arguments_do_not_raise(depth: int) -> None:
    arguments = '{"a":' * depth + "1" + "}" * depth
    for text in (json.dumps(arguments), json.dumps(arguments * 2), arguments):
        delta = json.dumps(chunk(call("ARGUMENTS", "search", "c1"), "stop")).replace('"ARGUMENTS"', text)
        assert trouble("openai", sse(delta)) == ""
        line = '{"message":{"tool_calls":[{"function":{"name":"search","arguments":%s}}]},"done":true}\n'
        assert trouble("ollama", (line % text).encode()) == ""


@PROTOCOLS
@pytest.mark.parametrize(
    "value", [None, True, 0, -1, 1.5, "x", "", [], [None], [[]], {}, {"": None}, {"message": []}, {"choices": 5}]
)
def test_json_of_any_type_does_not_raise(protocol: str, value: object) -> None:
    for body in (ndjson(value), sse(value, done=False), sse({"type": value}, {"choices": value}, {"message": value})):
        assert trouble(protocol, body) == ""


def test_one_decoder_knows_nothing_of_another() -> None:
    one, two = OpenAIChatDecoder(SETTINGS), OpenAIChatDecoder(replace(SETTINGS, id_prefix="b"))
    for part in pieces(chat({"content": "a"}, call("{}", "search")), 11):
        one.feed(part)
        two.feed(part)
    assert one.assembly is not two.assembly
    assert OllamaDecoder().assembly.blocks == []


def test_everything_told_can_be_encoded() -> None:
    """Half a surrogate pair in the text of a server must not break the program that prints it."""
    body = sse(r'{"choices":[{"delta":{"content":"a\ud83d"},"finish_reason":"stop"}]}')
    assert tell(decode("openai", body)).text.encode() == "a�".encode()
