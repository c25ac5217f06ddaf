"""What a rule wants to hear of, and when it has heard enough."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from headgate.domain.anomaly import AnomalyType
from headgate.server.alerts.channels.mail import MailSettings
from headgate.server.alerts.rules import (
    SYMPTOMS,
    TYPES,
    About,
    Past,
    QuietHours,
    Reason,
    Rule,
    Source,
    fits,
    held_back,
    pattern_of,
    problem_of_hours,
    read_rule_type,
    urn_of,
)

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SYMPTOM = About(Source.symptom, "RowCountDrop", "CRITICAL", ("shop.orders", "orders"), ("Ann",), ("gold",))


def a_rule(**fields: object) -> Rule:
    return Rule(id=uuid4(), name="r", channel_type="SLACK", channel_config={}, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"dataset_name": "*", "anomaly_type": "*"}, True),
        ({"dataset_name": "ord*"}, True),
        ({"dataset_name": "orders"}, True),
        ({"dataset_name": "order"}, False),
        ({"dataset_name": "ORDERS"}, False),
        ({"anomaly_type": "RowCountDrop"}, True),
        ({"anomaly_type": "RowCount*"}, True),
        ({"anomaly_type": "Volume*"}, False),
        ({"severity": "CRITICAL"}, True),
        ({"severity": "INFO"}, False),
        ({"owner": "ann"}, True),
        ({"owner": "an"}, False),
        ({"tag": "gold"}, True),
        ({"tag": "Gold"}, False),
        ({"dataset_name": "orders", "tag": "pii"}, False),
    ],
    ids=str,
)
def test_all_that_a_rule_names_has_to_fit(fields: dict[str, str], expected: bool) -> None:
    assert fits(a_rule(**fields), SYMPTOM) is expected


def test_a_rule_means_a_dataset_by_any_spelling_of_its_urn() -> None:
    about = SYMPTOM._replace(names=("postgres://db/shop.orders",))
    spelled = a_rule(dataset_name="postgres://db:5432/shop.*")
    assert not fits(spelled, about)
    assert fits(replace(spelled, spellings=("postgres://db/shop.*",)), about)


@pytest.mark.parametrize(
    ("pattern", "urn"),
    [
        ("postgres://db/orders", "postgres://db/orders"),
        ("postgres://db/shop.*", "postgres://db/shop.\ue000"),
        ("postgres://db*", "postgres://db/\ue000"),
        ("orders*", "orders\ue000"),
    ],
)
def test_a_pattern_is_read_as_a_urn_with_an_open_end(pattern: str, urn: str) -> None:
    assert urn_of(pattern) == urn


@pytest.mark.parametrize(
    ("urn", "pattern"),
    [("a/b", "a/b"), ("a/b\ue000", "a/b*"), ("a/\ue000_old", None), ("postgres:///\ue000", "postgres://*")],
)
def test_what_follows_an_open_end_cannot_be_a_pattern(urn: str, pattern: str | None) -> None:
    assert pattern_of(urn) == pattern


@pytest.mark.parametrize("source", [Source.incident, Source.pipeline])
def test_a_rule_for_everything_is_for_symptoms(source: Source) -> None:
    news = About(source, "on_start", "INFO")
    assert not fits(a_rule(), news)
    assert not fits(a_rule(anomaly_type="*"), news)
    assert fits(a_rule(anomaly_type="on_*"), news)


def test_what_has_no_dataset_fits_rules_for_all_only() -> None:
    bare = About(Source.symptom, "RunFailed", "CRITICAL")
    assert fits(a_rule(), bare)
    assert not fits(a_rule(dataset_name="o*"), bare)
    assert not fits(a_rule(owner="ann"), bare)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("past", "reason"),
    [
        (Past(), None),
        (Past(told_at=ago(59)), Reason.window),
        (Past(told_at=ago(60)), None),
        (Past(grouped_at=ago(59)), Reason.grouped),
        (Past(grouped_at=ago(60)), None),
        (Past(grouped_at=ago(1), told_at=ago(1)), Reason.grouped),
        (Past(in_minute=3), Reason.throttled),
        (Past(in_minute=2, in_hour=10), Reason.throttled),
        (Past(in_minute=2, in_hour=9), None),
    ],
    ids=str,
)
def test_enough_is_enough(past: Past, reason: Reason | None) -> None:
    rule = a_rule(max_per_minute=3, max_per_hour=10)
    assert held_back(rule, SYMPTOM, past, NOW) is reason


def hours(begin: str, end: str, zone: str = "UTC", critical: bool = False) -> QuietHours:
    return QuietHours(time.fromisoformat(begin), time.fromisoformat(end), ZoneInfo(zone), critical)


@pytest.mark.parametrize(
    ("quiet", "now", "until"),
    [
        (hours("22:00", "07:00"), "2026-03-02T23:00+00:00", "2026-03-03T07:00+00:00"),
        (hours("22:00", "07:00"), "2026-03-02T06:59+00:00", "2026-03-02T07:00+00:00"),
        (hours("22:00", "07:00"), "2026-03-02T07:00+00:00", None),
        (hours("22:00", "07:00"), "2026-03-02T21:59+00:00", None),
        (hours("12:00", "13:00"), "2026-03-02T12:30+00:00", "2026-03-02T13:00+00:00"),
        (hours("12:00", "13:00"), "2026-03-02T13:00+00:00", None),
        (hours("22:00", "07:00", "Europe/Berlin"), "2026-03-02T21:30+00:00", "2026-03-03T06:00+00:00"),
        # The night in which the clocks go forward.
        (hours("22:00", "07:00", "Europe/Berlin"), "2026-03-28T22:30+00:00", "2026-03-29T05:00+00:00"),
        # An end that the clocks skip, and one that they show twice.
        (hours("22:00", "02:30", "Europe/Berlin"), "2026-03-29T00:40+00:00", "2026-03-29T01:30+00:00"),
        (hours("22:00", "02:30", "Europe/Berlin"), "2026-10-25T00:10+00:00", "2026-10-25T01:30+00:00"),
        (hours("22:00", "02:30", "Europe/Berlin"), "2026-10-25T01:10+00:00", "2026-10-25T01:30+00:00"),
    ],
)
def test_quiet_hours_are_by_the_clock_of_their_place(quiet: QuietHours, now: str, until: str | None) -> None:
    expected = None if until is None else datetime.fromisoformat(until)
    assert quiet.until(datetime.fromisoformat(now)) == expected


def test_quiet_hours_come_before_all_and_let_critical_pass_if_told() -> None:
    always, past = hours("00:00", "23:59"), Past(told_at=ago(1))
    assert held_back(a_rule(quiet_hours=always), SYMPTOM, past, NOW) is Reason.quiet_hours
    lenient = always._replace(critical_passes=True)
    assert held_back(a_rule(quiet_hours=lenient), SYMPTOM, Past(), NOW) is None
    mild = SYMPTOM._replace(severity="WARNING")
    assert held_back(a_rule(quiet_hours=lenient), mild, Past(), NOW) is Reason.quiet_hours


@pytest.mark.parametrize("kind", list(AnomalyType))
def test_every_anomaly_is_a_symptom_that_rules_can_name(kind: AnomalyType) -> None:
    assert str(kind) in SYMPTOMS


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_is_known_in_any_spelling(kind: str) -> None:
    assert read_rule_type(kind) == read_rule_type(kind.upper()) == kind


def test_quiet_hours_are_never_over_in_the_past() -> None:
    now, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    quiet = hours("22:00", "02:30", "Europe/Berlin")
    while now < end:
        until = quiet.until(now)
        assert until is None or until > now, now
        now += timedelta(minutes=10)


@pytest.mark.parametrize(("text", "read"), [("on_*", "on_*"), ("Incident*", "Incident*"), ("*", "*"), ("Zzz*", None)])
def test_a_beginning_is_that_of_a_type(text: str, read: str | None) -> None:
    assert read_rule_type(text) == read


@pytest.mark.parametrize(
    ("begin", "end", "zone", "field"),
    [
        ("24:00", "07:00", "UTC", "from"),
        ("22:00", "7:00", "UTC", "to"),
        ("22:00", "22:00", "UTC", "to"),
        ("22:00", "07:00", "Nowhere/Land", "timezone"),
        ("22:00", "07:00", "../etc/passwd", "timezone"),
        ("22:00", "07:00", "", "timezone"),
    ],
)
def test_hours_that_no_clock_shows_are_told(begin: str, end: str, zone: str, field: str) -> None:
    found = problem_of_hours(begin, end, zone)
    assert found is not None
    assert found[0] == field


@pytest.mark.parametrize(
    ("settings", "target"),
    [
        (MailSettings("gmail", "ignored.example", 1), ("smtp.gmail.com", 587)),
        (MailSettings("smtp", "mail.example"), ("mail.example", 587)),
        (MailSettings("smtp", "mail.example", tls="tls"), ("mail.example", 465)),
        (MailSettings("smtp", "mail.example", 2525), ("mail.example", 2525)),
    ],
    ids=["gmail", "starttls", "tls", "own port"],
)
def test_mails_go_to_the_usual_ports_unless_told_otherwise(settings: MailSettings, target: tuple[str, int]) -> None:
    assert settings.target == target


def test_settings_with_a_password_do_not_show_it() -> None:
    assert "sm7ps3cret" not in repr(MailSettings("smtp", password="sm7ps3cret"))
