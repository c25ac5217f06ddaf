"""Publishing by renames: an error or a death at any single step leaves the target as it was, or as it was to be."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headgate.errors import ConfigError, Conflict
from headgate.pipelines.files import LocalFiles
from headgate.pipelines.journal import Journal, Move, Publication

OLD = {"t/a": "old a", "t/b": "old b", "q/batch=1/x": "old quarantine", "s/a": "new a", "sq/y": "set apart"}
NEW = {"t/a": "new a", "q/batch=1/x": "old quarantine", "q/batch=2/y": "set apart"}
PUBLICATION = Publication(
    "run-1",
    "daily.orders",
    [Move("t", "t.previous"), Move("s", "t"), Move("sq", "q/batch=2")],
    ["t.previous"],
    {"rows": 5},
)


class Death(BaseException):
    """What no `except Exception` survives."""


class MemoryFiles:
    """A file system in which one step, and for a death every later one, goes wrong before or after it is done."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = dict(texts)
        self.steps = 0
        self.bad_step: int | None = None
        self.last_step: int | None = None
        self.is_after = False
        self.is_death = False
        self.is_dead = False

    def _step(self) -> bool:
        """Count one; true if it is to go wrong once it is done."""
        if self.is_dead:
            raise Death
        self.steps += 1
        if self.steps == self.last_step:
            self.is_dead = True
            raise Death
        if self.steps != self.bad_step:
            return False
        if self.is_after:
            return True
        return self._go_wrong()

    def _go_wrong(self) -> bool:
        self.is_dead = self.is_death
        raise Death if self.is_death else OSError("the disk is gone")

    def _below(self, path: str) -> list[str]:
        return [each for each in self.texts if each == path or each.startswith(f"{path}/")]

    def exists(self, path: str) -> bool:
        if self.is_dead:
            raise Death
        return bool(self._below(path))

    def folders_in(self, path: str) -> list[str]:
        below = [each[len(path) + 1 :] for each in self.texts if each.startswith(f"{path}/")]
        return sorted({f"{path}/{each.partition('/')[0]}" for each in below if "/" in each})

    def files_in(self, path: str) -> list[str]:
        return sorted(each for each in self.texts if each.rpartition("/")[0] == path)

    def size(self, path: str) -> int:
        raise NotImplementedError

    def make_folder(self, path: str) -> None:
        raise NotImplementedError

    def rename(self, path: str, to: str) -> None:
        is_bad = self._step()
        if self.exists(to):
            raise FileExistsError(to)
        if not self.exists(path):
            raise FileNotFoundError(path)
        for each in self._below(path):
            self.texts[to + each[len(path) :]] = self.texts.pop(each)
        if is_bad:
            self._go_wrong()

    def delete(self, path: str) -> None:
        is_bad = self._step()
        for each in self._below(path):
            del self.texts[each]
        if is_bad:
            self._go_wrong()

    def read_text(self, path: str) -> str:
        if self.is_dead:
            raise Death
        return self.texts[path]

    def write_text(self, path: str, text: str) -> None:
        is_bad = self._step()
        self.texts[path] = text
        if is_bad:
            self._go_wrong()

    def visible(self) -> dict[str, str]:
        """What readers see: the target and the quarantine."""
        return {path: text for path, text in self.texts.items() if path.startswith(("t/", "q/"))}


def visible(texts: dict[str, str]) -> dict[str, str]:
    return MemoryFiles(texts).visible()


def states(files: MemoryFiles) -> list[str]:
    return [json.loads(text)["state"] for path, text in files.texts.items() if path.startswith("j/")]


def steps_of_a_publish() -> int:
    files = MemoryFiles(OLD)
    assert Journal(files, "j").publish(PUBLICATION) is None
    assert files.texts == NEW
    return files.steps


STEPS = range(1, steps_of_a_publish() + 1)
WHEN = pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])


@WHEN
@pytest.mark.parametrize("step", STEPS)
def test_a_death_at_any_step_leaves_what_was_unless_it_counts_as_published(step: int, is_after: bool) -> None:
    files = MemoryFiles(OLD)
    files.bad_step, files.is_after, files.is_death = step, is_after, True
    with pytest.raises(Death):
        Journal(files, "j").publish(PUBLICATION)
    is_published = states(files) == ["published"] or (not states(files) and step > 1)

    files.is_dead, files.bad_step = False, None
    ended = Journal(files, "j").recover()

    assert files.visible() == (NEW if is_published else visible(OLD))
    assert [each for _, each in ended] in ([is_published], [])
    assert not states(files)
    assert "t.previous/a" not in files.texts


