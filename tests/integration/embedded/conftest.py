"""Embedded servers for the tests here, from the wheel and from Debian; nothing of them is left."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from headgate.server.db.embedded import EmbeddedPostgres, debian_binaries, wheel_binaries
from tests.support.absent import lacking
from tests.support.embedded import Make


@pytest.fixture(scope="module", params=["wheel", "debian"])
def binaries(request: pytest.FixtureRequest) -> Path:
    found = wheel_binaries() if request.param == "wheel" else debian_binaries()
    if found is None:
        lacking("no PostgreSQL from Debian's packages here")
    return found


@pytest.fixture(scope="module")
def root_directory() -> Iterator[Path]:
    """A place that every user may pass through, unlike pytest's own temporary directories."""
    made = Path(tempfile.mkdtemp(prefix="hg-test-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def home(binaries: Path, root_directory: Path) -> Iterator[Path]:
    """A directory with a cluster in it, shared by the tests that only start, kill and start again."""
    directory = root_directory / binaries.parent.name
    yield directory
    _remove(EmbeddedPostgres(directory))


@pytest.fixture
def server(home: Path, binaries: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(home, binaries=binaries)
    yield server
    server.stop()


@pytest.fixture
def make(root_directory: Path) -> Iterator[Make]:
    """Makes servers on directories of their own, and leaves nothing of them."""
    made: list[EmbeddedPostgres] = []

    def make(directory: Path | None = None, **arguments: Any) -> EmbeddedPostgres:
        if directory is None:
            directory = Path(tempfile.mkdtemp(dir=root_directory)) / "data"
            directory.parent.chmod(0o711)
        made.append(EmbeddedPostgres(directory, **arguments))
        return made[-1]

    yield make
    for server in made:
        _remove(server)


def _remove(server: EmbeddedPostgres) -> None:
    cluster = (server.directory / "pgdata").resolve()
    server.remove()
    assert [p.pid for p in psutil.process_iter() if _is_inside(p, cluster)] == []


def _is_inside(process: psutil.Process, directory: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.name().startswith("postgres") and Path(process.cwd()) == directory
    return False
