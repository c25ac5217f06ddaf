"""What anomalies are called and how bad they are."""

from __future__ import annotations

import pytest

from headgate.domain.anomaly import AnomalyType, Severity, Status, read_severity, read_type, schema_anomaly


@pytest.mark.parametrize("anomaly_type", AnomalyType, ids=str)
def test_a_type_is_read_in_any_spelling(anomaly_type: AnomalyType) -> None:
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in anomaly_type).strip("_")
    spellings = [anomaly_type.value, anomaly_type.lower(), words.upper(), words.lower(), words.replace("_", "-")]
    assert {read_type(spelling) for spelling in spellings} == {anomaly_type}


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("SCHEMA_CHANGE", AnomalyType.SchemaChange),
        ("ROW_COUNT_DROP", AnomalyType.RowCountDrop),
        ("volume_drop", AnomalyType.VolumeDrop),
        (" Freshness ", AnomalyType.FreshnessMissed),
        ("schema drift", AnomalyType.SchemaChange),
    ],
)
def test_words_of_other_tools_are_understood(told: str, meant: AnomalyType) -> None:
    assert read_type(told) is meant


@pytest.mark.parametrize("told", ["", "  ", "RowCount", "TestFailed", "Spike", "💥"])
def test_a_type_that_is_not_known_is_none(told: str) -> None:
    assert read_type(told) is None


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("critical", Severity.CRITICAL),
        (" Info ", Severity.INFO),
        ("WARNING", Severity.WARNING),
        ("MEDIUM", Severity.WARNING),
        ("", Severity.WARNING),
        (None, Severity.WARNING),
    ],
    ids=str,
)
def test_a_severity_of_another_scale_is_a_warning(told: str | None, meant: Severity) -> None:
    assert read_severity(told) is meant


def test_severities_can_be_compared() -> None:
    assert sorted(Severity, key=lambda severity: severity.rank) == [Severity.INFO, Severity.WARNING, Severity.CRITICAL]


def test_statuses_are_those_that_people_know() -> None:
    assert [status.value for status in Status] == ["OPEN", "ACKNOWLEDGED", "ALERTED", "RESOLVED", "FALSE_POSITIVE"]


def test_a_breaking_change_of_schema_is_critical_and_another_a_warning() -> None:
    breaking = schema_anomaly("DROPPED_COLUMN", True, "removed 'email'")
    harmless = schema_anomaly("ADDED_COLUMN", False, "added 'phone'")
    assert breaking == (Severity.CRITICAL, "the schema changed and readers can break: removed 'email'")
    assert harmless == (Severity.WARNING, "the schema changed: added 'phone'")


@pytest.mark.parametrize(
    ("change_type", "told"),
    [("TYPE_CHANGE", "type change"), (" ", "no details are known")],
    ids=["type only", "nothing"],
)
def test_a_change_without_a_description_is_still_told(change_type: str, told: str) -> None:
    assert schema_anomaly(change_type, False, " ")[1] == f"the schema changed: {told}"
