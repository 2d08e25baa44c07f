"""What servers say went wrong: its kind, its words, and what can be done."""

from __future__ import annotations

import json
from email.utils import formatdate
from typing import Any

import pytest

from any_agent.errors import (
    ContextLengthExceeded,
    ModelNotFound,
    ProviderAPIError,
    ProviderAuthError,
    StreamInterrupted,
)
from any_agent.wire.failures import (
    classify_body,
    classify_payload,
    invalid_response,
    is_error_payload,
    retry_after,
    truncated,
)

from .support import seconds

CONTEXT_TEXTS = [
    "prompt is too long: 210000 tokens > 200000 maximum",
    "The request exceeds the context window of the model",
    "This model's maximum context length is 4096 tokens",
    "the request exceeds the available context size (4096 tokens)",
    "error type exceed_context_size",
    "exceed_context_size_error",
    "Input length 9000 exceeds the context length (8192)",
    "The input is longer than the model's context length",
    "The input is longer than the context",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
    "Please reduce the length of the messages or completion",
    "The number of tokens is greater than the context length",
    "Input does not fit in context",
    "input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
    "context_length_exceeded",
    "Context length exceeded",
    "prompt token count of 135000 exceeds the limit of 128000",
    "Your request exceeded model token limit: 8192",
    "Context size has been exceeded",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
]


@pytest.mark.row("ctx_error")
@pytest.mark.parametrize("text", CONTEXT_TEXTS)
def test_what_is_said_of_the_context_comes_before_status_and_code(text: str) -> None:
    for body in ({"error": {"message": text, "code": 500, "type": "invalid_api_key"}}, {"error": text.upper()}):
        for status in (400, 413, 422, 500):
            error = classify_body(status, json.dumps(body).encode())
            assert error.kind == "context_length"
            assert isinstance(error, ContextLengthExceeded)
            assert "context window" in error.message
            assert not error.retryable


@pytest.mark.row("ctx_error")
@pytest.mark.parametrize("veto", ["Rate limit reached", "tokens per minute", "over your quota", "rate-limited"])
def test_a_limit_of_the_rate_is_not_one_of_the_context(veto: str) -> None:
    for text in CONTEXT_TEXTS[:2]:
        assert (
            classify_body(429, json.dumps({"error": {"message": f"{veto}: {text}"}}).encode()).kind != "context_length"
        )


@pytest.mark.row("ctx_error")
def test_the_size_of_the_window_is_kept() -> None:
    body = {
        "error": {"code": 400, "message": "exceeds the available context size", "n_prompt_tokens": 900, "n_ctx": 512}
    }
    assert classify_payload(body).details == {"n_prompt_tokens": 900, "n_ctx": 512}


