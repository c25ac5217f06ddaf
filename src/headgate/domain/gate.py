"""Whether a batch may be published: from counts to a verdict, and from the verdict to the rows that go where.

Knows counts and limits; knows nothing of files, Spark or who is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

# Rates are quotients: 0.95 of 20 rows is 19 of them, whatever the last bit says.
_SLACK = 1e-9


class OnFail(StrEnum):
    """What becomes of a failing test: told, the node stopped (or its gate asked), or the rows set apart."""

    warn = "warn"
    fail = "fail"
    quarantine = "quarantine"


class Action(StrEnum):
    """What a gate that does not pass does."""

    abort = "abort"
    warn_and_write = "warn_and_write"
    write_valid_only = "write_valid_only"


class Lot(StrEnum):
    """What one row's tests make of it; the worst of them decides."""

    clean = "clean"
    warned = "warned"
    failed = "failed"
    quarantined = "quarantined"


@dataclass(frozen=True)
class Outcome:
    """How one test went. `failed` counts rows; a test of the whole batch has no rows and says `holds` itself."""

    name: str
    type: str
    on_fail: OnFail
    failed: int = 0
    is_row_level: bool = True
    holds: bool | None = None
    max_failures: int | None = None
    max_failure_rate: float | None = None
    detail: str | None = None

    def passes(self, total: int) -> bool:
        """Whether the test passes, with the failures that it was allowed."""
        if self.holds is not None:
            return self.holds
        if self.max_failures is None and self.max_failure_rate is None:
            return self.failed == 0
        within_count = self.max_failures is None or self.failed <= self.max_failures
        rate = self.failed / total if total else 0.0
        return within_count and (self.max_failure_rate is None or rate <= self.max_failure_rate + _SLACK)

    @property
    def has_limit(self) -> bool:
        return self.max_failures is not None or self.max_failure_rate is not None


@dataclass(frozen=True)
class RowLimits:
    """How many rows a batch should have."""

    min: int | None = None
    max: int | None = None
    change_threshold: float | None = None
    passes_without_history: bool = True


@dataclass(frozen=True)
class Rules:
    """What a gate asks for. `thresholds` are by a test's name or type."""

    require_pass_rate: float = 0.95
    action: Action = Action.abort
    thresholds: Mapping[str, float] = field(default_factory=dict)
    rows: RowLimits | None = None


@dataclass(frozen=True)
class History:
    """Rows of the last published run; `note` says why there are none."""

    previous: int | None = None
    note: str | None = None


@dataclass(frozen=True)
class RowCount:
    current: int
    previous: int | None = None
    change: float | None = None


@dataclass(frozen=True)
class Verdict:
    """What a gate decided and why. `action` is None when it passed."""

    passed: bool
    action: Action | None
    pass_rate: float
    total_rows: int
    passed_rows: int
    per_test_rates: Mapping[str, float]
    row_count: RowCount
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def failed_rows(self) -> int:
        return self.total_rows - self.passed_rows


def judge(rules: Rules, lots: Mapping[Lot, int], outcomes: Sequence[Outcome], history: History) -> Verdict:
    """The gate's verdict. An empty batch passes every rate: only its row count can stop it."""
    total = sum(lots.values())
    passed = lots.get(Lot.clean, 0) + lots.get(Lot.warned, 0)
    rate = passed / total if total else 1.0
    reasons = []
    if rate + _SLACK < rules.require_pass_rate:
        required = percent(rules.require_pass_rate)
        reasons.append(f"{passed:,} of {total:,} rows pass ({percent(rate)}), {required} are required")
    rates = {each.name: _rate(each, total) for each in outcomes if each.is_row_level}
    reasons += _below_thresholds(rules.thresholds, outcomes, rates)
    reasons += _broken_promises(outcomes, total)
    counted, more, notes = _row_count(rules.rows, total, history)
    reasons += more
    return Verdict(
        passed=not reasons,
        action=rules.action if reasons else None,
        pass_rate=rate,
        total_rows=total,
        passed_rows=passed,
        per_test_rates=rates,
        row_count=counted,
        reasons=tuple(reasons),
        notes=notes,
    )


