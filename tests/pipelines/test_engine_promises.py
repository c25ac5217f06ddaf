"""What a node promises beside its tests: columns that stay, columns that are there, and rows that are fresh."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.pipelines.record import DriftRecord, NodeRecord, Status
from tests.pipelines.projects import NOW, Project, node, told_of
from tests.pipelines.writing import contents

POLICIES = ("evolve", "warn", "fail")
CHANGED = DriftRecord(("tip double",), ("note string",), ("amount int -> double",))
TOLD = "the columns have changed: added tip double; removed note string; changed amount int -> double"


@pytest.fixture(scope="module")
def drifted(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, NodeRecord], dict[str, NodeRecord], bool]:
    """Nodes whose columns change between two runs, and whether that of `fail` was left as it was."""
    nodes = [node(policy, "id INT, amount INT, note STRING", contract={"on_drift": policy}) for policy in POLICIES]
    nodes.append(node("silent", "id INT, amount INT, note STRING"))
    project = Project(spark, tmp_path_factory.mktemp("drift"), nodes, {"on_error": "fail_later"})
    project.put("raw", [{"id": 1, "amount": 2, "note": "x", "tip": 0.5}])
    first = project.run()
    before = contents(project.data / "fail")
    for each in project.nodes:
        each["read"]["columns"] = "id INT, amount DOUBLE, tip DOUBLE"
    return first, project.run(), contents(project.data / "fail") == before


def test_columns_of_a_first_run_have_not_changed(
    drifted: tuple[dict[str, NodeRecord], dict[str, NodeRecord], bool],
) -> None:
    first, _, _ = drifted
    assert {record.drift for record in first.values()} == {None}


@pytest.mark.parametrize("name", ["evolve", "silent"])
def test_changed_columns_are_recorded_and_published(
    drifted: tuple[dict[str, NodeRecord], dict[str, NodeRecord], bool], name: str
) -> None:
    _, second, _ = drifted
    assert (second[name].status, second[name].notes, second[name].drift) == (Status.published, (), CHANGED)


def test_changed_columns_are_told_of(drifted: tuple[dict[str, NodeRecord], dict[str, NodeRecord], bool]) -> None:
    _, second, _ = drifted
    assert (second["warn"].status, second["warn"].notes) == (Status.published, (TOLD,))


def test_changed_columns_stop_the_node_that_promised_them(
    drifted: tuple[dict[str, NodeRecord], dict[str, NodeRecord], bool],
) -> None:
    _, second, is_untouched = drifted
    assert (second["fail"].status, second["fail"].reasons) == (Status.stopped, (TOLD,))
    assert is_untouched


CONTRACT: dict[str, Any] = {"columns": [{"name": "id", "type": "integer", "nullable": False}, {"name": "at"}]}


@pytest.fixture(scope="module")
def promised(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, NodeRecord]:
    columns = "id INT, at TIMESTAMP, more INT"
    nodes = [
        node("kept", columns, contract=CONTRACT),
        node("strict", columns, contract={**CONTRACT, "strict": True}),
        node("broken", columns, contract={"columns": [{"name": "id", "type": "string"}, {"name": "gone"}]}),
        node("nulls", columns, contract={"columns": [{"name": "more", "nullable": False}]}),
        node("fresh", columns, freshness={"max_age": "4h", "column": "at"}),
        node("stale", columns, freshness={"max_age": "3h", "column": "at"}),
        node("stale_gated", columns, freshness={"max_age": "3h", "column": "at"}, gate={}),
    ]
    project = Project(spark, tmp_path_factory.mktemp("promises"), nodes, {"on_error": "fail_later"})
    project.put("raw", [{"id": 1, "at": "2026-05-04T08:30:00Z", "more": None}])
    return project.run()


def test_contract_is_a_test_of_the_columns(promised: dict[str, NodeRecord]) -> None:
    assert promised["kept"].status is Status.published, promised["kept"].error
    kept, strict = told_of(promised["kept"], "contract"), promised["strict"]
    assert (kept.type, kept.status, kept.detail) == ("schema", "passed", "the columns are as expected")
    assert (strict.status, strict.reasons) == (
        Status.stopped,
        ("test 'contract' fails: 'more' is there and not expected",),
    )
    assert promised["broken"].reasons == ("test 'contract' fails: 'id' is int and not string; 'gone' is missing",)
    assert promised["nulls"].reasons == ("test 'contract' fails: 'more' has 1 NULLs",)


def test_rows_that_are_too_old_are_warned_of(promised: dict[str, NodeRecord]) -> None:
    fresh, stale = told_of(promised["fresh"], "freshness"), told_of(promised["stale"], "freshness")
    assert (fresh.type, fresh.on_fail, fresh.status) == ("freshness", "warn", "passed")
    assert (stale.type, stale.on_fail, stale.status) == ("freshness", "warn", "failed")
    assert stale.detail == "the newest 'at' is 2026-05-04T08:30:00Z, 3h 30m old; at most 3h old is asked for"
    assert {promised[name].status for name in ("fresh", "stale", "stale_gated")} == {Status.published}


def test_target_that_was_published_too_long_ago_is_warned_of(spark: SparkSession, tmp_path: Path) -> None:
    project = Project(spark, tmp_path, [node("orders", "id INT", freshness={"max_age": "1d"})])
    project.put("raw", [{"id": 1}])
    first = project.run()["orders"]
    assert first.ended_at is not None
    soon = project.run(now=first.ended_at + timedelta(hours=23))["orders"]
    late = project.run(now=NOW + timedelta(days=9999))["orders"]

    found = [told_of(record, "freshness") for record in (first, soon, late)]
    assert [(test.type, test.on_fail, test.status) for test in found] == [
        ("freshness", "warn", "passed"),
        ("freshness", "warn", "passed"),
        ("freshness", "warn", "failed"),
    ]
    assert found[0].detail == "there was no published run before this one"
    assert late.status is Status.published
