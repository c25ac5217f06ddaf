"""When the next write of a dataset is due."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.anomaly import Severity
from headgate.domain.rhythm import due_by, late

MONDAY = datetime(2026, 1, 5, 6, 0, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def on_days(count: int, is_on: Callable[[int], bool] = lambda day: True, jitter_min: float = 10) -> list[datetime]:
    """A write a day at about six, on the days (0 is a Monday) that are asked for."""
    chance = random.Random(4)
    return [MONDAY + day * DAY + timedelta(minutes=chance.gauss(0, jitter_min)) for day in range(count) if is_on(day)]


def is_workday(day: int) -> bool:
    return day % 7 < 5


def test_without_writes_nothing_is_late() -> None:
    assert late([], MONDAY, sla_hours=1) is None
    assert due_by([]) is None


def test_an_sla_counts_from_the_last_write() -> None:
    writes = [MONDAY, MONDAY - DAY]
    missed = late(writes, MONDAY + timedelta(hours=25), sla_hours=24)
    assert missed is not None
    assert (missed.expected_by, missed.last_write_at, missed.late_by) == (MONDAY + DAY, MONDAY, HOUR)
    assert (missed.source, missed.severity) == ("sla", Severity.CRITICAL)
    assert missed.reason == "the last write was 25 hours ago, at 2026-01-05 06:00 UTC; its SLA is 24 hours"


@pytest.mark.parametrize(
    ("age", "sla_hours", "reason"),
    [
        (timedelta(minutes=61), 1, "the last write was 61 minutes ago, at 2026-01-05 06:00 UTC; its SLA is 1 hour"),
        (timedelta(minutes=1), 0.01, "the last write was 1 minute ago, at 2026-01-05 06:00 UTC; its SLA is 0.01 hours"),
        (timedelta(seconds=20), 0.005, "less than a minute ago, at 2026-01-05 06:00 UTC; its SLA is 0.005 hours"),
        (timedelta(hours=25), 1.5, "the last write was 25 hours ago, at 2026-01-05 06:00 UTC; its SLA is 1.5 hours"),
        (timedelta(days=3), 24, "the last write was 3.0 days ago, at 2026-01-05 06:00 UTC; its SLA is 24 hours"),
    ],
    ids=str,
)
def test_one_hour_and_one_minute_are_said_as_one(age: timedelta, sla_hours: float, reason: str) -> None:
    missed = late([MONDAY], MONDAY + age, sla_hours=sla_hours)
    assert missed is not None
    assert missed.reason.endswith(reason)


def test_what_was_never_written_is_late_by_its_sla_and_says_so() -> None:
    missed = late([], MONDAY + timedelta(hours=25), sla_hours=24, known_since=MONDAY)
    assert missed is not None
    assert (missed.expected_by, missed.last_write_at, missed.late_by) == (MONDAY + DAY, None, HOUR)
    assert missed.reason == (
        "it was never written since it is known, for 25 hours, since 2026-01-05 06:00 UTC; its SLA is 24 hours"
    )
    assert due_by([], sla_hours=24, known_since=MONDAY) == MONDAY + DAY


def test_what_was_never_written_has_no_rhythm() -> None:
    assert late([], MONDAY + 1000 * DAY, known_since=MONDAY) is None
    assert due_by([], known_since=MONDAY) is None


def test_since_when_a_dataset_is_known_says_nothing_once_it_was_written() -> None:
    assert late([MONDAY], MONDAY + HOUR, sla_hours=2, known_since=MONDAY - 9 * DAY) is None
    missed = late([MONDAY], MONDAY + 3 * HOUR, sla_hours=2, known_since=MONDAY + 9 * DAY)
    assert missed is not None
    assert missed.last_write_at == MONDAY


def test_an_sla_is_kept_to_its_last_second() -> None:
    assert late([MONDAY], MONDAY + DAY, sla_hours=24) is None
    assert late([MONDAY], MONDAY + DAY + timedelta(seconds=1), sla_hours=24) is not None


def test_an_sla_counts_where_the_rhythm_would_be_content() -> None:
    writes = on_days(40, is_workday)
    sunday = MONDAY + 41 * DAY
    assert late(writes, sunday) is None
    assert late(writes, sunday, sla_hours=24) is not None


@pytest.mark.parametrize("sla_hours", [0, -1, float("nan"), float("inf")])
def test_an_sla_that_cannot_be_kept_is_refused(sla_hours: float) -> None:
    with pytest.raises(ValueError, match="sla_hours is"):
        late([MONDAY], MONDAY, sla_hours=sla_hours)


def test_an_sla_of_ages_never_ends() -> None:
    assert late([MONDAY], MONDAY + 1000 * DAY, sla_hours=1e9) is None
    assert due_by([MONDAY], sla_hours=1e9) == datetime.max.replace(tzinfo=UTC)


def test_a_daily_dataset_is_late_some_hours_after_its_time() -> None:
    writes = on_days(30)
    due = MONDAY + 30 * DAY
    assert late(writes, due + HOUR) is None
    missed = late(writes, due + timedelta(hours=4))
    assert missed is not None
    assert (missed.source, missed.severity) == ("rhythm", Severity.WARNING)
    assert due < missed.expected_by < due + timedelta(hours=4)
    assert "by its rhythm the next was due by 2026-02-04 0" in missed.reason


@pytest.mark.parametrize(("day", "name"), [(33, "Saturday"), (34, "Sunday")], ids=["saturday", "sunday"])
def test_what_is_written_on_workdays_is_not_late_on_a_weekend(day: int, name: str) -> None:
    writes = on_days(33, is_workday)
    now = MONDAY + day * DAY + 12 * HOUR
    assert f"{now:%A}" == name
    assert late(writes, now) is None


def test_what_is_written_on_workdays_is_late_on_monday_and_on_wednesday() -> None:
    over_the_weekend = late(on_days(33, is_workday), MONDAY + 35 * DAY + 12 * HOUR)
    in_the_week = late(on_days(37, is_workday), MONDAY + 37 * DAY + 4 * HOUR)
    assert over_the_weekend is not None
    assert in_the_week is not None


def test_a_rhythm_needs_two_weeks() -> None:
    assert late(on_days(14), MONDAY + 20 * DAY) is None
    assert late(on_days(16), MONDAY + 20 * DAY) is not None


def test_writes_without_a_rhythm_are_never_late() -> None:
    chance = random.Random(8)
    writes = [MONDAY]
    while len(writes) < 60:
        writes.append(writes[-1] + chance.expovariate(1) ** 2 * DAY)
    assert late(writes, writes[-1] + 30 * DAY) is None


def test_an_hourly_dataset_of_office_hours_is_not_late_at_night() -> None:
    writes = [MONDAY + day * DAY + hour * HOUR for day in range(28) if is_workday(day) for hour in range(11)]
    at_night = MONDAY + 24 * DAY + 20 * HOUR
    by_day = MONDAY + 24 * DAY + 7 * HOUR
    assert late([at for at in writes if at < at_night], at_night) is None
    assert late([at for at in writes if at < by_day - 4 * HOUR], by_day) is not None


def test_several_writes_of_one_job_count_as_one_rhythm() -> None:
    writes = [at + part * timedelta(minutes=5) for at in on_days(30) for part in range(3)]
    assert late(writes, MONDAY + 29 * DAY + 12 * HOUR) is None
    assert late(writes, MONDAY + 30 * DAY + 6 * HOUR) is not None


def test_a_weekly_dataset_is_late_after_a_week() -> None:
    writes = [MONDAY + week * 7 * DAY for week in range(8)]
    assert late(writes, writes[-1] + 7 * DAY) is None
    assert late(writes, writes[-1] + 8 * DAY) is not None


def test_a_monthly_dataset_is_late_after_a_month() -> None:
    writes = [datetime(2026, month, 1, 6, tzinfo=UTC) for month in range(1, 10)]
    assert late(writes, datetime(2026, 10, 1, 6, tzinfo=UTC)) is None
    assert late(writes, datetime(2026, 10, 8, 6, tzinfo=UTC)) is not None


def test_one_outage_does_not_teach_patience() -> None:
    writes = on_days(40, lambda day: day not in (24, 25, 26))
    assert late(writes, MONDAY + 40 * DAY + 6 * HOUR) is not None


@pytest.mark.parametrize("begins_after", [timedelta(minutes=2), timedelta(minutes=90), timedelta(hours=11)], ids=str)
@pytest.mark.parametrize("runs", [20, 90, 600])
def test_a_backfill_is_not_the_rhythm(begins_after: timedelta, runs: int) -> None:
    daily = on_days(30)
    backfill = [daily[-1] + begins_after + part * timedelta(minutes=1) for part in range(runs)]

    due = due_by([*daily, *backfill])

    assert due is not None
    assert daily[-1] + DAY < due < backfill[-1] + DAY + 4 * HOUR
    the_next = MONDAY + 30 * DAY
    assert late([*daily, *backfill, the_next], the_next + DAY + HOUR) is None
    assert late([*daily, *backfill, the_next], the_next + DAY + 6 * HOUR) is not None


def test_a_backfill_of_a_weekly_dataset_is_not_its_rhythm() -> None:
    weekly = [MONDAY + week * 7 * DAY for week in range(8)]
    backfill = [weekly[-1] + 2 * DAY + part * timedelta(minutes=1) for part in range(90)]
    due = due_by([*weekly, *backfill])
    assert due is None or due > weekly[-1] + 7 * DAY


def test_midnight_is_no_border() -> None:
    writes = [at + 18 * HOUR for at in on_days(30)]
    assert late(writes, writes[-1] + DAY + HOUR) is None
    assert late(writes, writes[-1] + DAY + 5 * HOUR) is not None


def test_a_write_from_the_future_is_not_late() -> None:
    assert late([*on_days(30), MONDAY + 100 * DAY], MONDAY + 60 * DAY) is None


def test_a_time_without_a_zone_is_refused() -> None:
    naive = MONDAY.replace(tzinfo=None)
    with pytest.raises(ValueError, match="2026-01-05T06:00:00 has no time zone"):
        late([MONDAY], naive)
    with pytest.raises(ValueError, match="has no time zone"):
        due_by([naive])


def test_what_is_due_is_what_is_late_afterwards() -> None:
    writes = on_days(33, is_workday)
    due = due_by(writes)
    assert due is not None
    assert late(writes, due) is None
    assert late(writes, due + timedelta(seconds=1)) is not None


times = st.lists(st.integers(0, 60 * 24), max_size=80).map(lambda hours: [MONDAY + hour * HOUR for hour in hours])


@given(times, st.integers(0, 100 * 24), st.randoms(use_true_random=False))
def test_the_order_and_the_zone_of_writes_do_not_matter(
    writes: Sequence[datetime], hours: int, chance: random.Random
) -> None:
    now = MONDAY + hours * HOUR
    mixed = [at.astimezone(timezone(timedelta(hours=9))) for at in writes]
    chance.shuffle(mixed)
    assert late(mixed, now) == late(writes, now)


@given(times, st.integers(0, 100 * 24))
def test_once_late_stays_late_until_written(writes: Sequence[datetime], hours: int) -> None:
    now = MONDAY + hours * HOUR
    missed = late(writes, now)
    if missed is not None:
        assert missed.expected_by < now
        assert late(writes, now + DAY) is not None
        assert late([*writes, now], now) is None
