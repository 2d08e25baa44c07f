"""The folder that processes share: where it is, who can read it, and what its locks promise."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from any_agent.embedded import EmbeddedError
from any_agent.embedded.folder import ServerFolder, Status, private_folder, try_lock
from any_agent.folders import user_folder
from embedded.processes import wait_until

READY = Status("ready", 1, address="http://127.0.0.1:1", key="s3cret")


@pytest.mark.parametrize(
    ("system", "variables", "expected"),
    [
        ("linux", {}, "/home/ann/.cache/any-agent"),
        ("linux", {"XDG_CACHE_HOME": "/var/ann"}, "/var/ann/any-agent"),
        ("linux", {"XDG_CACHE_HOME": "not/absolute"}, "/home/ann/.cache/any-agent"),
        ("darwin", {"XDG_CACHE_HOME": "/var/ann"}, "/home/ann/Library/Caches/any-agent"),
        ("win32", {"LOCALAPPDATA": "/c/ann/local"}, "/c/ann/local/any-agent"),
        ("win32", {}, "/home/ann/AppData/Local/any-agent"),
        ("linux", {"XDG_CACHE_HOME": "/var/ann", "ANY_AGENT_CACHE": "~/mine"}, "/home/ann/mine"),
    ],
)
def test_cache_is_where_the_system_wants_it(
    system: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANY_AGENT_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/ann", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", system)
    assert str(user_folder("cache")) == expected


def test_private_folder_is_closed_to_others(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(0o777)
    for path in (open_to_all, tmp_path / "new"):
        assert stat.S_IMODE(private_folder(path).stat().st_mode) == 0o700


def test_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(EmbeddedError, match=r"belongs to somebody else.*ANY_AGENT_CACHE"):
        private_folder(tmp_path)


def test_link_to_a_folder_is_refused(tmp_path: Path) -> None:
    """Whoever made the link decides where the key goes."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(EmbeddedError, match="link belongs to somebody else"):
        private_folder(tmp_path / "link")


def test_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match=r"cannot use the folder .*file/servers.*: .*ANY_AGENT_CACHE"):
        private_folder(tmp_path / "file" / "servers")


def test_windows_is_told_what_to_do_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(EmbeddedError, match=r"needs Linux or macOS.*base_url"):
        private_folder(tmp_path)


def test_server_ends_after_the_last_lease_and_takes_no_new_ones(tmp_path: Path) -> None:
    client, server = ServerFolder(tmp_path), ServerFolder(tmp_path)
    first, second = client.take_lease(), client.take_lease()
    assert first is not None
    assert second is not None
    assert not server.is_unused()
    os.close(first)
    assert not server.is_unused()
    os.close(second)
    assert server.is_unused()
    assert server.is_unused()
    assert client.take_lease() is None
    assert server._end is not None
    os.close(server._end)
    third = client.take_lease()
    assert third is not None
    os.close(third)


def test_only_one_can_claim_to_be_the_server(tmp_path: Path) -> None:
    folder = ServerFolder(tmp_path)
    alive = folder.claim()
    assert alive is not None
    assert folder.claim() is None
    os.close(alive)


def test_started_program_inherits_no_lease(tmp_path: Path) -> None:
    folder = ServerFolder(tmp_path)
    lease = folder.take_lease()
    assert lease is not None
    assert fcntl.fcntl(lease, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, close_fds=False):
        os.close(lease)
        wait_until(folder.is_unused)
        assert folder._end is not None
        os.close(folder._end)


def test_lock_that_the_disk_refuses_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"cannot lock .*: Is a directory; set ANY_AGENT_CACHE"):
        try_lock(tmp_path)


def test_status_is_read_as_it_was_written_and_only_by_its_owner(tmp_path: Path) -> None:
    folder = ServerFolder(tmp_path)
    assert folder.read() is None
    for status in (Status("fetching", 1, 0.25), READY):
        folder.write(status)
        assert folder.read() == status
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "s3cret" not in repr(READY)
    folder.forget()
    assert list(tmp_path.iterdir()) == []


def test_last_words_are_the_end_of_the_log(tmp_path: Path) -> None:
    folder = ServerFolder(tmp_path)
    assert folder.last_words() == ""
    folder.log.write_text("\n".join(f"line {number}" for number in range(5000)))
    assert folder.last_words() == "\nThe end of its log:" + "".join(
        f"\n  line {number}" for number in range(4988, 5000)
    )