@pytest.mark.row("A29", "http_auth", "http_429", "http_503_loading", "http_404", "http_unsupported")
@pytest.mark.parametrize(
    ("status", "body", "kind", "cls"),
    [
        (401, {"error": {"message": "Invalid API Key", "type": "authentication_error"}}, "auth", ProviderAuthError),
        (401, {}, "auth", ProviderAuthError),
        (403, {"error": "forbidden"}, "auth", ProviderAuthError),
        (400, {"error": {"message": "x", "code": "invalid_api_key"}}, "auth", ProviderAuthError),
        (400, {"error": {"message": "x", "type": "permission_error"}}, "auth", ProviderAuthError),
        (402, {"error": {"message": "Insufficient credits", "code": 402}}, "quota", ProviderAPIError),
        (429, {"error": {"message": "slow down", "type": "insufficient_quota"}}, "quota", ProviderAPIError),
        (429, {"error": {"message": "You exceeded your current quota"}}, "quota", ProviderAPIError),
        (400, {"error": {"message": "x", "type": "billing_error"}}, "quota", ProviderAPIError),
        (429, {"error": {"message": "slow down"}}, "rate_limit", ProviderAPIError),
        (200, {"error": {"message": "x", "code": "rate_limit_exceeded"}}, "rate_limit", ProviderAPIError),
        (200, {"error": {"message": "x", "status": "RESOURCE_EXHAUSTED"}}, "rate_limit", ProviderAPIError),
        (503, {"error": {"message": "Loading model", "code": 503}}, "model_loading", ProviderAPIError),
        (500, {"error": "model is still loading"}, "model_loading", ProviderAPIError),
        (
            503,
            {"error": "server busy, please try again.  maximum pending requests exceeded"},
            "overloaded",
            ProviderAPIError,
        ),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, "overloaded", ProviderAPIError),
        (529, {}, "overloaded", ProviderAPIError),
        (503, {}, "overloaded", ProviderAPIError),
        (404, {"error": "model 'qwen9' not found"}, "model_not_found", ModelNotFound),
        (404, {"error": {"message": "The model `x` does not exist.", "code": 404}}, "model_not_found", ModelNotFound),
        (400, {"error": {"message": "x", "code": "model_not_found"}}, "model_not_found", ModelNotFound),
        (404, {"error": "Repository not found for qwen9"}, "model_not_found", ModelNotFound),
        (400, {"error": "invalid model name"}, "model_not_found", ModelNotFound),
        (404, {"error": "unknown model qwen9"}, "model_not_found", ModelNotFound),
        (404, {"detail": "Not Found"}, "invalid_request", ProviderAPIError),
        (400, {"error": {"message": "m does not support tools"}}, "invalid_request", ProviderAPIError),
        (404, {"error": {"message": "No endpoints found that support tool use"}}, "invalid_request", ProviderAPIError),
        (500, {"error": {"message": "Jinja Exception: roles must alternate"}}, "invalid_request", ProviderAPIError),
        (400, {"error": {"message": "x", "code": "content_filter"}}, "content_filter", ProviderAPIError),
        (400, {"error": {"message": "x", "code": "tool_use_failed"}}, "tool_use_failed", ProviderAPIError),
        (500, {"error": "error parsing tool call: raw='{', err=unexpected end"}, "tool_use_failed", ProviderAPIError),
        (400, {"error": {"message": "bad"}}, "invalid_request", ProviderAPIError),
        (422, {"detail": "bad"}, "invalid_request", ProviderAPIError),
        (301, {}, "invalid_request", ProviderAPIError),
        (418, {}, "invalid_request", ProviderAPIError),
        (408, {}, "timeout", ProviderAPIError),
        (409, {}, "server_error", ProviderAPIError),
        (413, {"error": "too big"}, "context_length", ContextLengthExceeded),
        (500, {"error": "oops"}, "server_error", ProviderAPIError),
        (502, {}, "server_error", ProviderAPIError),
        (504, {}, "timeout", ProviderAPIError),
        (524, {}, "timeout", ProviderAPIError),
        (500, {"error": "upstream request timeout"}, "timeout", ProviderAPIError),
        (500, {"error": "model runner has unexpectedly stopped"}, "server_error", ProviderAPIError),
    ],
)
def test_a_status_and_its_words_have_a_kind(status: int, body: Any, kind: str, cls: type[Exception]) -> None:
    error = classify_body(status, json.dumps(body).encode(), provider="p")
    assert error.kind == kind
    assert type(error) is cls
    assert error.status_code == status
    assert error.provider == "p"
    assert error.message


@pytest.mark.row("B14", "http_429", "http_500_jinja")
@pytest.mark.parametrize(
    ("status", "text", "again"),
    [
        (429, "slow down", True),
        (500, "oops", True),
        (503, "Loading model", True),
        (408, "late", True),
        (409, "conflict", True),
        (500, "Jinja Exception: no", False),
        (402, "pay", False),
        (401, "no", False),
        (400, "no", False),
        (404, "model x not found", False),
    ],
)
def test_what_may_be_tried_again_is_known(status: int, text: str, again: bool) -> None:
    assert classify_body(status, json.dumps({"error": text}).encode()).retryable is again


