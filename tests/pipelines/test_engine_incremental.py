"""Reading only what is new: from the watermark of the last published run to the newest row that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.pipelines.record import NodeRecord, Status
from tests.pipelines.projects import Project, node

COLUMNS = "id INT, at TIMESTAMP"


def incremental(name: str, columns: str = COLUMNS, **how: Any) -> dict[str, Any]:
    made = node(name, columns, write={"connection": "lake", "path": name, "mode": "append"})
    made["read"]["incremental"] = {"column": "at", **how}
    return made


def rows(*hours: tuple[int, int]) -> list[dict[str, Any]]:
    return [{"id": number, "at": f"2026-05-04T{hour:02}:00:00Z"} for number, hour in hours]


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, list[dict[str, NodeRecord]]]:
    """Four runs: the first, one with newer rows and a late one, one with nothing new, one that a gate stops."""
    gated = incremental("gated") | {"gate": {"row_count": {"max": 3}}}
    nodes = [
        incremental("orders"),
        incremental("later", initial="2026-05-04 02:00:00"),
        incremental("lagging", lag="2h"),
        gated,
    ]
    project = Project(spark, tmp_path_factory.mktemp("incremental"), nodes, {"on_error": "fail_later"})
    project.put("raw", rows((1, 1), (2, 2), (3, 3)))
    ran = [project.run()]
    project.put("raw", [*rows((4, 4), (5, 2)), {"id": 6, "at": None}])
    ran.append(project.run())
    ran.append(project.run())
    project.put("raw", rows((7, 5), (8, 5), (9, 5), (10, 5)))
    ran.append(project.run())
    project.nodes[3]["gate"]["row_count"]["max"] = 9
    ran.append(project.run())
    return project, ran


def test_first_run_reads_everything_or_from_its_beginning(
    runs: tuple[Project, list[dict[str, NodeRecord]]],
) -> None:
    _, (first, *_) = runs
    assert {name: record.rows_in for name, record in first.items()} == {
        "orders": 3,
        "later": 2,
        "lagging": 3,
        "gated": 3,
    }
    assert first["orders"].watermark == {"column": "at", "value": "2026-05-04T03:00:00+00:00"}


def test_next_run_reads_only_what_is_newer(runs: tuple[Project, list[dict[str, NodeRecord]]]) -> None:
    project, (_, second, *_) = runs
    assert (second["orders"].rows_in, second["later"].rows_in) == (1, 1)
    assert second["orders"].watermark == {"column": "at", "value": "2026-05-04T04:00:00+00:00"}
    assert project.ids("orders") == [1, 2, 3, 4, 7, 8, 9, 10]


def test_lag_reads_a_span_again_for_rows_that_come_late(runs: tuple[Project, list[dict[str, NodeRecord]]]) -> None:
    project, (_, second, third, *_) = runs
    assert second["lagging"].rows_in == 5
    assert (third["lagging"].rows_in, 5 in project.ids("lagging")) == (4, True)
    assert third["lagging"].watermark == second["lagging"].watermark


def test_rows_without_the_column_are_told_of(runs: tuple[Project, list[dict[str, NodeRecord]]]) -> None:
    _, (first, second, *_) = runs
    assert first["orders"].notes == ("read from the beginning: there is no published run to compare with",)
    assert second["orders"].notes == ("rows without 'at' are not read: nobody can tell whether they are new",)


def test_nothing_new_is_an_empty_batch_and_the_watermark_stays(
    runs: tuple[Project, list[dict[str, NodeRecord]]],
) -> None:
    _, (_, second, third, *_) = runs
    assert (third["orders"].status, third["orders"].rows_in) == (Status.published, 0)
    assert third["orders"].watermark == second["orders"].watermark


def test_batch_that_a_gate_stops_is_read_again(runs: tuple[Project, list[dict[str, NodeRecord]]]) -> None:
    project, (*_, fourth, fifth) = runs
    assert (fourth["gated"].status, fourth["gated"].rows_in) == (Status.stopped, 4)
    assert (fifth["gated"].status, fifth["gated"].rows_in) == (Status.published, 4)
    assert (fifth["orders"].rows_in, project.ids("gated")) == (0, [1, 2, 3, 4, 7, 8, 9, 10])


def test_another_column_begins_anew(spark: SparkSession, tmp_path: Path) -> None:
    project = Project(spark, tmp_path, [incremental("orders")])
    project.put("raw", rows((1, 1), (2, 2)))
    project.run()
    project.nodes[0]["read"]["incremental"]["column"] = "id"

    record = project.run()["orders"]

    assert (record.rows_in, record.watermark) == (2, {"column": "id", "value": "2"})
