"""What follows from the counts of a producer: findings, their sentences, and the grade."""

from __future__ import annotations

import pytest

from headgate.domain.conformance import (
    Evidence,
    Finding,
    Grade,
    Marked,
    Severity,
    findings,
    grade,
    producer_version,
    spec_version,
    spell,
)


def the_finding(evidence: Evidence) -> Finding:
    [found] = findings(evidence)
    return found


def graded(evidence: Evidence) -> Grade:
    return grade(evidence, findings(evidence))


def test_a_producer_that_does_all_right_has_no_findings() -> None:
    evidence = Evidence(events=10, runs=5, versions=["1.0"])
    assert findings(evidence) == []
    assert graded(evidence) is Grade.A


def test_refusals_say_how_many_and_why() -> None:
    found = the_finding(Evidence(events=200, refused={"run.after_end": 1}))
    assert (found.code, found.severity, found.count) == ("refused:run.after_end", Severity.error, 1)
    assert found.message == "1 event was refused because the run had ended before"


def test_a_refusal_of_an_unknown_kind_is_named() -> None:
    found = the_finding(Evidence(events=9000, refused={"new.reason": 1200}))
    assert found.message == "1,200 events were refused with 'new.reason'"


def test_an_invalid_facet_leads_to_an_event_that_has_it() -> None:
    found = the_finding(Evidence(events=10, invalid_facets={"schema": Marked(3, 41)}))
    assert (found.code, found.severity, found.count, found.event_id) == (
        "invalid_facet:schema",
        Severity.error,
        3,
        41,
    )
    assert "'schema' of 3 events" in found.message


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("no_schema_url", "2 events have no schemaURL"),
        ("no_time_zone", "2 events have an eventTime without a time zone"),
        ("bare_facet", "2 events have facets without _producer and _schemaURL"),
        ("loose_part", "2 events have null where a value belongs"),
    ],
)
def test_leniency_is_told_by_kind(kind: str, words: str) -> None:
    found = the_finding(Evidence(events=10, lenient=Marked(2, 5), lenient_kinds={kind: Marked(2, 5)}))
    assert (found.code, found.severity, found.event_id) == (f"lenient:{kind}", Severity.warning, 5)
    assert found.message == f"{words}; strict rules would refuse them"


def test_leniency_without_a_kind_is_told_all_the_same() -> None:
    found = the_finding(Evidence(events=10, lenient=Marked(1, 5)))
    assert (found.code, found.count) == ("lenient:unknown", 1)


@pytest.mark.parametrize(
    ("evidence", "code", "begin"),
    [
        (Evidence(events=9, runs=4, missing_start=2), "missing_start", "2 of 4 runs never sent START"),
        (Evidence(events=9, runs=1, unfinished=1), "unfinished_runs", "1 of 1 run sent nothing for a day"),
        (Evidence(events=9, runs=4, active_after_end=3), "active_after_end", "3 of 4 runs sent events later"),
        (
            Evidence(events=9, ahead=1, max_ahead_s=7300),
            "clock_ahead",
            "1 event came before its own time, by up to 2 h",
        ),
    ],
)
def test_runs_and_clocks_give_warnings(evidence: Evidence, code: str, begin: str) -> None:
    found = the_finding(evidence)
    assert (found.code, found.severity) == (code, Severity.warning)
    assert found.message.startswith(begin)
    assert graded(evidence) is Grade.B


@pytest.mark.parametrize(
    "evidence", [Evidence(events=9, late=9, max_late_s=1e6), Evidence(events=9, versions=["1.1", "1.0"])]
)
def test_late_events_and_several_versions_are_no_fault(evidence: Evidence) -> None:
    assert the_finding(evidence).severity is Severity.info
    assert graded(evidence) is Grade.A


def test_the_worst_comes_first_and_then_what_concerns_most() -> None:
    evidence = Evidence(
        events=100,
        late=90,
        refused={"body.unparsable": 1, "fields.invalid": 2},
        missing_start=50,
        runs=50,
        invalid_facets={"schema": Marked(7, 1)},
    )
    assert [found.code for found in findings(evidence)] == [
        "invalid_facet:schema",
        "refused:fields.invalid",
        "refused:body.unparsable",
        "missing_start",
        "late_events",
    ]


@pytest.mark.parametrize(("refused", "expected"), [(4, Grade.C), (5, Grade.D)])
def test_one_error_in_twenty_events_makes_the_worst_grade(refused: int, expected: Grade) -> None:
    assert graded(Evidence(events=100, refused={"fields.invalid": refused})) is expected


@pytest.mark.parametrize(
    ("url", "version"),
    [
        ("https://github.com/OpenLineage/OpenLineage/tree/1.54.0/integration/dbt", "1.54.0"),
        ("https://github.com/OpenLineage/OpenLineage/tree/1.19.0-SNAPSHOT/integration/spark", "1.19.0-SNAPSHOT"),
        ("https://github.com/apache/airflow/tree/providers-openlineage/2.20.3", "2.20.3"),
        ("https://example.org/tool/v3#x/9", "v3"),
        ("https://example.org/tool", None),
        ("", None),
    ],
)
def test_the_version_is_read_from_the_producers_url(url: str, version: str | None) -> None:
    assert producer_version(url) == version


@pytest.mark.parametrize(
    ("url", "version"),
    [
        ("https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent", "2-0-2"),
        ("https://openlineage.io/spec/facets/1-0-0/X.json", None),
        ("https://example.org/", None),
        (None, None),
        (7, None),
    ],
)
def test_the_version_of_the_specification_is_read_from_the_schema_url(url: object, version: str | None) -> None:
    assert spec_version(url) == version


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 second"),
        (59, "59 seconds"),
        (60, "1 minute"),
        (7199, "1 hour"),
        (172_800, "2 days"),
        (2.5e11, "2,893,518 days"),
    ],
)
def test_lengths_of_time_are_spelled_in_the_largest_unit_that_fits(seconds: float, words: str) -> None:
    assert spell(seconds) == words
