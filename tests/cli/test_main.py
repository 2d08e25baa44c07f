"""The command `any-agent` as a whole: help, versions, and one line for what goes wrong."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from any_agent.testing import Reply, chat_events

from .support import COMMAND, Home, serving

HEAVY = (
    *("asyncio", "openai", "aiohttp", "rich", "prompt_toolkit", "msgspec", "sqlite3", "dbos"),
    *("any_agent.agent", "any_agent.adapters", "any_agent.orchestration"),
)


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def test_help_lists_the_commands_and_imports_none_of_them() -> None:
    program = (
        "import sys\nfrom any_agent.cli.main import main\n"
        "try: main(['--help'])\n"
        f"finally: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    result = python(program)
    assert result.returncode == 0
    sections = [section.splitlines() for section in result.stdout.partition("Ask:")[2].split("\n\n")]
    assert [[line.split()[0] for line in lines if line.startswith("  ")] for lines in sections] == [
        ["run", "chat"],
        ["spawn", "task", "list", "show", "history", "attach", "cancel", "stop", "worker"],
        ["models", "doctor", "profiles"],
    ]
    assert result.stderr.strip() == "[]"


def test_help_costs_less_than_150_ms_of_cpu() -> None:
    def cost() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*COMMAND, "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cost() for _ in range(5)) < 0.15


def test_without_a_command_there_is_help(home: Home) -> None:
    result = home.run()
    assert (result.code, result.err) == (0, "")
    assert result.out == home.run("--help").out


def test_version(home: Home) -> None:
    assert home.run("--version").out.startswith("any-agent 0.")


@pytest.mark.row("C16")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope"], "any-agent: No such command 'nope'"),
        (["run", "--nope"], "(see any-agent run --help)"),
        (["run", "hi", "--temperature", "warm"], "'warm' is not a valid float"),
        (["run", "hi", "-m", "x", "--base-url", "localhost:1234"], "must begin with http://"),
        (["run", "hi", "-m", "x", "--profile", "nope"], "there is no profile 'nope' in providers.toml"),
        (["run", "hi", "-m", "x", "--profile", "generic"], "has no usual address: give base_url (--base-url)"),
        (["run", "hi", "-m", "x", "--profile", "ollama", "--temperature", "-1"], "temperature must be at least 0"),
        (
            ["run", "hi", "-m", "x", "--profile", "ollama", "--api-key-env", "NO_SUCH"],
            "no key for localhost: set the environment",
        ),
        (
            ["run", "hi", "-m", "x", "--base-url", "http://a", "--api-key-env", "NO_SUCH"],
            "no such environment variable",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(home: Home, arguments: list[str], words: str) -> None:
    assert words in home.run(*arguments).complaint


@pytest.mark.parametrize("arguments", [["--debug", "run", "hi"], ["run", "hi", "--debug"]])
def test_debug_shows_where_an_error_came_from(home: Home, arguments: list[str]) -> None:
    result = home.run(*arguments, "-m", "x", "--base-url", "nonsense")
    assert result.code == 1
    assert "Traceback" in result.err
    assert result.err.splitlines()[-1].startswith("ValueError: base_url 'nonsense'")


def test_the_environment_asks_for_tracebacks_too(home: Home) -> None:
    result = home.run("run", "hi", "-m", "x", "--base-url", "nonsense", ANY_AGENT_DEBUG="1")
    assert "Traceback" in result.err


@pytest.mark.parametrize("missing", ["click", "rich", "prompt_toolkit"])
def test_a_missing_extra_is_named(missing: str) -> None:
    program = (
        f"import sys\nsys.modules[{missing!r}] = None\nfrom any_agent.cli.main import main\n"
        "main(['chat', '-m', 'x', '--base-url', 'http://127.0.0.1:9'])"
    )
    result = python(program)
    assert result.returncode == 1
    [line] = result.stderr.splitlines()
    assert line.endswith('pip install "any-agent-sdk[cli]"')


def test_a_reader_that_goes_away_is_no_error(home: Home) -> None:
    with serving(
        Reply([*chat_events("first ", finish=None)[:2], *[b": more\n\n", 0.01] * 50, *chat_events("last")])
    ) as backend:
        process = home.start("run", "hi", "-m", "x", "--base-url", backend.url)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(6) == b"first "
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait() == 1


def test_a_terminal_that_knows_few_characters_gets_an_answer(home: Home) -> None:
    with serving(Reply(chat_events("naïve 🙂"))) as backend:
        process = home.start(
            "run", "hi", "-m", "x", "--base-url", backend.url, PYTHONIOENCODING="ascii", PYTHONUTF8="0"
        )
        assert process.communicate() == (b"na?ve ?\n", b"")


def test_states_of_tools_can_be_told_apart_in_ascii(home: Home) -> None:
    calls = [
        {"id": name, "function": {"name": name, "arguments": '{"city": "Oslo"}'}} for name in ("get_weather", "broken")
    ]
    with serving(Reply(chat_events(tool_calls=calls, finish="tool_calls")), Reply(chat_events("42"))) as backend:
        tools = ("--tool", "weather:get_weather", "--tool", "weather:broken")
        arguments = ("run", "hi", "-m", "x", "--base-url", backend.url, *tools)
        result = home.run(*arguments, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        signs = {line.split()[0] for line in result.err.splitlines() if not line.startswith(" ")}
        assert signs == {"*", "+", "x"}


def test_closed_outputs_are_no_error(home: Home) -> None:
    with serving(Reply(chat_events("42"))) as backend:
        command = [*COMMAND, "run", "hi", "-m", "x", "--base-url", backend.url]
        shell = ["/bin/sh", "-c", '"$@" >&- 2>&- <&-', "sh", *command]
        assert subprocess.run(shell, env=home.environment, cwd=home.folder, check=False).returncode == 0
