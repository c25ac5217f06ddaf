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
