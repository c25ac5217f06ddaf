"""Two runs at once: what a live one is about is left alone, what a dead one left is undone by one of the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import Conflict
from headgate.pipelines.files import LocalFiles
from headgate.pipelines.journal import Journal, Move, Publication

# Publishes, and after its first rename waits to be told to go on.
SLOW = """
import sys
from headgate.pipelines.files import LocalFiles
from headgate.pipelines.journal import Journal, Move, Publication

class Slow(LocalFiles):
    def rename(self, path, to):
        super().rename(path, to)
        print("renamed", flush=True)
        sys.stdin.readline()

base = sys.argv[1]
moves = [Move(f"{base}/target", f"{base}/previous"), Move(f"{base}/staging", f"{base}/target")]
Journal(Slow(), f"{base}/journal").publish(Publication("run", "n", moves, [f"{base}/previous"]))
print("published", flush=True)
"""
RECOVER = """
import sys
from headgate.pipelines.files import LocalFiles
from headgate.pipelines.journal import Journal

sys.stdin.readline()
print(len(Journal(LocalFiles(), f"{sys.argv[1]}/journal").recover()))
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for name in ("target", "staging"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows").write_text(name)
    return tmp_path


@contextmanager
def process(script: str, base: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", script, str(base)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def go_on(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def journal(base: Path, **options: Any) -> Journal:
    return Journal(LocalFiles(), str(base / "journal"), **options)


def entry(base: Path) -> Path:
    (found,) = (base / "journal").glob("*.json")
    return found


def change_owner(base: Path, **facts: object) -> None:
    read = json.loads(entry(base).read_text())
    entry(base).write_text(json.dumps(read | {"owner": read["owner"] | facts}))


def half_done(base: Path) -> None:
    """What a process leaves that was killed after its first rename."""
    with process(SLOW, base) as child:
        assert line(child) == "renamed"


def rows(base: Path) -> str | None:
    file = base / "target" / "rows"
    return file.read_text() if file.exists() else None


def test_a_live_publish_is_not_undone(base: Path) -> None:
    with process(SLOW, base) as child:
        assert line(child) == "renamed"
        assert journal(base).recover() == []
        assert rows(base) is None
        go_on(child)
        assert line(child) == "renamed"
        go_on(child)
        assert line(child) == "published"

    assert rows(base) == "staging"
    assert not list((base / "journal").glob("*.json"))


def test_a_dead_publish_is_undone(base: Path) -> None:
    half_done(base)

    ((publication, is_published),) = journal(base).recover()
    assert (publication.run_id, is_published, rows(base)) == ("run", False, "target")


def test_a_killed_process_whose_parent_has_not_noticed_is_dead(base: Path) -> None:
    with process(SLOW, base) as child:
        assert line(child) == "renamed"
        child.kill()
        deadline = time.monotonic() + 5
        while not journal(base).recover() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert rows(base) == "target"


def test_an_entry_says_host_process_and_when_it_began(base: Path) -> None:
    with process(SLOW, base) as child:
        line(child)
        owner = json.loads(entry(base).read_text())["owner"]

        assert owner["pid"] == child.pid
        assert owner["host"]
        assert owner["started"]
        assert abs(owner["at"] - time.time()) < 60


def test_a_process_number_that_came_back_is_another_process(base: Path) -> None:
    half_done(base)
    # Ours lives, but it is not the one that began then.
    change_owner(base, pid=os.getppid())

    assert len(journal(base).recover()) == 1
    assert rows(base) == "target"


def test_of_another_machine_only_old_entries_are_undone(base: Path) -> None:
    half_done(base)
    change_owner(base, machine="0123456789ab")

    assert journal(base).recover() == []
    assert journal(base, clock=lambda: time.time() + 590).recover() == []
    assert journal(base, other_host_age_s=3600, clock=lambda: time.time() + 700).recover() == []
    assert rows(base) is None
    assert len(journal(base, clock=lambda: time.time() + 610).recover()) == 1
    assert rows(base) == "target"


def test_a_long_publish_keeps_its_entry_young(base: Path) -> None:
    times = iter(range(1000, 100_000, 50))
    seen: list[float] = []

    class Watched(LocalFiles):
        def rename(self, path: str, to: str) -> None:
            seen.append(json.loads(entry(base).read_text())["owner"]["at"])
            super().rename(path, to)

    (base / "more").mkdir()
    moves = [Move(str(base / "target"), str(base / "p")), Move(str(base / "staging"), str(base / "target"))]
    moves += [Move(str(base / "more"), str(base / "new")), Move(str(base / "new"), str(base / "newer"))]
    Journal(Watched(), str(base / "journal"), clock=lambda: float(next(times))).publish(
        Publication("r", "n", moves, [str(base / "p")])
    )

    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


def test_of_several_that_find_an_entry_one_ends_it(tmp_path: Path) -> None:
    for number in range(30):
        base = tmp_path / str(number)
        for name in ("target", "staging"):
            (base / name).mkdir(parents=True)
            (base / name / "rows").write_text(name)
    half_done(tmp_path / "0")
    text = entry(tmp_path / "0").read_text()
    for number in range(1, 30):
        base = tmp_path / str(number)
        (base / "target").rename(base / "previous")
        entry_path = tmp_path / "journal" / f"run.{number}.json"
        entry_path.parent.mkdir(exist_ok=True)
        entry_path.write_text(text.replace(f"{tmp_path}/0/", f"{base}/"))

    with process(RECOVER, tmp_path) as one, process(RECOVER, tmp_path) as two, process(RECOVER, tmp_path) as three:
        time.sleep(0.5)
        for child in (one, two, three):
            go_on(child)
        ended = [int(line(child)) for child in (one, two, three)]

    assert sum(ended) == 29
    assert {rows(tmp_path / str(number)) for number in range(1, 30)} == {"target"}
    assert not list((tmp_path / "journal").glob("*.json"))


def test_what_one_is_ending_another_does_not_end_too(base: Path) -> None:
    others: list[list[Any]] = []
    reads: list[str] = []

    class Slow(LocalFiles):
        def read_text(self, path: str) -> str:
            text = super().read_text(path)
            reads.append(path)
            if len(reads) == 2:
                others.append(journal(base).recover())
            return text

    half_done(base)
    ended = Journal(Slow(), str(base / "journal")).recover()

    assert (len(ended), others) == (1, [[]])
    assert rows(base) == "target"


def test_a_claim_of_a_process_that_died_is_taken_over(base: Path) -> None:
    half_done(base)
    claimed = entry(base).with_name("run.n~0123456789ab-1-0123456789ab-1.json")
    entry(base).rename(claimed)

    assert journal(base, clock=lambda: 100.0).recover() == []
    assert len(journal(base).recover()) == 1
    assert rows(base) == "target"


def test_what_another_process_is_publishing_cannot_be_published_too(base: Path) -> None:
    with process(SLOW, base) as child:
        assert line(child) == "renamed"
        (base / "target").mkdir()
        moves = [Move(str(base / "target"), str(base / "mine"))]
        with pytest.raises(Conflict, match="is being published by another process"):
            journal(base).publish(Publication("run", "n", moves))