@pytest.mark.row(
    "http_error_array",
    "http_error_flat",
    "http_error_string",
    "http_error_detail",
    "http_error_plain",
    "error_in_stream",
)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "the words"}}, "the words"),
        ({"error": {"error": {"message": "the words"}}}, "the words"),
        ({"object": "error", "message": "the words", "code": 400}, "the words"),
        ({"type": "error", "error": {"type": "x", "message": "the words"}}, "the words"),
        ([{"error": {"message": "the words"}}], "the words"),
        ({"error": "the words"}, "the words"),
        ({"code": "x", "error": "the words"}, "the words"),
        ({"message": "the words"}, "the words"),
        ({"detail": "the words"}, "the words"),
        ({"detail": [{"loc": ["body", "n"], "msg": "the words"}, {"msg": "more"}]}, "body.n: the words; more"),
        ({"errors": [{"msg": "the words"}]}, "the words"),
        ({"errors": ["the words"]}, "the words"),
        ({"error": {"message": '{"error": {"message": "the words"}}'}}, "the words"),
        ({"error": {"message": "[1]"}}, "[1]"),
        ({"error": {"message": "{not json"}}, "{not json"),
        ({"error": {"message": "{}"}}, "{}"),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": "the words"}}}, "error: the words"),
        ({"the words": None}, "the words"),
        ("the words", "the words"),
    ],
)
def test_the_words_are_found_in_every_shape(body: Any, words: str) -> None:
    assert words in classify_body(400, json.dumps(body).encode()).message
    assert words in classify_payload(body).message


@pytest.mark.parametrize("depth", [1, 3, 50, 400, 700, 950, 2000])
def test_errors_inside_errors_do_not_raise(depth: int) -> None:
    for key, inner in (("error", "{}"), ("error", "[{}]"), ("detail", "{}")):
        text = '"the words"'
        for _ in range(depth):
            text = f'{{"{key}": {inner.replace("{}", text)}}}'
        try:
            message = classify_body(500, text.encode()).message
        except RecursionError:  # its report would take seconds
            message = ""
        assert message
        assert depth > 3 or message.startswith("the words")


def test_an_error_that_cannot_be_written_as_json_is_told_all_the_same() -> None:
    assert "object" in classify_payload({"odd": object(), "more": 1}).message


@pytest.mark.row("http_error_plain")
def test_plain_text_is_told_with_the_status() -> None:
    error = classify_body(500, b"Internal Server Error")
    assert "Internal Server Error" in error.message
    assert "500" in error.message
    assert error.body == "Internal Server Error"


@pytest.mark.row("html_body")
def test_of_a_page_only_the_words_are_told() -> None:
    page = (
        b"<html><head><script>x()</script><style>p{}</style><title>502</title></head><body>Bad  Gateway</body></html>"
    )
    message = classify_body(502, page).message
    assert "502 Bad Gateway" in message
    assert "<" not in message
    assert "x()" not in message
    assert "(empty)" in classify_body(502, b"<html></html>").message


@pytest.mark.row("http_empty_body")
@pytest.mark.parametrize(
    ("status", "kind"), [(400, "context_length"), (413, "context_length"), (429, "rate_limit"), (500, "server_error")]
)
@pytest.mark.parametrize("body", [b"", b" \n"])
def test_an_empty_body_has_a_kind_and_words(status: int, body: bytes, kind: str) -> None:
    error = classify_body(status, body)
    assert error.kind == kind
    assert str(status) in error.message


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"null", b"5", b'{"a": 1, "b": 2}', b"\xff\xfe", b'{"error": null, "a": 1}']
)
def test_a_body_without_words_is_told_as_it_is(body: bytes) -> None:
    error = classify_body(400, body)
    assert error.kind == "invalid_request"
    assert "400" in error.message


@pytest.mark.parametrize(
    "payload",
    [
        {"error": {"code": 500}},
        {"error": {}},
        {"error": True},
        {"object": "error"},
        {"id": "x", "status": "failed"},
        {},
        None,
        [],
        5,
    ],
)
def test_an_error_without_words_still_says_something(payload: Any) -> None:
    error = classify_payload(payload)
    assert error.kind == "server_error"
    assert error.message.strip()


@pytest.mark.row("error_in_stream")
@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ({"error": {"message": "x", "code": 503}}, "overloaded"),
        ({"error": {"message": "x", "code": "503"}}, "overloaded"),
        ({"error": {"message": "x", "http_status_code": 429}}, "rate_limit"),
        ({"error": {"message": "x", "status_code": 401}}, "auth"),
        ({"error": {"message": "x", "type": "invalid_request_error"}}, "invalid_request"),
        ({"error": {"message": "x", "code": 200}}, "server_error"),
        ({"error": {"message": "x", "code": True}}, "server_error"),
        ({"error": {"message": "x"}}, "server_error"),
    ],
)
def test_inside_a_stream_code_then_type_then_words_decide(payload: Any, kind: str) -> None:
    assert classify_payload(payload).kind == kind


