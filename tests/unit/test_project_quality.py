"""From facets to facts: results of tests and figures of datasets."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.openlineage.facts import Facts, Metric
from headgate.openlineage.facts import TestResult as Outcome
from tests.support.events import Json, a_dataset, a_facet, an_event
from tests.support.facts import facts_of

DB = "postgres://db"


def assertion(name: str = "not_null", *, success: bool = False, **more: Any) -> Json:
    return {"assertion": name, "success": success, **more}


def results_of(*, event_type: str = "COMPLETE", run: Json | None = None, **groups: Json) -> list[Outcome]:
    facts = facts_of(an_event(event_type, run_facets=run, inputs=[a_dataset("t", **groups)]))
    assert facts.invalid_facets == []
    return facts.tests


@pytest.mark.parametrize("group", ["inputFacets", "facets"])
@pytest.mark.parametrize("facet", ["dataQualityAssertions", "greatExpectations_assertions"])
def test_assertions_are_found_wherever_producers_put_them(group: str, facet: str) -> None:
    body = a_facet(assertions=[assertion(column="id", success=True)])
    (test,) = results_of(**{group: {facet: body}})
    assert test.dataset is not None
    assert (test.dataset[:2], test.name, test.column, test.status) == ((DB, "t"), "not_null", "id", "passed")


def test_the_same_assertion_in_two_places_is_one_result() -> None:
    body = {"dataQualityAssertions": a_facet(assertions=[assertion(column="id")])}
    assert len(results_of(facets=body, inputFacets=body)) == 1


FAILS, PASSES = {"success": False}, {"success": True}
WARNS, LEFT_OUT = {"success": False, "severity": "warn", "actual": "3"}, {"success": False}


@pytest.mark.parametrize("is_reversed", [False, True], ids=["worst first", "worst last"])
@pytest.mark.parametrize(
    ("worse", "better", "event_type", "told"),
    [
        (FAILS, PASSES, "COMPLETE", ("failed", "error")),
        (FAILS, WARNS, "COMPLETE", ("failed", "error")),
        (WARNS, PASSES, "COMPLETE", ("failed", "warn")),
        (WARNS, LEFT_OUT, "ABORT", ("failed", "warn")),
        (LEFT_OUT, PASSES, "ABORT", ("skipped", "error")),
    ],
)
def test_of_several_results_of_one_test_in_one_event_the_worst_counts(
    worse: Json, better: Json, event_type: str, told: tuple[str, str], is_reversed: bool
) -> None:
    results = [{"assertion": "relationships", "column": "id", **each} for each in (worse, better)]
    body = a_facet(assertions=results[::-1] if is_reversed else results)
    (test,) = results_of(event_type=event_type, inputFacets={"dataQualityAssertions": body})
    assert (test.status, test.severity) == told


def test_a_start_has_no_results_yet() -> None:
    body = {"dataQualityAssertions": a_facet(assertions=[assertion()])}
    run = {"test": a_facet(tests=[{"name": "t", "status": "fail"}])}
    assert results_of(event_type="START", inputFacets=body, facets=body, run=run) == []


@pytest.mark.parametrize("event_type", ["RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER"])
def test_every_later_event_may_bring_results(event_type: str) -> None:
    body = {"dataQualityAssertions": a_facet(assertions=[assertion()])}
    assert len(results_of(event_type=event_type, inputFacets=body)) == 1


def test_the_same_check_on_two_columns_stays_two() -> None:
    results = results_of(
        inputFacets={
            "dataQualityAssertions": a_facet(
                assertions=[assertion(column="email"), assertion(column="customer_id", success=True)]
            )
        }
    )
    assert [(test.column, test.status) for test in results] == [("email", "failed"), ("customer_id", "passed")]
    assert len({test.key for test in results}) == 2


def test_a_test_is_identified_by_its_name_before_its_assertion() -> None:
    named = [assertion(name, column="id") for name in ("a", "b")]
    for item in named:
        item["name"] = "not_null_orders_id"
    (result,) = results_of(inputFacets={"dataQualityAssertions": a_facet(assertions=named)})
    assert (result.name, result.assertion, result.column) == ("not_null_orders_id", "b", "id")


def test_everything_an_assertion_says_is_kept() -> None:
    body = assertion(
        severity="warn", column="id", name="n", description="no holes", expected="0", actual="3", content="select 1",
        contentType="SQL", params={"where": "x > 0"},
    )  # fmt: skip
    (test,) = results_of(inputFacets={"dataQualityAssertions": a_facet(assertions=[body])})
    assert (test.severity, test.status, test.expected, test.actual) == ("warn", "failed", "0", "3")
    assert test.description == "no holes"
    assert test.detail == {"content": "select 1", "content_type": "SQL", "params": {"where": "x > 0"}}


@pytest.mark.parametrize(
    ("severity", "kept"), [("warn", "warn"), ("WARNING", "warn"), ("info", "warn"), ("error", "error"), (None, "error"),
                           ("blocker", "error")]
)  # fmt: skip
def test_a_severity_is_warn_or_error(severity: str | None, kept: str) -> None:
    (test,) = results_of(
        inputFacets={"dataQualityAssertions": a_facet(assertions=[assertion(severity=severity, column="c")])}
    )
    assert (test.severity, test.column) == (kept, "c")


def run_tests(*tests: Json, inputs: list[Json] | None = None) -> Facts:
    facts = facts_of(an_event(run_facets={"test": a_facet(tests=list(tests))}, inputs=inputs))
    assert facts.invalid_facets == []
    return facts


@pytest.mark.parametrize(
    ("word", "status"),
    [("pass", "passed"), ("fail", "failed"), ("skip", "skipped"), ("error", "error"), ("WARN", "failed"),
     ("exploded", "error")],
)  # fmt: skip
def test_the_test_facet_brings_results_with_one_vocabulary(word: str, status: str) -> None:
    (test,) = run_tests({"name": "no_negative_amount", "status": word, "type": "singular"}).tests
    assert (test.name, test.assertion, test.status, test.column) == ("no_negative_amount", "singular", status, None)


def test_a_run_level_test_belongs_to_the_only_dataset_that_was_read() -> None:
    one, two = a_dataset("a"), a_dataset("b")
    test = {"name": "t", "status": "fail"}
    assert [t.dataset and t.dataset.name for t in run_tests(test, inputs=[one]).tests] == ["a"]
    assert [t.dataset for t in run_tests(test, inputs=[one, two]).tests] == [None]
    assert [t.dataset for t in run_tests(test).tests] == [None]


def test_a_run_level_test_that_an_assertion_names_too_counts_once() -> None:
    body = a_facet(assertions=[assertion(name="not_null", column="id") | {"name": "orders_id"}])
    read = a_dataset("a", inputFacets={"dataQualityAssertions": body})
    facts = run_tests({"name": "orders_id", "status": "fail"}, {"name": "rows", "status": "pass"}, inputs=[read])
    assert [(t.name, t.column) for t in facts.tests] == [("rows", None), ("orders_id", "id")]


@pytest.mark.parametrize(
    ("run_facets", "job_facets", "is_test"),
    [
        ({"test": a_facet(tests=[])}, {}, True),
        ({}, {"jobType": a_facet(processingType="BATCH", integration="DBT", jobType="TEST")}, True),
        ({}, {"jobType": a_facet(processingType="BATCH", integration="DBT", jobType="test")}, True),
        ({}, {"jobType": a_facet(processingType="BATCH", integration="DBT", jobType="MODEL")}, False),
        ({}, {}, False),
    ],
    ids=["test facet", "job type", "lower case", "model", "plain"],
)
def test_a_run_that_only_tests_is_told_apart(run_facets: Json, job_facets: Json, is_test: bool) -> None:
    assert facts_of(an_event(run_facets=run_facets, job_facets=job_facets)).is_test is is_test


def test_assertions_alone_do_not_make_a_run_a_test() -> None:
    body = a_facet(assertions=[assertion()])
    event = an_event(inputs=[a_dataset("a", inputFacets={"dataQualityAssertions": body})], outputs=[a_dataset("b")])
    assert facts_of(event).is_test is False


def metrics_of(**dataset: Any) -> list[Metric]:
    role = dataset.pop("role", "outputs")
    event_type = dataset.pop("event_type", "COMPLETE")
    return facts_of(an_event(event_type, **{role: [a_dataset("t", **dataset)]})).metrics


def figures(metric: Metric) -> tuple[Any, ...]:
    return metric.direction, metric.row_count, metric.byte_size, metric.file_count, metric.partition_count


def test_output_statistics_become_a_metric() -> None:
    (metric,) = metrics_of(outputFacets={"outputStatistics": a_facet(rowCount=5, size=500, fileCount=2)})
    assert figures(metric) == ("output", 5, 500, 2, None)


def test_input_statistics_become_a_metric() -> None:
    (metric,) = metrics_of(role="inputs", inputFacets={"inputStatistics": a_facet(rowCount=5, size=0, fileCount=0)})
    assert figures(metric) == ("input", 5, 0, 0, None)


@pytest.mark.parametrize("group", ["facets", "inputFacets"])
def test_quality_metrics_become_a_profile_with_its_columns(group: str) -> None:
    columns = {"id": {"nullCount": 0, "distinctCount": 5, "quantiles": {"0.5": 3.0}}}
    facet = a_facet(rowCount=5, bytes=500, fileCount=1, columnMetrics=columns)
    (metric,) = metrics_of(role="inputs", **{group: {"dataQualityMetrics": facet}})
    assert figures(metric) == ("profile", 5, 500, 1, None)
    assert metric.columns == columns


def test_a_start_has_no_figures_yet() -> None:
    assert metrics_of(event_type="START", outputFacets={"outputStatistics": a_facet(rowCount=5)}) == []


@pytest.mark.parametrize("body", [{}, {"rowCount": None}], ids=["empty", "null"])
def test_statistics_without_a_figure_are_no_metric(body: Json) -> None:
    assert metrics_of(outputFacets={"outputStatistics": a_facet(**body)}) == []


@pytest.mark.parametrize("name", ["rowCount", "size", "fileCount", "partitionCount"])
def test_one_figure_is_enough_for_a_metric(name: str) -> None:
    (metric,) = metrics_of(outputFacets={"outputStatistics": a_facet(**{name: 0})})
    assert [value for value in figures(metric)[1:] if value is not None] == [0]


def test_the_largest_number_that_fits_is_kept() -> None:
    largest = 2**63 - 1
    (metric,) = metrics_of(outputFacets={"outputStatistics": a_facet(rowCount=largest)})
    assert metric.row_count == largest


def test_a_metric_knows_the_partition_it_measures() -> None:
    path = a_dataset("orders/country=DE/dt=2026-03-01", "s3://lake")
    path["outputFacets"] = {"outputStatistics": a_facet(rowCount=1)}
    (metric,) = facts_of(an_event(outputs=[path])).metrics
    assert metric.dataset[:2] == ("s3://lake", "orders")
    assert metric.dataset.partition_key == "s3://lake/orders/country=DE/dt=*"


def written(name: str, rows: int | None, namespace: str = "s3://lake", **more: Any) -> Json:
    return a_dataset(name, namespace, outputFacets={"outputStatistics": a_facet(rowCount=rows, **more)})


def profiled(name: str, rows: int, **columns: Json) -> Json:
    facet = a_facet(rowCount=rows, columnMetrics=columns)
    return a_dataset(name, "s3://lake", facets={"dataQualityMetrics": facet})


def test_partitions_that_one_event_writes_add_up() -> None:
    days = [
        written(f"bf/country=US/date=2026-01-0{day}", rows, size=10, fileCount=2)
        for day, rows in enumerate([100, 70, 1], 1)
    ]
    abroad = written("bf/country=DE/date=2026-01-01", 9)

    metrics = facts_of(an_event(outputs=[*days, abroad])).metrics

    keys = [metric.dataset.partition_key for metric in metrics]
    assert keys == ["s3://lake/bf/country=US/date=*", "s3://lake/bf/country=DE/date=*"]
    assert [figures(metric)[1:4] for metric in metrics] == [(171, 30, 6), (9, None, None)]


def test_a_figure_that_only_some_partitions_have_is_the_sum_of_those() -> None:
    parts = [written("bf/date=2026-01-01", None, size=10), written("bf/date=2026-01-02", 7)]
    (metric,) = facts_of(an_event(outputs=parts)).metrics
    assert figures(metric)[1:3] == (7, 10)


def test_a_dataset_listed_twice_with_other_figures_was_written_twice() -> None:
    (metric,) = facts_of(an_event(outputs=[written("t", 100), written("t", 50)])).metrics
    assert metric.row_count == 150


@pytest.mark.parametrize("namespace", ["s3://lake", "s3a://lake"])
def test_the_same_figures_of_the_same_place_are_one_measurement_told_twice(namespace: str) -> None:
    (metric,) = facts_of(an_event(outputs=[written("t", 100), written("t", 100, namespace)])).metrics
    assert metric.row_count == 100


def test_files_of_a_dataset_add_up_also_where_they_are_of_the_same_size() -> None:
    files = [written(f"t/part-0000{n}.parquet", 100) for n in range(3)]
    (metric,) = facts_of(an_event(outputs=files)).metrics
    assert metric.row_count == 300


def test_what_is_read_and_what_is_written_of_a_dataset_stay_apart() -> None:
    read = a_dataset("t", inputFacets={"inputStatistics": a_facet(rowCount=10)})
    put = a_dataset("t", outputFacets={"outputStatistics": a_facet(rowCount=3)})
    metrics = facts_of(an_event(inputs=[read], outputs=[put])).metrics
    assert [(metric.direction, metric.row_count) for metric in metrics] == [("input", 10), ("output", 3)]


def test_of_two_profiles_of_a_place_the_later_one_counts() -> None:
    facts = facts_of(an_event(inputs=[profiled("t", 10)], outputs=[profiled("t", 12)]))
    assert [metric.row_count for metric in facts.metrics] == [12]


def test_columns_of_partitions_join_as_far_as_they_can() -> None:
    first = {"nullCount": 2, "count": 10, "distinctCount": 5, "min": 1, "max": 9, "sum": 40, "quantiles": {"0.5": 4}}
    second = {"nullCount": 1, "count": 7, "distinctCount": 6, "min": 0, "max": 8.5, "sum": 2.5, "quantiles": {"0.5": 3}}
    parts = [
        profiled("bf/date=2026-01-01", 10, a=first),
        profiled("bf/date=2026-01-02", 7, a=second, b={"nullCount": 3}),
    ]

    (metric,) = facts_of(an_event(outputs=parts)).metrics

    assert metric.row_count == 17
    assert metric.columns == {
        "a": {"nullCount": 3, "count": 17, "distinctCount": 6, "min": 0, "max": 9, "sum": 42.5},
        "b": {"nullCount": 3},
    }


def test_a_sum_beyond_what_can_be_stored_is_the_largest_number_that_can() -> None:
    largest = 2**63 - 1
    (metric,) = facts_of(
        an_event(outputs=[written("bf/date=2026-01-01", largest), written("bf/date=2026-01-02", 1)])
    ).metrics
    assert metric.row_count == largest
