"""Figures as a reader sees them."""

from __future__ import annotations

import doctest
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.story import figures
from headgate.story.figures import apart, cut_middle, duration, instant, number, percent, plain


def test_the_examples_in_the_code_hold() -> None:
    assert doctest.testmod(figures).failed == 0


@given(st.integers(1, 10**12), st.integers(0, 10**12))
def test_what_is_not_all_is_never_shown_as_all_or_nothing(total: int, part: int) -> None:
    shown = percent(min(part, total) / total)

    assert (shown == "100 %") is (part >= total)
    assert (shown == "0 %") is (part == 0)


@given(st.floats(0, 1), st.floats(0, 1))
def test_shares_that_differ_enough_are_told_apart(one: float, other: float) -> None:
    if abs(one - other) > 1e-6:
        assert apart(one, other) != apart(other, one)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 ms"), (0.9996, "1 s"), (59.96, "1 min"), (60, "1 min"), (3599.6, "1 h"), (86_400, "1 d"), (None, "–")],
)
def test_durations_carry_over_to_the_next_unit(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


def test_a_time_without_a_zone_is_utc() -> None:
    assert instant(datetime(2026, 3, 1, 8, 30)) == "2026-03-01 08:30:00 UTC"  # noqa: DTZ001 - the case under test


def test_names_of_the_data_keep_their_figures() -> None:
    assert plain(88121) == "88121"
    assert plain(["a", None, True, {"b": 1}]) == "a, null, true, b: 1"


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e300, -0.0001, 10**30])
def test_any_number_can_be_shown(value: float) -> None:
    assert number(value)


@given(st.text(max_size=60), st.integers(3, 30))
def test_a_cut_name_fits(name: str, most: int) -> None:
    assert len(cut_middle(name, most)) <= most