def stops(outcomes: Sequence[Outcome], total: int) -> list[str]:
    """Why a node without a gate does not publish: its `fail` tests that fail, and limits that are exceeded."""
    return [
        _failure(each, total)
        for each in outcomes
        if not each.passes(total)
        and (each.on_fail is OnFail.fail or (each.on_fail is OnFail.quarantine and each.has_limit))
    ]


def published(verdict: Verdict | None) -> frozenset[Lot]:
    """The rows that reach the target."""
    if verdict is None or verdict.passed or verdict.action is Action.warn_and_write:
        return frozenset({Lot.clean, Lot.warned, Lot.failed})
    if verdict.action is Action.write_valid_only:
        return frozenset({Lot.clean, Lot.warned})
    return frozenset()


def quarantined(verdict: Verdict | None) -> frozenset[Lot]:
    """The rows that reach the quarantine, if there is one; an aborted gate keeps them too."""
    if verdict is not None and verdict.action is Action.write_valid_only:
        return frozenset({Lot.quarantined, Lot.failed})
    return frozenset({Lot.quarantined})


def _below_thresholds(
    thresholds: Mapping[str, float], outcomes: Sequence[Outcome], rates: Mapping[str, float]
) -> list[str]:
    found = []
    for wanted, least in thresholds.items():
        named = [each for each in outcomes if each.name == wanted]
        for each in named or [each for each in outcomes if each.type == wanted]:
            rate = rates.get(each.name, 1.0 if each.holds else 0.0)
            if rate + _SLACK < least and each.is_row_level:
                found.append(
                    f"test {each.name!r} passes for {percent(rate)} of the rows, {percent(least)} are required"
                )
            elif rate + _SLACK < least and each.on_fail is OnFail.warn:
                found.append(_failure(each, 0))
    return found


def _broken_promises(outcomes: Sequence[Outcome], total: int) -> list[str]:
    """Tests of the whole batch have no rows to count for the rate: a failing one speaks for itself."""
    return [
        _failure(each, total)
        for each in outcomes
        if not each.passes(total) and each.on_fail is not OnFail.warn and (not each.is_row_level or each.has_limit)
    ]


def _row_count(limits: RowLimits | None, total: int, history: History) -> tuple[RowCount, list[str], tuple[str, ...]]:
    change = None if history.previous is None else _change(total, history.previous)
    counted = RowCount(total, history.previous, change)
    if limits is None:
        return counted, [], ()
    reasons: list[str] = []
    notes: list[str] = []
    if limits.min is not None and total < limits.min:
        reasons.append(f"{total:,} rows are fewer than {limits.min:,}")
    if limits.max is not None and total > limits.max:
        reasons.append(f"{total:,} rows are more than {limits.max:,}")
    if limits.change_threshold is not None and change is None:
        note = history.note or "there is no published run to compare with"
        (notes if limits.passes_without_history else reasons).append(
            f"the change of the row count is not known: {note}"
        )
    elif limits.change_threshold is not None and change is not None and change > limits.change_threshold + _SLACK:
        limit = percent(limits.change_threshold)
        reasons.append(
            f"the row count changed by {percent(change)} ({history.previous:,} to {total:,}), {limit} are allowed"
        )
    return counted, reasons, tuple(notes)


def _change(current: int, previous: int) -> float:
    if previous == 0:
        return 0.0 if current == 0 else 1.0
    return abs(current - previous) / previous


def _rate(outcome: Outcome, total: int) -> float:
    return (total - outcome.failed) / total if total else 1.0


def _failure(outcome: Outcome, total: int) -> str:
    if not outcome.is_row_level:
        return f"test {outcome.name!r} fails: {outcome.detail or 'it does not hold'}"
    allowed = []
    if outcome.max_failures is not None:
        allowed.append(f"{outcome.max_failures:,} rows")
    if outcome.max_failure_rate is not None:
        allowed.append(percent(outcome.max_failure_rate))
    limit = f", {' and '.join(allowed)} are allowed" if allowed else ""
    return f"test {outcome.name!r} fails for {outcome.failed:,} of {total:,} rows{limit}"


def percent(rate: float) -> str:
    """Rounded down, so that what is short of 95 % is never told as 95 %."""
    return f"{math.floor(rate * 1e6 + 1e-3) / 1e4:.4f}".rstrip("0").rstrip(".") + " %"
