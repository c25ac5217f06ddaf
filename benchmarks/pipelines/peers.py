"""The environments of the peers, made of what is locked in `requirements`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.pipelines.sides import ROOT

PEERS = ("dqx", "gx")


def python_of(peer: str) -> Path:
    """The Python of a peer's environment, which is made on first use and again when its lock has changed."""
    requirement = ROOT / "requirements" / f"peer-{peer}.txt"
    home = ROOT / "build" / "peers" / peer
    python, installed = home / "bin" / "python", home / ".installed"
    wanted = requirement.read_text()
    if installed.is_file() and installed.read_text() == wanted:
        return python
    shutil.rmtree(home, ignore_errors=True)
    _uv("venv", "--python", sys.executable, str(home))
    _uv("pip", "install", "--require-hashes", "--python", str(python), "-r", str(requirement))
    installed.write_text(wanted)
    return python


def locked_version(peer: str, package: str) -> str:
    lines = (ROOT / "requirements" / f"peer-{peer}.txt").read_text().splitlines()
    return next(line.split("==")[1].split()[0] for line in lines if line.startswith(f"{package}=="))


def _uv(*arguments: str) -> None:
    beside = Path(sys.executable).parent / "uv"
    subprocess.run([str(beside) if beside.exists() else "uv", "--quiet", *arguments], check=True)
