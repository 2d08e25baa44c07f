"""What a server says went wrong, made one `ProviderError` of the right kind.

Servers agree neither on the shape of an error nor on its status, so three things are read in this order:
what the text says about the context window, the code and the type, the rest of the text, and the status.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from any_agent.errors import (
    ContextLengthExceeded,
    ErrorKind,
    ModelNotFound,
    ProviderAPIError,
    ProviderAuthError,
    ProviderError,
    StreamInterrupted,
)
from any_agent.wire.values import as_list, as_number, as_object, as_objects

__all__ = ("classify_body", "classify_payload", "invalid_response", "is_error_payload", "retry_after", "truncated")

_MAX_MESSAGE = 2000
_MAX_BODY = 4000
_MAX_TEXT = 20_000
#: error objects inside error objects are read no deeper
_MAX_DEPTH = 8

_CONTEXT = re.compile(
    r"prompt is too long|context window|maximum context length|exceeds the available context"
    r"|exceed_context_size|exceeds the context length|longer than the (model's )?context"
    r"|maximum prompt length|reduce the length|greater than the context length|does not fit in context"
    r"|exceeds the maximum number of tokens|context[_ ]length[_ ]exceeded|exceeds the limit of \d+"
    r"|exceeded model token limit|context size has been exceeded|inputs. tokens .* must be <="
    r"|loaded with context length|no user query found",
    re.IGNORECASE,
)
_NOT_CONTEXT = re.compile(r"rate.?limit|quota|per minute", re.IGNORECASE)

#: looked for in the code and in the type, without regard to case
_CODES: tuple[tuple[str, ErrorKind], ...] = (
    ("insufficient_quota", "quota"),
    ("billing", "quota"),
    ("rate_limit", "rate_limit"),
    ("resource_exhausted", "rate_limit"),
    ("tool_use_failed", "tool_use_failed"),
    ("content_filter", "content_filter"),
    ("overloaded", "overloaded"),
    ("model_not_found", "model_not_found"),
    ("authentication", "auth"),
    ("permission", "auth"),
    ("invalid_api_key", "auth"),
)

_TEXTS: tuple[tuple[str, ErrorKind], ...] = (
    (r"exceeded your current quota|insufficient (credits|balance|funds|quota)", "quota"),
    (r"loading model|model is (still |currently )?loading", "model_loading"),
    (r"error parsing tool call|failed to parse tool call|peg-native format", "tool_use_failed"),
    (r"jinja|roles must alternate|image input is not supported", "invalid_request"),
    (r"support tool use|does not support (tools|thinking|images)", "invalid_request"),
    (r"failed during generation|unexpectedly stopped|unexpected eof", "server_error"),
    (r"upstream request timeout|gateway time-?out", "timeout"),
    (r"server busy|maximum pending requests|overloaded|too busy", "overloaded"),
    (r"invalid model name|server is pinned to", "model_not_found"),
    (r"model\b.*\b(not found|does not exist|is not (available|loaded))", "model_not_found"),
    (r"repository not found|snapshot folder", "model_not_found"),
    (r"(invalid|incorrect|wrong|missing) api.?key|unauthorized", "auth"),
)
_TEXT_PATTERNS: tuple[tuple[re.Pattern[str], ErrorKind], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), kind) for pattern, kind in _TEXTS
)

_STATUSES: dict[int | None, ErrorKind] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "invalid_request",
    408: "timeout",
    409: "server_error",
    413: "context_length",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    524: "timeout",
    529: "overloaded",
}

#: what servers say of a path that they do not have, and not of what was asked for there
_NO_SUCH_PATH = re.compile(
    r"HTTP \d+ with an empty body|HTML page|(404 )?((page|file) )?not found|method not allowed|unexpected endpoint",
    re.IGNORECASE,
)
_ADVICE: dict[ErrorKind, str] = {
    "auth": "check the API key, and that it belongs to this address",
    "quota": "the account is out of credit: this does not pass by waiting",
    "context_length": "shorten the conversation, lower max_tokens, or start the server with a larger context window",
    "content_filter": "the provider's filter refused the prompt",
}


@dataclass(slots=True)
class _Report:
    """What an error body says, whatever its shape."""

    message: str = ""
    labels: str = ""
    status: int | None = None
    details: dict[str, Any] | None = None


def is_error_payload(payload: Any) -> bool:
    """Whether a decoded JSON value reports an error rather than carrying a piece of an answer."""
    data = as_object(as_list(payload)[0] if as_list(payload) else payload)
    return bool(data.get("error")) or data.get("object") == "error" or data.get("type") == "error"


def classify_payload(payload: Any, *, status: int | None = None, provider: str = "") -> ProviderError:
    """The error in a decoded JSON value; without `status` it came inside an answer that began well.

    >>> classify_payload({"error": "model runner has unexpectedly stopped"}).kind
    'server_error'
    """
    report = _Report()
    _read(payload, report)
    return _error(report, status=status, body=_dumps(payload), provider=provider)


def classify_body(
    status: int, body: bytes, *, provider: str = "", wait: float | None = None, model: str = "", server: str = ""
) -> ProviderError:
    """The error that a response with a status of 300 and more means.

    >>> classify_body(503, b'{"error":{"message":"Loading model","code":503}}').kind
    'model_loading'
    """
    text = body.decode("utf-8", "replace").strip()
    report = _Report()
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        report.message = _strip_html(text)
    else:
        _read(payload, report)
    if not report.message:
        report.message = f"HTTP {status} with an empty body" if not text else f"HTTP {status}: {text[:200]}"
        if not text and status in (400, 413):
            report.labels = "context_length_exceeded"
    return _error(report, status=status, body=text, provider=provider, wait=wait, model=model, server=server)


def truncated(message: str) -> StreamInterrupted:
    """The stream ended before the answer did."""
    return StreamInterrupted(f"The answer was cut off: {message}")


def invalid_response(message: str, head: bytes = b"", *, status: int | None = 200) -> ProviderAPIError:
    """The server sent something that is no answer; `head` is how it begins."""
    text = _strip_html(head.decode("utf-8", "replace"))[:200] if head else ""
    return ProviderAPIError(
        f"{message}: {text!r}" if text else message,
        kind="invalid_response",
        status_code=status,
        body=head.decode("utf-8", "replace") or None,
    )


def retry_after(headers: dict[str, str], now: float) -> float | None:
    """The seconds to wait that the headers ask for: milliseconds, seconds, a date, or a rate-limit reset."""
    milliseconds = as_number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(milliseconds, 0.0) / 1000
    value = headers.get("retry-after")
    if value is not None:
        seconds = as_number(value)
        if seconds is not None:
            return max(seconds, 0.0)
        try:
            return max(parsedate_to_datetime(value).timestamp() - now, 0.0)
        except (TypeError, ValueError):
            return None
    resets = [_duration(headers.get(f"x-ratelimit-reset-{what}")) for what in ("requests", "tokens")]
    known = [seconds for seconds in resets if seconds is not None]
    return max(known) if known else None


def _error(
    report: _Report,
    *,
    status: int | None,
    body: str,
    provider: str,
    wait: float | None = None,
    model: str = "",
    server: str = "",
) -> ProviderError:
    report.message = (
        report.message[:_MAX_MESSAGE].strip() or f"The server reported an error without words: {body[:200]}"
    )
    kind = _kind(report, status)
    message = report.message
    if kind == "model_not_found":
        message += f" (asked for {model!r})" if model and model not in message else ""
        message += "; list what the server has with `any-agent models` or `adapter.list_models()`"
        if server.startswith("ollama") and "ollama pull" not in message:
            message += f", or fetch it with `ollama pull {model}`"
    elif kind in _ADVICE:
        message += f"; {_ADVICE[kind]}"
    elif kind == "invalid_request" and status in (404, 405) and _NO_SUCH_PATH.match(message):
        message += "; is base_url right? Most end in /v1"
    if status is not None and status >= 300:
        message = f"{message} [HTTP {status}]"
    cls = {
        "auth": ProviderAuthError,
        "context_length": ContextLengthExceeded,
        "model_not_found": ModelNotFound,
        "stream_truncated": StreamInterrupted,
        "aborted": StreamInterrupted,
    }.get(kind, ProviderAPIError)
    return cls(
        message,
        kind=kind,
        status_code=status if status is not None else report.status,
        body=body[:_MAX_BODY],
        provider=provider,
        retry_after=wait,
        details=report.details,
    )


def _kind(report: _Report, status: int | None) -> ErrorKind:
    said = f"{report.labels} {report.message}"
    if _CONTEXT.search(said) and not _NOT_CONTEXT.search(said):
        return "context_length"
    labels = report.labels.lower()
    for label, kind in _CODES:
        if label in labels:
            return kind
    for pattern, kind in _TEXT_PATTERNS:
        if pattern.search(report.message):
            return kind
    code = status if status is not None and status >= 300 else report.status
    if code == 404 and re.search(r"\bmodel\b", report.message, re.IGNORECASE):
        return "model_not_found"
    known = _STATUSES.get(code)
    if known is not None:
        return known
    if code is not None and 300 <= code < 500:
        return "invalid_request"
    if "invalid_request" in labels:
        return "invalid_request"
    return "server_error"


def _read(payload: Any, report: _Report, depth: int = 0) -> None:
    """Gather message, labels and status out of the shapes that servers use."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(payload, str):
        report.message = report.message or _inner_json(payload, report, depth)
    elif isinstance(payload, list):
        items = as_list(payload)
        if items and "msg" in as_object(items[0]):
            report.message = "; ".join(_validation_error(item) for item in as_objects(items))
        elif items:
            _read(items[0], report, depth + 1)
    elif isinstance(payload, dict):
        _read_object(as_object(payload), report, depth + 1)


