"""What is judged, by which rules, what a person expects, and the verdict: the words that judging has.

Knows numbers and times; knows nothing of datasets, alerts or storage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from headgate.domain.anomaly import AnomalyType, Severity
from headgate.domain.series import weekday_of

MAX_SIGMA: Final = 20.0
# The least that is missing when a drop is told whatever the band, where a policy does not say.
DROP_SHARE: Final = 0.5
SIDES: Final = ("spike", "drop")
DAY_S: Final = 86_400
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _require(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise ValueError(f"{name} is {value!r}: it must be {allowed}")


def _require_zone(at: datetime) -> None:
    if at.tzinfo is None:
        raise ValueError(f"{at.isoformat()} has no time zone: give an aware time")


class Metric(StrEnum):
    """What is measured and judged."""

    row_count = "row_count"
    byte_size = "byte_size"
    duration_ms = "duration_ms"
    null_share = "null_share"
    distinct_count = "distinct_count"
    rows_quarantined = "rows_quarantined"


class State(StrEnum):
    """What a verdict comes to; `expected` is outside of the band as a person said it would be."""

    normal = "normal"
    anomalous = "anomalous"
    learning = "learning"
    expected = "expected"
    new_level = "new_level"
    off = "off"


class Point(NamedTuple):
    """An earlier measurement; `is_anomalous` if it was judged to be outside and nobody has said otherwise."""

    at: datetime
    value: float
    is_anomalous: bool = False


@dataclass(frozen=True)
class Policy:
    """How a series is judged.

    `percentile` puts the band around the median, as many times as far as the 5th and the 95th percentile as `sigma`
    standard deviations would be for a normal distribution. `floor_share` is the least standard deviation that is
    believed, as a share of the expected value; `small_sample` widens the band while there are few points. `drop_share`
    is half where nothing is said, and there are exceptions then; what is said counts without them.
    """

    enabled: bool = True
    method: str = "sigma"
    sigma: float = 3.0
    min_points: int = 5
    window_days: int = 30
    drop_share: float | None = None
    floor_share: float | None = None
    seasonality: str = "auto"
    small_sample: bool = True
    spike_severity: Severity | None = None
    drop_severity: Severity | None = None

    def __post_init__(self) -> None:
        _require(self.method in ("sigma", "percentile"), "method", self.method, "'sigma' or 'percentile'")
        _require(self.seasonality in ("auto", "off"), "seasonality", self.seasonality, "'auto' or 'off'")
        _require(0 < self.sigma <= MAX_SIGMA, "sigma", self.sigma, f"above 0 and at most {MAX_SIGMA:g}")
        _require(2 <= self.min_points <= 1000, "min_points", self.min_points, "2 to 1000")
        _require(1 <= self.window_days <= 3650, "window_days", self.window_days, "1 to 3650")
        drop, share = self.drop_share, self.floor_share
        _require(drop is None or 0 < drop <= 1, "drop_share", drop, "above 0 and at most 1, or nothing for a half")
        _require(share is None or 0 <= share <= 10, "floor_share", share, "0 to 10, or nothing for the metric's own")


DEFAULT: Final = Policy()


def side_of(kind: str) -> str | None:
    """The side that the type of an anomaly names, if it does.

    >>> side_of("RowCountDrop"), side_of("SchemaChange")
    ('drop', None)
    """
    return next((side for side in SIDES if kind.endswith(side.capitalize())), None)


@dataclass(frozen=True)
class Mark:
    """What a person expects: the UTC day of `at` (once), every `weekday` (0 is Monday, UTC), or all `until` a time.

    An `at` besides `until` says from when; points that it covers are then not learnt from. With a `side`, 'spike' or
    'drop', only what is above or below the band is expected.
    """

    kind: str
    at: datetime | None = None
    weekday: int | None = None
    until: datetime | None = None
    side: str | None = None

    def __post_init__(self) -> None:
        needed = {"once": self.at, "weekday": self.weekday, "until": self.until}
        _require(self.kind in needed, "kind", self.kind, "'once', 'weekday' or 'until'")
        _require(
            needed[self.kind] is not None, "at" if self.kind == "once" else self.kind, None, f"given for {self.kind!r}"
        )
        for at in filter(None, (self.at, self.until)):
            _require_zone(at)
        _require(self.weekday is None or 0 <= self.weekday <= 6, "weekday", self.weekday, "0 (Monday) to 6 (Sunday)")
        _require(self.side in (None, *SIDES), "side", self.side, "'spike', 'drop' or nothing for both")

    def is_of(self, side: int) -> bool:
        """Whether it is meant for what is above (1) or below (-1) the band."""
        return self.side is None or self.side == SIDES[side < 0]

    def covers(self, at: datetime) -> bool:
        if self.kind == "once":
            return self.at is not None and day_of(self.at) // 1 == day_of(at) // 1
        if self.kind == "weekday":
            return self.weekday == weekday_of(day_of(at))
        return self.until is not None and at <= self.until and (self.at is None or self.at <= at)

    def __str__(self) -> str:
        if self.kind == "weekday" and self.weekday is not None:
            return f"every {WEEKDAYS[self.weekday]}"
        if self.kind == "once" and self.at is not None:
            return f"on {self.at.astimezone(UTC):%Y-%m-%d}"
        return f"until {self.until.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if self.until else ""


@dataclass(frozen=True)
class Verdict:
    """What was expected, what came, how far apart they are in standard deviations, and what that means."""

    state: State
    value: float
    expected: float | None
    low: float | None
    high: float | None
    score: float | None
    stddev: float | None
    points: int
    method: str
    type: AnomalyType | None
    severity: Severity | None
    reason: str

    @property
    def is_anomalous(self) -> bool:
        """Whether somebody should hear of it."""
        return self.state is State.anomalous

    @property
    def is_outside(self) -> bool:
        """Whether the point stays out of the baseline: what to keep as `is_anomalous` of the stored point."""
        return self.state in (State.anomalous, State.new_level, State.expected)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {name: value.value if isinstance(value, StrEnum) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Verdict:
        """What `as_dict` gave; fields of later versions are left out."""
        known = {name: stored.get(name) for name in cls.__dataclass_fields__}
        readers: tuple[tuple[str, Callable[[Any], Any]], ...] = (
            ("state", State),
            ("type", AnomalyType),
            ("severity", Severity),
        )
        return cls(**{**known, **{name: read(known[name]) for name, read in readers if known[name] is not None}})


def day_of(at: datetime) -> float:
    _require_zone(at)
    return at.timestamp() / DAY_S