@WHEN
@pytest.mark.parametrize("step", STEPS)
def test_an_error_at_any_step_is_raised_and_undone_or_told_and_left(step: int, is_after: bool) -> None:
    files = MemoryFiles(OLD)
    files.bad_step, files.is_after = step, is_after
    told: str | None = None
    try:
        told = Journal(files, "j").publish(PUBLICATION)
        is_published = True
    except OSError:
        is_published = False

    assert files.visible() == (NEW if is_published else visible(OLD))
    if is_published:
        assert told == "what was replaced is left for the next run to delete: the disk is gone"
    Journal(files, "j").recover()
    assert files.visible() == (NEW if is_published else visible(OLD))
    assert not states(files)
    assert set(files.texts) == set(NEW if is_published else OLD)


@WHEN
@pytest.mark.parametrize("second", range(1, 8))
@pytest.mark.parametrize("first", [3, 4, 5])
def test_a_death_while_recovering_is_recovered_from(first: int, second: int, is_after: bool) -> None:
    files = MemoryFiles(OLD)
    files.bad_step, files.is_after, files.is_death = first, True, True
    with pytest.raises(Death):
        Journal(files, "j").publish(PUBLICATION)
    is_published = states(files) == ["published"]
    files.is_dead, files.steps, files.bad_step, files.is_after = False, 0, second, is_after
    try:
        Journal(files, "j").recover()
    except Death:
        files.is_dead, files.bad_step = False, None
        Journal(files, "j").recover()

    assert files.visible() == (NEW if is_published else visible(OLD))
    assert not states(files)


@pytest.mark.parametrize("later", range(1, 6))
@WHEN
@pytest.mark.parametrize("step", STEPS)
def test_a_death_while_an_error_is_undone_leaves_no_mixture(step: int, is_after: bool, later: int) -> None:
    files = MemoryFiles(OLD)
    files.bad_step, files.is_after, files.last_step = step, is_after, step + later
    is_dead = False
    try:
        Journal(files, "j").publish(PUBLICATION)
    except OSError:
        pass
    except Death:
        is_dead = True
    files.is_dead, files.bad_step, files.last_step = False, None, None
    is_published = states(files) == ["published"] if is_dead else files.visible() == NEW

    Journal(files, "j").recover()
    assert files.visible() == (NEW if is_published else visible(OLD))
    assert not states(files)


def test_what_cannot_be_done_is_refused_before_anything_is() -> None:
    for moves in ([Move("t", "p"), Move("nothing", "t")], [Move("s", "t")], [Move("t", "p"), Move("s", "p")]):
        files = MemoryFiles(OLD)
        with pytest.raises((FileNotFoundError, FileExistsError)):
            Journal(files, "j").publish(Publication("r", "n", moves))
        assert files.texts == OLD
        assert files.steps == 0


def test_recovery_tells_whose_publication_it_was() -> None:
    files = MemoryFiles(OLD)
    files.bad_step, files.is_after, files.is_death = 3, True, True
    with pytest.raises(Death):
        Journal(files, "j").publish(PUBLICATION)
    files.is_dead = False

    ((publication, is_published),) = Journal(files, "j").recover()
    assert (publication.run_id, publication.node, publication.facts) == ("run-1", "daily.orders", {"rows": 5})
    assert not is_published


def test_a_second_try_of_a_node_first_undoes_what_the_first_left() -> None:
    files = MemoryFiles(OLD)
    files.bad_step, files.is_after, files.is_death = 3, True, True
    with pytest.raises(Death):
        Journal(files, "j").publish(PUBLICATION)
    files.is_dead = False
    files.texts |= {"s2/a": "second try"}

    again = Publication("run-1", "daily.orders", [Move("t", "t.previous"), Move("s2", "t")], ["t.previous"])
    Journal(files, "j").publish(again)

    assert files.texts["t/a"] == "second try"
    assert files.texts["s/a"] == "new a"
    assert not states(files)


def test_a_file_that_is_no_entry_is_refused_by_name() -> None:
    files = MemoryFiles(OLD | {"j/x.json": "{}"})

    with pytest.raises(ConfigError, match=r"j/x\.json: not an entry of the journal"):
        Journal(files, "j").recover()


def test_drafts_and_other_files_in_the_folder_are_left_alone() -> None:
    files = MemoryFiles(OLD | {"j/.x.json": "half", "j/readme": "x"})

    assert Journal(files, "j").recover() == []


