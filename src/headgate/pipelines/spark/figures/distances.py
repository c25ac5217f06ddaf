"""How far a distribution is from the one that was expected; numbers only.

Counts are by part, in the order of the expected shares; one more at the end counts what fits no part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

# A share of nothing would make any distance infinite; the usual floor.
_FLOOR = 1e-4
_ROUNDS = 1000
_TINY = 1e-300
_CLOSE = 1e-15


def psi(counts: Sequence[int], shares: Sequence[float]) -> float:
    """Population stability index: 0.1 is small, 0.25 is large."""
    pairs = _floored(counts, shares)
    return sum((actual - expected) * math.log(actual / expected) for actual, expected in pairs)


def kl(counts: Sequence[int], shares: Sequence[float]) -> float:
    """Kullback-Leibler divergence of what is there from what was expected, in nats."""
    pairs = _floored(counts, shares)
    return max(0.0, sum(actual * math.log(actual / expected) for actual, expected in pairs))


def chi_square(counts: Sequence[int], shares: Sequence[float]) -> float:
    """The p-value of Pearson's test of fit; what cannot be there, and is, leaves no doubt."""
    total, statistic, parts = sum(counts), 0.0, 0
    for count, share in zip(counts, _normal(shares), strict=True):
        if share == 0 and count:
            return 0.0
        if share:
            statistic += (count - total * share) ** 2 / (total * share)
            parts += 1
    return chi_square_survival(statistic, parts - 1)


def ks(counts: Sequence[int], shares: Sequence[float]) -> float:
    """The p-value of Kolmogorov's test, with distances taken where parts end: at least what exact values would give."""
    total, actual, expected, distance = sum(counts), 0.0, 0.0, 0.0
    for count, share in zip(counts, _normal(shares), strict=True):
        actual, expected = actual + count / total, expected + share
        distance = max(distance, abs(actual - expected))
    root = math.sqrt(total)
    return kolmogorov_survival((root + 0.12 + 0.11 / root) * distance)


def chi_square_survival(statistic: float, freedom: int) -> float:
    """The chance of a larger statistic: the regularised upper incomplete gamma function.

    >>> round(chi_square_survival(3.841, 1), 3)
    0.05
    """
    if statistic <= 0 or freedom < 1:
        return 1.0
    shape, x = freedom / 2, statistic / 2
    weight = math.exp(-x + shape * math.log(x) - math.lgamma(shape))
    if x < shape + 1:
        return max(0.0, 1.0 - weight * _lower_series(shape, x))
    return min(1.0, weight * _upper_fraction(shape, x))


def _lower_series(shape: float, x: float) -> float:
    term = total = 1.0 / shape
    for n in range(1, _ROUNDS):
        term *= x / (shape + n)
        total += term
        if term < total * _CLOSE:
            break
    return total


def _upper_fraction(shape: float, x: float) -> float:
    """By Lentz's method."""
    b = x + 1.0 - shape
    c, d = 1.0 / _TINY, 1.0 / b
    value = d
    for n in range(1, _ROUNDS):
        a, b = -n * (n - shape), b + 2.0
        d = 1.0 / _not_zero(a * d + b)
        c = _not_zero(b + a / c)
        value *= c * d
        if abs(c * d - 1.0) < _CLOSE:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def kolmogorov_survival(x: float) -> float:
    """The chance of a larger distance, scaled by the root of the number of values.

    >>> round(kolmogorov_survival(1.3581), 3)
    0.05
    """
    if x < 0.2:
        return 1.0
    total = sum(math.exp(-2 * (k * x) ** 2) * (1 if k % 2 else -1) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * total))


def _normal(shares: Sequence[float]) -> list[float]:
    """Adding up to 1, with nothing expected outside all parts."""
    total = sum(shares)
    return [*(share / total for share in shares), 0.0]


def _floored(counts: Sequence[int], shares: Sequence[float]) -> list[tuple[float, float]]:
    total = sum(counts)
    pairs = [(count / total, share) for count, share in zip(counts, _normal(shares), strict=True) if count or share]
    return [(max(actual, _FLOOR), max(expected, _FLOOR)) for actual, expected in pairs]
