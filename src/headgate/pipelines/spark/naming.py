"""Datasets by the names that OpenLineage gives them; what a table is called only its catalog can tell."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headgate.domain.names import split_location
from headgate.pipelines.places import Address, Kind
from headgate.pipelines.plan import Node, Plan
from headgate.pipelines.record import DatasetRef
from headgate.pipelines.spark.checks.said import SPARK_ERRORS
from headgate.pipelines.spark.write.table import table_name


def dataset(spark: SparkSession, address: Address) -> DatasetRef | None:
    """The dataset of an address; None for a query, and for a table that is not there yet."""
    if address.kind is Kind.query:
        return None
    if address.kind is not Kind.table:
        return DatasetRef(address.namespace, address.name, address.label)
    location = _location(spark, table_name(address.location))
    found = None if location is None else split_location(location)
    return None if found is None else DatasetRef(*found, address.label)


def inputs(spark: SparkSession, plan: Plan, node: Node) -> tuple[DatasetRef, ...]:
    """What a node reads: its source, and what the nodes before it have written, or read if they write nothing."""
    found = [] if node.source is None else [dataset(spark, node.source)]
    for name in node.config.depends_on:
        other = plan.node((node.pipeline.pipeline, name))
        found += inputs(spark, plan, other) if other.target is None else [dataset(spark, other.target)]
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _location(spark: SparkSession, table: str) -> str | None:
    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Location'").collect()
    except SPARK_ERRORS:
        return None
    return str(rows[0]["data_type"]) if rows else None
