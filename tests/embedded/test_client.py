"""Leases: many processes, one server, and nothing left behind. Most tests need no model, only a server."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from any_agent import AgentOptions, embedded
from any_agent.embedded import EmbeddedError, Lease, client
from any_agent.embedded.folder import Status
from any_agent.embedded.settings import Settings
from embedded.processes import Address, folder, holder, open_leases, servers, starts, status, wait_until

pytestmark = pytest.mark.usefixtures("stub")


def test_processes_share_one_server_until_the_last_one_is_killed(gguf: str) -> None:
    with holder(gguf) as first, holder(gguf) as second:
        first.go()
        address = first.address()
        second.go()
        assert second.address() == address
        before = servers()
        first.kill()
        with embedded.lease(gguf) as third:
            assert Address.of(third) == address
        assert address.ask() == 200
        assert servers() == before
        second.kill()
        wait_until(lambda: not servers())
    assert status() is None
    assert address.ask() == 0


def test_processes_that_start_at_once_get_one_server(gguf: str) -> None:
    with ExitStack() as stack:
        holders = [stack.enter_context(holder(gguf)) for _ in range(5)]
        for one in holders:
            one.go()
        found = [one.address() for one in holders]
        assert found == found[:1] * 5
        assert starts() == 1


def test_server_that_is_about_to_end_is_not_given_to_anybody(gguf: str) -> None:
    """It keeps its status for a moment; who comes then waits, and starts another one."""
    ending = Settings.of(gguf, 4096).folder()
    ending.write(Status("ready", os.getpid(), address="http://127.0.0.1:9", key="old"))
    assert ending.is_unused()
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(embedded.lease, gguf)
        assert not wait([starting], timeout=0.3).done
        assert ending._end is not None
        os.close(ending._end)
        with starting.result() as lease:
            assert Address.of(lease).ask() == 200


def test_status_that_a_killed_server_left_is_not_believed(gguf: str) -> None:
    """Somebody else has just begun to start a new one, and got no further."""
    folder = Settings.of(gguf, 4096).folder()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        folder.write(Status("ready", os.getpid(), address=f"http://127.0.0.1:{nobody.getsockname()[1]}", key="old"))
        alive = folder.claim()
        assert alive is not None
        with ThreadPoolExecutor(1) as pool:
            starting = pool.submit(embedded.lease, gguf)
            assert not wait([starting], timeout=0.3).done
            os.close(alive)
            with starting.result() as lease:
                assert Address.of(lease).ask() == 200


def test_server_that_runs_but_is_silent_is_named(gguf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("any_agent.embedded.client._ANSWER_S", 0.1)
    folder = Settings.of(gguf, 4096).folder()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        folder.write(Status("ready", 4711, address=f"http://127.0.0.1:{nobody.getsockname()[1]}"))
        alive = folder.claim()
        assert alive is not None
        with pytest.raises(EmbeddedError, match=r"has not answered .* `kill 4711`"):
            embedded.lease(gguf)
        os.close(alive)


def test_several_leases_of_one_process_are_counted(gguf: str) -> None:
    first, second = embedded.lease(gguf), embedded.lease(gguf)
    assert Address.of(first) == Address.of(second)
    before = servers()
    first.close()
    first.close()
    with embedded.lease(gguf) as third:
        assert Address.of(third) == Address.of(second)
    assert servers() == before
    second.close()


def test_lease_that_is_held_is_one_however_often_it_is_asked_for(gguf: str) -> None:
    first = embedded.hold(gguf)
    assert Address.of(embedded.hold(gguf)) == Address.of(first)
    last = embedded.hold(gguf)
    assert open_leases() == 1
    assert Address.of(last).ask() == 200
    last.close()


def test_options_of_the_profile_hold_one_server(gguf: str) -> None:
    options = AgentOptions.for_profile("embedded", model=gguf, system_prompt="Be brief.")
    again = AgentOptions.for_profile("embedded", model=gguf, temperature=0.2)
    assert (options.model, options.profile, options.temperature, again.temperature) == ("tiny", "embedded", 0.7, 0.2)
    assert Address(options.base_url, options.api_key).ask() == 200
    assert again.base_url == options.base_url
    assert open_leases() == 1
    embedded.hold(gguf).close()


def test_options_of_the_profile_with_an_address_start_nothing() -> None:
    options = AgentOptions.for_profile("embedded", model="m", base_url="http://127.0.0.1:9/v1")
    assert options.base_url == "http://127.0.0.1:9/v1"
    assert not servers()


@pytest.mark.row("C16")
def test_options_for_a_file_that_is_no_model_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(EmbeddedError, match=r"notes\.txt is not a GGUF file"):
        AgentOptions.for_profile("embedded", model=str(tmp_path / "notes.txt"))


def test_small_model_is_asked_at_temperature_0() -> None:
    lease = Lease("http://127.0.0.1:9/v1", "key", "smollm2", None)
    assert AgentOptions("Be brief.", **lease.settings).temperature == 0


def test_other_settings_are_another_server(gguf: str, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(Path(gguf).read_bytes())
    with embedded.lease(gguf) as one, embedded.lease(other) as two, embedded.lease(gguf, context=8192) as three:
        assert len({one.base_url, two.base_url, three.base_url}) == 3
        assert (one.model, two.model) == ("tiny", "other")


def test_key_is_wanted_and_seen_by_nobody(gguf: str, cache: Path) -> None:
    with embedded.lease(gguf) as lease:
        assert Address.of(lease).ask() == 200
        assert Address.of(lease).ask("wrong") == 401
        assert lease.api_key not in repr(lease)
        for pid in servers():
            for part in ("cmdline", "environ"):
                assert lease.api_key.encode() not in Path(f"/proc/{pid}/{part}").read_bytes()
        private = [path for path in (cache / "servers").rglob("*") if path.is_file()]
        assert {path.name for path in private} == {"alive", "leases", "log", "status"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
        assert {stat.S_IMODE(path.stat().st_mode) for path in (cache / "servers", folder().path)} == {0o700}


def test_interrupt_of_a_terminal_ends_who_sits_there_and_not_the_server(gguf: str) -> None:
    with holder(gguf) as first, holder(gguf) as second:
        first.go()
        address = first.address()
        second.go()
        assert second.address() == address
        os.killpg(first.process.pid, signal.SIGINT)
        assert first.process.wait() != 0
        assert address.ask() == 200


def test_program_that_a_client_started_does_not_keep_the_server(gguf: str) -> None:
    with embedded.lease(gguf) as lease, subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, close_fds=False):
        lease.close()
        wait_until(lambda: not servers())


@pytest.mark.row("C16")
def test_without_xllamacpp_the_error_says_what_to_install(gguf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(EmbeddedError, match=r'pip install "any-agent-sdk\[embedded\]"'):
        embedded.lease(gguf)


def test_what_raises_in_the_callback_gives_the_server_up(gguf: str, stub: pytest.MonkeyPatch) -> None:
    stub.setenv("STUB", "deaf")

    def on_progress(stage: str, fraction: float | None) -> None:
        raise KeyboardInterrupt(stage)

    with pytest.raises(KeyboardInterrupt, match="loading"):
        embedded.lease(gguf, on_progress=on_progress)
    wait_until(lambda: not servers())


async def test_event_loop_goes_on_while_a_server_starts(gguf: str) -> None:
    told: list[Any] = []
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())

    def on_progress(stage: str, fraction: float | None) -> None:
        assert asyncio.get_running_loop()
        told.append((stage, fraction))

    async with embedded.server(gguf, on_progress=on_progress) as lease:
        ticking.cancel()
        assert Address.of(lease).ask() == 200
        assert servers()
    assert told == [("loading", None)]
    assert ticks > 100
    wait_until(lambda: not servers())


async def test_failure_arrives_in_the_event_loop(gguf: str, stub: pytest.MonkeyPatch) -> None:
    stub.setenv("STUB", "crash")
    with pytest.raises(EmbeddedError, match="could not load it"):
        async with embedded.server(gguf):
            raise AssertionError


async def test_cancelled_start_gives_everything_back(gguf: str, stub: pytest.MonkeyPatch) -> None:
    stub.setenv("STUB", "deaf")
    loading = asyncio.Event()

    async def start() -> None:
        async with embedded.server(gguf, on_progress=lambda *_: loading.set()):
            raise AssertionError

    starting = asyncio.create_task(start())
    await loading.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert open_leases() == 0
    await asyncio.to_thread(wait_until, lambda: not servers())


async def test_start_that_is_cancelled_when_it_is_done_gives_the_lease_back(
    gguf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is there, but the cancellation comes before anybody has it."""
    with embedded.lease(gguf):
        opened, cancelled = threading.Event(), threading.Event()
        run = client._Opening.run

        def slow_run(*arguments: Any) -> Lease:
            lease = run(*arguments)
            opened.set()
            cancelled.wait(10)
            return lease

        monkeypatch.setattr(client._Opening, "run", slow_run)

        async def start() -> None:
            async with embedded.server(gguf):
                raise AssertionError

        starting = asyncio.create_task(start())
        await asyncio.to_thread(opened.wait, 10)
        starting.cancel()
        await asyncio.sleep(0)
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert open_leases() == 1
