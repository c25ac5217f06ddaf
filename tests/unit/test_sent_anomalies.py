"""Anomalies in a run facet, as plain values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from headgate.domain.anomaly import Severity
from headgate.domain.names import DatasetName, canonical_dataset
from headgate.openlineage.anomalies import MAX_ANOMALIES, AnomaliesFacet, AnomalyTold, anomalies_of
from tests.support.events import a_facet, an_event
from tests.support.facts import facts_of

AT = datetime(2026, 3, 1, 10, tzinfo=UTC)


def named(namespace: str, name: str) -> DatasetName | None:
    return None if name == "too long" else canonical_dataset(namespace, name)


def told(*anomalies: dict[str, Any], **facet: Any) -> list[AnomalyTold]:
    base = {"anomaly_type": "RowCountDrop", "dataset": {"namespace": "a", "name": "b"}}
    body = msgspec.convert({"anomalies": [base | each for each in anomalies], **facet}, AnomaliesFacet)
    return list(anomalies_of(body, named, AT))


def test_what_is_left_out_is_filled_with_what_is_known() -> None:
    (found,) = told({})

    assert (found.type, found.severity, found.detected_at) == ("RowCountDrop", Severity.WARNING, AT)
    assert (found.expected, found.actual, found.job_id) == (None, None, None)
    assert found.message == "the producer reports RowCountDrop"


def test_values_threshold_and_job_are_kept() -> None:
    (found,) = told({"current_value": 1, "expected_value": 2.5, "threshold": 0, "message": "few"}, job_id="j")

    assert (found.actual, found.expected, found.message) == ({"value": 1}, {"value": 2.5}, "few")
    assert found.metadata["threshold"] == 0
    assert found.job_id == "j"


@pytest.mark.parametrize(
    ("sent", "kind"),
    [("ROW_COUNT_SPIKE", "RowCountSpike"), ("row count spike", "RowCountSpike"), ("Gremlins", "Gremlins")],
)
def test_a_type_is_read_in_any_spelling_and_kept_if_it_is_not_ours(sent: str, kind: str) -> None:
    (found,) = told({"anomaly_type": sent})

    assert (found.type, found.metadata["type_told"]) == (kind, sent)


@pytest.mark.parametrize(
    ("sent", "severity", "is_noted"),
    [("CRITICAL", Severity.CRITICAL, False), ("critical", Severity.CRITICAL, True), ("MEDIUM", Severity.WARNING, True)],
)
def test_a_severity_of_another_scale_is_a_warning_and_noted(sent: str, severity: Severity, is_noted: bool) -> None:
    (found,) = told({"severity": sent})

    assert found.severity is severity
    assert ("severity_told" in found.metadata) is is_noted


@pytest.mark.parametrize(
    ("sent", "at"),
    [
        ("2019-05-01T10:00:00+02:00", datetime(2019, 5, 1, 8, tzinfo=UTC)),
        ("2019-05-01T10:00:00", datetime(2019, 5, 1, 10, tzinfo=UTC)),
        ("yesterday", AT),
        ("0001-01-01T00:00:00+14:00", AT),
        ("", AT),
    ],
)
def test_the_time_is_the_senders_or_that_of_the_event(sent: str, at: datetime) -> None:
    assert [found.detected_at for found in told({"detected_at": sent})] == [at]


def test_the_same_anomaly_has_the_same_occasion_and_another_one_has_not() -> None:
    one, same, other = told({"message": "a"}, {"message": "a"}, {"message": "b"})

    assert one.occasion == same.occasion != other.occasion


def test_what_names_no_dataset_or_no_type_is_left_out() -> None:
    assert told({"dataset": {"namespace": "a", "name": "too long"}}, {"anomaly_type": " "}) == []


def test_there_is_an_end_to_what_one_event_may_tell() -> None:
    assert len(told(*[{}] * (MAX_ANOMALIES + 5))) == MAX_ANOMALIES


def test_long_texts_are_cut() -> None:
    (found,) = told({"message": "x" * 20_000, "anomaly_type": "y" * 1000, "severity": "z" * 1000})

    assert (len(found.message), len(found.type), len(found.metadata["severity_told"])) == (10_000, 200, 200)


@pytest.mark.parametrize(
    "bad",
    [{"anomaly_type": 5}, {"dataset": "b"}, {"dataset": {"name": "b"}}, {"threshold": "high"}, {"threshold": 10**400}],
    ids=["type", "dataset", "half a dataset", "threshold", "beyond numbers"],
)
def test_one_that_cannot_be_read_costs_no_other(bad: dict[str, Any]) -> None:
    assert [found.message for found in told({"message": "one"}, bad, {"message": "two"})] == ["one", "two"]


@pytest.mark.parametrize(
    ("items", "kinds", "invalid"),
    [
        ([{"anomaly_type": "Gremlins"}, {"anomaly_type": 5}], ["Gremlins"], ["headgate_anomalies"]),
        ([{"anomaly_type": "Gremlins"}, "Gremlins", None], ["Gremlins"], ["headgate_anomalies"]),
        ([{"anomaly_type": "Gremlins"}], ["Gremlins"], []),
    ],
    ids=["one wrong", "two wrong", "all well"],
)
def test_what_cannot_be_read_is_noted_with_the_event(items: list[Any], kinds: list[str], invalid: list[str]) -> None:
    dataset = {"dataset": {"namespace": "a", "name": "b"}}
    sent = [dataset | each if isinstance(each, dict) else each for each in items]

    facts = facts_of(an_event(run_facets={"headgate_anomalies": a_facet(anomalies=sent)}))

    assert ([each.type for each in facts.anomalies], facts.invalid_facets) == (kinds, invalid)
