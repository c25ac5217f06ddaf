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
