"""Grades of impact at each boundary, and which pipeline a job belongs to."""

from __future__ import annotations

import pytest

from headgate.domain.impact import criticality, owners_in, pipeline_of


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
