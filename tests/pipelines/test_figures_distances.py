"""Distances between distributions and their chances, against published values."""

from __future__ import annotations

import math

import pytest

from headgate.pipelines.spark.figures.distances import (
    chi_square,
    chi_square_survival,
    kl,
    kolmogorov_survival,
    ks,
    psi,
)


# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.4: upper critical values of the chi-square distribution.
@pytest.mark.parametrize(
    ("freedom", "chance", "critical"),
    [
        (1, 0.10, 2.706),
        (1, 0.05, 3.841),
        (1, 0.001, 10.828),
        (2, 0.05, 5.991),
        (5, 0.01, 15.086),
        (10, 0.05, 18.307),
        (10, 0.975, 3.247),
        (30, 0.025, 46.979),
        (30, 0.95, 18.493),
        (100, 0.05, 124.342),
        (100, 0.99, 70.065),
    ],
)
def test_chances_of_chi_square_are_as_published(freedom: int, chance: float, critical: float) -> None:
    assert chi_square_survival(critical, freedom) == pytest.approx(chance, abs=6e-5)


def test_two_degrees_of_freedom_are_an_exponential() -> None:
    for statistic in (0.001, 0.5, 1.0, 3.9, 4.1, 30.0, 700.0):
        assert chi_square_survival(statistic, 2) == pytest.approx(math.exp(-statistic / 2), rel=1e-12)


# Smirnov's table, as in Conover, Practical Nonparametric Statistics, for large samples.
@pytest.mark.parametrize(
    ("distance", "chance"),
    [(1.0727, 0.20), (1.2238, 0.10), (1.3581, 0.05), (1.5174, 0.02), (1.6276, 0.01), (0.8276, 0.50)],
)
def test_chances_of_kolmogorov_are_as_published(distance: float, chance: float) -> None:
    assert kolmogorov_survival(distance) == pytest.approx(chance, abs=5e-5)


def test_chances_lie_between_nothing_and_one() -> None:
    assert chi_square_survival(0, 3) == 1.0
    assert chi_square_survival(1e6, 3) == 0.0
    assert kolmogorov_survival(0) == 1.0
    assert kolmogorov_survival(0.2) == pytest.approx(1.0)
    assert kolmogorov_survival(50) == 0.0


@pytest.mark.parametrize("distance", [psi, kl])
def test_the_same_distribution_is_no_distance_away(distance: object) -> None:
    assert distance([50, 30, 20, 0], [0.5, 0.3, 0.2]) == pytest.approx(0)  # type: ignore[operator]


def test_psi_and_kl_are_as_worked_out_by_hand() -> None:
    counts, shares = [60, 40, 0], [0.5, 0.5]

    assert psi(counts, shares) == pytest.approx(0.1 * math.log(1.2) - 0.1 * math.log(0.8))
    assert kl(counts, shares) == pytest.approx(0.6 * math.log(1.2) + 0.4 * math.log(0.8))


# Mendel's peas: 315, 101, 108 and 32 of an expected 9:3:3:1, a statistic of 0.470 and a p-value of 0.925.
def test_mendels_peas_fit_very_well() -> None:
    assert chi_square([315, 101, 108, 32, 0], [9 / 16, 3 / 16, 3 / 16, 1 / 16]) == pytest.approx(0.9254, abs=1e-4)


def test_values_in_no_part_count_as_a_part_of_their_own() -> None:
    shares = [0.5, 0.5]

    assert chi_square([50, 50, 0], shares) == 1.0
    assert chi_square([50, 50, 1], shares) == 0.0
    assert psi([45, 45, 10], shares) > psi([50, 50, 0], shares)
    assert ks([4500, 4500, 1000], shares) < 0.001


def test_shares_that_nearly_add_up_are_taken_as_if_they_did() -> None:
    assert chi_square([333, 333, 333, 0], [0.33, 0.33, 0.33]) == pytest.approx(1.0)
    assert ks([333, 333, 333, 0], [0.33, 0.33, 0.33]) == 1.0
