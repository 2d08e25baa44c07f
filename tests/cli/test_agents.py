"""Named agents on the command line: made, asked, looked at, and ended, each time by another process."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from typing import Any

import pytest

from any_agent.testing import HANG, Received, Reply, chat_events

from .support import COMMAND, Backend, Home, serving

HELLO = Reply(chat_events("Hello"))
SETTINGS = """
[fast]
provider = "openai"
model = "quick"
base_url = "{url}"
api_key_env_var = "FAST_KEY"
system_prompt = "Be quick."
temperature = 0.5
"""


def count(request: Received) -> Reply:
    """Says how many messages it was sent."""
    return Reply(chat_events(f"{len(request.json['messages'])} ", "messages"))


def spawn(home: Home, backend: Backend, *arguments: str, **variables: str) -> Any:
    usual = ["--provider", "openai", "--model", "scripted", "--base-url", backend.url]
    return home.run("spawn", "--name", "gpt", *usual, *arguments, **variables)


@pytest.mark.row("C12")
def test_an_agent_is_made_by_one_process_and_asked_by_others(home: Home) -> None:
    with serving(count) as backend:
        made = spawn(home, backend, "--type", "api", "--system-prompt", "Be brief.")
        assert (made.code, made.err) == (0, "")
        assert made.out == 'gpt is there (scripted of openai): any-agent task gpt "…"\n'
        assert not backend.server.requests
        for answer in ("2 messages\n", "4 messages\n"):
            task = home.run("task", "gpt", "Say hello")
            assert (task.code, task.out, task.err) == (0, answer, "")
        assert backend.questions[1].json["messages"][0] == {"role": "system", "content": "Be brief."}
        listed = home.run("list")
        assert (listed.code, listed.out, listed.err) == (0, "gpt\tidle\t2\tscripted of openai\n", "")
        lines = ["user: Say hello", "assistant: 2 messages", "user: Say hello", "assistant: 4 messages"]
        assert home.run("history", "gpt").out.splitlines() == lines
        assert home.run("stop", "gpt").out == "gpt is stopped\n"
        assert home.run("list").out.split("\t")[1] == "terminated"
        assert "the agent 'gpt' is stopped: `any-agent spawn --name gpt …`" in home.run("task", "gpt", "hi").complaint
        assert home.run("history", "gpt").out.splitlines() == lines, "what was said can still be read"


@pytest.mark.row("C12")
def test_the_history_is_json_in_the_format_of_openai_too(home: Home) -> None:
    with serving(HELLO) as backend:
        home.spawn(backend, "gpt")
        home.run("task", "gpt", "ü")
        told = json.loads(home.run("history", "gpt", "--json").out)
        assert told == [{"role": "user", "content": "ü"}, {"role": "assistant", "content": "Hello"}]


def test_a_name_that_was_stopped_can_be_taken_again_and_begins_anew(home: Home) -> None:
    with serving(count) as backend:
        home.spawn(backend, "gpt")
        home.run("task", "gpt", "hi")
        complaint = spawn(home, backend).complaint
        assert "there is an agent 'gpt' already" in complaint
        assert "take another name, or stop it first (`any-agent stop gpt`)" in complaint
        home.run("stop", "gpt")
        assert spawn(home, backend).code == 0
        assert home.run("task", "gpt", "hi").out == "1 messages\n"


@pytest.mark.row("C13")
@pytest.mark.parametrize("file", [".config/any-agent/providers.toml", "any-agent.toml"])
@pytest.mark.parametrize("alias", [["--model", "fast"], ["--profile", "fast"]])
def test_an_alias_of_a_file_says_what_is_not_said_and_what_is_said_wins(
    home: Home, file: str, alias: list[str]
) -> None:
    with serving(HELLO) as backend:
        place = home.folder / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(SETTINGS.format(url=backend.url), "utf-8")
        made = home.run("spawn", "--name", "gpt", *alias, "--temperature", "0", FAST_KEY="the secret")
        is_local = file == "any-agent.toml"
        assert (made.code, made.err) == (0, f"any-agent: fast is what {place} says\n" if is_local else "")
        assert home.run("task", "gpt", "hi", FAST_KEY="the secret").out == "Hello\n"
        [question] = backend.questions
        assert question.json["model"] == "quick"
        assert question.json["temperature"] == 0
        assert question.json["messages"][0]["content"] == "Be quick."
        assert question.headers["authorization"] == "Bearer the secret"
        for stored in (home.folder / "data").rglob("*"):
            assert stored.is_dir() or b"the secret" not in stored.read_bytes()


@pytest.mark.row("C13")
def test_with_a_profile_the_model_can_be_another_one(home: Home) -> None:
    with serving(HELLO) as backend:
        (home.folder / "any-agent.toml").write_text(SETTINGS.format(url=backend.url), "utf-8")
        arguments = ["--name", "gpt", "--profile", "fast", "--model", "slow", "--api-key-env", "OTHER"]
        assert home.run("spawn", *arguments, OTHER="x").code == 0
        shown = json.loads(home.run("show", "gpt", "--json").out)
        assert (shown["model"], shown["api_key_env"]) == ("slow", "OTHER")


@pytest.mark.row("C16", "C2", "C5")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["spawn", "--name", "x", "--provider", "nope", "--model", "m"], "Unknown provider 'nope'; known are openai, "),
        (["spawn", "--name", "x", "--model", "m"], "provider is missing: name one of openai, "),
        (["spawn", "--name", "x", "--profile", "nope"], "there is no profile 'nope' in providers.toml or ./any-agent"),
        (["spawn", "--name", "x", "--provider", "openai"], "model is required for OpenAI-compatible agents: name it"),
        (["spawn", "--name", "x", "--provider", "openai", "--model", "m"], "set the environment variable OPENAI_API_K"),
        (["spawn", "--name", "x", "--provider", "ollama", "--model", "m", "--type", "odd"], "agent_type must be 'api'"),
        (["spawn", "--name", "x", "--provider", "ollama", "--model", "m", "--temperature", "-1"], "temperature must"),
        (["spawn", "--name", "a b", "--provider", "ollama", "--model", "m"], "'a b' is no name for an agent"),
        (["spawn", "--name", "all", "--provider", "ollama", "--model", "m"], "'all' is no name for an agent"),
        (["spawn", "--name", "x", "--provider", "local", "--model", "m"], "provider 'local' has no usual address"),
        (["spawn", "--name", "x", "--provider", "ollama", "--model", "m", "--base-url", "nix"], "must begin with http"),
        (["spawn", "--provider", "ollama"], "Missing option '--name'"),
        (["spawn", "--name", "x", "--provider", "ollama", "--model", "m", "--tool", "no:f"], "tool no:f: "),
        (["spawn", "--name", "x", "--provider", "embedded", "--model", "no.gguf"], "there is no file"),
        (["task", "nope", "hi"], "there is no agent 'nope': `any-agent spawn --name nope …` makes one"),
        (["task", "--all", "hi"], "there are no agents: `any-agent spawn --name …` makes one"),
        (["task", "gpt", "say", "hello"], 'write: any-agent task AGENT "PROMPT", with the prompt in quotes'),
        (["task"], "write: any-agent task AGENT"),
        (["task", "gpt"], "there is nothing to ask"),
        (["task", "gpt", "--file", "weather.py"], "--file and --out belong together"),
        (["task", "gpt", "--file", "nope", "--out", "x"], "File 'nope' does not exist"),
        (["task", "gpt", "--file", "weather.py", "--out", "x", "--detach"], "--file goes neither with --detach nor"),
        (["show", "nope"], "there is no agent 'nope': `any-agent list` shows those that there are"),
        (["history", "nope"], "there is no agent 'nope'"),
        (["attach", "nope"], "there is no agent 'nope'"),
        (["cancel", "nope"], "there is no agent 'nope'"),
        (["stop", "nope"], "there is no agent 'nope'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(home: Home, arguments: list[str], words: str) -> None:
    complaint = home.run(*arguments).complaint
    assert complaint.startswith("any-agent: ")
    assert words in complaint
    assert home.ask(lambda agents: agents.list()) == [[]], "nothing was made"


@pytest.mark.row("C16")
@pytest.mark.parametrize(
    ("database", "words"),
    [
        ("mysql://localhost/agents", "ANY_AGENT_DB: mysql:// is no database for agents: give postgresql://… or the"),
        ("/dev/null/agents.db", "cannot use the database /dev/null/agents.db: unable to open database file; is A"),
        ("weather.py", "weather.py is no database, or damaged (file is not a database): move it away, or set ANY_AG"),
        ("postgresql://127.0.0.1:9/agents", "cannot use the Postgres database 127.0.0.1:9/agents: "),
    ],
)
@pytest.mark.parametrize("command", [["list"], ["task", "gpt", "hi"], ["worker"]], ids=lambda command: command[0])
def test_a_database_that_cannot_be_used_is_said_in_one_line(
    home: Home, command: list[str], database: str, words: str
) -> None:
    assert words in home.run(*command, ANY_AGENT_DB=database).complaint


@pytest.mark.row("C16")
def test_a_server_that_is_down_or_refuses_is_said_in_one_line(home: Home) -> None:
    with serving(Reply.json({"error": {"message": "model 'scripted' not found"}}, 404)) as backend:
        home.spawn(backend, "gpt")
        refused = home.run("task", "gpt", "hi").complaint
        assert refused.startswith("any-agent: ")
        assert "scripted" in refused
    assert "Nothing listens at" in home.run("task", "gpt", "hi").complaint
    assert home.run("list").out.split("\t")[1] == "failed"
    first, prompt, error = home.run("show", "gpt").out.split("\n\n")[1].splitlines()
    assert first.startswith("gpt:0000000002  failed, took ")
    assert (prompt, error[:20]) == ("  hi", "  Nothing listens at")


@pytest.mark.row("C16")
def test_a_tool_or_a_key_that_is_there_no_more_fails_the_task_and_not_the_agent(home: Home) -> None:
    with serving(HELLO) as backend:
        assert spawn(home, backend, "--tool", "weather:get_weather", "--api-key-env", "MY_KEY", MY_KEY="x").code == 0
        assert "set the environment variable MY_KEY" in home.run("task", "gpt", "hi").complaint
        (home.folder / "weather.py").rename(home.folder / "climate.py")
        assert "tool weather:get_weather: " in home.run("task", "gpt", "hi", MY_KEY="x").complaint
        (home.folder / "climate.py").rename(home.folder / "weather.py")
        assert home.run("task", "gpt", "hi", MY_KEY="x").out == "Hello\n"


def test_without_agents_the_list_says_how_to_make_one(home: Home) -> None:
    result = home.run("list")
    assert (result.code, result.out) == (0, "")
    assert result.err == "there are no agents: `any-agent spawn --name …` makes one\n"


def test_many_agents_are_listed_as_a_table_as_lines_and_as_json(home: Home) -> None:
    with serving() as backend:
        names = [f"agent-{number:03}" for number in range(120)]
        home.spawn(backend, *names)
        assert [line.split("\t")[0] for line in home.run("list").out.splitlines()] == names
        told = json.loads(home.run("list", "--json").out)
        assert [agent["name"] for agent in told["agents"]] == names
        assert told["agents"][0]["state"] == "idle"
        assert told["workers"] == []
        with home.open("list", columns=40, NO_COLOR="1") as terminal:
            assert terminal.ends() == 0
            assert all(any(line.startswith(name) for line in terminal.lines) for name in names)
            assert b"\x1b[" not in terminal.raw


def test_a_reader_that_has_seen_enough_is_no_error(home: Home) -> None:
    with serving() as backend:
        home.spawn(backend, *(f"agent-{number:03}" for number in range(50)))
        shell = ["/bin/sh", "-c", '"$@" | head -n 1', "sh", *COMMAND, "list"]
        result = subprocess.run(shell, env=home.environment, cwd=home.folder, capture_output=True, check=False)
        assert (result.stdout.split(b"\t")[0], result.stderr) == (b"agent-000", b"")


def test_what_an_agent_is_and_what_became_of_its_tasks_is_shown(home: Home) -> None:
    with serving(HELLO) as backend:
        spawn(home, backend, "--tool", "weather:get_weather")
        home.run("task", "gpt", "Say\x1b[31m hello", "--id", "first")
        lines = home.run("show", "gpt").out.splitlines()
        fields = dict(line.split(maxsplit=1) for line in lines[: lines.index("")])
        assert fields["tools"] == "weather:get_weather"
        assert fields["created"].endswith(" s ago")
        assert fields["state"] == "idle"
        assert re.fullmatch(r"first  done, took \S+ s, asked \S+ s ago", lines[-2])
        assert lines[-1] == "  Say␛[31m hello"


@pytest.mark.row("C16")
def test_who_was_interrupted_and_what_is_going_on_is_told(home: Home) -> None:
    with serving(Reply([*chat_events("Once upon", finish=None)[:2], HANG]), HELLO) as backend:
        home.spawn(backend, "gpt")
        process = home.start("task", "gpt", "A story")
        assert process.stdout is not None
        assert process.stdout.read(9) == b"Once upon"
        assert home.run("list").out.split("\t")[1] == "processing"
        assert "  running: writing the answer, took " in home.run("show", "gpt").out
        process.kill()
        process.communicate()
        listed = home.run("list")
        assert listed.out.split("\t")[1] == "interrupted"
        assert "nobody works on what was interrupted: `any-agent worker`" in listed.err
        assert json.loads(home.run("list", "--json").out)["agents"][0]["interrupted"] is True
        assert "state          interrupted: " in home.run("show", "gpt").out
        attached = home.run("attach", "gpt")
        assert attached.code == 0
        assert attached.out.endswith("Hello\n")
        assert home.run("list").out.split("\t")[1] == "idle"


def test_cancel_stops_a_task_or_all_that_an_agent_has_to_do(home: Home) -> None:
    with serving(HELLO) as backend:
        home.spawn(backend, "gpt")
        for id in ("a", "b", "c"):
            home.run("task", "gpt", "hi", "--id", id, "--detach")
        assert home.run("cancel", "b").out == "1 cancelled\n"
        assert home.run("cancel", "gpt").out == "2 cancelled\n"
        assert home.run("cancel", "gpt").out == "there was nothing to cancel\n"
        assert "The task was cancelled" in home.run("attach", "a").err
        assert home.run("task", "gpt", "hi").out == "Hello\n", "the agent lives on"
        assert len(backend.questions) == 1


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["list"], {"dbos", "openai", "sqlalchemy", "aiohttp", "rich", "any_agent.agent", "any_agent.adapters"}),
        (["show", "gpt"], {"dbos", "openai", "sqlalchemy", "aiohttp"}),
        (["history", "gpt"], {"dbos", "openai", "sqlalchemy", "aiohttp", "rich"}),
        (["task", "gpt", "hi", "--detach"], {"dbos", "openai", "sqlalchemy", "aiohttp"}),
        (["stop", "gpt"], {"dbos", "openai", "sqlalchemy", "aiohttp", "rich"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_does_no_work_imports_no_engine(home: Home, arguments: list[str], heavy: set[str]) -> None:
    with serving() as backend:
        home.spawn(backend, "gpt")
    assert imported(home, arguments) & heavy == set()


def imported(home: Home, arguments: list[str]) -> set[str]:
    """The modules that a command imports."""
    program = (
        "import json, sys\nfrom any_agent.cli.main import main\n"
        f"try: main({arguments!r})\n"
        "finally: json.dump(sorted(sys.modules), open('modules.json', 'w'))"
    )
    subprocess.run(
        [sys.executable, "-c", program], cwd=home.folder, env=home.environment, check=True, capture_output=True
    )
    return set(json.loads((home.folder / "modules.json").read_text("utf-8")))


@pytest.mark.row("C12")
def test_a_task_that_a_worker_does_needs_no_engine_here(home: Home) -> None:
    with serving(HELLO) as backend:
        home.spawn(backend, "gpt")
        worker = home.start("worker")
        assert worker.stderr is not None
        assert b"working on the tasks" in worker.stderr.readline()
        assert imported(home, ["task", "gpt", "hi"]) & {"dbos", "openai", "sqlalchemy", "aiohttp"} == set()
        assert len(backend.questions) == 1
        assert json.loads(home.run("list", "--json").out)["workers"][0]["pid"] == worker.pid
        worker.terminate()
        worker.communicate()


def test_many_tasks_at_once_in_one_program_share_one_worker(home: Home) -> None:
    """A program asks two agents at once, and nobody else works."""
    both = asyncio.Event()

    def answer(request: Received) -> Reply:
        return Reply([both, *chat_events(request.json["messages"][-1]["content"])])

    with serving(answer) as backend:
        home.spawn(backend, "a", "b", "c")

        async def ask(agents: Any) -> list[str]:
            async def one(name: str) -> str:
                task = await agents.submit(name, f"I am {name}")
                return "".join([event.text async for event in agents.work_on(task) if event.type == "text"])

            asking = [asyncio.create_task(one(name)) for name in "abc"]
            await asyncio.to_thread(backend.wait, backend.server.received(3))
            backend.set(both)
            return await asyncio.gather(*asking)

        assert home.ask(ask) == [["I am a", "I am b", "I am c"]]
