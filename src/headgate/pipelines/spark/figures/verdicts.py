"""What the figures of a batch mean: from numbers to whether its tests hold. Spark has done its part here.

An empty batch, and a column without values, have no figures: what is not known breaks no bound, except that rows are
counted as none, and that nothing is never fresh. The detail says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.domain.gate import OnFail, Outcome
from headgate.pipelines.config.strict import span_text
from headgate.pipelines.config.tests import TestConfig, datasets
from headgate.pipelines.plan import NamedTest
from headgate.pipelines.record import TestRecord
from headgate.pipelines.spark.checks.frame import Frame
from headgate.pipelines.spark.checks.values import OPERATORS
from headgate.pipelines.spark.figures import distances
from headgate.pipelines.spark.figures.contract import breaches
from headgate.pipelines.spark.figures.measures import measure_name
from headgate.pipelines.spark.figures.reconcile import Agreement

# Means and ratios are quotients: what is short of a bound by the last bit is not.
_SLACK = 1e-9
_UNKNOWN = "is not known, for there are no values: nothing is broken"


@dataclass(frozen=True)
class Batch:
    """What is known of a batch besides its figures. `history` has rows of published runs, the last one first."""

    rows: int
    frame: Frame
    history: Sequence[int] = ()
    history_note: str | None = None


@dataclass(frozen=True)
class Judged:
    """How a test of the whole batch went: for the gate, and for the record."""

    outcome: Outcome
    record: TestRecord


@dataclass(frozen=True)
class Finding:
    """What one test found: whether it holds, what it asked for, what there was, and a sentence about both."""

    holds: bool
    limit: str
    observed: float | str | None
    detail: str
    evaluated: int | None = None


@dataclass(frozen=True)
class Figures:
    """The figures of one test, by what they are."""

    number: int
    taken: Mapping[str, Any]
    batch: Batch = field(repr=False)

    def __getitem__(self, what: str) -> Any:
        return self.taken.get(measure_name(self.number, what))

    def count(self, what: str) -> int:
        return int(self[what] or 0)


def judge(tests: Sequence[NamedTest], taken: Mapping[str, Any], batch: Batch) -> list[Judged]:
    """The tests of the whole batch among these; `taken` are the figures of the pass and of their own jobs."""
    found = []
    for number, test in enumerate(tests):
        verdict = _VERDICTS.get(type(test.config))
        if verdict is not None:
            found.append(_judged(test, verdict(test.config, Figures(number, taken, batch)), batch))
    return found


def _judged(test: NamedTest, finding: Finding, batch: Batch) -> Judged:
    config = test.config
    outcome = Outcome(
        test.name,
        config.kind,
        OnFail(config.on_fail),
        is_row_level=False,
        holds=finding.holds,
        detail=finding.detail,
    )
    record = TestRecord(
        test.name,
        config.kind,
        str(outcome.on_fail),
        "passed" if finding.holds else "failed",
        0,
        columns=_columns(config),
        evaluated=batch.rows if finding.evaluated is None else finding.evaluated,
        limit=finding.limit,
        observed=finding.observed,
        detail=finding.detail,
    )
    return Judged(outcome, record)


def _columns(config: TestConfig) -> tuple[str, ...]:
    if isinstance(config, datasets.SchemaTest):
        return tuple(spec.name for spec in config.columns)
    return config.tested_columns


def _null_rate(test: datasets.NullRateTest, figures: Figures) -> Finding:
    nulls, rows = figures.count("nulls"), figures.count("rows")
    limit = f"at most {_percent(test.max)}"
    if rows == 0:
        return Finding(True, limit, None, f"the share of NULLs in {test.column!r} {_UNKNOWN}", rows)
    rate = nulls / rows
    detail = f"{nulls:,} of {rows:,} values of {test.column!r} are NULL ({_percent(rate)}), {limit} is allowed"
    return Finding(rate <= test.max + _SLACK, limit, rate, detail, rows)


def _row_count(test: datasets.RowCountTest, figures: Figures) -> Finding:
    rows = figures.batch.rows if test.where is None else figures.count("rows")
    limit = _limit(test)
    return Finding(_is_within(test, rows), limit, rows, f"there are {rows:,} rows, {limit} are asked for")


def _volume_change(test: datasets.VolumeChangeTest, figures: Figures) -> Finding:
    rows, known = figures.batch.rows, list(figures.batch.history[: test.runs])
    is_drop = test.type == "volume_drop"
    limit = f"at most {_percent(test.threshold)} {'fewer' if is_drop else 'more or fewer'}"
    if not known:
        why = figures.batch.history_note or "there is no published run to compare with"
        return Finding(
            test.on_missing_history == "pass", limit, None, f"the change of the row count is not known: {why}"
        )
    before = sum(known) / len(known)
    change = _change(rows, before)
    holds = (is_drop and change > 0) or abs(change) <= test.threshold + _SLACK
    than = (
        f"{_number(before)} of the last run" if len(known) == 1 else f"{_number(before)}, the mean of {len(known)} runs"
    )
    words = f"{_percent(abs(change))} {'more' if change > 0 else 'fewer'}"
    return Finding(holds, limit, change, f"{rows:,} rows are {words} than {than}; {limit} is allowed")


def _change(rows: int, before: float) -> float:
    if before == 0:
        return 0.0 if rows == 0 else 1.0
    return (rows - before) / before


def _freshness(test: datasets.FreshnessTest, figures: Figures) -> Finding:
    newest, limit = figures["newest"], f"at most {span_text(test.max_age)} old"
    if newest is None:
        return Finding(False, limit, None, f"{test.column!r} has no values: nothing is fresh")
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=newest)
    age = figures.batch.frame.now - moment
    told = moment.isoformat().replace("+00:00", "Z")
    detail = f"the newest {test.column!r} is {told}, {_age(age)}; {limit} is asked for"
    return Finding(age <= test.max_age, limit, told, detail)


def _age(age: timedelta) -> str:
    seconds = round(abs(age.total_seconds()))
    days, rest = divmod(seconds, 86_400)
    parts = [(days, "d"), (rest // 3600, "h"), (rest % 3600 // 60, "m"), (rest % 60, "s")]
    told = " ".join([f"{count}{unit}" for count, unit in parts if count][:2]) or "0s"
    return f"{told} old" if age >= timedelta(0) else f"{told} in the future"


def _no_gaps(test: datasets.NoGapsTest, figures: Figures) -> Finding:
    limit = f"at most {test.max_missing:,} missing" if test.max_missing else "none missing"
    if figures["span"] is None:
        return Finding(True, limit, None, f"the slots of {test.column!r} are not known, for there are no values")
    span, missing = figures.count("span"), figures.count("span") - figures.count("slots")
    detail = f"{missing:,} of {span:,} slots of {span_text(test.every)} have no {test.column!r}, {limit} is asked for"
    return Finding(missing <= test.max_missing, limit, missing, detail)


def _schema(test: datasets.SchemaTest, figures: Figures) -> Finding:
    found = breaches(test, figures.batch.frame, figures["types"] or {})
    for number, spec in enumerate(test.columns):
        if nulls := figures.count(f"nulls{number}"):
            found.append(f"{spec.name!r} has {nulls:,} NULLs")
    limit = f"{len(test.columns)} columns{', and no others' if test.strict else ''}"
    return Finding(not found, limit, None, "; ".join(found) or "the columns are as expected")


def _aggregate(test: datasets.AggregateTest, figures: Figures) -> Finding:
    return _bounded(test, figures["figure"], f"the {test.type} of {test.column!r}", figures.count("values"))


def _quantile(test: datasets.QuantileTest, figures: Figures) -> Finding:
    what = f"the {test.quantile:g} quantile of {test.column!r}"
    return _bounded(test, figures["figure"], what, figures.count("values"))


def _distinct_count(test: datasets.DistinctCountTest, figures: Figures) -> Finding:
    values, figure = figures.count("values"), figures["figure"]
    if values == 0:
        return _bounded(test, None, f"the number of different {test.column!r}", 0)
    if test.as_ratio:
        return _bounded(test, min(1.0, figure / values), f"the share of different {test.column!r}", values)
    return _bounded(test, min(figure, values), f"the number of different {test.column!r}", values)


def _bounded(test: datasets.Bounded, figure: float | None, what: str, values: int) -> Finding:
    limit = _limit(test)
    if figure is None:
        return Finding(True, limit, None, f"{what} {_UNKNOWN}", values)
    if math.isnan(figure):
        return Finding(False, limit, "NaN", f"{what} is NaN, {limit} is asked for", values)
    return Finding(
        _is_within(test, figure), limit, figure, f"{what} is {_number(figure)}, {limit} is asked for", values
    )


_DISTANCES: dict[str, Callable[[Sequence[int], Sequence[float]], float]] = {
    "psi": distances.psi,
    "kl": distances.kl,
    "chi_square": distances.chi_square,
    "ks": distances.ks,
}


def _distribution(test: datasets.DistributionTest, figures: Figures) -> Finding:
    is_chance = test.metric in ("chi_square", "ks")
    limit = f"a p-value of at least {test.threshold:g}" if is_chance else f"at most {test.threshold:g}"
    counts = [figures.count(f"part{number}") for number in range(len(test.expected) + 1)]
    what = f"the {'p-value of ' if is_chance else ''}{test.metric} of {test.column!r}"
    if sum(counts) == 0:
        return Finding(True, limit, None, f"{what} {_UNKNOWN}", 0)
    counts, shares = _in_order(test, counts)
    found = _DISTANCES[test.metric](counts, shares)
    outside = f", {counts[-1]:,} of {sum(counts):,} values are in no part" if counts[-1] else ""
    holds = found + _SLACK >= test.threshold if is_chance else found <= test.threshold + _SLACK
    detail = f"{what} is {_number(found)}, {limit} is asked for{outside}"
    return Finding(holds, limit, found, detail, sum(counts))


def _in_order(test: datasets.DistributionTest, counts: list[int]) -> tuple[list[int], list[float]]:
    """Parts from low to high, for distances that add up; what fits none stays last."""
    order = sorted(range(len(test.expected)), key=lambda n: -math.inf if (low := test.expected[n].low) is None else low)
    return [*(counts[n] for n in order), counts[-1]], [test.expected[n].share for n in order]


def _custom_query(test: datasets.CustomQueryTest, figures: Figures) -> Finding:
    answer = figures["answer"]
    if test.operator is None or test.value is None:
        rows = answer["rows"]
        return Finding(rows == 0, "no rows", rows, f"the query finds {rows:,} rows, none are allowed")
    limit = f"{test.operator} {_number(test.value)}"
    if answer["rows"] != 1:
        count = "no row" if answer["rows"] == 0 else "more than one row"
        return Finding(False, limit, None, f"the query gives {count}, and one figure is compared")
    figure = answer["figure"]
    if figure is None:
        return Finding(True, limit, None, "the figure of the query is NULL, and not known: nothing is broken")
    holds = bool(OPERATORS[test.operator](figure, test.value))
    return Finding(holds, limit, figure, f"the query gives {_number(figure)}, {limit} is asked for")


def _reconcile(test: datasets.ReconcileTest, figures: Figures) -> Finding:
    agreement: Agreement = figures["agreement"]
    limit = f"the same within {_percent(test.tolerance)}" if test.tolerance else "the same"
    if agreement.different == 0:
        return Finding(True, limit, 0, "both sides agree")
    examples = "; ".join(agreement.examples)
    if test.group_by:
        detail = f"{agreement.different:,} of {agreement.groups:,} groups differ: {examples}"
    else:
        detail = f"the sides differ: {examples}"
    return Finding(False, limit, agreement.different, detail)


def _no_overlap(test: datasets.NoOverlapTest, figures: Figures) -> Finding:
    overlaps = figures.count("overlaps")
    detail = f"{overlaps:,} intervals begin before an earlier one of their {', '.join(test.columns)} has ended"
    return Finding(overlaps == 0, "no overlaps", overlaps, detail)


_VERDICTS: dict[type[TestConfig], Callable[[Any, Figures], Finding]] = {
    datasets.NullRateTest: _null_rate,
    datasets.RowCountTest: _row_count,
    datasets.VolumeChangeTest: _volume_change,
    datasets.FreshnessTest: _freshness,
    datasets.NoGapsTest: _no_gaps,
    datasets.SchemaTest: _schema,
    datasets.AggregateTest: _aggregate,
    datasets.QuantileTest: _quantile,
    datasets.DistinctCountTest: _distinct_count,
    datasets.DistributionTest: _distribution,
    datasets.CustomQueryTest: _custom_query,
    datasets.ReconcileTest: _reconcile,
    datasets.NoOverlapTest: _no_overlap,
}


def _is_within(test: datasets.Bounded, figure: float) -> bool:
    slack = _SLACK * abs(figure)
    is_high_enough = test.min is None or figure + slack >= test.min
    return is_high_enough and (test.max is None or figure - slack <= test.max)


def _limit(test: datasets.Bounded) -> str:
    if test.min is None or test.max is None:
        return f"at most {_number(test.max)}" if test.max is not None else f"at least {_number(test.min or 0)}"
    return f"between {_number(test.min)} and {_number(test.max)}"


def _number(value: float) -> str:
    if value == int(value) if math.isfinite(value) else False:
        return f"{int(value):,}"
    return f"{value:,.4f}".rstrip("0") if 1e-3 <= abs(value) < 1e15 else f"{value:.4g}"


def _percent(rate: float) -> str:
    return f"{rate * 100:.2f}".rstrip("0").rstrip(".") + " %"
