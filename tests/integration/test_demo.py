"""The demo as a visitor runs it, in a file of its own: it takes longer than all the other tests of `headgate up`."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.up import Up, environment, open_folder

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_demo_checks_what_it_prints() -> None:
    with open_folder() as folder:
        done = _run_demo(folder)
        demo = Up(folder)
        demo.data_dir = folder / "demo"
        try:
            assert done.returncode == 0, done.stdout + done.stderr
            assert "Port 8642 is taken" in done.stdout
            assert "38 stored, 0 duplicate, 0 refused" in done.stdout
            assert max(len(line) for line in done.stdout.splitlines()) <= 80
            assert demo.postgres() == []
        finally:
            demo.remove()


def _run_demo(folder: Path) -> subprocess.CompletedProcess[str]:
    """To its end, and with its usual port taken."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8642))
            taken.listen()
        except OSError:
            pass  # somebody else has it, which is as good
        return subprocess.run(
            [sys.executable, str(ROOT / "examples" / "demo.py")],
            cwd=folder,
            env=environment(CI="true", HEADGATE_DEMO_DIR=str(folder / "demo")),
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
