"""The peers' own environment, `.bench-venv` in the root of the repository, made anew when requirements.txt changes."""

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def prepare() -> Path:
    """The Python of the environment, which is made first if there is none for these requirements."""
    place = ROOT / ".bench-venv"
    python, stamp = place / "bin" / "python", place / "stamp"
    wanted = hashlib.sha256(sys.version.encode() + REQUIREMENTS.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"Installing the peers into {place.name}, once.", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        if not install(python, "--requirement", str(REQUIREMENTS)):
            for requirement in pins():  # what cannot be installed shows in the table as a peer that failed
                install(python, requirement)
        if not install(python, "--editable", str(ROOT)):
            sys.exit("any_agent itself could not be installed")
        stamp.write_text(wanted)
    return python


def install(python: Path, *what: str) -> bool:
    command = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps", *what]
    return subprocess.run(command, check=False).returncode == 0


def pins() -> list[str]:
    """The requirements, without comments."""
    lines = (line.partition("#")[0].strip() for line in REQUIREMENTS.read_text().splitlines())
    return [line for line in lines if line]


def versions() -> dict[str, str]:
    return dict(pin.split("==") for pin in pins())
