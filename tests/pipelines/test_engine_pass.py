"""The one pass over a batch: what it costs does not depend on the number of tests, and nothing is kept in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.pipelines.record import ColumnProfile, NodeRecord, Status
from tests.pipelines.projects import Project, failing, latest_job, node

COLUMNS = "id INT, code STRING, at TIMESTAMP, tags ARRAY<STRING>"
ROWS: list[dict[str, Any]] = [
    {"id": n, "code": f"c{n}", "at": f"2026-05-0{n % 9 + 1}T08:00:00Z", "tags": ["a"]} for n in range(20)
]
ROWS[4]["code"] = None


def many(count: int) -> list[dict[str, Any]]:
    """Tests of which each fails one row of three, by turns."""
    return [
        {
            "name": f"t{n}",
            "type": "comparison",
            "column": "id",
            "operator": "!=",
            "value": n % 3,
            "on_fail": "quarantine",
        }
        for n in range(1, count + 1)
    ]


@pytest.fixture(scope="module")
def counted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[NodeRecord, int]]:
    """The same batch under few and many tests, and the jobs that each took."""
    found = {}
    for count in (3, 40):
        nodes = [node("orders", COLUMNS, *many(count), quarantine="bad", validation={"profile": count == 40})]
        project = Project(spark, tmp_path_factory.mktemp(f"pass{count}"), nodes)
        project.put("raw", ROWS)
        before = latest_job(spark)
        record = project.run()["orders"]
        found[count] = record, latest_job(spark) - before
    return found


def test_forty_tests_take_as_many_jobs_as_three(counted: dict[int, tuple[NodeRecord, int]]) -> None:
    assert counted[3][1] == counted[40][1]


def test_every_test_of_the_pass_tells_its_own_failures(counted: dict[int, tuple[NodeRecord, int]]) -> None:
    assert failing(counted[3][0]) == {"t1": 1, "t2": 1, "t3": 1}
    assert failing(counted[40][0]) == {f"t{n}": 1 for n in range(1, 41)}
    assert (counted[3][0].rows_valid, counted[40][0].rows_valid) == (17, 17)


def test_nothing_is_persisted(spark: SparkSession, counted: dict[int, tuple[NodeRecord, int]]) -> None:
    session: Any = spark
    assert session.sparkContext._jsc.getPersistentRDDs().isEmpty()
    assert session._jsparkSession.sharedState().cacheManager().isEmpty()


def test_profile_of_columns_is_taken_in_the_same_pass(counted: dict[int, tuple[NodeRecord, int]]) -> None:
    profile = counted[40][0].profile

    assert profile["id"] == ColumnProfile(0, 20, 0, 19)
    assert profile["code"] == ColumnProfile(1, 19, "x9", "x9")
    assert profile["tags"] == ColumnProfile(0)
    assert (profile["at"].min, profile["at"].max) == ("2026-05-01 08:00:00", "2026-05-09 08:00:00")
    assert counted[3][0].profile == {}


def test_fifty_tests_of_many_kinds_go_through_one_pass(spark: SparkSession, tmp_path: Path) -> None:
    kinds: list[dict[str, Any]] = [
        {"type": "not_null", "column": "code"},
        {"type": "regex_match", "column": "code", "pattern": "^c[0-9]+$"},
        {"type": "length", "column": "code", "max": 2},
        {"type": "range", "column": "id", "max": 18},
        {"type": "unique", "column": "id"},
    ]
    tests = [{**kinds[n % 5], "name": f"t{n}", "on_fail": ["quarantine", "warn", "fail"][n % 3]} for n in range(50)]
    project = Project(
        spark, tmp_path, [node("orders", COLUMNS, *tests, quarantine="bad", gate={"require_pass_rate": 0})]
    )
    project.put("raw", ROWS)

    record = project.run()["orders"]

    assert record.status is Status.published, record.error
    assert [test.name for test in record.tests] == [f"t{n}" for n in range(50)]
    assert [test.failed for test in record.tests] == [[1, 0, 10, 1, 0][n % 5] for n in range(50)]
    assert (record.rows_in, record.rows_quarantined) == (20, 11)
    # All that leaves Spark of the rows.
    assert record.quarantine is not None
    assert len(record.quarantine.samples) == 5


@pytest.fixture(scope="module")
def careless(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, NodeRecord]]:
    """Conditions that Spark cannot work out for some rows, which it would raise for in its usual mode."""
    columns = "id INT, code STRING, n INT"
    cast, divided = "CAST(code AS INT) > 0", "10 / n > 1"
    strict = {"type": "custom_sql", "allow_null": False, "on_fail": "quarantine"}
    nodes = [
        node("cast", columns, {**strict, "condition": cast}, quarantine="bad_cast"),
        node("divided", columns, {**strict, "condition": divided}, quarantine="bad_divided"),
        node("lenient", columns, {**strict, "condition": cast, "allow_null": True}, quarantine="bad_lenient"),
        node(
            "scope",
            columns,
            {"type": "not_null", "column": "n", "where": cast},
            {"type": "row_count", "where": cast, "min": 2, "max": 2},
            {"type": "unique", "column": "n", "where": cast},
        ),
    ]
    project = Project(spark, tmp_path_factory.mktemp("careless"), nodes)
    rows = [(1, "7", 2), (2, "x", 3), (3, "1", 0), (4, "-1", None), (5, None, 9)]
    project.put("raw", [dict(zip(("id", "code", "n"), row, strict=True)) for row in rows])
    return project, project.run()


def test_condition_that_cannot_be_worked_out_is_null_for_the_row_and_not_the_end_of_the_run(
    careless: tuple[Project, dict[str, NodeRecord]],
) -> None:
    project, ran = careless
    assert {record.error for record in ran.values()} == {None}
    assert project.ids("bad_cast") == [2, 4, 5]
    assert project.ids("bad_divided") == [3, 4]
    assert project.ids("bad_lenient") == [4]


def test_rows_whose_where_cannot_be_worked_out_are_not_tested(
    careless: tuple[Project, dict[str, NodeRecord]],
) -> None:
    _, ran = careless
    assert ran["scope"].status is Status.published, ran["scope"].error
    assert [(test.status, test.failed) for test in ran["scope"].tests] == [("passed", 0)] * 3
