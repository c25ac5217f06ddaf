"""A file system with room for next to nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def tiny_disk(folder: Path, kib: int) -> Iterator[Path | None]:
    """The folder, with a file system of this size in it; None where nobody lets us mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
    try:
        is_mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except FileNotFoundError:
        is_mounted = False
    try:
        yield folder if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)