def test_a_publication_that_another_machine_took_back_is_not_touched_again() -> None:
    class TakenBack(MemoryFiles):
        def rename(self, path: str, to: str) -> None:
            super().rename(path, to)
            if to == "q/batch=2":
                self.texts = dict(OLD)

    files = TakenBack(OLD)
    with pytest.raises(Conflict, match="was taken back by another run"):
        Journal(files, "j").publish(PUBLICATION)
    assert files.texts == OLD


def test_what_is_undone_leaves_no_empty_folders(tmp_path: Path) -> None:
    class Full(LocalFiles):
        def rename(self, path: str, to: str) -> None:
            if to.endswith("target/day=2"):
                raise OSError("no space")
            super().rename(path, to)

    for name in ("target/day=1", "target/day=2", "staged/day=1", "staged/day=2"):
        LocalFiles().write_text(f"{tmp_path}/{name}/rows", name)
    moves = []
    for day in ("day=1", "day=2"):
        moves.append(Move(f"{tmp_path}/target/{day}", f"{tmp_path}/previous/run.n/target/{day}"))
        moves.append(Move(f"{tmp_path}/staged/{day}", f"{tmp_path}/target/{day}"))
    trash = [*(move.target for move in moves[::2]), f"{tmp_path}/previous/run.n"]
    with pytest.raises(OSError, match="no space"):
        Journal(Full(), f"{tmp_path}/journal").publish(Publication("run", "n", moves, trash))

    assert (tmp_path / "target/day=1/rows").read_text() == "target/day=1"
    assert (tmp_path / "target/day=2/rows").read_text() == "target/day=2"
    assert not list((tmp_path / "previous").iterdir())


VERSIONS = """
import sys
from pathlib import Path
from headgate.pipelines.files import LocalFiles
from headgate.pipelines.journal import Journal, Move, Publication

base = sys.argv[1]
journal = Journal(LocalFiles(), f"{base}/journal")
for version in range(int(sys.argv[2]), 100_000):
    staged = Path(f"{base}/staging/{version}")
    staged.mkdir(parents=True)
    for name in "abc":
        (staged / name).write_text(str(version))
    moves = [Move(f"{base}/target", f"{base}/old/{version}"), Move(str(staged), f"{base}/target")]
    journal.publish(Publication(str(version), "n", moves, [f"{base}/old/{version}"]))
    print(version, flush=True)
"""


def test_a_process_killed_at_any_moment_leaves_one_whole_version(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    for name in "abc":
        (target / name).write_text("0")
    chance, first = random.Random(5), 1
    for _ in range(15):
        child = subprocess.Popen(
            [sys.executable, "-c", VERSIONS, str(tmp_path), str(first)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        told = int(child.stdout.readline())
        time.sleep(chance.uniform(0, 0.05))
        child.kill()
        told = max([told, *(int(line) for line in child.stdout.read().split("\n")[:-1])])
        child.wait()
        child.stdout.close()

        Journal(LocalFiles(), str(tmp_path / "journal")).recover()
        (version,) = {each.read_text() for each in target.iterdir()}
        assert sorted(each.name for each in target.iterdir()) == ["a", "b", "c"]
        assert told <= int(version) <= told + 1
        assert not list((tmp_path / "journal").glob("*.json"))
        first = told + 10


def test_local_files_do_what_a_publish_needs(tmp_path: Path) -> None:
    files = LocalFiles()
    files.write_text(f"{tmp_path}/a/b/one", "1")
    files.make_folder(f"{tmp_path}/a/folder")

    assert files.exists(f"{tmp_path}/a/b/one")
    assert files.read_text(f"{tmp_path}/a/b/one") == "1"
    assert files.files_in(f"{tmp_path}/a/b") == [f"{tmp_path}/a/b/one"]
    assert files.folders_in(f"{tmp_path}/a") == [f"{tmp_path}/a/b", f"{tmp_path}/a/folder"]
    assert files.files_in(f"{tmp_path}/nowhere") == files.folders_in(f"{tmp_path}/nowhere") == []
    files.rename(f"{tmp_path}/a/b", f"{tmp_path}/c/d")
    with pytest.raises(FileExistsError):
        files.rename(f"{tmp_path}/a/folder", f"{tmp_path}/c/d")
    files.delete(f"{tmp_path}/c")
    files.delete(f"{tmp_path}/c")
    assert not files.exists(f"{tmp_path}/c/d/one")
