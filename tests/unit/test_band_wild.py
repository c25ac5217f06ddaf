"""Points far from all others: a first load, or what a person called right, does not blind what comes after it."""

from __future__ import annotations

import math
import random

import pytest

from headgate.domain.anomaly import AnomalyType, Severity
from headgate.domain.band import judge
from headgate.domain.verdict import Point, Policy
from tests.unit.measurements import BEGIN, DAY, ROWS, daily, noisy, verdict


@pytest.mark.parametrize("first", [1_000_000, 20_000, 10], ids=["all there is", "more", "a small test"])
def test_no_day_after_a_first_load_alarms(first: float) -> None:
    history: list[Point] = []
    for day, value in enumerate([first, *noisy(39)]):
        found = judge(ROWS, history, BEGIN + day * DAY, value)
        history.append(Point(BEGIN + day * DAY, value, found.is_outside))
        assert found.state in ("learning", "normal"), found.reason


@pytest.mark.parametrize("days", [4, 7, 12, 20, 28])
def test_next_to_nothing_after_a_large_first_load_is_a_drop(days: int) -> None:
    found = verdict([1_000_000, *noisy(days)], 10)
    assert (found.type, found.severity) == (AnomalyType.RowCountDrop, Severity.CRITICAL)
    assert found.reason.endswith(", without 1 point far from all others")
    assert verdict([1_000_000, *noisy(days)], 5_000).type is AnomalyType.RowCountSpike


def test_a_load_of_two_days_is_left_out_as_well() -> None:
    found = verdict([1_000_000, 700_000, *noisy(18)], 10)
    assert found.type is AnomalyType.RowCountDrop
    assert found.reason.endswith(", without 2 points far from all others")


def test_the_rule_of_half_holds_against_what_is_usual_without_them() -> None:
    restless = [1000, 700, 1700, 800, 1500, 400, 1300, 1600, 900, 1100]
    found = verdict([1_000_000, *restless], 350)
    assert found.method == "drop_rule"
    assert "below the 10-day mean of 1,100, without 1 point far from all others" in found.reason


class TestForgiven:
    """A reload that a person called a false alarm."""

    HISTORY = daily([*noisy(20), 1_000_000, *noisy(2)])
    AT = BEGIN + 23 * DAY

    def test_next_to_nothing_two_days_later_is_a_drop(self) -> None:
        found = judge(ROWS, self.HISTORY, self.AT, 10)
        assert (found.type, found.severity) == (AnomalyType.RowCountDrop, Severity.CRITICAL)

    def test_the_same_again_is_usual(self) -> None:
        found = judge(ROWS, self.HISTORY, self.AT, 1_050_000)
        assert found.state == "normal"
        assert found.reason.endswith("; 1,000,000 of 2026-03-22 were let through, so it is usual")

    def test_another_spike_is_not(self) -> None:
        assert judge(ROWS, self.HISTORY, self.AT, 5_000).type is AnomalyType.RowCountSpike
        assert judge(ROWS, self.HISTORY, self.AT, 9_000_000).type is AnomalyType.RowCountSpike

    def test_one_of_the_first_that_nobody_judged_makes_nothing_usual(self) -> None:
        found = verdict([1000, 1010, 990, 1_000_000, *noisy(16)], 1_000_000)
        assert found.type is AnomalyType.RowCountSpike


def test_the_newest_of_a_short_series_may_be_how_it_goes_on() -> None:
    assert verdict([10, 11, 10, 9, 1000], 1000).state == "normal"


def test_a_weekday_that_is_known_once_is_no_exception() -> None:
    values = [1000, 1010, 990, 1005, 995, 300, 1000]
    assert verdict(values, 1000).points == 7


def test_a_weekday_with_much_more_is_no_exception() -> None:
    chance = random.Random(1)
    values = [round((100_000 if day % 7 == 0 else 1000) * chance.gauss(1, 0.03)) for day in range(28)]
    found = verdict(values, 100_000)
    assert (found.state, found.method, found.points) == ("normal", "sigma+weekday", 28)


@pytest.mark.parametrize(("draw", "most"), [("gauss", 0), ("lognormal", 3)])
def test_what_a_series_scatters_like_is_hardly_ever_an_exception(draw: str, most: int) -> None:
    chance, found = random.Random(2), 0
    for _ in range(300):
        size = chance.randint(5, 29)
        logs = [chance.gauss(0, 0.5 if draw == "lognormal" else 0.05) for _ in range(size)]
        values = [1000 * (math.exp(log) if draw == "lognormal" else 1 + log) for log in logs]
        found += verdict(values, 1000, Policy(seasonality="off")).points < size
    assert found <= most
