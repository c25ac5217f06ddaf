"""Batches of files: whose they are, how one takes the place of another, and when their time is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headgate.errors import ConfigError, NotFound
from headgate.pipelines.batches import (
    Batch,
    BatchNote,
    Pending,
    batch_steps,
    batches,
    delete_batch,
    delete_expired,
    write_note,
    write_pending,
)
from headgate.pipelines.files import LocalFiles
from headgate.pipelines.publish import batch_prefix, publish
from headgate.pipelines.replays import pick
from tests.unit.pipelines.samples import plan_of, with_test

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
FILES = LocalFiles()


def staged(folder: Path, batch_id: str, node: str, *, text: str = "rows", at: datetime = NOW, days: int = 90) -> str:
    """Rows of a batch with their note, ready to be published."""
    place = folder / "staged" / f"{batch_id}.{node}"
    place.mkdir(parents=True)
    (place / f"{batch_prefix(batch_id, node)}{text}.parquet").write_text(text)
    write_note(FILES, str(place), BatchNote(batch_id, node, at, 1, {"ids": 1}, retention_days=days))
    return str(place)


def put(folder: Path, batch_id: str, node: str, **more: object) -> None:
    location, place = str(folder / "bad"), staged(folder, batch_id, node, **more)  # type: ignore[arg-type]
    steps = batch_steps(FILES, place, location, batch_id, node, str(folder / "previous" / node))
    publish(FILES, location, batch_id, node, steps)
    Path(place).rename(folder / f"used-{batch_id}.{node}-{more.get('text')}")


def data(folder: Path) -> list[str]:
    return sorted(path.read_text() for path in (folder / "bad").rglob("*.parquet"))


def found(folder: Path, node: str = "daily.orders") -> list[Batch]:
    return batches(FILES, str(folder / "bad"), node)


def test_nodes_that_share_a_quarantine_keep_to_their_own(tmp_path: Path) -> None:
    put(tmp_path, "r1", "daily.orders", text="orders")
    put(tmp_path, "r1", "daily.items", text="items")

    put(tmp_path, "r1", "daily.orders", text="orders again")

    assert data(tmp_path) == ["items", "orders again"]
    assert [path.rpartition("-")[2] for path in found(tmp_path)[0].files(FILES)] == ["orders again.parquet"]
    delete_batch(FILES, str(tmp_path / "bad"), found(tmp_path)[0], "r2")
    assert data(tmp_path) == ["items"]
    assert found(tmp_path) == []
    assert len(found(tmp_path, "daily.items")) == 1


def test_a_deleted_batch_leaves_nothing(tmp_path: Path) -> None:
    put(tmp_path, "r1", "daily.orders")

    delete_batch(FILES, str(tmp_path / "bad"), found(tmp_path)[0], "r2")

    assert list((tmp_path / "bad").iterdir()) == []
    assert not list((tmp_path / ".headgate").rglob("*.parquet"))


def test_only_batches_whose_time_is_over_are_deleted(tmp_path: Path) -> None:
    put(tmp_path, "old", "daily.orders", at=NOW - timedelta(days=8))
    put(tmp_path, "young", "daily.orders", at=NOW - timedelta(days=6))
    put(tmp_path, "other", "daily.items", at=NOW - timedelta(days=8))

    gone = delete_expired(FILES, str(tmp_path / "bad"), "daily.orders", NOW, "r9", 7)

    assert [batch.note.batch_id for batch in gone] == ["old"]
    assert [batch.note.batch_id for batch in found(tmp_path)] == ["young"]
    assert len(found(tmp_path, "daily.items")) == 1


@pytest.mark.parametrize(("days", "left"), [(7, []), (9, ["r1"]), (None, ["r1"])])
def test_the_retention_is_what_the_file_says_now(tmp_path: Path, days: int | None, left: list[str]) -> None:
    put(tmp_path, "r1", "daily.orders", at=NOW - timedelta(days=8), days=8 if days is None else None)

    delete_expired(FILES, str(tmp_path / "bad"), "daily.orders", NOW, "r9", days)

    assert [batch.note.batch_id for batch in found(tmp_path)] == left


def test_a_batch_that_is_half_replayed_does_not_expire(tmp_path: Path) -> None:
    put(tmp_path, "old", "daily.orders", at=NOW - timedelta(days=8), days=7)
    (batch,) = found(tmp_path)
    write_pending(FILES, batch, Pending("r2", "owner", "folder", {}, 1, NOW))

    assert delete_expired(FILES, str(tmp_path / "bad"), "daily.orders", NOW, "r9", 7) == []
    assert batch.pending(FILES) is not None


def test_a_note_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    put(tmp_path, "r1", "daily.orders")
    next((tmp_path / "bad").rglob("_headgate*")).write_text("{")

    with pytest.raises(ConfigError, match=r"_headgate\.daily\.orders\.json does not tell what the batch is"):
        found(tmp_path)


def test_a_batch_is_found_by_how_its_id_begins(tmp_path: Path) -> None:
    (node,) = plan_of(tmp_path, with_test("type: not_null, columns: [id]")).nodes
    for number, batch_id in enumerate(["aaa1", "aaa2", "bbb", "aaa"]):
        put(tmp_path, batch_id, "daily.orders", at=NOW + timedelta(hours=number))
    known = found(tmp_path)

    assert pick(known, None, node).note.batch_id == "aaa"
    assert pick(known, "b", node).note.batch_id == "bbb"
    assert pick(known, "aaa", node).note.batch_id == "aaa"
    with pytest.raises(ConfigError, match="batch 'aa' may be aaa1, aaa2, aaa"):
        pick(known, "aa", node)
    with pytest.raises(NotFound, match=r"there is no batch 'c' of daily\.orders"):
        pick(known, "c", node)
    with pytest.raises(NotFound, match="there is no batch of"):
        pick([], None, node)
