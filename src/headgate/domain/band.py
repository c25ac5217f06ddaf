"""The band in which a measurement should fall, and the verdict on one that just came in.

Knows numbers and times; knows nothing of datasets, alerts or storage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Final, NamedTuple

from headgate.domain.amount import amount as in_words
from headgate.domain.anomaly import AnomalyType, Severity
from headgate.domain.baseline import Learnt, has_lows, is_echo, learnt, level_run, pooled, was_let_in
from headgate.domain.series import LARGEST, Dot, Factors, Fit, fit, spread, weekday_of, widened
from headgate.domain.verdict import (
    DAY_S,
    DEFAULT,
    DROP_SHARE,
    SIDES,
    WEEKDAYS,
    Mark,
    Metric,
    Point,
    Policy,
    State,
    Verdict,
    day_of,
)

# Scores are kept as numbers of ten digits; what is further off is not told apart.
MAX_SCORE: Final = 999_999.0
# Where a window has too few points, as of a weekly table, so many of the last so many days count.
MAX_REACH_DAYS: Final = 400
_REACHED_POINTS: Final = 12
# A column that never had a NULL in so many points and rows is known to have none: three times this is too many.
_NEVER_POINTS: Final = 10
_NEVER_ROWS: Final = 10_000
_NEVER_NULL: Final = 0.005 / 3
# What scatters by less than this share of its mean is much the same on either scale.
_MIN_FOR_FACTORS: Final = 12
_WIDE: Final = 0.12
_LOPSIDED: Final = 0.4
_MOSTLY_NULL: Final = 0.5
_CALMER: Final = 0.04
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_UNITS: Final = (("day", 1.0), ("hour", 1 / 24), ("minute", 1 / 1440))


def can_deviate(metric: Metric, side: str) -> bool:
    """Whether a metric can be too high, or too low, at all."""
    nature = _NATURES[metric]
    return (nature.spike if side == SIDES[0] else nature.drop) is not None


class _Nature(NamedTuple):
    """How a metric behaves: what its deviations are called, how bad they are, and how little it may scatter."""

    spike: AnomalyType
    drop: AnomalyType | None
    # The least standard deviation that is believed: a share of what is expected, and an amount.
    share: float
    least: float
    is_count: bool = False
    has_drop_rule: bool = False
    drop_severity: Severity = Severity.CRITICAL
    most: float = LARGEST

    @property
    def zero_is_level(self) -> bool:
        """Whether nothing at all may become what is usual: not where it means that something is lost."""
        return self.drop_severity is not Severity.CRITICAL


# Fewer quarantined rows are no anomaly; fewer nulls and shorter runs are worth a note, no more.
_NATURES: Final = {
    Metric.row_count: _Nature(
        AnomalyType.RowCountSpike, AnomalyType.RowCountDrop, 0.02, 1.0, is_count=True, has_drop_rule=True
    ),
    Metric.byte_size: _Nature(AnomalyType.VolumeSpike, AnomalyType.VolumeDrop, 0.03, 256.0, has_drop_rule=True),
    Metric.duration_ms: _Nature(
        AnomalyType.DurationSpike, AnomalyType.DurationDrop, 0.1, 1000.0, drop_severity=Severity.INFO
    ),
    Metric.null_share: _Nature(
        AnomalyType.NullShareSpike, AnomalyType.NullShareDrop, 0.1, 0.005, drop_severity=Severity.INFO, most=1.0
    ),
    Metric.distinct_count: _Nature(
        AnomalyType.DistinctCountSpike, AnomalyType.DistinctCountDrop, 0.02, 1.0, is_count=True
    ),
    Metric.rows_quarantined: _Nature(AnomalyType.QuarantineSpike, None, 0.1, 2.0, is_count=True),
}


class _Floor(NamedTuple):
    """The least standard deviations that are believed, below and above.

    `chance` is what chance makes of a count or a share: nothing of a table that always has the same rows. It reaches
    further up than down, which shows where counts are small: by the skews.
    """

    below: float
    above: float
    chance: float
    low_skew: float
    high_skew: float


class _Band(NamedTuple):
    """Where a value should lie. `below` and `above` are standard deviations, at least the floor."""

    expected: float
    low: float
    high: float
    below: float
    above: float
    chance: float
    method: str
    fit: Fit
    factors: Factors | None = None

    def stddev(self, value: float) -> float:
        return self.above if value >= self.expected else self.below

    def score(self, value: float) -> float:
        apart = self.factors.score(value) if self.factors else (value - self.expected) / self.stddev(value)
        return max(-MAX_SCORE, min(MAX_SCORE, apart))


class _Subject(NamedTuple):
    """What a sentence is about."""

    metric: Metric
    column: str | None
    value: float

    def __str__(self) -> str:
        amount = in_words(self.metric, self.value)
        within = f" in {self.column!r}" if self.column else ""
        if self.metric in _MEASURES:
            return f"a {_MEASURES[self.metric]} of {amount}{within} is"
        noun = _THINGS[self.metric]
        return f"{amount} {noun}{within} is" if self.value == 1 else f"{amount} {noun}s{within} are"


_MEASURES: Final = {Metric.byte_size: "size", Metric.duration_ms: "duration", Metric.null_share: "null share"}
_THINGS: Final = {
    Metric.row_count: "row",
    Metric.distinct_count: "distinct value",
    Metric.rows_quarantined: "quarantined row",
}


class _Finding(NamedTuple):
    """What a verdict comes to, and why: the side, by which rule beyond the band, what excuses it, what makes a level.

    The rule is `half` or `all`, for what is missing.
    """

    state: State
    side: int
    rule: str | None
    excuse: str | None
    run: int


class _Case(NamedTuple):
    """All that a verdict is made of."""

    subject: _Subject
    nature: _Nature
    policy: Policy
    known: Learnt
    band: _Band
    day: float
    mark: Mark | None
    rows: Verdict | None = None
    is_beyond_window: bool = False

    @property
    def weekday(self) -> str:
        return WEEKDAYS[weekday_of(self.day)]


def judge(
    metric: Metric,
    history: Sequence[Point],
    at: datetime,
    value: float,
    policy: Policy = DEFAULT,
    *,
    column: str | None = None,
    marks: Sequence[Mark] = (),
    rows: Verdict | None = None,
) -> Verdict:
    """The verdict on a value that was measured at a time, after a history (oldest first) that does not hold it.

    Earlier points count that lie within the policy's window, were not judged anomalous and that no mark covers; older
    ones where it has too few. Bytes that are fewer because `rows` are, of the same measurement, are told only if those
    are, and how many there are says how far chance moves a share of NULLs.
    """
    metric, number, day = Metric(metric), _finite(value), day_of(at)
    subject = _Subject(metric, column, number)
    if not policy.enabled:
        return _unjudged(State.off, number, 0, f"{metric.value} is not judged: its policy is off")
    nature, is_seasonal = _NATURES[metric], policy.seasonality == "auto"
    window, is_beyond = _window(history, at, policy, marks)

    def floor(expected: float) -> float:
        return _floor(nature, expected, policy, _Sample.of(rows, window)).above

    known = learnt(window, day, number, floor, is_seasonal=is_seasonal, zero_is_level=nature.zero_is_level)
    dots, is_seasonal = known.dots, is_seasonal and not known.is_burst
    if known.points < policy.min_points:
        days = MAX_REACH_DAYS if is_beyond else policy.window_days
        few = f"{_counted(len(dots), 'point')} in {_counted(days, 'day')}"
        reason = f"{subject} not judged yet: {few} can be compared with, {policy.min_points} are needed"
        return _unjudged(State.learning, number, len(dots), reason)
    found = pooled(fit(dots, day, origin=known.origin, is_seasonal=is_seasonal), known)
    band = _band(nature, dots, found, policy, _Sample.of(rows, dots))
    covering = [mark for mark in marks if mark.covers(at)]
    return _verdict(_Case(subject, nature, policy, known, band, day, None, rows, is_beyond), covering)


def _verdict(case: _Case, marks: Sequence[Mark]) -> Verdict:
    value, band = case.subject.value, case.band
    side = _side(value, band, case.nature)
    rule = _rule(case) if side == 0 else None
    side = -1 if rule else side
    side = side if side and _is_agreed(case, side) else 0
    case = case._replace(mark=next((mark for mark in marks if side and mark.is_of(side)), None))
    excuse = _excuse(case, side) if side else None
    run = 0 if excuse or not side or case.mark else _level_run(case, side)
    state = _state(case, side, run, is_excused=excuse is not None)
    is_anomalous = state is State.anomalous
    return Verdict(
        state=state,
        value=value,
        expected=band.expected,
        low=band.low,
        high=band.high,
        score=band.score(value),
        stddev=band.stddev(value),
        points=len(case.known.dots),
        method="drop_rule" if side and rule and state is not State.normal else band.method,
        type=(case.nature.spike if side > 0 else case.nature.drop) if is_anomalous else None,
        severity=_severity(case, side) if is_anomalous else None,
        reason=_reason(case, _Finding(state, side, rule if side else None, excuse, run)),
    )


def _state(case: _Case, side: int, run: int, *, is_excused: bool) -> State:
    if side == 0 or is_excused:
        return State.normal
    if case.mark is not None:
        return State.expected
    return State.new_level if run else State.anomalous


def _is_agreed(case: _Case, side: int) -> bool:
    """Whether the rule over all points says so, too: of several a day, until the hours of a week are known.

    Where the hours of some days are, only what is missing may be a weekend.
    """
    plain = case.known.plain
    if plain is None or (side > 0 and case.known.hours):
        return True
    left = 1 - DROP_SHARE if case.nature.has_drop_rule else 0.0
    return plain.side(case.subject.value, case.policy.sigma, left) == side


def _excuse(case: _Case, side: int) -> str | None:
    """Why a value outside is none the less usual, if it is."""
    value, band = case.subject.value, case.band
    let_in = was_let_in(case.known, value, band.expected, case.policy.min_points)
    if let_in is not None:
        amount, at = in_words(case.subject.metric, let_in[1]), _EPOCH + timedelta(days=let_in[0])
        return f"{amount} of {at:%Y-%m-%d} were let through, so it is usual"
    if case.known.hours is not None and case.known.hours.is_beside(value, band.expected):
        return "an hour earlier or later that is usual"
    if band.fit.has_trend:
        # What was usual a week ago is not where a trend leads to.
        before = in_words(case.subject.metric, case.known.dots[-1][1])
        return f"the value before was {before}, so it is on its way there" if _is_on_its_way(case, side) else None
    is_usual = case.policy.seasonality == "auto" and is_echo(case.known.weeks, case.day, value, band.expected)
    return f"every {case.weekday} so far was like that, so it is usual" if is_usual else None


def _is_on_its_way(case: _Case, side: int) -> bool:
    """Whether a value lies between the newest that was accepted and the forecast: a line does not follow a curve."""
    newest, fitted = case.known.dots[-1], case.band.fit
    then, now = fitted.level(newest[0]), fitted.level(case.day)
    # On another weekday the newest would have been as much more or less as weekdays are.
    before = newest[1] * now / then if then > 0 else newest[1]
    # A series scatters more where it is high, and a forecast may be far lower than the series is.
    apart = case.band.stddev(case.subject.value) * max(
        1.0, before / case.band.expected if case.band.expected > 0 else 1.0
    )
    return side * (case.subject.value - before) <= case.policy.sigma * apart


def _level_run(case: _Case, side: int) -> int:
    newest = (case.day, case.subject.value, True)
    zero_is_level = case.nature.zero_is_level
    return level_run(case.known, case.band.fit.at, newest, side, zero_is_level=zero_is_level)


def _unjudged(state: State, value: float, points: int, reason: str) -> Verdict:
    return Verdict(state, value, None, None, None, None, None, points, "none", None, None, reason)


def _window(history: Sequence[Point], at: datetime, policy: Policy, marks: Sequence[Mark]) -> tuple[list[Dot], bool]:
    """The points that may be compared with, in order, and whether the policy's window has too few of them.

    Then older ones are among them, as many as are wanted: of a table that is written once a week. What a person
    expected says nothing of what is usual.
    """
    found = _dots(history, at - min(timedelta(days=policy.window_days), at - _EARLIEST), at, marks)
    usable = len(found) - sum(map(itemgetter(2), found))
    if usable >= policy.min_points or len(found) == len(history):
        return found, False
    reached = _dots(
        history, at - min(timedelta(days=max(policy.window_days, MAX_REACH_DAYS)), at - _EARLIEST), at, marks
    )
    first, wanted = len(reached) - len(found), max(policy.min_points, _REACHED_POINTS)
    while first > 0 and usable < wanted:
        first -= 1
        usable += not reached[first][2]
    return reached[first:], len(reached) - first > len(found)


def _dots(history: Sequence[Point], since: datetime, at: datetime, marks: Sequence[Mark]) -> list[Dot]:
    found = [
        (point[0].timestamp() / DAY_S, float(point[1]), point[2])
        for point in history
        if since < point[0] <= at and 0 <= point[1] < LARGEST
    ]
    if marks:
        # Until when without since when says nothing of the past.
        said = [mark for mark in marks if mark.kind != "until" or mark.at is not None]
        found = [dot for dot in found if not any(mark.covers(_EPOCH + timedelta(days=dot[0])) for mark in said)]
    return sorted(found)


class _Sample(NamedTuple):
    """Of how many rows a share is, and of how many it was learnt, about; whether it was ever anything but nothing."""

    rows: float
    learnt: float
    is_never: bool

    @classmethod
    def of(cls, rows: Verdict | None, dots: Sequence[Dot]) -> _Sample | None:
        if rows is None or rows.value < 1:
            return None
        before = len(dots) * min(rows.value, rows.value if rows.expected is None else max(rows.expected, 1.0))
        is_never = len(dots) >= _NEVER_POINTS and before >= _NEVER_ROWS and not any(dot[1] for dot in dots)
        return cls(rows.value, before, is_never)


def _band(nature: _Nature, dots: Sequence[Dot], found: Fit, policy: Policy, sample: _Sample | None) -> _Band:
    by_percentile = policy.method == "percentile"
    width = _width(policy, found, len(dots))
    shift, below, above = spread(dots, found) if by_percentile else (0.0, found.stddev, found.stddev)
    # A line that goes down ends at nothing, and a share at all.
    expected = min(max(found.expected + shift, 0.0), nature.most)
    floor = _floor(nature, expected, policy, sample, found)
    low = max(0.0, expected - max(width * below, policy.sigma * floor.below - floor.low_skew))
    by_factors = _by_factors(nature, dots, found, policy)
    high = min(nature.most, expected + max(width * above, policy.sigma * floor.above) + floor.high_skew)
    if by_factors:
        expected = by_factors.at(0)
        # Never narrower above than the other scale has it.
        low, high = by_factors.at(-width), max(high, by_factors.at(width))
    parts = (("weekday", found.has_season), ("trend", found.has_trend), ("log", by_factors is not None))
    method = "+".join((policy.method, *(name for name, holds in parts if holds)))
    below, above = max(below, floor.below), max(above, floor.above)
    return _Band(expected, low, high, below, above, floor.chance, method, found, by_factors)


def _by_factors(nature: _Nature, dots: Sequence[Dot], found: Fit, policy: Policy) -> Factors | None:
    """The logarithms of a series that scatters widely, and further up than down; None for any other.

    What was left out for being outside was the end of its tail, so that the rest seems less lopsided than it is.
    """
    is_flat = not found.has_season and not found.has_trend
    if policy.method != "sigma" or not is_flat or nature.most < LARGEST or len(dots) < _MIN_FOR_FACTORS:
        return None
    values = [dot[1] for dot in dots]
    # What chance makes of small counts has a band of its own.
    least = max(_WIDE * found.mean, _floor(nature, found.mean, policy).above * (2 if nature.is_count else 1))
    if found.stddev < least or min(values) <= 0:
        return None
    factors = Factors.of(values, found.mean)
    return factors if factors.skew > 0 else None


def _width(policy: Policy, found: Fit, points: int) -> float:
    """How many standard deviations the band reaches: `sigma` for very many points, more for few."""
    if not policy.small_sample:
        return policy.sigma
    # The points that were left out for being outside make the rest look calmer than it is.
    calmer = 1 + _CALMER * min(1.0, policy.window_days / points)
    return widened(policy.sigma, found.free) * found.reach * calmer


def _floor(
    nature: _Nature, expected: float, policy: Policy, sample: _Sample | None = None, found: Fit | None = None
) -> _Floor:
    """The least that a series is believed to scatter.

    A count scatters at least as chance makes it, upwards. Downwards that holds only of one that is seen to scatter like
    that: a table that always has the same nine rows has lost them if it has none.
    """
    share = nature.share if policy.floor_share is None else policy.floor_share
    least = max(share * expected, nature.least)
    if nature.is_count:
        chance = math.sqrt(expected)
        seen = chance if found is None else min(chance, found.stddev * _doubt(found.free))
        # By Cornish and Fisher, of counts that are above 0; upwards a little more.
        low_skew = (policy.sigma**2 - 1) / 6 if seen > least and policy.sigma > 1 else 0.0
        return _Floor(max(least, seen), max(least, chance), seen, low_skew, policy.sigma**2 / 4)
    if nature.most < LARGEST and sample is not None:
        least = max(share * expected, _NEVER_NULL) if sample.is_never else least
        # What was never seen may still be as often as once in all that was looked at.
        likely = min(max(expected, 1 / (sample.learnt + 1)), 0.5 if expected < 0.5 else expected)
        chance = math.sqrt(likely * (1 - likely) / sample.rows)
        return _Floor(max(least, chance), max(least, chance), chance, 0.0, policy.sigma**2 / 4 / sample.rows)
    return _Floor(least, least, 0.0, 0.0, 0.0)


def _doubt(free: float) -> float:
    """How many times as far as was seen a series may scatter; by Wilson and Hilferty, one in a hundred does more."""
    ninth = 2 / (9 * free)
    return 1 / math.sqrt(max(1 - ninth - 2.33 * math.sqrt(ninth), 0.05) ** 3)


def _side(value: float, band: _Band, nature: _Nature) -> int:
    if value > band.high:
        return 1
    return -1 if value < band.low and nature.drop is not None else 0


def _rule(case: _Case) -> str | None:
    """By which rule a value is a drop though the band is wide enough for it: `half` of it is missing, or `all`."""
    if case.nature.has_drop_rule and _is_halved(case):
        return "half"
    return "all" if case.nature.is_count and case.nature.drop is not None and _is_gone(case) else None


def _is_gone(case: _Case) -> bool:
    """Whether nothing is left of what never was nothing, and chance does not explain it."""
    band, level = case.band, case.known.level
    if case.subject.value > 0 or band.expected <= 0 or any(dot[1] == 0 for dot in level):
        return False
    likely = math.exp(-band.expected) if band.chance >= math.sqrt(band.expected) else 0.0
    return likely < math.erfc(case.policy.sigma / math.sqrt(2)) / 2


def _is_halved(case: _Case) -> bool:
    """Whether more is missing than is allowed, though the band is wide enough for it.

    What a policy allows counts as it is; half, if it does not say, has exceptions.
    """
    value, expected, share = case.subject.value, case.band.expected, case.policy.drop_share
    left = 1 - (DROP_SHARE if share is None else share)
    return value < left * expected and (share is not None or not _may_be_halved(case, left))


def _may_be_halved(case: _Case, left: float) -> bool:
    """Whether half is not much: of few rows by chance, of their bytes, of lopsided values, or of a series with lows."""
    value, expected, rows = case.subject.value, case.band.expected, case.rows
    if case.nature.is_count and expected - value <= case.policy.sigma * case.band.chance:
        return True
    if rows is not None and rows.state is State.normal and rows.value < left * (rows.expected or 0.0):
        return True
    if case.band.factors is not None and case.band.factors.skew >= _LOPSIDED:
        return True
    return has_lows(case.known.level, value, left, expected)


def _severity(case: _Case, side: int) -> Severity:
    if side < 0:
        return case.policy.drop_severity or case.nature.drop_severity
    if case.policy.spike_severity:
        return case.policy.spike_severity
    value, band = case.subject.value, case.band
    # A column that has lost most of its values is lost.
    is_lost = case.subject.metric is Metric.null_share and value >= _MOSTLY_NULL
    is_far = value - band.expected > 3 * (band.high - band.expected)
    return Severity.CRITICAL if is_lost and is_far else Severity.WARNING


def _reason(case: _Case, found: _Finding) -> str:
    subject, band = case.subject, case.band
    if found.side == 0:
        low, high = in_words(subject.metric, band.low), in_words(subject.metric, band.high)
        if not band.low <= subject.value <= band.high:
            return f"{subject} {_apart(case)}; by all points so far, whatever the time of day, it is usual"
        return f"{subject} within {low} to {high}, around {_usual(case)}{_left_out(case)}"
    told = f"{subject} {_by_rule(case, found.rule) if found.rule else _apart(case)}{_left_out(case)}"
    if found.state is State.normal:
        return f"{told}; {found.excuse}"
    if found.rule == "half":
        share = case.policy.drop_share
        told = f"{told}, and {100 * (DROP_SHARE if share is None else share):g} % are allowed"
    if found.state is State.expected:
        return f"{told}; a person expects that {case.mark}"
    if found.state is State.new_level:
        row = f"{found.run} in a row are {'above' if found.side > 0 else 'below'}"
        return f"{told}; {row}, so the level has changed: what comes is compared with these"
    return told


def _by_rule(case: _Case, rule: str) -> str:
    missing = f"{100 * (1 - case.subject.value / case.band.expected):.0f} % below {_usual(case)}"
    return missing if rule == "half" else f"{missing}, which never was nothing"


def _apart(case: _Case) -> str:
    """How far off a value is, by the measure that decides."""
    band, score = case.band, case.band.score(case.subject.value)
    if case.policy.method == "percentile":
        end, side = (band.high, "above") if score >= 0 else (band.low, "below")
        return f"{side} {in_words(case.subject.metric, end)}, where the band by percentiles around {_usual(case)} ends"
    scale = " on a logarithmic scale" if band.factors else ""
    return f"{abs(score):,.1f} standard deviations {'above' if score >= 0 else 'below'} {_usual(case)}{scale}"


def _left_out(case: _Case) -> str:
    """That points do not count which are far from all others, where there are some."""
    count = len(case.known.wild)
    return f", without {_counted(count, 'point')} far from all others" if count else ""


def _usual(case: _Case) -> str:
    amount, fitted, hours = in_words(case.subject.metric, case.band.expected), case.band.fit, case.known.hours
    time = " at this time of day" if hours else ""
    if fitted.has_season and fitted.has_trend:
        return f"the {amount} that the trend leads to{time} on a {case.weekday}"
    if fitted.has_season:
        return f"the {amount} that is usual{time} on a {case.weekday}"
    if fitted.has_trend:
        return f"the {amount} that the trend of {' '.join(_span(case))}s{time} leads to"
    kind = "median" if case.policy.method == "percentile" else "geometric mean" if case.band.factors else "mean"
    few = f" ({_counted(case.policy.window_days, 'day')} have too few points)" if case.is_beyond_window else ""
    return f"the {'-'.join(_span(case))} {kind}{time} of {amount}{few}"


def _span(case: _Case) -> tuple[str, str]:
    """How far back the points reach that count: that may be less than the window of the policy, or more."""
    days = case.day - case.known.dots[0][0]
    if abs(days - case.policy.window_days) < 1.5:
        return str(case.policy.window_days), "day"
    unit, size = next(((unit, size) for unit, size in _UNITS if days >= 2 * size), _UNITS[-1])
    return str(max(1, round(days / size))), unit


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _finite(value: float) -> float:
    if not abs(value) < LARGEST:
        raise ValueError(
            f"{value if isinstance(value, float) else 'the value'} is no measurement: give a number below {LARGEST:g}"
        )
    return float(value)
