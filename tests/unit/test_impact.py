"""Grades of impact at each boundary, what column lineage tells of a table, and which pipeline a job belongs to."""

from __future__ import annotations

from uuid import UUID

import pytest

from headgate.domain.impact import Affected, criticality, judged, owners_in, pipeline_of

TABLE = UUID(int=1)


@pytest.mark.parametrize(
    ("datasets", "columns", "grade"),
    [
        (0, 0, "LOW"),
        (1, 2, "LOW"),
        (2, 0, "MEDIUM"),
        (2, 4, "MEDIUM"),
        (1, 3, "MEDIUM"),
        (1, 4, "MEDIUM"),
        (3, 0, "HIGH"),
        (4, 9, "HIGH"),
        (1, 5, "HIGH"),
        (1, 9, "HIGH"),
        (5, 0, "CRITICAL"),
        (1, 10, "CRITICAL"),
        (500, 10_000, "CRITICAL"),
    ],
)
def test_impact_is_graded_by_datasets_or_by_columns_whichever_is_worse(datasets: int, columns: int, grade: str) -> None:
    assert criticality(datasets, columns).value == grade


@pytest.mark.parametrize(
    ("downstream", "sure", "possible", "affected"),
    [
        (2, None, None, Affected(2, reads_column=False)),
        (2, None, Affected(2), Affected(2)),
        (2, Affected(2, True, ("total",)), Affected(2), Affected(2, True, ("total",))),
        (None, Affected(1, True, ("total",)), None, Affected(1, True, ("total",))),
        (None, None, Affected(3), Affected(3)),
    ],
    ids=["ruled out", "left open", "shown", "shown by columns alone", "open and beyond what was walked"],
)
def test_of_a_table_the_surest_that_is_known_is_told(
    downstream: int | None, sure: Affected | None, possible: Affected | None, affected: Affected
) -> None:
    found = judged(
        {} if downstream is None else {TABLE: downstream},
        {} if sure is None else {TABLE: sure},
        {} if possible is None else {TABLE: possible},
    )

    assert found == {TABLE: affected}


@pytest.mark.parametrize(("downstream", "sure", "possible"), [(1, 2, 3), (2, 1, 3), (3, 2, 1)])
def test_a_table_is_as_near_as_the_shortest_way_to_it(downstream: int, sure: int, possible: int) -> None:
    found = judged({TABLE: downstream}, {TABLE: Affected(sure, True)}, {TABLE: Affected(possible)})

    assert found == {TABLE: Affected(1, True)}


def test_each_table_is_judged_for_itself() -> None:
    near, far = UUID(int=2), UUID(int=3)

    found = judged({TABLE: 1, near: 1, far: 2}, {near: Affected(1, True, ("a",))}, {far: Affected(2)})

    assert {table: affected.reads_column for table, affected in found.items()} == {TABLE: False, near: True, far: None}


@pytest.mark.parametrize(("reads_column", "certainty"), [(True, "column"), (False, "column"), (None, "table")])
def test_what_column_lineage_tells_is_certain_to_the_column(reads_column: bool | None, certainty: str) -> None:
    assert Affected(1, reads_column).certainty == certainty


@pytest.mark.parametrize(
    ("job", "parent", "root", "pipeline"),
    [
        ("gold_pipeline.build_360", None, None, "gold_pipeline"),
        ("a.b.c", None, None, "a.b"),
        ("nightly", None, None, "nightly"),
        (".hidden", None, None, ".hidden"),
        ("ends.", None, None, "ends"),
        ("app.execute_insert", "dag.task", None, "dag.task"),
        ("app.execute_insert", "dag.task", "dag", "dag"),
        ("app.execute_insert", None, "dag", "dag"),
        ("app.execute_insert", "", "", "app"),
    ],
)
def test_a_job_belongs_to_what_started_it_or_to_what_its_name_begins_with(
    job: str, parent: str | None, root: str | None, pipeline: str
) -> None:
    assert pipeline_of(job, parent, root) == pipeline


def test_owners_are_named_once_in_their_order() -> None:
    facet = {"owners": [{"name": "team:sales", "type": "OWNER"}, {"name": "ann"}, {"name": "team:sales"}]}

    assert owners_in(facet) == ["team:sales", "ann"]


@pytest.mark.parametrize(
    "facet",
    [None, [], "ann", {}, {"owners": None}, {"owners": "ann"}, {"owners": ["ann", 7, {}, {"name": 7}, {"name": " "}]}],
)
def test_a_facet_that_is_not_about_owners_names_nobody(facet: object) -> None:
    assert owners_in(facet) == []
