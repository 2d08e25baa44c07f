"""Servers that answer what a checkup asks: a good one, and parts for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from any_agent.testing import HANG, Received, Reply, chat_events, sse
from any_agent.testing.server import Step

USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
JSON = {"Content-Type": "application/json"}
PAGE = Reply([b"<!doctype html><title>App</title>"], headers={"Content-Type": "text/html"})
NUMBERS = ("1 ", "2 ", "3 ", "4 ")
Answers = Callable[[Received], Reply | None]


def paced(steps: list[bytes]) -> Reply:
    """Each event in a packet of its own."""
    timed: list[Step] = [part for step in steps for part in (step, 0.005)]
    return Reply(timed)


def text(*texts: str, **more: Any) -> Reply:
    return paced(chat_events(*texts, usage=USAGE, **more))


def calls(*arguments: str, **more: Any) -> Reply:
    made = [{"id": f"c{i}", "function": {"name": "get_weather", "arguments": a}} for i, a in enumerate(arguments)]
    return text(tool_calls=made, finish="tool_calls", **more)


def refusal(message: str, status: int = 400, **more: Any) -> Reply:
    return Reply.json({"error": {"message": message, "type": "invalid_request_error", **more}}, status)


def listing(*models: dict[str, Any]) -> Reply:
    return Reply.json({"object": "list", "data": [{"object": "model", **model} for model in models]})


VLLM = listing({"id": "qwen3", "owned_by": "vllm", "max_model_len": 16384})


def asks_for(request: Received) -> str:
    """Which of the checks a question belongs to."""
    body = request.json
    if body.get("tools"):
        return "two calls" if "Rome" in body["messages"][-1]["content"] else "call"
    if "response_format" in body or "format" in body:
        return "schema"
    prompt = body["messages"][-1]["content"]
    words = {"1000": "drop", "17 + 25": "thinking", "Norway": "schema", "weather": "prompted"}
    return next((what for word, what in words.items() if word in prompt), "first")


def good(what: str) -> Reply:
    """How a server answers with which all is well."""
    match what:
        case "call":
            return calls('{"city": "Oslo"}')
        case "two calls":
            return calls('{"city": "Oslo"}', '{"city": "Rome"}')
        case "schema":
            return text('{"verdict": ', '"yes"}')
        case "thinking":
            return paced(sse({"choices": [{"delta": {"reasoning": "Hm."}}]}, done=False) + chat_events("42"))
        case "drop":
            return Reply([*chat_events(*NUMBERS)[:3], HANG])
        case _:
            return text(*NUMBERS)


def script(models: Reply = VLLM, pages: dict[str, Reply] | None = None, **answers: Reply) -> Answers:
    """A good server, but for these answers; `two_calls=…` is for the check "two calls"."""

    def answer(request: Received) -> Reply:
        if request.method == "GET" or request.path == "/api/show":
            known = {"/v1/models": models, **(pages or {})}
            return known.get(request.path, Reply.json({"detail": "Not Found"}, 404))
        what = asks_for(request)
        return answers.get(what.replace(" ", "_")) or good(what)

    return answer
