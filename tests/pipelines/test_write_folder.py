"""Folders of files: every mode and format, and batches whose columns are not those of the target."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.errors import ConfigError
from headgate.pipelines.publish import STATE
from tests.pipelines.writing import Target, contents, rejected


def test_overwrite_replaces_all_rows_and_tells_files_and_bytes(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders")
    target.write(spark.createDataFrame([(1, "a"), (2, "b")], "id INT, name STRING"))
    done = target.write(spark.createDataFrame([(3, "c"), (4, "d"), (5, "e")], "id INT, name STRING"))

    assert target.rows() == [(3, "c"), (4, "d"), (5, "e")]
    found = list(target.location.rglob("*.parquet"))
    assert (done.files, done.bytes, done.rows) == (len(found), sum(path.stat().st_size for path in found), 3)
    assert done.notes == ()
    assert (target.location / "_SUCCESS").is_file()
    assert not list((target.location.parent / STATE / "previous").glob("*"))
    assert not list((target.location.parent / STATE / "journal").glob("*"))


def test_rows_of_several_lots_whose_files_have_the_same_name_all_arrive(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, mode: append, partition_by: day")
    target.write(spark.createDataFrame([(n, f"d{n % 2}") for n in range(8)], "id INT, day STRING"))

    assert [row[0] for row in target.rows("id")] == list(range(8))
    assert sorted(path.name for path in target.location.iterdir() if path.is_dir()) == ["day=d0", "day=d1"]


def test_append_adds_and_a_run_done_again_adds_once(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, mode: append")
    target.write(spark.createDataFrame([(1,), (2,)], "id INT"), "first")
    target.write(spark.createDataFrame([(3,), (4,)], "id INT"), "second")
    target.write(spark.createDataFrame([(3,), (4,)], "id INT"), "second")

    assert target.rows() == [(1,), (2,), (3,), (4,)]


def test_first_append_of_a_run_done_again_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, mode: append")
    for _ in range(2):
        target.write(spark.createDataFrame([(1,), (2,)], "id INT"), "first")

    assert target.rows() == [(1,), (2,)]


def test_an_append_done_again_takes_back_what_it_left_in_other_partitions(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, mode: append, partition_by: day")
    schema = "id INT, day STRING"
    target.write(spark.createDataFrame([(1, "a")], schema), "first")
    target.write(spark.createDataFrame([(2, "a"), (3, "b")], schema), "second")
    target.write(spark.createDataFrame([(4, "c")], schema), "second")
    assert target.rows("id", "day") == [(1, "a"), (4, "c")]
    target.write(spark.createDataFrame([], schema), "second")

    assert target.rows("id", "day") == [(1, "a")]


def test_an_upsert_done_again_adds_rows_without_a_key_once(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, mode: upsert, keys: id")
    rows = spark.createDataFrame([(1, "a"), (None, "n")], "id INT, name STRING")
    target.write(rows, "first")
    again = target.write(rows, "first")

    assert target.rows() == [(1, "a"), (None, "n")]
    assert again.notes == ("this run's rows were there already: an earlier try had published them",)


def test_overwrite_partitions_leaves_other_partitions_alone(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: o, mode: overwrite_partitions, partition_by: [day, hour]")
    schema = "id INT, day STRING, hour INT"
    target.write(spark.createDataFrame([(1, "a", 1), (2, "a", 2), (3, "b", 1)], schema))
    before = contents(target.location / "day=b")
    target.write(spark.createDataFrame([(9, "a", 2), (8, "c", None)], schema))

    assert target.rows("id", "day", "hour") == [(1, "a", 1), (3, "b", 1), (8, "c", None), (9, "a", 2)]
    assert contents(target.location / "day=b") == before


@pytest.mark.parametrize("mode", ["append", "overwrite_partitions"])
def test_an_empty_batch_changes_nothing_where_rows_are_kept(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    target = Target(spark, tmp_path, f"connection: lake, path: orders, mode: {mode}, partition_by: day")
    rows = spark.createDataFrame([(1, "a")], "id INT, day STRING")
    target.write(rows)
    before = contents(target.location)
    done = target.write(rows.where("false"))

    assert contents(target.location) == before
    assert (done.files, done.bytes, done.rows) == (0, 0, 0)


@pytest.mark.parametrize("format_", ["parquet", "orc", "csv"])
@pytest.mark.parametrize("more", ["", ", partition_by: day"], ids=["plain", "partitioned"])
def test_an_empty_target_keeps_its_columns_and_takes_rows_later(
    spark: SparkSession, tmp_path: Path, format_: str, more: str
) -> None:
    target = Target(spark, tmp_path, f"connection: lake, path: orders, format: {format_}, mode: append{more}")
    rows = spark.createDataFrame([(1, "a")], "id INT, day STRING")
    target.write(rows.where("false"))
    options = {"header": "true"} if format_ == "csv" else {}
    empty = spark.read.format(format_).options(**options).load(str(target.location))
    assert sorted(empty.columns) == ["day", "id"]
    assert empty.count() == 0
    target.write(rows)

    assert [tuple(map(str, row)) for row in target.rows("id", "day", format=format_, **options)] == [("1", "a")]


@pytest.mark.parametrize("format_", ["orc", "csv", "json"])
@pytest.mark.parametrize("mode", ["overwrite", "append", "upsert"])
def test_other_formats_in_every_kind_of_mode(spark: SparkSession, tmp_path: Path, format_: str, mode: str) -> None:
    keys = ", keys: id" if mode == "upsert" else ""
    target = Target(spark, tmp_path, f"connection: lake, path: orders, format: {format_}, mode: {mode}{keys}")
    schema = "id INT, amount DECIMAL(10,2), day DATE, note STRING"
    target.write(spark.sql("SELECT 1 id, 1.50BD amount, DATE'2026-01-01' day, 'a,\"b' note").to(_schema(spark, schema)))
    target.write(spark.sql("SELECT 1 id, 2.50BD amount, DATE'2026-01-02' day, null note").to(_schema(spark, schema)))

    reader = spark.read.format(format_).schema(schema).options(header="true")
    found = sorted(tuple(map(str, row)) for row in reader.load(str(target.location)).collect())
    first, second = ("1", "1.50", "2026-01-01", 'a,"b'), ("1", "2.50", "2026-01-02", "None")
    assert found == ([first, second] if mode == "append" else [second])


def test_text_takes_one_column_of_text(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, format: text")
    target.write(spark.createDataFrame([("x",), ("y",)], "line STRING"))

    assert target.rows(format="text") == [("x",), ("y",)]
    with pytest.raises(ConfigError, match="one column of text; there are id, line"):
        target.write(spark.createDataFrame([(1, "y")], "id INT, line STRING"))


def test_options_of_the_block_reach_the_files(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, options: {compression: gzip}")
    target.write(spark.createDataFrame([(1,)], "id INT"))

    assert [path.name.endswith(".gz.parquet") for path in target.location.glob("*.parquet")] == [True]


def test_avro_without_its_jar_names_the_way_out(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, format: avro")
    assert target.writer().stage_format() == "avro"
    with pytest.raises(ConfigError, match="this session has no avro") as refused:
        target.writer().check(_schema(spark, "id INT"))
    assert "spark.packages: org.apache.spark:spark-avro" in str(refused.value.hint)


def test_append_aligns_columns_by_name(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, mode: append")
    target.write(spark.createDataFrame([(1, "a", 1.5)], "id BIGINT, name STRING, amount DOUBLE"))
    done = target.write(spark.createDataFrame([(2.5, 2, "x")], "amount FLOAT, id INT, extra STRING"))

    assert target.rows("id", "name", "amount", "extra", mergeSchema="true") == [
        (1, "a", 1.5, None),
        (2, None, 2.5, "x"),
    ]
    assert ["new to lake/orders: extra" in note for note in done.notes] == [True]


@pytest.mark.parametrize("mode", ["append", "overwrite_partitions", "upsert", "append_once", "scd2"])
def test_other_types_are_refused_before_anything_is_touched(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    more = ", keys: id" if mode in ("upsert", "append_once", "scd2") else ""
    target = Target(spark, tmp_path, f"connection: lake, path: orders, mode: {mode}, partition_by: day{more}")
    target.write(spark.createDataFrame([(1, "x", "a")], "id INT, amount STRING, day STRING"))
    before = contents(target.location)

    with pytest.raises(ConfigError, match="'amount' is bigint in the batch and string there") as refused:
        target.writer().check(_schema(spark, "id INT, amount BIGINT, day STRING"))
    assert "mode: overwrite" in str(refused.value.hint)
    assert contents(target.location) == before


def test_overwrite_may_change_everything(spark: SparkSession, tmp_path: Path) -> None:
    Target(spark, tmp_path, "connection: lake, path: orders, partition_by: day").write(
        spark.createDataFrame([(1, "a")], "id INT, day STRING")
    )
    target = Target(spark, tmp_path, "connection: lake, path: orders")
    target.write(spark.createDataFrame([("one", 2.0)], "id STRING, amount DOUBLE"))

    assert target.rows() == [("one", 2.0)]


def test_other_partitions_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, "a")], "id INT, day STRING")
    Target(spark, tmp_path, "connection: lake, path: orders, partition_by: day").write(rows)
    with pytest.raises(ConfigError, match=r"is partitioned by day, and write\.partition_by says nothing"):
        Target(spark, tmp_path, "connection: lake, path: orders, mode: append").write(rows)


def test_partition_values_keep_their_text(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: o, mode: upsert, keys: id, partition_by: code")
    target.write(spark.createDataFrame([(1, "01"), (2, "a b/c"), (3, None)], "id INT, code STRING"))
    target.write(spark.createDataFrame([(4, "007")], "id INT, code STRING"))

    found = spark.read.schema("id INT, code STRING").parquet(str(target.location))
    assert sorted(map(tuple, found.collect())) == [(1, "01"), (2, "a b/c"), (3, None), (4, "007")]


def test_a_missing_column_is_named_with_the_nearest(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, mode: upsert, keys: ordr_id")
    with pytest.raises(ConfigError, match=r"write\.keys: there is no column 'ordr_id'") as refused:
        target.writer().check(_schema(spark, "order_id INT, day STRING"))
    assert "order_id" in str(refused.value.hint)


def test_a_delta_table_is_not_overwritten_as_parquet(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders")
    (target.location / "_delta_log").mkdir(parents=True)
    with pytest.raises(ConfigError, match="lake/orders is a Delta table"):
        target.writer().check(_schema(spark, "id INT"))


def test_upsert_replaces_rows_by_key_and_null_keys_match_nothing(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, mode: upsert, keys: [id, region]")
    schema = "id INT, region STRING, amount INT"
    target.write(spark.createDataFrame([(1, "e", 1), (1, "w", 2), (2, None, 3)], schema))
    done = target.write(spark.createDataFrame([(1, "w", 20), (2, None, 30), (3, "e", 40)], schema))

    assert target.rows() == [(1, "e", 1), (1, "w", 20), (2, None, 3), (2, None, 30), (3, "e", 40)]
    assert done.rows == 3


def test_upsert_keeps_columns_that_only_some_files_have(spark: SparkSession, tmp_path: Path) -> None:
    appends = Target(spark, tmp_path, "connection: lake, path: orders, mode: append")
    appends.write(spark.createDataFrame([(1, "a")], "id INT, name STRING"))
    appends.write(spark.createDataFrame([(2, "b", "x")], "id INT, name STRING, extra STRING"))
    target = Target(spark, tmp_path, "connection: lake, path: orders, mode: upsert, keys: id")
    target.write(spark.createDataFrame([(3, 9)], "id INT, more INT"))

    assert target.rows("id", "name", "extra", "more") == [
        (1, "a", None, None),
        (2, "b", "x", None),
        (3, None, None, 9),
    ]


@pytest.mark.parametrize("mode", ["upsert", "scd2"])
def test_a_key_twice_in_a_batch_is_an_error_that_says_so(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    target = Target(spark, tmp_path, f"connection: lake, path: orders, mode: {mode}, keys: id")
    with pytest.raises(ConfigError, match=r"2 rows of the batch share 1 values of write\.keys id") as refused:
        target.write(spark.createDataFrame([(1, "a"), (1, "b"), (2, "c")], "id INT, name STRING"))
    assert "type: unique, columns: [id]" in str(refused.value.hint)
    assert not target.location.exists()


def test_append_once_leaves_out_known_keys_and_tells_how_many(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, mode: append_once, keys: id")
    schema = "id INT, name STRING"
    target.write(spark.createDataFrame([(1, "a"), (2, "b")], schema))
    before = contents(target.location)
    done = target.write(spark.createDataFrame([(1, "z"), (2, "z"), (3, "c"), (None, "n")], schema))

    assert target.rows() == [(1, "a"), (2, "b"), (3, "c"), (None, "n")]
    assert done.rows == 2
    assert done.notes == ("2 rows were left out: their keys are there already",)
    assert before.items() <= contents(target.location).items()


def test_append_once_with_nothing_new_touches_nothing(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, mode: append_once, keys: id")
    rows = spark.createDataFrame([(1, "a")], "id INT, name STRING")
    target.write(rows)
    before = contents(target.location)
    done = target.write(rows)

    assert contents(target.location) == before
    assert (done.files, done.rows) == (0, 0)


HISTORY = ("id", "city", "valid_from", "valid_to", "is_current")


def test_history_opens_closes_and_does_nothing_when_done_again(spark: SparkSession, tmp_path: Path) -> None:
    block = "connection: lake, path: customers, mode: scd2, keys: id"
    schema = "id INT, city STRING"
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    first, second = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    Target(spark, tmp_path, block, now=first).write(spark.createDataFrame([(1, "Rome"), (2, "Oslo")], schema))
    target = Target(spark, tmp_path, block, now=second)
    done = target.write(spark.createDataFrame([(1, "Paris"), (2, "Oslo"), (3, None)], schema))
    times = {"valid_from": "string(valid_from)", "valid_to": "string(valid_to)"}
    shown = [times.get(name, name) for name in HISTORY]

    assert sorted(map(str, _shown(target, shown))) == [
        "(1, 'Paris', '2026-02-01 00:00:00', None, True)",
        "(1, 'Rome', '2026-01-01 00:00:00', '2026-02-01 00:00:00', False)",
        "(2, 'Oslo', '2026-01-01 00:00:00', None, True)",
        "(3, None, '2026-02-01 00:00:00', None, True)",
    ]
    assert done.rows == 2
    assert done.notes == ("1 new keys", "1 keys have a new version")
    before = contents(target.location)
    later = Target(spark, tmp_path, block, now=datetime(2026, 3, 1, tzinfo=UTC))
    again = later.write(spark.createDataFrame([(1, "Paris"), (2, "Oslo"), (3, None)], schema))
    assert contents(target.location) == before
    assert (again.rows, again.files, again.notes) == (0, 0, ("nothing has changed",))


def test_history_by_the_batch_s_own_dates(spark: SparkSession, tmp_path: Path) -> None:
    block = (
        "connection: lake, path: customers, mode: scd2, keys: id, partition_by: now_so, "
        "history: {track: [city], effective_at: since, valid_from: begun, valid_to: ended, is_current: now_so}"
    )
    target = Target(spark, tmp_path, block)
    schema = "id INT, city STRING, phone STRING, since DATE"
    january, february = date(2026, 1, 1), date(2026, 2, 1)
    target.write(spark.createDataFrame([(1, "Rome", "1", january), (2, "Oslo", "2", january)], schema))
    done = target.write(spark.createDataFrame([(1, "Paris", "1", february), (2, "Oslo", "22", february)], schema))

    assert target.rows("id", "city", "phone", "begun", "ended", "now_so") == [
        (1, "Paris", "1", february, None, "true"),
        (1, "Rome", "1", january, february, "false"),
        (2, "Oslo", "22", january, None, "true"),
    ]
    assert done.notes == ("1 keys have a new version", "1 current versions were put right in place")
    late = target.write(spark.createDataFrame([(1, "Rome", "1", january)], schema))
    assert late.rows == 0
    assert late.notes == (
        "1 rows were left out: they begin before the current version of their key",
        "nothing has changed",
    )


def test_history_closes_keys_that_a_batch_lacks(spark: SparkSession, tmp_path: Path) -> None:
    block = "connection: lake, path: customers, mode: scd2, keys: id, history: {on_missing: close}"
    target = Target(spark, tmp_path, block)
    target.write(spark.createDataFrame([(1, "Rome"), (2, "Oslo")], "id INT, city STRING"))
    done = target.write(spark.createDataFrame([(1, "Rome")], "id INT, city STRING"))

    assert target.rows("id", "city", "is_current") == [(1, "Rome", True), (2, "Oslo", False)]
    assert done.notes == ("1 keys were closed: the batch lacks them",)
    back = target.write(spark.createDataFrame([(1, "Rome"), (2, "Oslo")], "id INT, city STRING"))
    assert target.rows("id", "city", "is_current") == [(1, "Rome", True), (2, "Oslo", False), (2, "Oslo", True)]
    assert back.rows == 1


def test_history_refuses_keys_that_are_null_and_columns_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: customers, mode: scd2, keys: id")
    with pytest.raises(ConfigError, match=r"a NULL in write\.keys id"):
        target.write(spark.createDataFrame([(None, "Rome")], "id INT, city STRING"))
    with pytest.raises(ConfigError, match="the batch has a column 'valid_to' itself"):
        target.writer().check(_schema(spark, "id INT, valid_to DATE"))
    Target(spark, tmp_path, "connection: lake, path: customers").write(spark.createDataFrame([(1,)], "id INT"))
    with pytest.raises(ConfigError, match="has no column 'valid_from': it was not written by mode scd2"):
        target.write(spark.createDataFrame([(1,)], "id INT"))


def test_a_quarantine_beside_the_target_rides_in_the_same_publication(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders")
    rows = spark.createDataFrame([(1, "a")], "id INT, name STRING")
    for run in ("one", "two", "two"):
        target.write(rows, run, rejected(target, rows, run))

    apart = spark.read.parquet(str(tmp_path / "data" / "bad_orders"))
    assert sorted(row["_source_batch_id"] for row in apart.collect()) == ["one", "two"]


def _schema(spark: SparkSession, ddl: str):  # type: ignore[no-untyped-def]
    return spark.createDataFrame([], ddl).schema


def _shown(target: Target, expressions: list[str]) -> list[tuple[object, ...]]:
    return [tuple(row) for row in target.spark.read.parquet(str(target.location)).selectExpr(*expressions).collect()]
