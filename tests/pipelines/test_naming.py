"""What datasets are called in lineage: what a table is called, only its catalog can tell."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headgate.pipelines.places import Address, Kind
from headgate.pipelines.spark.naming import dataset


def table(name: str) -> Address:
    return Address(Kind.table, name, "catalog:spark_catalog", name, f"house.{name}")


def test_a_table_is_called_by_where_it_is_whatever_its_name(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE `2026` (id INT) USING parquet LOCATION '{tmp_path}/orders'")
    try:
        found = dataset(spark, table("default.2026"))
    finally:
        spark.sql("DROP TABLE `2026`")

    assert found is not None
    assert (found.namespace, found.name, found.label) == ("file", f"{tmp_path}/orders", "house.default.2026")


def test_a_table_that_is_not_there_yet_and_a_query_have_no_name(spark: SparkSession) -> None:
    assert dataset(spark, table("default.2027")) is None
    assert dataset(spark, Address(Kind.query, "(query)", "postgres://h", "d.(query)", "db.(query)")) is None
