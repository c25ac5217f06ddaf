"""What runs set apart, and how it comes back: each row once, whatever happens on the way."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.cli.main import run as headgate
from headgate.errors import ConfigError, Conflict
from headgate.pipelines.batches import Batch, Pending
from headgate.pipelines.files import LocalFiles
from headgate.pipelines.journal import Journal, Move, Owner
from headgate.pipelines.publish import Steps, journal_folder, publish
from headgate.pipelines.record import Status
from headgate.pipelines.replays import ReplayRecord
from headgate.pipelines.spark.fused import FAILED
from headgate.pipelines.spark.rejections import with_metadata
from headgate.pipelines.spark.replaying import Replay
from headgate.pipelines.spark.session import own_session
from headgate.pipelines.spark.stores import store_of
from headgate.pipelines.spark.write.apart import TableQuarantine
from tests.pipelines.quarantined import COLUMNS, NOT_NULL, PAID, NoPast, Shop, corrected, moment
from tests.pipelines.writing import contents, rows
from tests.support.dying import Recording

DAY = [(1, "a", 10), (2, "a", None), (3, "b", -5), (4, "b", None)]


def test_rows_are_set_apart_with_the_columns_that_are_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    wanted = "add_columns: {_rejected_at: false, _original_node: true}"
    shop = Shop(spark, tmp_path, quarantine=wanted)

    shop.run(DAY, "r1")

    assert shop.target("id") == [(1,)]
    assert shop.apart("id", "_failed_tests", "_rejection_reason", "_original_node", "_source_batch_id") == [
        (2, ["has_amount"], "has_amount: not_null of amount", "orders", "r1"),
        (3, ["is_paid"], "nobody is paid to buy", "orders", "r1"),
        (4, ["has_amount"], "has_amount: not_null of amount", "orders", "r1"),
    ]
    names = set(spark.read.parquet(str(shop.data / "bad_orders")).columns)
    assert names - {"id", "day", "amount"} == {
        "_rejection_reason", "_failed_tests", "_original_node", "_source_batch_id"
    }  # fmt: skip


def test_a_retry_replaces_its_own_batch_and_no_other(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path)
    shop.run(DAY, "r1")
    shop.run(DAY, "r2")

    shop.run(DAY[:2], "r2")
    assert shop.apart("id", "_source_batch_id") == [(2, "r1"), (2, "r2"), (3, "r1"), (4, "r1")]

    shop.run(DAY[:1], "r2")
    assert shop.apart("id", "_source_batch_id") == [(2, "r1"), (3, "r1"), (4, "r1")]
    assert [batch.note.batch_id for batch in shop.batches()] == ["r1"]
    assert not list((shop.data / ".headgate").rglob("*.parquet"))


def test_a_batch_is_deleted_when_its_time_is_over_by_what_the_file_says_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop, began = Shop(spark, tmp_path, quarantine="retention_days: null"), moment()
    shop.run(DAY, "old", now=began)
    shop.run(DAY, "new", now=began + timedelta(hours=23))
    shop = Shop(spark, tmp_path, quarantine="retention_days: 1")

    record = shop.run(DAY[:1], "later", now=began + timedelta(hours=25))

    assert [batch.note.batch_id for batch in shop.batches()] == ["new"]
    assert not (shop.data / "bad_orders" / "_source_batch_id=old").exists()
    assert any("1 batch is deleted from quarantine" in note and "3 rows" in note for note in record.notes)


def test_what_a_dead_run_has_staged_is_taken_away_and_what_a_replay_needs_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Shop(spark, tmp_path, more="gate: {require_pass_rate: 1}")
    staging = shop.data / ".headgate" / "staging"
    token = replace(Owner.this(time.time()), pid=2**22, started="0123456789ab").token()
    mine = Owner.this(time.time()).token()
    for name in (
        f"r0/daily.orders.quarantine~{token}",
        f"r1/a.b~{token}",
        f"r1/a.c~{mine}",
        "r2/daily.orders.quarantine",
    ):
        (staging / name / "batch").mkdir(parents=True)

    shop.run(DAY, "r9")

    left = sorted(str(path.relative_to(staging)) for path in staging.glob("r[012]*/*"))
    assert left == [f"r1/a.c~{mine}", "r2/daily.orders.quarantine"]
    assert not (staging / "r0").exists()
    assert not list(staging.glob("r9/*"))


def test_rows_are_shown_exported_corrected_and_replayed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path)
    shop.run(DAY, "11112222-run")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    names = ["pipeline.yaml", "orders"]

    def ask(*arguments: str) -> tuple[int, str]:
        return headgate(["quarantine", *arguments]), capsys.readouterr().out

    _, shown = ask("show", *names, "--batch", "1111", "--test", "is_paid")
    assert "id: 3  day: b  amount: -5" in shown
    assert "why: nobody is paid to buy" in shown
    assert max(map(len, shown.splitlines())) <= 80

    assert ask("show", *names, "--output", "rows.csv") == (0, "3 rows in rows.csv\n")
    text = (tmp_path / "rows.csv").read_text(encoding="utf-8")
    assert text.splitlines()[0] == "_row_id,id,day,amount,_rejection_reason,_rejected_at,_failed_tests"
    (tmp_path / "rows.csv").write_text(text.replace(",-5,", ",5,").replace(",a,,", ",a,7,").replace(",b,,", ",b,8,"))

    code, told = ask("replay", *names, "--rows", "rows.csv", "--no-server")
    assert (code, told.splitlines()[0]) == (
        0, "daily.orders: 3 rows of batch 11112222 replayed, 3 published, 0 left"
    )  # fmt: skip
    assert shop.target() == [(1, "a", 10), (2, "a", 7), (3, "b", 5), (4, "b", 8)]
    assert shop.batches() == []
    assert not (shop.data / "bad_orders" / "_source_batch_id=11112222-run").exists()
    assert ask("replay", *names, "--rows", "rows.csv", "--no-server")[0] == 2
    assert len(shop.target()) == 4


def test_rows_that_fail_again_stay_with_their_new_reasons_and_others_as_they_were(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Shop(spark, tmp_path)
    shop.run(DAY, "r1")
    ids = shop.ids()
    file = corrected(tmp_path, f"_row_id,amount\n{ids[2]},20\n{ids[3]},\n")

    record = shop.replay(file)

    assert (record.status, record.rows_in, record.rows_published, record.rows_left) == (Status.published, 2, 1, 2)
    assert shop.target("id", "amount") == [(1, 10), (2, 20)]
    assert shop.apart("id", "amount", "_failed_tests") == [(3, None, ["has_amount"]), (4, None, ["has_amount"])]
    assert record.quarantine is not None
    assert (record.quarantine.batch_id, record.quarantine.rows, record.quarantine.state) == ("r1", 2, "open")
    (batch,) = shop.batches()
    assert (batch.note.rows, batch.note.failed_tests) == (2, {"has_amount": 2})

    again = shop.replay(file)
    assert (again.status, again.rows_skipped, again.rows_in) == (Status.stopped, 1, 1)
    assert len(shop.target()) == 2
    # Rows keep the ids by which the file knows them.
    file = corrected(tmp_path, f"_row_id,amount\n{ids[2]},20\n{ids[3]},30\n{ids[4]},40\n")
    assert shop.replay(file).rows_published == 2
    assert shop.target("id", "amount") == [(1, 10), (2, 20), (3, 30), (4, 40)]
    assert shop.batches() == []


def test_a_dry_run_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path)
    shop.run(DAY, "r1")
    before = contents(shop.data)

    record = shop.replay(corrected(tmp_path, f"_row_id,amount\n{shop.ids()[2]},20\n"), is_dry=True)

    assert (record.status, record.rows_published, record.rows_left) == (Status.published, 1, 3)
    assert contents(shop.data) == before


@pytest.mark.parametrize(
    ("write", "columns", "there"),
    [
        ("mode: overwrite", "id, amount", [(1, 10), (2, 20)]),
        ("mode: append, partition_by: day", "id, day, amount", [(1, "a", 10), (2, "a", 20)]),
        ("mode: overwrite_partitions, partition_by: day", "id, day, amount", [(1, "a", 10), (2, "a", 20)]),
        ("mode: upsert, keys: id", "id, amount", [(1, 10), (2, 20)]),
        ("mode: append_once, keys: id", "id, amount", [(1, 10), (2, 20)]),
        (
            "mode: scd2, keys: id, history: {on_missing: close}",
            "id, amount, is_current",
            [(1, 10, True), (2, 20, True)],
        ),
    ],
)
def test_what_passes_is_added_in_every_mode(
    spark: SparkSession, tmp_path: Path, write: str, columns: str, there: list[Any]
) -> None:
    shop = Shop(spark, tmp_path, write)
    shop.run(DAY[:2], "r1")

    record = shop.replay(corrected(tmp_path, f"_row_id,amount\n{shop.ids()[2]},20\n"))

    assert record.rows_published == 1
    assert shop.target(*columns.split(", ")) == there
    assert shop.batches() == []


def test_rates_of_the_gate_are_those_of_the_replayed_rows_and_limits_of_whole_batches_are_not_asked(
    spark: SparkSession, tmp_path: Path
) -> None:
    tests = [NOT_NULL, PAID, "{type: row_count, min: 4, name: many}", "{type: mean, column: amount, min: 100}"]
    gate = "gate: {require_pass_rate: 0.6, row_count: {min: 4}, on_fail: abort}"
    shop = Shop(spark, tmp_path, tests=tests[:2])
    shop.run(DAY, "r1")
    shop = Shop(spark, tmp_path, tests=tests, more=gate)
    ids, before = shop.ids(), contents(shop.data)

    stopped = shop.replay(corrected(tmp_path, f"_row_id,amount\n{ids[2]},20\n{ids[3]},-1\n"))
    assert stopped.status is Status.stopped
    assert stopped.reasons == ("1 of 2 rows pass (50 %), 60 % are required",)
    assert contents(shop.data) == before

    passed = shop.replay(corrected(tmp_path, f"_row_id,amount\n{ids[2]},20\n{ids[3]},1\n"))
    assert passed.status is Status.published
    assert {test.name: test.status for test in passed.tests} == {
        "has_amount": "passed", "is_paid": "passed", "many": "skipped", "mean": "skipped"
    }  # fmt: skip
    assert shop.apart("id") == [(4,)]


def test_a_row_whose_key_was_published_with_another_stays(spark: SparkSession, tmp_path: Path) -> None:
    unique = "{type: unique, columns: [id], keep: first, order_by: amount, on_fail: quarantine, name: once}"
    shop = Shop(spark, tmp_path, tests=[unique, PAID])
    shop.run([(1, "a", 10), (1, "a", 11), (2, "a", -1)], "r1")

    record = shop.replay()

    assert record.status is Status.stopped
    assert shop.target("id", "amount") == [(1, 10)]
    assert shop.apart("id", "_failed_tests") == [(1, ["once"]), (2, ["is_paid"])]


def test_rows_that_say_the_same_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path)
    shop.run([(2, "a", None), (2, "a", None), (2, "a", None)], "r1")
    base = min(shop.ids().values(), key=len).partition("-")[0]
    file = corrected(tmp_path, f"_row_id,amount\n{base}-2,20\n")

    assert shop.replay(file).rows_published == 1
    again = shop.replay(file)

    assert (again.rows_in, again.rows_skipped, again.rows_left) == (0, 1, 2)
    assert shop.target("id", "amount") == [(2, 20)]
    assert shop.replay(corrected(tmp_path, f"_row_id,amount\n{base},21\n{base}-3,23\n")).rows_published == 2
    assert shop.target("amount") == [(20,), (21,), (23,)]


@pytest.mark.parametrize("kind", ["csv", "json", "orc"])
def test_rows_come_back_as_they_were_whatever_the_quarantine_is_kept_in(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    shop = Shop(spark, tmp_path, quarantine=f"format: {kind}")
    frame = spark.sql("""
        SELECT 1 AS id, CAST(NULL AS INT) AS amount, 'say "no",\n or \\\\' AS note, '' AS nothing,
               CAST(NULL AS STRING) AS unknown, TIMESTAMP '2026-01-02 03:04:05.678901' AS at,
               DATE '2026-01-02' AS day, 12.340BD AS price, array(struct('x' AS a, 1L AS b)) AS items,
               map('k', TIMESTAMP '2026-01-02 03:04:05.678901') AS times
    """)
    shop.run(frame, "r1")

    record = shop.replay(corrected(tmp_path, json.dumps({"_row_id": shop.ids()[1], "amount": 5}), "rows.json"))

    assert record.rows_published == 1
    there = spark.read.parquet(str(shop.data / "orders"))
    assert there.drop("amount").collect() == frame.drop("amount").collect()
    assert there.schema.simpleString() == frame.schema.simpleString()


def test_every_type_of_value_is_exported_and_read_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    frame = spark.sql("""
        SELECT id, CAST(NULL AS INT) AS amount, '' AS nothing, CAST(NULL AS STRING) AS unknown,
               TIMESTAMP '2026-01-02 03:04:05.678901' AS at, 12.340BD AS price, binary('abc') AS raw,
               array(struct('x' AS a, 1L AS b)) AS items, true AS is_paid, 1e-9D AS share
          FROM VALUES (1), (2), (3) AS t (id)
    """)
    shop.run(frame, "r1")
    for number, name in enumerate(["rows.csv", "rows.json", "rows.parquet"], 1):
        path = tmp_path / name
        assert headgate(["quarantine", "show", str(shop.file), "orders", "--output", str(path)]) == 0
        if name == "rows.parquet":
            fixed = spark.read.parquet(str(path)).where(f"id = {number}").withColumn("amount", F.lit(5))
            fixed.collect()
            fixed.write.parquet(str(tmp_path / "fixed.parquet"))
            path = tmp_path / "fixed.parquet"
        else:
            path.write_text(_only(path.read_text(encoding="utf-8"), number), encoding="utf-8")
        assert shop.replay(path).rows_published == 1, name

    there = spark.read.parquet(str(shop.data / "orders")).orderBy("id")
    assert there.drop("amount").collect() == frame.orderBy("id").drop("amount").collect()


def _only(text: str, number: int) -> str:
    """The row of an order, with an amount."""
    lines = text.splitlines()
    if lines[0].startswith("{"):
        row = next(row for row in map(json.loads, lines) if row["id"] == number)
        return json.dumps(row | {"amount": 5})
    row = next(line for line in lines[1:] if line.split(",")[1] == str(number))
    return f"{lines[0]}\n{row.replace(f',{number},,', f',{number},5,', 1)}\n"


def test_a_file_that_does_not_fit_is_refused_before_anything_is_changed(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path)
    shop.run(DAY, "r1")
    row, before = shop.ids()[2], contents(shop.data)
    for text, said in {
        f"_row_id,amonut\n{row},1\n": "the rows have no column 'amonut'",
        f"_row_id,amount\n{row},many\n": "row 1 of the file: amount is 'many', which is no int",
        "id,amount\n2,1\n": "row 1 of the file has no _row_id",
        f"_row_id,amount\n{row},1\n{row},2\n": "rows 1 and 2 of the file have the same _row_id",
    }.items():
        with pytest.raises(ConfigError, match=said):
            shop.replay(corrected(tmp_path, text))
    assert contents(shop.data) == before


class LeavingStaged(Recording):
    """One that also leaves what is staged."""

    def delete(self, path: str) -> None:
        if not self.entry:
            super().delete(path)


class Died(BaseException):
    """As if the process were killed."""


class Mortal(LocalFiles):
    """Dies before the nth change, and does nothing after."""

    def __init__(self, left: int) -> None:
        self.left = left

    def _step(self, act: Callable[..., None], *args: str) -> None:
        if self.left == 0:
            raise Died
        self.left -= 1
        act(*args)

    def rename(self, path: str, to: str) -> None:
        self._step(super().rename, path, to)

    def delete(self, path: str) -> None:
        self._step(super().delete, path)

    def write_text(self, path: str, text: str) -> None:
        self._step(super().write_text, path, text)


@pytest.mark.parametrize("write", ["mode: append", "mode: upsert, keys: id"])
def test_a_death_at_any_step_neither_loses_a_row_nor_publishes_one_twice(
    spark: SparkSession, tmp_path: Path, write: str
) -> None:
    shop = Shop(spark, tmp_path, write)
    shop.run(DAY, "r1")
    ids = shop.ids()
    file = corrected(tmp_path, f"_row_id,amount\n{ids[2]},20\n{ids[3]},\n")
    recording, before = LeavingStaged(), _rows(shop.data)
    with pytest.raises(InterruptedError):
        shop.replay(file, disk=recording)
    shutil.copytree(shop.data, tmp_path / "prepared")

    outcomes = []
    step, is_over = 0, False
    while not is_over:
        shutil.rmtree(shop.data)
        shutil.copytree(tmp_path / "prepared", shop.data)
        is_over = _published(recording.entry, Mortal(step), shop)
        Journal(LocalFiles(), journal_folder(str(shop.data / "orders"))).recover()
        outcomes.append(_rows(shop.data))
        if step == 5:
            shutil.copytree(shop.data, tmp_path / "halfway")
        step += 1

    complete = outcomes[-1]
    assert step > 8
    assert complete != before
    assert [outcome in (before, complete) for outcome in outcomes] == [True] * len(outcomes)
    assert shop.target("id", "amount") == [(1, 10), (2, 20)]
    assert shop.apart("id", "amount") == [(3, None), (4, None)]
    shutil.rmtree(shop.data)
    shutil.copytree(tmp_path / "halfway", shop.data)
    assert shop.replay(file).rows_published == 1
    assert shop.target("id", "amount") == [(1, 10), (2, 20)]
    assert shop.apart("id", "amount") == [(3, None), (4, None)]


def _published(entry: dict[str, Any], files: Mortal, shop: Shop) -> bool:
    steps = Steps([Move(*each) for each in entry["moves"]], entry["trash"])
    try:
        publish(files, str(shop.data / "orders"), entry["run_id"], entry["node"], steps)
    except Died:
        return False
    return True


def _rows(data: Path) -> dict[str, bytes]:
    found = {name: contents(data / name) for name in ("orders", "bad_orders")}
    return {f"{name}/{path}": text for name, inside in found.items() for path, text in inside.items()}


def test_of_two_replays_at_once_one_is_told_so(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path)
    shop.run(DAY, "r1")
    file = corrected(tmp_path, f"_row_id,amount\n{shop.ids()[2]},20\n")

    class Slow(LocalFiles):
        """Meanwhile somebody else is faster."""

        def write_text(self, path: str, text: str) -> None:
            if "/journal/" in path and not path.endswith("fast.daily.orders.json"):
                shop.replay(file, run_id="fast")
            super().write_text(path, text)

    with pytest.raises(Conflict, match="was changed by another process"):
        shop.replay(file, disk=Slow(), run_id="slow")

    assert shop.target("id", "amount") == [(1, 10), (2, 20)]
    assert shop.apart("id") == [(3,), (4,)]


def test_a_replay_to_a_table_that_dies_in_between_is_ended_by_the_next(spark: SparkSession, tmp_path: Path) -> None:
    class Dying(Replay):
        def _end_batch(self, batch: Batch, pending: Pending) -> None:
            raise Died

    shop = Shop(spark, tmp_path)
    text = shop.text().replace("connections:", "connections:\n  house: {type: catalog}")
    text = text.replace("connection: lake, path: orders, mode", "connection: house, table: orders_of_shop, mode")
    shop.text = lambda: text  # type: ignore[method-assign]  # another target
    shop.__post_init__()
    shop.run(DAY, "r1")
    file = corrected(tmp_path, f"_row_id,amount\n{shop.ids()[2]},20\n")
    record = ReplayRecord("daily", "orders", "replay-that-dies")
    session = own_session(spark, shop.plan.loaded.project)
    with pytest.raises(Died):
        Dying(session, shop.plan, shop.node, None, record, NoPast(), file).run()
    assert shop.apart("id") == [(2,), (3,), (4,)]

    again = shop.replay(file)

    assert any("replay-that-dies had not come to its end" in note for note in again.notes)
    assert rows(spark.table("orders_of_shop"), "id", "amount") == [(1, 10), (2, 20)]
    assert shop.apart("id") == [(3,), (4,)]
    assert (again.rows_skipped, again.rows_left) == (1, 2)
    assert not list(tmp_path.rglob("replays/*"))
    spark.sql("DROP TABLE orders_of_shop")


def test_a_quarantine_that_is_a_table_is_replayed_and_emptied(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path)
    text = shop.text().replace("connections:", "connections:\n  house: {type: catalog}")
    text = text.replace("{connection: lake, path: bad_orders}", "{connection: house, table: bad_orders_of_shop}")
    shop.text = lambda: text  # type: ignore[method-assign]  # another quarantine
    shop.__post_init__()
    for run_id in ("r1", "r2"):
        _set_apart(shop, run_id, [(*row, ["has_amount"]) for row in DAY[1:]])
    store = store_of(own_session(spark, shop.plan.loaded.project), shop.plan, shop.node)
    assert [(batch.note.batch_id, batch.note.rows) for batch in store.batches()] == [("r1", 3), ("r2", 3)]
    ids = {row["id"]: row["_row_id"] for row in store.rows(store.batches()[0]).collect()}
    file = corrected(tmp_path, f"_row_id,amount\n{ids[2]},20\n{ids[3]},\n")

    record = shop.replay(file, batch="r1")
    again = shop.replay(file, batch="r1")

    assert (record.rows_published, record.rows_left, again.rows_published, again.rows_skipped) == (1, 2, 0, 1)
    assert shop.target("id", "amount") == [(2, 20)]
    left = rows(spark.table("bad_orders_of_shop").where("_source_batch_id = 'r1'"), "id", "amount", "_failed_tests")
    assert left == [(3, None, ["has_amount"]), (4, None, ["has_amount"])]
    store.drop(store.batches()[1], "r3")
    file = corrected(tmp_path, f"_row_id,amount\n{ids[3]},30\n{ids[4]},40\n")
    assert shop.replay(file).rows_published == 2
    assert store.batches() == []
    assert not list(tmp_path.rglob("replays/*"))
    spark.sql("DROP TABLE bad_orders_of_shop")


def _set_apart(shop: Shop, run_id: str, given: list[Any]) -> None:
    """As a run does it."""
    config, now = shop.node.config.validation.quarantine, moment()
    assert config is not None
    frame = shop.spark.createDataFrame(given, f"{COLUMNS}, {FAILED} ARRAY<STRING>")
    connection = shop.plan.loaded.project.connections["house"]
    staging = str(shop.data / "staging" / run_id)
    session = own_session(shop.spark, shop.plan.loaded.project)
    table = TableQuarantine(session, shop.node, connection, LocalFiles(), staging, run_id, now)
    table.stage(with_metadata(frame, config, shop.node, now))
    table.publish()


def test_a_batch_is_listed_and_discarded_by_the_commands(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(spark, tmp_path)
    shop.run(DAY, "r1")
    shop.run(DAY, "r2")

    assert headgate(["quarantine", "discard", str(shop.file), "orders", "--batch", "r1", "--no-server"]) == 2
    assert headgate(["quarantine", "discard", str(shop.file), "orders", "--batch", "r1", "--yes", "--no-server"]) == 0
    capsys.readouterr()

    assert headgate(["quarantine", "list", str(shop.file), "--json"]) == 0
    (batch,) = json.loads(capsys.readouterr().out)
    assert (batch["batch_id"], batch["rows"], batch["state"]) == ("r2", 3, "expired")
    assert batch["failed_tests"] == {"has_amount": 2, "is_paid": 1}
    assert not (shop.data / "bad_orders" / "_source_batch_id=r1").exists()
