"""What becomes of single rows in a run: NULLs, duplicates, the reasons that are told, and that none is lost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from headgate.pipelines.record import NodeRecord, Status
from tests.pipelines.projects import Project, failing, node

COLUMNS = "id INT, k INT, city STRING, amount DOUBLE"
ROWS: list[dict[str, Any]] = [
    {"id": 1, "k": 10, "city": "Oslo", "amount": 5.0},
    {"id": 2, "k": 10, "city": "Bergen", "amount": 7.5},
    {"id": 3, "k": 20, "city": None, "amount": -1.0},
    {"id": 4, "k": None, "city": "Nowhere", "amount": None},
    {"id": 5, "k": None, "city": "Oslo", "amount": -2.0},
    {"id": 6, "k": 30, "city": "", "amount": 1.0},
    {"id": 7, "k": 40, "city": "Oslo", "amount": 4.0},
]
ALL = {row["id"] for row in ROWS}
APART = {"on_fail": "quarantine"}
NAMED = {"type": "accepted_values", "column": "city", "values": ["Oslo", "Bergen", ""], **APART}
PAID = {"name": "paid", "type": "range", "column": "amount", "min": 0, **APART}
# By the name of a node: its tests, and the rows that they set apart.
CASES: dict[str, tuple[list[dict[str, Any]], set[int]]] = {
    "null_passes_values": ([NAMED, PAID], {3, 4, 5}),
    "null_fails_on_request": ([{**NAMED, "allow_null": False}], {3, 4}),
    "only_not_null_speaks_of_null": ([{"type": "not_null", "columns": ["city", "amount"], **APART}], {3, 4}),
    "null_condition_passes": ([{"type": "custom_sql", "condition": "amount >= 0", **APART}], {3, 5}),
    "null_condition_fails": (
        [{"type": "custom_sql", "condition": "amount >= 0", "allow_null": False, **APART}],
        {3, 4, 5},
    ),
    "all_of_a_key": ([{"type": "unique", "column": "k", **APART}], {1, 2}),
    "all_but_the_first": (
        [{"type": "unique", "column": "k", "keep": "first", "order_by": "amount DESC", **APART}],
        {1},
    ),
    "keys_that_must_be_there": ([{"type": "unique", "column": "k", "allow_null": False, **APART}], {1, 2, 4, 5}),
    "keys_of_two_columns": ([{"type": "unique", "columns": ["k", "city"], **APART}], set()),
    "keys_of_some_rows": ([{"type": "unique", "column": "city", "where": "k > 0", **APART}], {1, 7}),
    "empty_partition": ([{"type": "not_empty", "column": "city", **APART}], {6}),
}
REASONS = {
    3: ["paid"],
    4: ["accepted_values"],
    5: ["paid"],
}


@pytest.fixture(scope="module")
def project(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Project:
    nodes = [node(name, COLUMNS, *tests, quarantine=f"bad_{name}") for name, (tests, _) in CASES.items()]
    nodes[-1]["write"]["partition_by"] = ["city"]
    nodes[0]["validation"]["quarantine"]["add_columns"] = {"_original_node": True}
    made = Project(spark, tmp_path_factory.mktemp("rows"), nodes)
    made.put("raw", ROWS)
    return made


@pytest.fixture(scope="module")
def ran(project: Project) -> dict[str, NodeRecord]:
    return project.run("run-1")


@pytest.mark.parametrize("name", CASES)
def test_rows_are_set_apart_by_their_own_tests_and_no_row_is_lost(
    project: Project, ran: dict[str, NodeRecord], name: str
) -> None:
    record, apart = ran[name], CASES[name][1]

    assert record.status is Status.published, record.error
    assert set(project.ids(name)) == ALL - apart
    assert set(project.ids(f"bad_{name}")) == apart
    assert (record.rows_in, record.rows_valid, record.rows_quarantined) == (7, 7 - len(apart), len(apart))
    assert record.rows_published == record.rows_valid


def test_each_row_names_the_tests_that_it_fails_and_no_others(project: Project, ran: dict[str, NodeRecord]) -> None:
    rows = project.read("bad_null_passes_values").collect()

    assert {row["id"]: row["_failed_tests"] for row in rows} == REASONS
    assert failing(ran["null_passes_values"]) == {"paid": 2, "accepted_values": 1}
    assert {row["_source_batch_id"] for row in rows} == {"run-1"}
    assert {row["_original_node"] for row in rows} == {"null_passes_values"}
    assert all(row["_rejection_reason"].startswith(row["_failed_tests"][0]) for row in rows)
    assert all(row["_rejected_at"] is not None for row in rows)


def test_target_has_no_column_of_ours(project: Project, ran: dict[str, NodeRecord]) -> None:
    assert project.read("all_of_a_key").columns == ["id", "k", "city", "amount"]
    assert project.read("bad_all_of_a_key").columns == [
        "id",
        "k",
        "city",
        "amount",
        "_rejection_reason",
        "_rejected_at",
        "_failed_tests",
        "_source_batch_id",
    ]


def test_empty_text_in_a_partition_is_told_as_it_came(project: Project, ran: dict[str, NodeRecord]) -> None:
    (row,) = project.read("bad_empty_partition").collect()

    assert (row["id"], row["city"], row["_failed_tests"]) == (6, "", ["not_empty"])
    assert failing(ran["empty_partition"]) == {"not_empty": 1}


def test_samples_show_the_form_of_values_and_never_what_they_say(ran: dict[str, NodeRecord]) -> None:
    record = ran["null_passes_values"]
    assert record.quarantine is not None

    sample = next(each for each in record.quarantine.samples if each["_failed_tests"] == ["accepted_values"])
    assert sample == {"id": "9", "k": None, "city": "xxxxxxx", "amount": None, "_failed_tests": ["accepted_values"]}
    assert "Nowhere" not in msgspec.json.encode(record).decode()


def test_nothing_stays_in_staging(project: Project, ran: dict[str, NodeRecord]) -> None:
    assert project.left_over() == []