def test_the_status_inside_a_stream_is_kept() -> None:
    assert classify_payload({"error": {"message": "x", "code": 503}}).status_code == 503
    assert classify_payload({"error": {"message": "x"}}).status_code is None


@pytest.mark.row("groq_tool_use_failed")
def test_what_groq_could_not_parse_is_kept() -> None:
    error = classify_payload(
        {"error": {"message": "x", "code": "tool_use_failed", "failed_generation": "<function=a>"}}
    )
    assert error.details["failed_generation"] == "<function=a>"
    assert error.retryable


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"detail":"Not Found"}',
        b"<html><h1>404 Not Found</h1></html>",
        b"404 page not found",
        b'{"error":{"message":"File Not Found","type":"not_found_error","code":404}}',
        b'{"error":"Unexpected endpoint or method. (POST /chat/completions)"}',
    ],
)
def test_path_that_is_not_there_may_be_a_wrong_address(body: bytes) -> None:
    assert "is base_url right?" in str(classify_body(404, body))
    assert "is base_url right?" not in str(classify_body(404, b'{"error":{"message":"No endpoints support tools."}}'))


@pytest.mark.row("http_404")
def test_a_missing_model_says_what_to_do() -> None:
    body = b'{"error": "model not found"}'
    error = classify_body(404, body, model="qwen9", server="ollama")
    assert "'qwen9'" in error.message
    assert "ollama pull qwen9" in error.message
    assert "ollama pull" not in classify_body(404, body, model="qwen9").message
    once = classify_body(404, b'{"error": "model \'q\' not found, try `ollama pull q`"}', model="q", server="ollama")
    assert once.message.count("ollama pull") == 1


def test_long_errors_are_cut() -> None:
    error = classify_body(500, json.dumps({"error": "x" * 50_000}).encode())
    assert len(error.message) < 3000
    assert len(error.body or "") <= 4000


def test_how_long_to_wait_is_kept() -> None:
    assert classify_body(429, b"{}", wait=7.5).retry_after == 7.5


@pytest.mark.parametrize(
    ("payload", "is_error"),
    [
        ({"error": "x"}, True),
        ({"error": {"message": "x"}}, True),
        ({"object": "error"}, True),
        ({"type": "error"}, True),
        ([{"error": "x"}], True),
        ([], False),
        ([1], False),
        ({"error": None}, False),
        ({"error": ""}, False),
        ({"object": "chat.completion"}, False),
        ({}, False),
        ("error", False),
        (None, False),
    ],
)
def test_what_reports_an_error_is_known(payload: Any, is_error: bool) -> None:
    assert is_error_payload(payload) is is_error


def test_a_cut_is_a_cut() -> None:
    error = truncated("the wire broke")
    assert isinstance(error, StreamInterrupted)
    assert error.kind == "stream_truncated"
    assert "the wire broke" in error.message


def test_what_is_no_answer_shows_how_it_begins() -> None:
    error = invalid_response("Nonsense", b"\n<p>Hello</p>" + b"x" * 900)
    assert error.kind == "invalid_response"
    assert error.status_code == 200
    assert "Hello" in error.message
    assert len(error.message) < 300
    assert invalid_response("Nonsense").message == "Nonsense"
    assert invalid_response("Nonsense").body is None


NOW = 1_700_000_000.0


@pytest.mark.row("http_429")
@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(NOW - 30, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "1h1m1.5s"}, 3661.5),
        ({"x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-reset-tokens": "30"}, 30.0),
        ({"x-ratelimit-reset-tokens": "later"}, None),
    ],
)
def test_headers_say_how_long_to_wait(headers: dict[str, str], wait: float | None) -> None:
    found = retry_after(headers, NOW)
    assert found == pytest.approx(wait) if wait is not None else found is None


def test_a_negative_wait_in_milliseconds_is_none_at_all() -> None:
    assert retry_after({"retry-after-ms": "-5"}, NOW) == 0.0


@pytest.mark.parametrize(
    "text", ["model " * 2000, "`inputs` tokens " * 2000, "x" * 100_000, "<" * 20_000, "<script" * 3000]
)
def test_long_words_take_time_in_proportion(text: str) -> None:
    assert seconds(lambda: classify_payload({"error": text})) < 0.15
    assert seconds(lambda: classify_body(500, text.encode())) < 0.15
