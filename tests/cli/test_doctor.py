"""`any-agent doctor`: what the command says of good servers and of bad ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from adapters.scripts import NUMBERS, PAGE, USAGE, Answers, calls, listing, paced, refusal, script, text
from any_agent.adapters.checkup import CHECKS
from any_agent.testing import Received, Reply, chat_events, sse

from .support import DANGEROUS, STYLE, Home, Result, serving


def rows(result: Result) -> dict[str, tuple[str, str]]:
    """State and words of each check, in a report without a terminal: a line for each, and nothing else."""
    lines = [re.fullmatch(r"(\w+) +(\S+(?: \S+)?)  +(.+)", line) for line in result.out.splitlines()]
    found = {line[2]: (line[1], line[3]) for line in lines if line}
    assert tuple(found) == CHECKS
    return found


def still_loading() -> Answers:
    """A server that lists its model, but has not loaded it when it is first asked."""
    questions: list[Received] = []

    def answer(request: Received) -> Reply | None:
        if request.method == "POST":
            questions.append(request)
        return refusal("Loading model", 503) if questions == [request] else script()(request)

    return answer


ONE_EVENT = Reply.json({"choices": [{"message": {"content": "1 2 3"}, "finish_reason": "stop"}], "usage": USAGE})
#: the name of a quirk: a server that has it, and what is to be said of which check
QUIRKS: dict[str, tuple[Answers | Reply, str, str, str]] = {
    "html_body": (PAGE, "reachable", "failed", r"HTML page: App.* -> .*/v1"),
    "http_auth": (refusal("Invalid API Key", 401), "key", "failed", r"a key is wanted: .* -> .*--api-key-env"),
    "http_404": (
        script(first=Reply.json({"error": {"message": "The model `qwen9` does not exist."}}, 404)),
        "model",
        "failed",
        r"qwen9.* -> take one that it has: qwen3",
    ),
    "http_503_loading": (still_loading(), "streaming", "ok", r"4 pieces"),
    "json_not_sse": (script(first=ONE_EVENT), "streaming", "limited", r"the server ignores stream=true"),
    "content_cumulative": (
        script(first=text("1 ", "1 2 ", "1 2 3 ", "1 2 3 4 ")),
        "streaming",
        "limited",
        r"repeats all the text so far",
    ),
    "empty_success": (script(first=paced(chat_events(usage=USAGE))), "streaming", "failed", r"nothing at all"),
    "error_in_stream": (
        script(first=Reply([*chat_events("1 ")[:2], *sse({"error": {"message": "CUDA out of memory"}})])),
        "streaming",
        "failed",
        r"CUDA out of memory",
    ),
    "eof_truncated": (script(first=Reply(chat_events("1 ")[:2])), "streaming", "failed", r"cut off"),
    "usage_absent": (script(first=paced(chat_events(*NUMBERS))), "usage", "limited", r"none"),
    "http_unsupported": (
        script(call=refusal("qwen3 does not support tools")),
        "tool call",
        "limited",
        r"does not support tools",
    ),
    "text_tool_calls": (
        script(call=text('<tool_call>{"name": "get_weather", ', '"arguments": {"city": "Oslo"}}</tool_call>')),
        "tool call",
        "limited",
        r"text",
    ),
    "tc_args_garbage": (
        script(call=calls("{city Oslo")),
        "tool call",
        "limited",
        r"cannot be used \(Invalid JSON: .*\); it is told so",
    ),
}


@pytest.mark.row(*QUIRKS)
@pytest.mark.parametrize("quirk", QUIRKS)
def test_the_truth_is_told_of_a_server_that_misbehaves(home: Home, quirk: str) -> None:
    answers, check, state, words = QUIRKS[quirk]
    with serving(answers) as backend:  # type: ignore[arg-type]
        model = ["-m", "qwen9"] if quirk == "http_404" else []
        result = home.run("doctor", "--base-url", backend.url, *model)
    found = rows(result)
    assert (result.code, result.err) == (int(state == "failed"), "")
    assert found[check][0] == state
    assert re.search(words, found[check][1])


def test_all_is_well_in_json(home: Home) -> None:
    with serving(script()) as backend:
        result = home.run("doctor", "--base-url", backend.url, "--json")
    report = json.loads(result.out)
    assert (result.code, result.err, report["healthy"]) == (0, "", True)
    assert [check["name"] for check in report["checks"]] == list(CHECKS)
    assert {check["state"] for check in report["checks"]} == {"ok", "unknown"}


@pytest.mark.row("C13")
def test_a_name_in_the_settings_is_checked_as_it_will_be_used(home: Home, config: Path) -> None:
    with serving(script()) as backend:
        (config / "providers.toml").write_text(
            f'[office]\nprovider = "openai"\nbase_url = "{backend.url}"\napi_key_env_var = "OFFICE_KEY"\n'
        )
        result = home.run("doctor", "--profile", "office", OFFICE_KEY="secret")
        assert (result.code, result.err) == (0, "")
        assert {request.headers["authorization"] for request in backend.server.requests} == {"Bearer secret"}
        assert "OFFICE_KEY: there is no such" in home.run("doctor", "--profile", "office").complaint


@pytest.mark.row("C16")
def test_a_server_that_is_down_is_not_healthy(home: Home) -> None:
    with serving() as backend:
        url = backend.url
    result = home.run("doctor", "--base-url", url)
    assert (result.code, result.err) == (1, "")
    assert rows(result)["reachable"][0] == "failed"
    assert json.loads(home.run("doctor", "--base-url", url, "--json").out)["healthy"] is False


@pytest.mark.row("C16")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--profile", "generic"], "base_url is missing"),
        (["--base-url", "localhost:1234"], "must begin with http://"),
        (["--api-key-env", "NO_SUCH"], "no such environment variable"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(home: Home, arguments: list[str], words: str) -> None:
    assert words in home.run("doctor", *arguments).complaint


@pytest.mark.parametrize("columns", [80, 30])
def test_on_a_terminal_there_is_a_table_that_fits(home: Home, columns: int) -> None:
    with serving(script(models=listing({"id": "qwen3\x1b[31m", "owned_by": "vllm"}))) as backend:
        with home.open("doctor", "--base-url", backend.url, columns=columns, rows=60) as terminal:
            assert terminal.ends() == 0
            assert [line.split()[0] for line in terminal.lines if line.startswith(("ok ", "unknown "))][-1:]
            assert "qwen3␛[31m" in terminal.text.replace(" ", "")
            assert re.search(rb"\x1b\[32mok", terminal.raw)
        with home.open("doctor", "--base-url", backend.url, columns=columns, rows=60, NO_COLOR="1") as terminal:
            assert terminal.ends() == 0
            assert not STYLE.search(terminal.raw)


def test_what_a_server_writes_is_not_obeyed(home: Home) -> None:
    with serving(script(first=text("1 ", "2 "), call=refusal("no \x1b]0;owned\x07 tools"))) as backend:
        result = home.run("doctor", "--base-url", backend.url)
        assert not DANGEROUS.search(result.out)
        assert "␛]0;owned␇" in result.out


@pytest.mark.real_server
def test_the_embedded_server_is_checked(home: Home) -> None:
    result = home.run("doctor", "--profile", "embedded")
    found = rows(result)
    assert result.code == 0
    assert result.err == "loading the model\n"
    limits = {"parallel calls": "unknown", "thinking": "unknown", "context window": "limited"}
    assert {name: state for name, (state, _) in found.items()} == {**dict.fromkeys(CHECKS, "ok"), **limits}
    assert re.fullmatch(r"embedded at http://127\.0\.0\.1:\d+/v1", found["reachable"][1])
    assert found["model"][1] == "smollm2"
    assert found["tool call"][1] == "the model called get_weather({'city': 'Oslo'})"
    assert found["context window"][1].startswith("4096 tokens")
    assert "the slot is free again" in found["cancellation"][1]
