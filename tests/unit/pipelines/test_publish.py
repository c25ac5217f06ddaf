"""Which renames bring staged files to a target, and what is left when one of them does not happen."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from headgate.pipelines.config.write import WriteMode
from headgate.pipelines.files import LocalFiles, copies, volume
from headgate.pipelines.journal import Journal, Move, Publication
from headgate.pipelines.publish import (
    LastBatch,
    Steps,
    batch_prefix,
    by_file,
    gather,
    journal_folder,
    partitions_of,
    publish,
    target_steps,
    walk,
)
from tests.support.dying import Dying

FILES = LocalFiles()


def put(folder: Path, *names: str, text: str = "new") -> str:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text} {name}")
    return str(folder)


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def steps_of(base: Path, mode: WriteMode, prefix: str | None = None) -> Steps:
    paths = (str(base / each) for each in ("staged", "target", "previous"))
    return target_steps(FILES, mode, *paths, prefix=prefix)


def done(base: Path, steps: Steps) -> dict[str, str]:
    assert publish(FILES, str(base / "target"), "run", "daily.orders", steps) is None
    return texts(base / "target")


def test_overwrite_is_two_renames_however_many_files_there_are(tmp_path: Path) -> None:
    put(tmp_path / "target", "day=1/a", "day=2/b", text="old")
    put(tmp_path / "staged", "day=1/c", "day=3/d")
    steps = steps_of(tmp_path, WriteMode.overwrite)

    assert steps.moves == [
        Move(str(tmp_path / "target"), str(tmp_path / "previous")),
        Move(str(tmp_path / "staged"), str(tmp_path / "target")),
    ]
    assert steps.files == [str(tmp_path / "target/day=1/c"), str(tmp_path / "target/day=3/d")]
    assert done(tmp_path, steps) == {"day=1/c": "new day=1/c", "day=3/d": "new day=3/d"}
    assert not (tmp_path / "previous").exists()


def test_append_leaves_what_is_there(tmp_path: Path) -> None:
    put(tmp_path / "target", "day=1/a", "_SUCCESS", text="old")
    put(tmp_path / "staged", "day=1/c", "day=2/d", "_SUCCESS", ".c.crc")

    assert done(tmp_path, steps_of(tmp_path, WriteMode.append)) == {
        "_SUCCESS": "old _SUCCESS",
        "day=1/a": "old day=1/a",
        "day=1/c": "new day=1/c",
        "day=2/d": "new day=2/d",
    }


def test_append_replaces_what_the_same_batch_has_left(tmp_path: Path) -> None:
    prefix = batch_prefix("run", "daily.orders")
    put(tmp_path / "target", "day=1/a", f"day=1/{prefix}0-x", f"day=1/{prefix}1-x", text="old")
    put(tmp_path / "staged", f"day=1/{prefix}0-x")

    assert done(tmp_path, steps_of(tmp_path, WriteMode.append, prefix)) == {
        "day=1/a": "old day=1/a",
        f"day=1/{prefix}0-x": f"new day=1/{prefix}0-x",
    }


def test_append_takes_back_what_the_same_batch_has_left_elsewhere(tmp_path: Path) -> None:
    prefix = batch_prefix("run", "daily.orders")
    put(tmp_path / "target", "day=1/a", f"day=2/{prefix}0-x", f"day=3/{prefix}0-x", text="old")
    put(tmp_path / "staged", f"day=1/{prefix}0-y")
    paths = (str(tmp_path / each) for each in ("staged", "target", "previous"))
    steps = target_steps(FILES, WriteMode.append, *paths, prefix=prefix, parts=["day=2", "day=4"])

    assert sorted(done(tmp_path, steps)) == [f"day=1/{prefix}0-y", "day=1/a", f"day=3/{prefix}0-x"]


def test_what_a_node_added_last_is_known_by_target(tmp_path: Path) -> None:
    orders, others = str(tmp_path / "orders"), str(tmp_path / "others")
    assert LastBatch.of(FILES, orders, "daily.orders") is None
    LastBatch("run", ("day=1", "")).write(FILES, LastBatch.path(orders, "daily.orders"))

    assert LastBatch.of(FILES, orders, "daily.orders") == LastBatch("run", ("day=1", ""))
    assert LastBatch.of(FILES, others, "daily.orders") is None
    assert LastBatch.of(FILES, orders, "daily.more") is None


def test_batches_of_other_runs_and_nodes_have_other_names() -> None:
    prefixes = {batch_prefix(run, job) for run in ("r1", "r2") for job in ("p.a", "p.b")}
    assert len(prefixes) == 4
    assert all(prefix[0].isalnum() for prefix in prefixes)


def test_partitions_are_replaced_one_by_one(tmp_path: Path) -> None:
    put(tmp_path / "target", "day=1/h=1/a", "day=1/h=2/b", "day=2/h=1/c", text="old")
    put(tmp_path / "staged", "day=1/h=2/x", "day=3/h=1/y")

    assert done(tmp_path, steps_of(tmp_path, WriteMode.overwrite_partitions)) == {
        "day=1/h=1/a": "old day=1/h=1/a",
        "day=1/h=2/x": "new day=1/h=2/x",
        "day=2/h=1/c": "old day=2/h=1/c",
        "day=3/h=1/y": "new day=3/h=1/y",
    }


@pytest.mark.parametrize("mode", [WriteMode.append, WriteMode.overwrite_partitions])
def test_the_file_of_an_empty_target_goes_when_rows_come(tmp_path: Path, mode: WriteMode) -> None:
    put(tmp_path / "target", "empty-0-x", text="old")
    put(tmp_path / "staged", "day=1/a")

    assert done(tmp_path, steps_of(tmp_path, mode)) == {"day=1/a": "new day=1/a"}


@pytest.mark.parametrize("mode", [WriteMode.overwrite, WriteMode.append, WriteMode.overwrite_partitions])
def test_a_target_that_is_not_there_is_one_rename(tmp_path: Path, mode: WriteMode) -> None:
    put(tmp_path / "staged", "day=1/a")
    steps = steps_of(tmp_path, mode)

    assert len(steps.moves) == 1
    assert steps.trash == []
    assert done(tmp_path, steps) == {"day=1/a": "new day=1/a"}


def test_files_of_the_same_name_are_gathered_side_by_side(tmp_path: Path) -> None:
    sources = [put(tmp_path / f"lot={lot}", "day=1/part-0", text=lot) for lot in ("clean", "warned")]

    assert gather(FILES, sources, str(tmp_path / "staged")) == 2
    assert sorted(texts(tmp_path / "staged").values()) == ["clean day=1/part-0", "warned day=1/part-0"]


def test_one_folder_is_gathered_as_a_whole(tmp_path: Path) -> None:
    sources = [put(tmp_path / "lot=clean", "day=1/part-0", "_SUCCESS"), str(tmp_path / "lot=warned")]

    assert gather(FILES, sources, str(tmp_path / "staged")) == 1
    assert not (tmp_path / "lot=clean").exists()
    assert list(walk(FILES, str(tmp_path / "staged"))) == ["day=1/part-0"]


def test_nothing_is_gathered_from_nothing(tmp_path: Path) -> None:
    assert gather(FILES, [str(tmp_path / "absent")], str(tmp_path / "staged")) == 0


def test_columns_of_partitions_are_read_from_the_names_of_folders(tmp_path: Path) -> None:
    put(tmp_path / "target", "day=1/hour=2/a", "_delta_log/x")

    assert partitions_of(FILES, str(tmp_path / "target")) == ["day", "hour"]
    assert partitions_of(FILES, str(tmp_path / "target/day=1/hour=2")) == []


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("s3a://bucket/a", "s3a://bucket/b/c", True),
        ("s3a://bucket/a", "s3a://other/a", False),
        ("hdfs://h/a", "/a", False),
        ("/tmp/not/there", "/tmp", True),
        ("/proc/self", "/tmp", False),
    ],
)
def test_renames_stay_within_a_volume(one: str, other: str, is_same: bool) -> None:
    assert (volume(one) == volume(other)) is is_same


@pytest.mark.parametrize("mode", [WriteMode.overwrite, WriteMode.append, WriteMode.overwrite_partitions])
def test_a_target_is_as_it_was_or_complete_wherever_a_publication_ends(tmp_path: Path, mode: WriteMode) -> None:
    outcomes = []
    for alive in range(20):
        base = tmp_path / str(alive)
        put(base / "target", "day=1/a", "day=2/b", text="old")
        before = texts(base / "target")
        put(base / "staged", "day=1/c", "day=3/d")
        steps, files = steps_of(base, mode), Dying(alive)
        with suppress(ConnectionError):
            publish(files, str(base / "target"), "run", "daily.orders", steps)
        Journal(FILES, journal_folder(str(base / "target"))).recover()
        outcomes.append("before" if texts(base / "target") == before else "after")
        if outcomes[-1] == "after":
            assert {path for path in texts(base / "target") if path in ("day=1/c", "day=3/d")} == {"day=1/c", "day=3/d"}
            assert not (base / "previous").exists()
        if files.left > 0:
            break

    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {"before", "after"}


class Objects(Dying):
    """An object store: a folder is not renamed, a file is by a copy and a deletion, and it may end between the two."""

    def rename(self, path: str, to: str) -> None:
        assert Path(path).is_file()
        self._step()
        if Path(to).exists():
            raise FileExistsError(to)
        Path(to).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
        self._step()
        Path(path).unlink()


@pytest.mark.parametrize("mode", [WriteMode.overwrite, WriteMode.append, WriteMode.overwrite_partitions])
def test_objects_are_as_they_were_or_complete_wherever_a_publication_ends(tmp_path: Path, mode: WriteMode) -> None:
    outcomes = []
    for alive in range(60):
        base, files = tmp_path / str(alive), Objects(alive)
        put(base / "target", "day=1/a", "day=2/b", "_SUCCESS", text="old")
        before = texts(base / "target")
        put(base / "staged", "day=1/c", "day=3/d", "_SUCCESS")
        steps = steps_of(base, mode)
        publication = Publication("run", "daily.orders", by_file(FILES, steps.moves), steps.trash, is_copied=True)
        with suppress(ConnectionError):
            Journal(files, str(base / "journal")).publish(publication)
        Journal(Objects(1000), str(base / "journal")).recover()
        found = texts(base / "target")
        outcomes.append("before" if found == before else "after")
        if outcomes[-1] == "after":
            assert {"day=1/c": "new day=1/c", "day=3/d": "new day=3/d"}.items() <= found.items()
            assert ("day=1/a" in found) == (mode is WriteMode.append)
            assert ("day=2/b" in found) == (mode is not WriteMode.overwrite)
        if files.left > 0:
            break

    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {"before", "after"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/orders", False),
        ("file:///data/orders", False),
        ("hdfs://h/orders", False),
        ("abfss://c@a.dfs.core.windows.net/orders", False),
        ("s3a://bucket/orders", True),
        ("gs://bucket/orders", True),
        ("other://bucket/orders", True),
    ],
)
def test_stores_without_folders_are_known_by_their_scheme(path: str, expected: bool) -> None:
    assert copies(path) is expected
