"""Staging folders go when their work is done, and when the process that they were of is gone."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headgate.pipelines.files import LocalFiles
from headgate.pipelines.staging import Staging

# Opens a folder, writes into it, and waits.
WAITS = """
import sys
from headgate.pipelines.files import LocalFiles
from headgate.pipelines.staging import Staging

with Staging(LocalFiles(), sys.argv[1], "first").opened("daily.orders") as folder:
    LocalFiles().write_text(f"{folder}/pass/rows", "some")
    print(folder, flush=True)
    sys.stdin.readline()
"""


def staging(root: Path, run_id: str = "second") -> Staging:
    return Staging(LocalFiles(), str(root), run_id)


def inside(root: Path) -> list[Path]:
    return sorted((root / "staging").iterdir())


@contextmanager
def other_process(root: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    command = [sys.executable, "-c", WAITS, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield child, Path(child.stdout.readline().strip())
        finally:
            child.kill()


def left_by_a_death(root: Path) -> Path:
    with other_process(root) as (_, folder):
        pass
    return folder


@pytest.mark.parametrize("is_failure", [False, True])
def test_nothing_is_left_when_the_work_ends(tmp_path: Path, is_failure: bool) -> None:
    mine = staging(tmp_path)
    try:
        with mine.opened("daily.orders") as folder:
            LocalFiles().write_text(f"{folder}/pass/rows", "some")
            if is_failure:
                raise InterruptedError
    except InterruptedError:
        pass

    assert inside(tmp_path) == []
    assert mine.notes == []


def test_what_a_killed_process_has_left_goes_with_the_next_run(tmp_path: Path) -> None:
    folder = left_by_a_death(tmp_path)
    assert (folder / "pass/rows").is_file()
    staging(tmp_path).sweep()

    assert inside(tmp_path) == []


def test_what_a_live_process_is_about_stays(tmp_path: Path) -> None:
    with other_process(tmp_path) as (_, folder):
        staging(tmp_path, "first").sweep()
        assert (folder / "pass/rows").is_file()


def test_another_try_of_the_same_run_has_a_folder_of_its_own(tmp_path: Path) -> None:
    with other_process(tmp_path) as (_, theirs), staging(tmp_path, "first").opened("daily.orders") as mine:
        assert Path(mine) != theirs


def test_of_another_machine_only_what_is_very_old_goes(tmp_path: Path) -> None:
    folder = left_by_a_death(tmp_path)
    run, _, token = folder.name.partition("~")
    _, _, rest = token.partition("-")
    folder.rename(folder.with_name(f"{run}~0123456789ab-{rest}"))
    staging(tmp_path).sweep()
    assert len(inside(tmp_path)) == 1
    Staging(LocalFiles(), str(tmp_path), "second", clock=lambda: time.time() + 8 * 86_400).sweep()

    assert inside(tmp_path) == []


def test_folders_that_say_no_owner_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "staging/somebody").mkdir(parents=True)
    staging(tmp_path).sweep()

    assert [path.name for path in inside(tmp_path)] == ["somebody"]


def test_what_cannot_be_deleted_is_told_and_fails_nothing(tmp_path: Path) -> None:
    class Stuck(LocalFiles):
        def delete(self, path: str) -> None:
            raise PermissionError("not yours")

    mine = Staging(Stuck(), str(tmp_path), "second")
    with mine.opened("daily.orders") as folder:
        LocalFiles().write_text(f"{folder}/pass/rows", "some")

    assert ["is left over and may be deleted: not yours" in note for note in mine.notes] == [True]
