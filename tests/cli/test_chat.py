"""`any-agent chat`: typing in a terminal, or piping lines into it."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from any_agent import estimate_tokens
from any_agent.testing import HANG, Received, Reply, chat_events

from .support import CALL, COMMAND, DANGEROUS, STYLE, Backend, Home, Terminal, serving
from .test_run import PNG

ENTER, ALT_ENTER, CTRL_C, CTRL_D, TAB, UP = "\r", "\x1b\r", "\x03", "\x04", "\t", "\x1b[A"
REFUSAL = Reply.json({"error": {"message": "the model crashed \x1b[31m"}}, 400)


def echo(request: Received) -> Reply:
    """Answers with how many messages there were, and the last of them; lists two models."""
    if request.path.endswith("/models"):
        return Reply.json({"object": "list", "data": [{"id": "qwen3"}, {"id": "gemma"}]})
    if request.method == "GET":
        return Reply.json({"default_generation_settings": {"n_ctx": 8192}})
    messages = request.json["messages"]
    return Reply(chat_events(f"[{len(messages)}] ", f"You said {messages[-1]['content']!r}."))


@contextmanager
def chatting(home: Home, backend: Backend, *options: str, columns: int = 80, **variables: str) -> Iterator[Terminal]:
    arguments = ["chat", "-m", "qwen3", "--base-url", backend.url, *options]
    with home.open(*arguments, columns=columns, **variables) as terminal:
        ready(terminal)
        yield terminal


def ready(terminal: Terminal, draft: str = "") -> None:
    """Wait until the prompt is there."""
    terminal.wait_for(lambda: bool(terminal.lines) and terminal.lines[-1] == f"> {draft}".rstrip())


def say(terminal: Terminal, text: str, draft: str = "") -> None:
    """Type a line, and wait for the next prompt."""
    terminal.type(text)
    terminal.wait_for(lambda: terminal.lines[-1].endswith(text))
    offered = f"> {draft}"
    before = terminal.lines.count(offered)
    terminal.type(ENTER)
    if draft:
        terminal.wait_for(lambda: terminal.lines.count(offered) > before)
    ready(terminal, draft)


def leave(terminal: Terminal) -> None:
    terminal.type(CTRL_D)
    assert terminal.ends() == 0


def test_a_conversation_has_a_memory(home: Home) -> None:
    with serving(echo) as backend:
        with chatting(home, backend, "--system", "Be brief.") as terminal:
            say(terminal, "hello")
            assert terminal.lines[-2] == "[2] You said 'hello'."
            say(terminal, "again")
            assert terminal.lines[-2] == "[4] You said 'again'."
            leave(terminal)


@pytest.mark.row("A27", "C16")
def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(home: Home) -> None:
    with serving(Reply([*chat_events("Once upon", finish=None)[:2], HANG]), echo) as backend:
        with chatting(home, backend) as terminal:
            terminal.type(f"tell me a story{ENTER}")
            terminal.wait_for("Once upon")
            terminal.type(CTRL_C)
            backend.wait(backend.server.disconnected())
            terminal.wait_for("stopped")
            ready(terminal)
            say(terminal, "hello")
            assert terminal.lines[-2] == "[1] You said 'hello'."
            leave(terminal)


def test_ctrl_c_at_the_prompt_clears_it_then_warns_then_leaves(home: Home) -> None:
    with serving(echo) as backend:
        with chatting(home, backend) as terminal:
            terminal.type("half a quest")
            terminal.wait_for("half a quest")
            terminal.type(CTRL_C)
            ready(terminal)
            terminal.type(CTRL_C)
            terminal.wait_for("Ctrl-C once more leaves")
            ready(terminal)
            say(terminal, "hello")
            terminal.type(CTRL_C)
            terminal.wait_for(lambda: terminal.text.count("Ctrl-C once more leaves") == 2)
            terminal.type(CTRL_C)
            assert terminal.ends() == 0
            assert backend.prompts == ["hello"]


@pytest.mark.row("C16")
def test_after_an_error_the_prompt_is_offered_again(home: Home) -> None:
    with serving(REFUSAL, echo) as backend:
        with chatting(home, backend) as terminal:
            say(terminal, "hello", draft="hello")
            assert terminal.lines[-2] == "the model crashed ␛[31m [HTTP 400]"
            say(terminal, " you", draft="")
            assert terminal.lines[-2] == "[1] You said 'hello you'."
            leave(terminal)


def test_a_server_that_goes_down_does_not_end_the_chat(home: Home) -> None:
    with serving(echo) as backend:
        with chatting(home, backend) as terminal:
            backend.wait(backend.server.__aexit__())
            say(terminal, "hello", draft="hello")
            assert "Nothing listens at" in terminal.text
            terminal.type(CTRL_C)
            ready(terminal)
            leave(terminal)


def test_tool_rounds_are_kept_when_the_answer_fails(home: Home) -> None:
    call = Reply(chat_events(tool_calls=[CALL], finish="tool_calls"))
    with serving(call, REFUSAL, echo) as backend:
        with chatting(home, backend, "--tool", "weather:get_weather") as terminal:
            say(terminal, "How warm is it?")
            assert "what the tools did is kept" in terminal.text
            terminal.type(ENTER)
            terminal.wait_for('[3] You said \'{"city": "Oslo", "celsius": 21}\'.')
            ready(terminal)
            terminal.type(ENTER)  # there is nothing to go on from any more
            leave(terminal)
            assert len(backend.questions) == 3


def test_several_lines_are_one_prompt(home: Home) -> None:
    with serving(echo) as backend:
        with chatting(home, backend) as terminal:
            terminal.type(f"one{ALT_ENTER}two\\{ENTER}three")
            terminal.wait_for(lambda: terminal.lines[-3:] == ["> one", "  two", "  three"])
            terminal.type(ENTER)
            ready(terminal)
            assert backend.prompts == ["one\ntwo\nthree"]
            leave(terminal)


def test_what_was_typed_is_remembered_for_its_user_alone(home: Home) -> None:
    with serving(echo) as backend:
        with chatting(home, backend) as terminal:
            say(terminal, "a secret question")
            leave(terminal)
        file = home.folder / "state" / "any-agent" / "chat_history"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        with chatting(home, backend) as terminal:
            terminal.type(UP)
            ready(terminal, "a secret question")


def test_without_a_place_for_the_history_there_is_a_chat(home: Home) -> None:
    (home.folder / "state").write_text("no folder")
    with serving(echo) as backend:
        with chatting(home, backend) as terminal:
            say(terminal, "hello")
            leave(terminal)


def test_commands_and_paths_are_completed(home: Home) -> None:
    (home.folder / "picture.png").write_bytes(PNG)
    with serving(echo) as backend:
        with chatting(home, backend) as terminal:
            terminal.type("/im")
            terminal.wait_for(lambda: terminal.lines[-1].strip() == "/image")  # the menu
            terminal.type(TAB)
            terminal.wait_for("> /image")
            terminal.type(" pic")
            terminal.wait_for(lambda: terminal.lines[-1].strip() == "picture.png")
            terminal.type(TAB)
            terminal.wait_for("> /image picture.png")
            terminal.type(ENTER)
            terminal.wait_for("(1 image) >")
            terminal.type(f"What is it?{ENTER}")
            ready(terminal)
            url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
            assert [part["type"] for part in backend.prompts[0]] == ["image_url", "text"]
            assert backend.prompts[0][0]["image_url"]["url"] == url
            say(terminal, "and now?")
            assert backend.prompts[1] == "and now?"


def test_commands_about_the_model(home: Home) -> None:
    with serving(echo) as backend:
        with chatting(home, backend, "--profile", "llamacpp", "--tool", "weather:get_weather") as terminal:
            say(terminal, "hello")
            say(terminal, "/model")
            assert terminal.lines[-3:-1] == ["qwen3  (this one)", "gemma"]
            say(terminal, "/model gemma")
            say(terminal, "again")
            assert [question.json["model"] for question in backend.questions] == ["qwen3", "gemma"]
            assert terminal.lines[-2] == "[3] You said 'again'."
            say(terminal, "/tools")
            assert terminal.lines[-2] == "get_weather  The weather in a city."
            say(terminal, "/context")
            assert " of 8,192 (" in terminal.lines[-2]
            say(terminal, "/help")
            for command in ("/model", "/tools", "/undo", "/save", "/load", "/context", "/clear", "/image", "/exit"):
                assert any(line.startswith(command) for line in terminal.lines)
            terminal.type(f"/exit{ENTER}")
            assert terminal.ends() == 0


def test_commands_about_the_conversation(home: Home) -> None:
    with serving(echo) as backend:
        with chatting(home, backend) as terminal:
            say(terminal, "/undo", draft="/undo")
            terminal.type(CTRL_C)
            ready(terminal)
            say(terminal, "one")
            say(terminal, "two")
            say(terminal, "/undo", draft="two")
            terminal.type(CTRL_C)
            ready(terminal)
            say(terminal, "zwei")
            assert terminal.lines[-2] == "[3] You said 'zwei'."
            say(terminal, "/save talk.json")
            say(terminal, "/clear")
            say(terminal, "three")
            assert terminal.lines[-2] == "[1] You said 'three'."
            say(terminal, "/load talk.json")
            say(terminal, "four")
            assert terminal.lines[-2] == "[5] You said 'four'."
            say(terminal, "/save talk.json")  # its own file may be written again
        saved = json.loads((home.folder / "talk.json").read_text("utf-8"))
        assert saved["model"] == "qwen3"
        assert [message["content"] for message in saved["messages"][::2]] == ["one", "zwei", "four"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/nope", "there is no command /nope"),
        ("/save", "which file?"),
        ("/save weather.py", "exists already"),
        ("/load weather.py", "it is no JSON"),
        ("/load nowhere.json", "nowhere.json"),
        ("/load other.json", "a list of messages is expected"),
        ("/load odd.json", "role"),
        ("/image", "which image?"),
        ("/image weather.py", "no image that models take"),
    ],
)
def test_wrong_commands_are_one_line(home: Home, line: str, words: str) -> None:
    (home.folder / "other.json").write_text('{"messages": "none"}')
    (home.folder / "odd.json").write_text('[{"role": "wizard", "content": "hi"}]')
    with serving(echo) as backend:
        result = home.run("chat", "-m", "x", "--base-url", backend.url, piped=f"{line}\nhello\n".encode())
        [complaint] = result.err.splitlines()
        assert words in complaint
        assert result.out == "[1] You said 'hello'.\n"
        assert result.code == 1


def test_a_path_at_the_beginning_is_no_command(home: Home) -> None:
    with serving(echo) as backend:
        result = home.run("chat", "-m", "x", "--base-url", backend.url, piped=b"/etc/hosts is what?\n")
        assert (result.code, result.out, result.err) == (0, "[1] You said '/etc/hosts is what?'.\n", "")


def test_lines_from_a_pipe_are_prompts(home: Home) -> None:
    with serving(echo) as backend:
        result = home.run("chat", "-m", "x", "--base-url", backend.url, piped="wärm\n\nzwei\\\r\ndrei".encode())
        assert (result.code, result.err) == (0, "")
        assert result.out == "[1] You said 'wärm'.\n[3] You said 'zwei\\ndrei'.\n"


@pytest.mark.row("B16", "C13")
@pytest.mark.parametrize("source", ["option", "settings", "none"])
def test_a_long_conversation_goes_on_if_there_is_a_policy_for_it(home: Home, config: Path, source: str) -> None:
    def small(request: Received) -> Reply:
        if request.method == "GET":
            return Reply.json({}, 404)
        tokens = estimate_tokens(request.json["messages"])
        if tokens <= 500:
            return Reply(chat_events("ok"))
        error = {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": 500}
        return Reply.json({"error": {**error, "n_prompt_tokens": tokens}}, 400)

    with serving(small) as backend:
        (config / "providers.toml").write_text(
            f'[mine]\nprovider = "vllm"\nmodel = "x"\nbase_url = "{backend.url}"\ncompaction = "drop-oldest"\n'
        )
        chosen = ["-m", "mine"] if source == "settings" else ["-m", "x", "--base-url", backend.url]
        policy = ["--compaction", "drop-oldest"] if source == "option" else []
        prompts = "".join(f"question {number} {'word ' * 60}\n" for number in range(12))
        result = home.run("chat", *chosen, *policy, piped=prompts.encode())
    goes_on = source != "none"
    assert (result.code == 0) == goes_on
    assert (result.out.count("ok") == 12) == goes_on
    assert ("the conversation is made shorter" in result.err) == goes_on


def test_a_program_can_talk_through_pipes(home: Home) -> None:
    with serving(echo) as backend:
        process = home.start("chat", "-m", "x", "--base-url", backend.url, stdin=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        for number in (1, 3):
            process.stdin.write(b"hello\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"[{number}] You said 'hello'.\n".encode()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        _, err = process.communicate()
        assert err == b""


def test_what_is_typed_during_an_answer_waits_for_its_end(home: Home) -> None:
    more = asyncio.Event()
    first, *rest = chat_events("Once ", "upon")[1:]
    with serving(Reply([first, more, *rest])) as backend:
        with chatting(home, backend) as terminal:
            terminal.type(f"tell me{ENTER}")
            terminal.wait_for("Once")
            terminal.type("and th")
            backend.set(more)
            ready(terminal, "and th")
            assert "Once upon" in terminal.lines


def test_a_narrow_terminal_and_one_that_changes(home: Home) -> None:
    with serving(echo) as backend:
        with chatting(home, backend, columns=20) as terminal:
            say(terminal, "hello")
            assert "[1] You said 'hello'." in "".join(terminal.lines)
            terminal.resize(60, 24)
            say(terminal, "a question that is longer than twenty")
            assert terminal.lines[-2] == "[3] You said 'a question that is longer than twenty'."
            leave(terminal)


def test_no_color_means_none(home: Home) -> None:
    with serving(REFUSAL) as backend:
        with chatting(home, backend, NO_COLOR="1") as terminal:
            say(terminal, "hello", draft="hello")
            assert not [style for style in STYLE.findall(terminal.raw) if style not in (b"\x1b[0m", b"\x1b[m")]


def test_answers_are_not_obeyed(home: Home) -> None:
    def bad(request: Received) -> Reply:
        if request.method == "GET":
            return Reply.json({"data": [{"id": "\x1b]0;owned\x07\x9b"}]})
        return Reply(chat_events("\x1b]0;owned\x07\x1b[2J\x9b[bold]x"))

    with serving(bad) as backend:
        result = home.run("chat", "-m", "x", "--base-url", backend.url, piped=b"hello\n/model\n")
        assert not DANGEROUS.search(result.out + result.err)
        assert result.out == "␛]0;owned␇␛[2J�[bold]x\n"
        assert result.err == "␛]0;owned␇�\n"


def test_the_answers_alone_go_to_a_file(home: Home) -> None:
    with serving(echo) as backend:
        arguments = ["/bin/sh", "-c", '"$@" > talk.txt', "sh", *COMMAND]
        arguments += ["chat", "-m", "x", "--base-url", backend.url]
        with Terminal(arguments, home.environment, home.folder, 80, 24) as terminal:
            ready(terminal)
            say(terminal, "hello")
            leave(terminal)
        assert (home.folder / "talk.txt").read_text() == "[1] You said 'hello'.\n"


def test_a_terminal_that_can_do_nothing_is_enough(home: Home) -> None:
    with serving(echo) as backend:
        with chatting(home, backend, TERM="dumb") as terminal:
            say(terminal, "hello")
            assert terminal.lines[-2] == "[1] You said 'hello'."
            leave(terminal)


def test_without_any_input_a_chat_ends(home: Home) -> None:
    with serving(echo) as backend:
        command = [*COMMAND, "chat", "-m", "x", "--base-url", backend.url]
        shell = ["/bin/sh", "-c", '"$@" <&-', "sh", *command]
        assert subprocess.run(shell, env=home.environment, cwd=home.folder, check=False, timeout=40).returncode == 0
