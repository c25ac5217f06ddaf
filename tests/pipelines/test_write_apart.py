"""Quarantines that are tables of the session's own catalog; those of Delta and Iceberg are tried with their targets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.errors import ConfigError
from headgate.pipelines.config.quarantine import QuarantineConfig
from headgate.pipelines.spark.write.apart import is_table
from tests.pipelines.writing import Target

HEAD = "  tables: {type: catalog, database: default}\n  db: {type: jdbc, url: 'jdbc:postgresql://h/d'}\n"
SCHEMA = "id INT, _rejection_reason STRING, _rejected_at TIMESTAMP, _failed_tests ARRAY<STRING>"
_numbers = itertools.count(1)


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    name = f"bad_orders_{next(_numbers)}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS default.{name}")


def target(spark: SparkSession, folder: Path, quarantine: str) -> Target:
    return Target(spark, folder, "connection: lake, path: orders", head=HEAD, quarantine=quarantine)


def rejected(spark: SparkSession, *ids: int, at: datetime = datetime(2025, 12, 31, tzinfo=UTC)) -> Any:
    return spark.createDataFrame([(each, "x", at, ["not_null"]) for each in ids], SCHEMA)


def test_each_run_has_its_batch_and_a_retry_replaces_its_own(spark: SparkSession, tmp_path: Path, table: str) -> None:
    into = target(spark, tmp_path, f"connection: tables, table: {table}")
    assert into.set_apart(rejected(spark, 1, 2), "one") == [("one", 1), ("one", 2)]
    assert into.set_apart(rejected(spark, 1), "two") == [("one", 1), ("one", 2), ("two", 1)]
    assert into.set_apart(rejected(spark, 3), "one") == [("one", 3), ("two", 1)]

    (kept,) = spark.table(table).where("_source_batch_id = 'two'").collect()
    assert kept["_failed_tests"] == ["not_null"]
    assert not (tmp_path / "data/orders").exists()


def test_a_retry_without_rejected_rows_takes_its_batch_away(spark: SparkSession, tmp_path: Path, table: str) -> None:
    into = target(spark, tmp_path, f"connection: tables, table: {table}")
    assert into.set_apart(None, "one") == []
    into.set_apart(rejected(spark, 1), "one")
    into.set_apart(rejected(spark, 2), "it's")

    assert into.set_apart(None, "it's") == [("one", 1)]
    assert into.set_apart(None, "one") == []


def test_batches_whose_time_is_over_are_deleted(spark: SparkSession, tmp_path: Path, table: str) -> None:
    into = target(spark, tmp_path, f"connection: tables, table: {table}, retention_days: 30")
    for run, day in (("old", datetime(2025, 11, 30, tzinfo=UTC)), ("young", datetime(2025, 12, 3, tzinfo=UTC))):
        into.set_apart(rejected(spark, 1, at=day), run)

    assert into.apart("new").delete_expired() == ["old"]
    assert into.set_apart(None, "new") == [("young", 1)]


def test_nodes_that_tell_their_name_share_a_table(spark: SparkSession, tmp_path: Path, table: str) -> None:
    block = f"connection: tables, table: {table}, add_columns: {{_original_node: true}}"
    into = target(spark, tmp_path, block)
    other = rejected(spark, 7).selectExpr("*", "'customers' _original_node")
    quarantine = into.apart("one")
    quarantine.stage(other)
    quarantine.publish()
    mine = rejected(spark, 1).selectExpr("*", "'orders' _original_node")

    assert into.set_apart(mine, "one") == [("one", 1)]
    assert into.set_apart(None, "one") == []
    assert [row["id"] for row in spark.table(table).collect()] == [7]


def test_a_table_that_would_lose_other_batches_is_refused(spark: SparkSession, tmp_path: Path, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} ({SCHEMA}, _source_batch_id STRING) USING parquet")
    into = target(spark, tmp_path, f"connection: tables, table: {table}")

    with pytest.raises(ConfigError, match=r"validation\.quarantine: .* is partitioned by nothing") as refused:
        into.apart("one").check(spark.createDataFrame([], "id INT").schema)
    assert "a table that is not there yet" in str(refused.value.hint)


def test_databases_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    into = target(spark, tmp_path, "connection: db, table: bad_orders")
    with pytest.raises(ConfigError, match=r"db\.bad_orders is neither a folder nor a table of a catalog"):
        into.apart("one")


@pytest.mark.parametrize(
    ("block", "expected"),
    [({"path": "bad"}, False), ({"path": "bad", "format": "delta"}, True), ({"table": "bad"}, True)],
)
def test_plain_folders_are_not_tables(block: dict[str, str], expected: bool) -> None:
    assert is_table(QuarantineConfig.model_validate({"connection": "lake", **block})) is expected
