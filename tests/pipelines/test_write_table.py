"""Tables of the session's own catalog."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.errors import ConfigError
from tests.pipelines.writing import Target, rows

HEAD = "  tables: {type: catalog, database: default}\n"
SCHEMA = "id INT, day STRING, amount INT"
_numbers = itertools.count(1)


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    name = f"orders_{next(_numbers)}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS default.{name}")


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path, table: str) -> Any:
    return lambda more="": Target(spark, tmp_path, f"connection: tables, table: {table}{more}", head=HEAD)


def found(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return rows(spark.table(table), "id", "day", "amount")


def test_a_table_is_made_with_its_partitions_and_kept_when_overwritten(
    spark: SparkSession, target: Any, table: str
) -> None:
    into = target(", partition_by: day")
    done = into.write(spark.createDataFrame([(1, "a", 1), (2, "b", 2)], SCHEMA))
    assert found(spark, table) == [(1, "a", 1), (2, "b", 2)]
    assert [each.name for each in spark.catalog.listColumns(table) if each.isPartition] == ["day"]
    assert done.rows == 2
    assert done.files
    assert done.bytes
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('purpose' = 'shop')")
    into.write(spark.createDataFrame([(3, "c", 3)], SCHEMA))

    assert found(spark, table) == [(3, "c", 3)]
    assert ("purpose", "shop") in [tuple(row) for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()]


def test_overwrite_with_other_columns_makes_the_table_anew(spark: SparkSession, target: Any, table: str) -> None:
    target().write(spark.createDataFrame([(1, "a", 1)], SCHEMA))
    target().write(spark.createDataFrame([("one", 2.0)], "id STRING, price DOUBLE"))

    assert rows(spark.table(table)) == [("one", 2.0)]


def test_append_goes_by_name_and_a_run_done_again_adds_once(spark: SparkSession, target: Any, table: str) -> None:
    into = target(", mode: append, partition_by: day")
    into.write(spark.createDataFrame([(1, "a", 1)], SCHEMA), "first")
    into.write(spark.createDataFrame([("b", 2)], "day STRING, id INT"), "second")
    again = into.write(spark.createDataFrame([("b", 2)], "day STRING, id INT"), "second")

    assert found(spark, table) == [(1, "a", 1), (2, "b", None)]
    assert again.notes == ("this run's rows were there already: an earlier try had published them",)


def test_partitions_of_the_batch_are_overwritten(spark: SparkSession, target: Any, table: str) -> None:
    into = target(", mode: overwrite_partitions, partition_by: day")
    into.write(spark.createDataFrame([(1, "a", 1), (2, "b", 2)], SCHEMA))
    into.write(spark.createDataFrame([(3, "b", 3), (4, "c", 4)], SCHEMA))

    assert found(spark, table) == [(1, "a", 1), (3, "b", 3), (4, "c", 4)]


def test_upsert_reads_and_replaces_the_same_table(spark: SparkSession, target: Any, table: str) -> None:
    into = target(", mode: upsert, keys: id, partition_by: day")
    into.write(spark.createDataFrame([(1, "a", 1), (2, "b", 2)], SCHEMA))
    into.write(spark.createDataFrame([(2, "c", 20), (3, "c", 30)], SCHEMA))

    assert found(spark, table) == [(1, "a", 1), (2, "c", 20), (3, "c", 30)]


def test_append_once_adds_unknown_keys(spark: SparkSession, target: Any, table: str) -> None:
    into = target(", mode: append_once, keys: id")
    into.write(spark.createDataFrame([(1, "a", 1)], SCHEMA))
    done = into.write(spark.createDataFrame([(1, "z", 9), (2, "b", 2)], SCHEMA))

    assert found(spark, table) == [(1, "a", 1), (2, "b", 2)]
    assert done.notes == ("1 rows were left out: their keys are there already",)


def test_history_in_a_table(spark: SparkSession, target: Any, table: str) -> None:
    into = target(", mode: scd2, keys: id")
    into.write(spark.createDataFrame([(1, "a", 1)], SCHEMA))
    into.write(spark.createDataFrame([(1, "a", 2)], SCHEMA))
    done = into.write(spark.createDataFrame([(1, "a", 2)], SCHEMA))

    assert rows(spark.table(table), "id", "amount", "is_current") == [(1, 1, False), (1, 2, True)]
    assert done.notes == ("nothing has changed",)


def test_what_a_table_cannot_take_is_refused_before_the_pass(spark: SparkSession, target: Any) -> None:
    target().write(spark.createDataFrame([(1, "a", 1)], SCHEMA))
    into = target(", mode: append")
    with pytest.raises(ConfigError, match="has no column extra") as refused:
        into.writer().check(spark.createDataFrame([], f"{SCHEMA}, extra INT").schema)
    assert "ADD COLUMNS" in str(refused.value.hint)
    with pytest.raises(ConfigError, match="'amount' is string in the batch and int there"):
        into.writer().check(spark.createDataFrame([], "id INT, day STRING, amount STRING").schema)
    with pytest.raises(ConfigError, match=r"is a table of parquet, and write\.format says orc"):
        target(", mode: append, format: orc").writer().check(spark.createDataFrame([], SCHEMA).schema)


def test_partitions_that_a_table_has_not_are_refused(spark: SparkSession, target: Any, table: str) -> None:
    target().write(spark.createDataFrame([(1, "a", 1)], SCHEMA))
    with pytest.raises(ConfigError, match=r"is partitioned by nothing, and write\.partition_by says day"):
        target(", mode: overwrite_partitions, partition_by: day").write(spark.createDataFrame([(2, "b", 2)], SCHEMA))

    assert found(spark, table) == [(1, "a", 1)]


def test_a_table_without_rows_keeps_its_columns(spark: SparkSession, target: Any, table: str) -> None:
    target(", partition_by: day").write(spark.createDataFrame([(1, "a", 1)], SCHEMA))
    target(", partition_by: day").write(spark.createDataFrame([], SCHEMA))

    assert spark.table(table).columns == ["id", "amount", "day"]
    assert found(spark, table) == []
