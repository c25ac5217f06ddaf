"""Series of measurements in figures: what is usual, and how far it spreads. Knows nothing of where they are kept."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final

# Of a profile the first columns by name, up to so many, are looked at.
MOST_COLUMNS: Final = 2000


class Direction(StrEnum):
    """Whether a figure is of what a run read, of what it wrote, or of the data as it lies there."""

    input = "input"
    output = "output"
    profile = "profile"


# A writer knows all it has written and a profile looks at everything; readers may read a part.
_TELLING = (Direction.output, Direction.profile, Direction.input)


def most_telling(measured: Collection[str]) -> Direction | None:
    """The kind of figures that says most about a dataset, of those that there are."""
    return next((direction for direction in _TELLING if direction in measured), None)


def null_share(figures: object, rows: float | None) -> float | None:
    """Which share of a column of a profile is NULL; None if it does not say.

    Where a profile does not say how many rows it looked at, these are the values of the column, of which there are
    `count`, and the NULLs beside them. How many rows its run wrote does not count: these may have been added to many.

    >>> null_share({"nullCount": 5}, 100), null_share({"nullCount": 20, "count": 980}, None), null_share({}, 100)
    (0.05, 0.02, None)
    """
    nulls, values = _amount(figures, "nullCount"), _amount(figures, "count")
    if nulls is None:
        return None
    looked_at = nulls + values if rows is None and values is not None else rows
    # More nulls than rows are a mistake of the producer's.
    return min(nulls / looked_at, 1.0) if looked_at else None


def distinct_count(figures: object) -> float | None:
    """How many different values a column of a profile has; None if it does not say."""
    return _amount(figures, "distinctCount")


def _amount(figures: object, name: str) -> float | None:
    told = figures.get(name) if isinstance(figures, dict) else None
    return float(told) if isinstance(told, int | float) and not isinstance(told, bool) and told >= 0 else None


def mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def sample_stddev(values: Sequence[float]) -> float | None:
    """Standard deviation of a sample (n - 1); None for fewer than two values.

    >>> sample_stddev([100] * 15 + [1000])
    225.0
    """
    middle = mean(values)
    if middle is None or len(values) < 2:
        return None
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def percentile(values: Sequence[float], fraction: float) -> float | None:
    """The value below which a fraction lies, on the line between the two nearest.

    >>> percentile([10, 20], 0.05)
    10.5
    """
    if not values:
        return None
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))
