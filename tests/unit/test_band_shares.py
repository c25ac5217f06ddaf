"""Shares of NULLs: of how many rows they are says how far chance moves them."""

from __future__ import annotations

import random

import pytest

from headgate.domain.anomaly import AnomalyType
from headgate.domain.band import judge
from headgate.domain.verdict import Metric, Point, Verdict
from tests.unit.measurements import BEGIN, DAY, ROWS, daily, verdict

SHARE = Metric.null_share


def rows_of(count: float, days: int = 30) -> Verdict:
    """The verdict on as many rows as there always are."""
    return verdict([count] * days, count)


def found(shares: list[float], value: float, rows: float | None) -> Verdict:
    of_rows = None if rows is None else rows_of(rows, len(shares))
    return judge(SHARE, daily(shares), BEGIN + len(shares) * DAY, value, column="email", rows=of_rows)


@pytest.mark.parametrize(
    ("rows", "share"), [(10, 0.01), (20, 0.005), (20, 0.02), (50, 0.005), (100, 0.003), (1000, 0.001)]
)
def test_what_chance_makes_of_a_few_rows_seldom_alarms(rows: int, share: float) -> None:
    alarms = points = 0
    for seed in range(12):
        chance, history = random.Random(seed), list[Point]()
        for day in range(90):
            value = sum(chance.random() < share for _ in range(rows)) / rows
            verdict_ = judge(SHARE, history, BEGIN + day * DAY, value, rows=rows_of(rows, 5))
            history.append(Point(BEGIN + day * DAY, value, verdict_.is_outside))
            alarms, points = alarms + verdict_.is_anomalous, points + 1
    assert alarms / points < 0.006


def test_most_of_a_few_rows_is_no_chance() -> None:
    assert found([0.0] * 15 + [0.05] + [0.0] * 14, 0.5, 20).type is AnomalyType.NullShareSpike


def test_one_in_a_hundred_of_a_million_that_never_had_any_is_told() -> None:
    assert found([0.0] * 30, 0.014, 1_000_000).type is AnomalyType.NullShareSpike
    assert found([0.0] * 30, 0.004, 1_000_000).state == "normal"


@pytest.mark.parametrize(
    ("shares", "rows"),
    [([0.0] * 30, None), ([0.0] * 30, 100), ([0.0] * 6, 1_000_000), ([0.0] * 29 + [0.001], 1_000_000)],
    ids=["of unknown rows", "of few rows", "known for days", "had some"],
)
def test_else_it_is_not(shares: list[float], rows: float | None) -> None:
    assert found(shares, 0.014, rows).state == "normal"


def test_rows_that_are_not_judged_say_how_many_they_are() -> None:
    young = judge(ROWS, [], BEGIN, 20)
    assert young.expected is None
    assert judge(SHARE, daily([0.0, 0.05, 0.0, 0.0, 0.0, 0.0]), BEGIN + 6 * DAY, 0.1, rows=young).state == "normal"