def _read_object(data: dict[str, Any], report: _Report, depth: int) -> None:
    for key in ("code", "type", "status"):
        value = data.get(key)
        if isinstance(value, str) and not value.isdigit():
            report.labels += f" {value}"
    for key in ("http_status_code", "code", "status_code", "status"):
        number = as_number(data.get(key))
        if number is not None and 300 <= number < 600 and report.status is None:
            report.status = int(number)
    known = {key: data[key] for key in ("n_prompt_tokens", "n_ctx", "failed_generation", "param") if data.get(key)}
    if known:
        report.details = {**(report.details or {}), **known}
    for key in ("error", "message", "detail", "errors", "msg"):
        if (data.get(key) and not report.message) or isinstance(data.get(key), dict):
            _read(data[key], report, depth)
    raw = as_object(data.get("metadata")).get("raw")
    if isinstance(raw, str):
        report.message += f": {raw}"
    if not report.message and len(data) == 1:
        # Ollama 0.11.3 sent the text of the error as the key
        report.message = next(iter(data))


def _inner_json(text: str, report: _Report, depth: int) -> str:
    """The text itself; if it is JSON again (proxies wrap), what that says."""
    if text[:1] in "{[":
        try:
            payload = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if isinstance(payload, dict | list) and payload:
            _read(payload, report, depth + 1)
    return report.message or text


def _validation_error(item: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in as_list(item.get("loc")))
    return f"{path}: {item.get('msg')}" if path else str(item.get("msg"))


def _strip_html(text: str) -> str:
    text = text[:_MAX_TEXT]
    if text.lstrip()[:1] != "<":
        return text.strip()
    plain = re.sub(r"(?is)<(script|style)\b.*?(?:</\1\s*>|\Z)|<[^<>]*>", " ", text)
    return f"HTML page: {' '.join(plain.split())[:200] or '(empty)'}"


def _duration(value: str | None) -> float | None:
    """Seconds in `6m0s`, `1.5s`, `120ms` or `30`."""
    if not value:
        return None
    plain = as_number(value)
    if plain is not None:
        return plain
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|h|m|s)", value[:40])
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    return sum(float(number) * units[unit] for number, unit in parts) if parts else None


def _dumps(payload: Any) -> str:
    try:
        return json.dumps(payload, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(payload)[:_MAX_BODY]
