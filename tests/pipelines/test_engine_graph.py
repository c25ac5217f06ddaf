"""Nodes that live on each other: what one publishes the next sees, with its types, whatever the files can hold."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.pipelines.journal import Owner
from headgate.pipelines.record import NodeRecord, Status
from tests.pipelines.projects import Project, node, told_of

COLUMNS = "id INT, code STRING, day DATE, amount DECIMAL(10,2), note STRING"
SCHEMA = "struct<id:int,code:string,day:date,amount:decimal(10,2),note:string>"
ROWS: list[dict[str, Any]] = [
    {"id": 1, "code": "01", "day": "2026-05-04", "amount": 1.5, "note": "a;b"},
    {"id": 2, "code": "1", "day": "2026-05-05", "amount": 2.25, "note": None},
    {"id": 3, "code": "001", "day": "2026-05-05", "amount": -3.0, "note": 'say "hi"'},
]


def to(path: str, **more: Any) -> dict[str, Any]:
    return {"write": {"connection": "lake", "path": path, **more}}


def after(name: str, *others: str, sql: str | None = None, **more: Any) -> dict[str, Any]:
    """A node that lives on others and keeps their rows."""
    made: dict[str, Any] = {"name": name, "depends_on": list(others), **to(name)}
    if sql is not None:
        made["transform"] = {"steps": [{"sql": sql}]}
    return {key: value for key, value in {**made, **more}.items() if value is not None}


@pytest.fixture(scope="module")
def formats(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, NodeRecord]]:
    """Targets of several formats and partitions, and for each a node that reads it back as parquet."""
    blocks: dict[str, dict[str, Any]] = {
        "plain": {},
        "by_code": {"partition_by": ["code"]},
        "by_two": {"partition_by": ["CODE", "day"]},
        "orc": {"format": "orc", "partition_by": "code"},
        "csv": {"format": "csv", "partition_by": "code"},
        "odd_csv": {"format": "csv", "options": {"sep": ";", "header": False}},
        "json": {"format": "json", "partition_by": "code"},
    }
    nodes = [node(name, COLUMNS, **to(name, **block)) for name, block in blocks.items()]
    columns = "id, code, day, amount, note"
    nodes += [after(f"{name}_back", name, sql=f"SELECT {columns} FROM {name}") for name in blocks]
    project = Project(spark, tmp_path_factory.mktemp("formats"), nodes, {"on_error": "fail_later"})
    project.put("raw", ROWS)
    return project, project.run()


@pytest.mark.parametrize("name", ["plain", "by_code", "by_two", "orc", "csv", "odd_csv", "json"])
def test_rows_are_read_back_with_the_types_they_had(formats: tuple[Project, dict[str, NodeRecord]], name: str) -> None:
    project, ran = formats
    assert ran[name].status is Status.published, ran[name].error
    assert ran[f"{name}_back"].status is Status.published, ran[f"{name}_back"].error
    back, plain = project.read(f"{name}_back"), project.read("plain")
    assert back.schema.simpleString() == SCHEMA
    assert sorted(map(tuple, back.collect())) == sorted(map(tuple, plain.collect()))


@pytest.fixture(scope="module")
def chain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, NodeRecord]]:
    """A node that keeps nothing, two that live on it, and one that lives on both."""
    apart = {"name": "paid", "type": "range", "column": "amount", "min": 0, "on_fail": "quarantine"}
    unkept = node("clean-rows", COLUMNS, apart, {"type": "unique", "column": "id"}, quarantine="bad", write=None)
    bare = node("bare", COLUMNS, write=None)
    nodes = [
        unkept,
        bare,
        after("sums", "clean-rows", sql="SELECT day, sum(amount) AS total FROM `clean-rows` GROUP BY day"),
        after("same", "clean-rows"),
        after(
            "joined",
            "sums",
            "same",
            "bare",
            sql="SELECT same.id, total, (SELECT count(*) FROM bare) AS n FROM same JOIN sums USING (day)",
            validation={"tests": [{"type": "foreign_key", "column": "id", "reference": {"node": "same"}}]},
        ),
    ]
    project = Project(spark, tmp_path_factory.mktemp("chain"), nodes)
    project.put("raw", ROWS)
    return project, project.run()


def test_nodes_live_on_one_that_keeps_nothing(chain: tuple[Project, dict[str, NodeRecord]]) -> None:
    project, ran = chain
    assert {name: (record.status, record.error) for name, record in ran.items()} == dict.fromkeys(
        ran, (Status.published, None)
    )
    assert (ran["clean-rows"].rows_in, ran["clean-rows"].rows_published, ran["clean-rows"].output) == (3, 2, None)
    assert (project.ids("same"), project.ids("bad")) == ([1, 2], [3])
    rows = project.read("joined").orderBy("id").collect()
    assert [(row["id"], float(row["total"]), row["n"]) for row in rows] == [(1, 1.5, 3), (2, 2.25, 3)]
    assert told_of(ran["joined"], "foreign_key").failed == 0


def test_inputs_are_those_of_the_node_that_keeps_nothing(chain: tuple[Project, dict[str, NodeRecord]]) -> None:
    project, ran = chain
    assert [each.label for each in ran["same"].inputs] == ["lake/raw"]
    assert {each.label for each in ran["joined"].inputs} == {"lake/sums", "lake/same", "lake/raw"}
    assert ran["same"].output is not None
    assert ran["same"].output.name == str(project.data / "same")


def test_rows_that_nobody_keeps_are_gone_after_the_run(chain: tuple[Project, dict[str, NodeRecord]]) -> None:
    assert chain[0].left_over() == []


def test_nodes_side_by_side_do_not_see_each_other(spark: SparkSession, tmp_path: Path) -> None:
    nodes = [node(f"n{k}", COLUMNS, transform={"steps": [f"SELECT id + {k} AS id FROM df"] * k}) for k in (1, 2, 3, 4)]
    project = Project(spark, tmp_path, nodes)
    project.put("raw", ROWS)

    ran = project.run(parallel=4)

    assert {record.status for record in ran.values()} == {Status.published}
    assert [project.ids(f"n{k}") for k in (1, 2, 3, 4)] == [[k * k + n for n in (1, 2, 3)] for k in (1, 2, 3, 4)]


def test_what_a_dead_run_has_left_in_staging_is_taken_away(spark: SparkSession, tmp_path: Path) -> None:
    project = Project(spark, tmp_path, [node("orders", COLUMNS)])
    project.put("raw", ROWS)
    # No process has such a number.
    dead = replace(Owner.this(time.time()), pid=2**22 + 1)
    left = project.data / ".headgate" / "staging" / f"earlier.daily.orders~{dead.token()}"
    (left / "pass").mkdir(parents=True)

    assert project.run()["orders"].status is Status.published
    assert project.left_over() == []


# By policy: the statuses of a node that breaks, of one that lives on it, and of one beside it that comes later.
OUTCOMES = {
    "fail_fast": ("failed", "skipped", "skipped"),
    "fail_later": ("failed", "skipped", "published"),
    "ignore": ("failed", "skipped", "published"),
}


@pytest.mark.parametrize("policy", OUTCOMES)
def test_what_breaks_is_told_and_others_go_on_as_they_are_told_to(
    spark: SparkSession, tmp_path: Path, policy: str
) -> None:
    step = "SELECT if(id < 3, id, raise_error('too much')) AS id FROM df"
    broken = node("broken", COLUMNS, transform={"steps": [step]})
    project = Project(spark, tmp_path, [broken, after("follows", "broken"), node("beside", COLUMNS)])
    project.more = {"on_error": policy}
    project.put("raw", ROWS)

    ran = project.run(parallel=1)

    assert tuple(str(ran[name].status) for name in ("broken", "follows", "beside")) == OUTCOMES[policy]
    assert "too much" in str(ran["broken"].error)
    assert project.ids("broken") == []
    assert project.left_over() == []
