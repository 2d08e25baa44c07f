"""`any-agent run`: one question, one answer, in pipes."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import socket
import subprocess
import threading
from typing import Any

import pytest

from any_agent.events import Done, Event, Failed, TextDelta, ToolResult, from_dict
from any_agent.testing import HANG, Received, Reply, chat_events, sse

from .support import CALL, DANGEROUS, Backend, Home, serving

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TOOL_ROUND = Reply(chat_events("Let me look. ", tool_calls=[CALL], finish="tool_calls"))
ANSWER = Reply(chat_events("It is ", "21 degrees."))


def asked(backend: Backend, *arguments: str) -> list[str]:
    return ["run", *arguments, "-m", "qwen3", "--base-url", backend.url]


@pytest.mark.row("B1")
def test_the_answer_streams_while_the_server_is_still_sending(home: Home) -> None:
    more = asyncio.Event()
    first, *rest = chat_events("Hel", "lo")[1:]
    with serving(Reply([first, more, *rest])) as backend:
        process = home.start(*asked(backend, "hi"))
        assert process.stdout is not None
        assert process.stdout.read(3) == b"Hel"
        backend.set(more)
        assert process.communicate() == (b"lo\n", b"")
        assert process.returncode == 0


@pytest.mark.row("B1", "B2")
def test_the_answer_goes_to_one_stream_and_the_rest_to_the_other(home: Home) -> None:
    with serving(TOOL_ROUND, ANSWER) as backend:
        result = home.run(*asked(backend, "How warm is it in Oslo?", "--tool", "weather:get_weather"))
        assert result.code == 0
        assert result.out == "Let me look. \nIt is 21 degrees.\n"
        running, done, output = result.err.splitlines()
        assert running == '● get_weather  city="Oslo"'
        assert done.startswith("✓ 0.")
        assert done.endswith('get_weather  city="Oslo"')
        assert output == '  {"city": "Oslo", "celsius": 21}'
        assert backend.questions[1].json["messages"][-1]["content"] == '{"city": "Oslo", "celsius": 21}'


def test_a_tool_that_fails_is_shown_and_told_to_the_model(home: Home) -> None:
    call = {"id": "c1", "function": {"name": "broken", "arguments": '{"city": "Oslo"}'}}
    with serving(Reply(chat_events(tool_calls=[call], finish="tool_calls")), ANSWER) as backend:
        result = home.run(*asked(backend, "hi", "--tool", "weather:broken"))
        assert (result.code, result.out) == (0, "It is 21 degrees.\n")
        assert "✗ 0." in result.err
        assert "RuntimeError: the station is closed" in result.err


def test_the_options_are_sent(home: Home) -> None:
    with serving(ANSWER) as backend:
        options = ["--system", "Be brief.", "--temperature", "0", "--max-tokens", "7", "--profile", "llamacpp"]
        home.run(*asked(backend, "hi", *options, "--no-thinking", "--api-key-env", "MY_KEY"), MY_KEY="secret")
        [question] = backend.questions
        assert question.json["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
        ]
        assert (question.json["temperature"], question.json["max_tokens"]) == (0, 7)
        assert question.json["chat_template_kwargs"] == {"enable_thinking": False}
        assert question.headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("arguments", "piped", "prompt"),
    [
        (["-"], b"from the pipe\n", "from the pipe\n"),
        ([], b"\xef\xbb\xbffrom the pipe", "from the pipe"),
        (["Sum up:"], b"a long text", "Sum up:\n\na long text"),
        (["Sum up:"], b"", "Sum up:"),
    ],
)
def test_what_is_piped_in_is_the_prompt_or_follows_it(
    home: Home, arguments: list[str], piped: bytes, prompt: str
) -> None:
    with serving(ANSWER) as backend:
        assert home.run(*asked(backend, *arguments), piped=piped).code == 0
        assert backend.prompts == [prompt]


@pytest.mark.parametrize(
    ("arguments", "piped", "words"),
    [([], None, "nothing to ask"), ([" "], b"\n", "nothing to ask"), ([], b"\xff\xfe", "no text in UTF-8")],
)
def test_no_prompt_is_no_question(home: Home, arguments: list[str], piped: bytes | None, words: str) -> None:
    with serving(ANSWER) as backend:
        assert words in home.run(*asked(backend, *arguments), piped=piped).complaint
        assert not backend.server.requests


def test_a_pipe_that_stays_silent_is_pointed_out(home: Home) -> None:
    with serving(ANSWER) as backend:
        process = home.start(*asked(backend, "hi"), stdin=subprocess.PIPE)
        assert process.stderr is not None
        assert b"waiting for the end of standard input" in process.stderr.readline()
        out, _ = process.communicate()
        assert out == b"It is 21 degrees.\n"


def test_images_go_with_the_prompt(home: Home) -> None:
    (home.folder / "cat.png").write_bytes(PNG)
    with serving(ANSWER) as backend:
        home.run(*asked(backend, "What is it?", "--image", "cat.png"))
        image, text = backend.prompts[0]
        assert image["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        assert text == {"type": "text", "text": "What is it?"}
        assert "no image file at 'dog.png'" in home.run(*asked(backend, "hi", "--image", "dog.png")).complaint


def events(out: str) -> list[Event]:
    return [from_dict(json.loads(line)) for line in out.splitlines()]


def test_json_lines_are_events(home: Home) -> None:
    with serving(TOOL_ROUND, Reply(chat_events("ü \x9b \u2028 😀"))) as backend:
        result = home.run(*asked(backend, "hi", "--json", "--tool", "weather:get_weather"))
        assert (result.code, result.err) == (0, "")
        assert not DANGEROUS.search(result.out.replace("\n", ""))
        found = events(result.out)
        assert [event.seq for event in found] == list(range(1, len(found) + 1))
        [output] = [event.output for event in found if isinstance(event, ToolResult)]
        assert output == '{"city": "Oslo", "celsius": 21}'
        assert found[-3] == TextDelta("ü \x9b \u2028 😀", seq=len(found) - 2)
        assert isinstance(found[-1], Done)


def test_json_of_a_failure_is_an_event_too(home: Home) -> None:
    with serving(Reply.json({"error": {"message": "no such thing"}}, 400)) as backend:
        result = home.run(*asked(backend, "hi", "--json"))
        assert result.code == 1
        last = events(result.out)[-1]
        assert isinstance(last, Failed)
        assert last.error.status_code == 400
        assert len(result.err.splitlines()) == 1


@pytest.mark.row("C16")
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply.json({"error": {"message": "Incorrect API key provided"}}, 401), "Incorrect API key"),
        (Reply.json({"error": {"message": "model 'qwen3' not found"}}, 404), "qwen3"),
        (Reply([b"<html>\n<h1>It works!</h1>"], headers={"Content-Type": "text/html"}), "is base_url right?"),
        (Reply.json({"error": {"message": "two\nlines \x1b[31m"}}, 400), "two lines ␛[31m"),
    ],
    ids=["401", "404", "html", "escapes"],
)
def test_a_server_that_refuses_is_one_line(home: Home, reply: Reply, words: str) -> None:
    with serving(reply) as backend:
        complaint = home.run(*asked(backend, "hi")).complaint
        assert complaint.startswith("any-agent: ")
        assert words in complaint


@pytest.mark.row("C16")
def test_a_server_that_is_down_is_one_line(home: Home) -> None:
    with serving() as backend:
        url = backend.url
    complaint = home.run("run", "hi", "-m", "x", "--base-url", url).complaint
    assert "Nothing listens at" in complaint
    assert complaint == home.run("run", "hi", "--base-url", url).complaint


@pytest.mark.row("C16")
def test_a_port_that_another_program_has_is_one_line(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def greet() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

        threading.Thread(target=greet, daemon=True).start()
        url = f"http://127.0.0.1:{other.getsockname()[1]}/v1"
        assert "does not speak HTTP" in home.run("run", "hi", "-m", "x", "--base-url", url).complaint


def test_attempts_that_failed_are_told_when_one_succeeds(home: Home) -> None:
    with serving(Reply.json({"error": {"message": "busy\x07"}}, 503), ANSWER) as backend:
        result = home.run(*asked(backend, "hi"))
        assert result.out == "It is 21 degrees.\n"
        [line] = result.err.splitlines()
        assert line.startswith("trying again in ")
        assert "(attempt 2): busy␇" in line


@pytest.mark.row("A27")
@pytest.mark.parametrize("reply", [Reply([HANG]), Reply([*chat_events("Some", finish=None)[:2], HANG])])
def test_ctrl_c_stops_the_generation_at_the_server(home: Home, reply: Reply) -> None:
    with serving(reply) as backend:
        process = home.start(*asked(backend, "hi"))
        backend.wait(backend.server.received())
        process.send_signal(signal.SIGINT)
        backend.wait(backend.server.disconnected())
        _, err = process.communicate()
        assert process.returncode == 130
        assert b"Traceback" not in err


def thinking(request: Received) -> Reply:
    thought: list[Any] = [{"choices": [{"index": 0, "delta": {"reasoning_content": "hm, \x1b[2J"}}]}]
    return Reply([*sse(*thought, done=False), *chat_events("42")])


@pytest.mark.row("B12")
def test_thoughts_are_shown_only_if_asked_for_and_never_in_the_answer(home: Home) -> None:
    with serving(thinking) as backend:
        silent = home.run(*asked(backend, "hi"))
        assert (silent.out, silent.err) == ("42\n", "")
        shown = home.run(*asked(backend, "hi", "--show-thinking"))
        assert (shown.out, shown.err) == ("42\n", "hm, ␛[2J\n")


def test_nothing_that_others_write_is_obeyed(home: Home) -> None:
    bad = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202e[bold red]x[/]"
    call = {"id": "c1", "function": {"name": "get_weather", "arguments": json.dumps({"city": bad})}}
    unknown = {"id": "c2", "function": {"name": "rm\x1b[31m", "arguments": "{}"}}
    with serving(
        Reply(chat_events(bad, tool_calls=[call, unknown], finish="tool_calls")), Reply(chat_events(f"{bad}\r\n"))
    ) as backend:
        result = home.run(*asked(backend, "hi", "--tool", "weather:get_weather"))
        assert result.code == 0
        assert not DANGEROUS.search(result.out + result.err)
        assert result.out.count("␛]0;owned␇␛[2J") == 2
        assert "[bold red]x[/]" in result.out
        assert "[bold red]x[/]" in result.err


def test_an_answer_that_was_cut_off_says_so(home: Home) -> None:
    with serving(Reply(chat_events("To be continued", finish="length"))) as backend:
        result = home.run(*asked(backend, "hi"))
        assert (result.code, result.out) == (0, "To be continued\n")
        assert "--max-tokens" in result.err


def test_a_run_that_ends_without_an_answer_is_a_failure(home: Home) -> None:
    with serving(TOOL_ROUND) as backend:
        result = home.run(*asked(backend, "hi", "--tool", "weather:get_weather"))
        assert result.code == 1
        assert "again and again" in result.err


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("weather:nope", "there is no 'nope' in weather"),
        ("nowhere:f", "ModuleNotFoundError: No module named 'nowhere'"),
        ("bad:f", "SyntaxError"),
        ("weather.py", "write module:function"),
    ],
)
def test_a_tool_that_cannot_be_had_is_one_line(home: Home, tool: str, words: str) -> None:
    (home.folder / "bad.py").write_text("def f(:\n", "utf-8")
    complaint = home.run("run", "hi", "-m", "x", "--base-url", "http://127.0.0.1:9", "--tool", tool).complaint
    assert complaint.startswith(f"any-agent: --tool {tool}: ")
    assert words in complaint
