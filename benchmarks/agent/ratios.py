"""Ratios of two sides that took turns: the median over the rounds, and how sure it is."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from typing import TypeVar

DRAWS = 5_000
T = TypeVar("T")
Pair = tuple[float, float]


def paired(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> list[list[float]]:
    """How many times the other's figure each figure is, by fleet and round."""
    return [[a / b for a, b in zip(*fleet, strict=True)] for fleet in zip(one, other, strict=True)]


def median(fleets: Sequence[Sequence[float]]) -> float:
    return statistics.median(ratio for fleet in fleets for ratio in fleet)


def interval(fleets: Sequence[Sequence[float]], seed: int = 1) -> Pair:
    """95% bootstrap interval of the median.

    Fleets are drawn first and rounds within them: two JVMs that do the same differ by a few per cent for as long as
    they live, which no number of rounds shows.
    """
    chance = random.Random(seed)
    medians = sorted(median([_drawn(chance, fleet) for fleet in _drawn(chance, fleets)]) for _ in range(DRAWS))
    return medians[DRAWS // 40], medians[-DRAWS // 40 - 1]


def _drawn(chance: random.Random, values: Sequence[T]) -> list[T]:
    return [chance.choice(values) for _ in values]
