"""Rows that are set apart in a table: a run's batch is one partition, whatever becomes of its target."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.pipelines.record import Status
from tests.pipelines.projects import NOW, Project, node

CONNECTIONS = {"lake": {"type": "local", "base_path": "data"}, "shop": {"type": "catalog", "database": "default"}}


def apart(table: str, **more: Any) -> dict[str, Any]:
    """A node whose negative ids go to a table."""
    test = {"type": "range", "column": "id", "min": 0, "on_fail": "quarantine"}
    block = {"connection": "shop", "table": table, "retention_days": 5, **more}
    return node("orders", "id INT", test, validation={"quarantine": block})


def rows(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    # Another session has written it.
    spark.catalog.refreshTable(table)
    found = spark.table(table).select("id", "_failed_tests", "_source_batch_id").collect()
    return sorted((row[0], row[1][0], row[2]) for row in found)


def test_each_run_has_its_own_batch_in_the_table_and_replaces_it_when_it_is_done_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    project = Project(spark, tmp_path, [apart("bad_orders")], {"connections": CONNECTIONS})
    project.put("raw", [{"id": n} for n in (-1, 1, 2)])
    first = project.run("run-1")["orders"]
    project.run("run-2")
    assert first.status is Status.published, first.error
    assert rows(spark, "bad_orders") == [(-1, "range", "run-1"), (-1, "range", "run-2")]
    assert (first.rows_in, first.rows_valid, first.rows_quarantined, project.ids("orders")) == (3, 2, 1, [1, 2])

    project.nodes[0]["gate"] = {}
    stopped = project.run("run-2")["orders"]
    assert (stopped.status, rows(spark, "bad_orders")[1]) == (Status.stopped, (-1, "range", "run-2"))

    project.nodes[0]["transform"] = {"steps": ["SELECT * FROM df WHERE id > 0"]}
    project.run("run-2")
    assert rows(spark, "bad_orders") == [(-1, "range", "run-1")]

    late = project.run("run-3", now=NOW + timedelta(days=6))["orders"]
    assert late.notes == ("1 batch is deleted from quarantine, older than the retention",)
    assert rows(spark, "bad_orders") == []
    assert project.left_over() == []
    spark.sql("DROP TABLE bad_orders")
