"""From counts and figures to what becomes of a batch: how each test went, and the gate's verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.domain import gate
from headgate.domain.gate import Lot, OnFail, Outcome
from headgate.pipelines.config.node import FreshnessConfig
from headgate.pipelines.config.strict import span_text
from headgate.pipelines.plan import NamedTest, Node
from headgate.pipelines.record import GateRecord, RowCountRecord, TestRecord
from headgate.pipelines.spark.figures import Judged


@dataclass(frozen=True)
class Decision:
    """Which lots are published and which are set apart; `reasons` say why a batch is not, or not whole."""

    published: frozenset[Lot]
    apart: frozenset[Lot]
    reasons: tuple[str, ...] = ()
    gate: GateRecord | None = None
    notes: tuple[str, ...] = ()


def of_rows(test: NamedTest, failed: int, total: int) -> Judged:
    """How a test of rows went."""
    config = test.config
    outcome = Outcome(
        test.name,
        config.kind,
        OnFail(config.on_fail),
        failed=failed,
        max_failures=config.max_failures,
        max_failure_rate=config.max_failure_rate,
    )
    status = "passed" if outcome.passes(total) else "failed"
    record = TestRecord(
        test.name,
        config.kind,
        str(outcome.on_fail),
        status,
        failed,
        columns=config.tested_columns,
        evaluated=total,
        limit=_limit(outcome),
        detail=config.description,
    )
    return Judged(outcome, record)


def _limit(outcome: Outcome) -> str | None:
    parts = []
    if outcome.max_failures is not None:
        parts.append(f"at most {outcome.max_failures:,} rows")
    if outcome.max_failure_rate is not None:
        parts.append(f"at most {gate.percent(outcome.max_failure_rate)}")
    return " and ".join(parts) or None


def of_last_publish(config: FreshnessConfig, published_at: datetime | None, now: datetime) -> TestRecord:
    """Whether the target had become too old when this run came."""
    limit = f"at most {span_text(config.max_age)}"
    if published_at is None:
        detail = "there was no published run before this one"
        return TestRecord("freshness", "freshness", "warn", "passed", 0, limit=limit, detail=detail)
    age = now - published_at
    status = "passed" if age <= config.max_age else "failed"
    detail = f"the last publish was {age.total_seconds() / 3600:,.1f} h ago, {limit} is asked for"
    observed = round(age.total_seconds(), 3)
    return TestRecord("freshness", "freshness", "warn", status, 0, limit=limit, observed=observed, detail=detail)


def decide(node: Node, judged: Sequence[Judged], lots: dict[Lot, int], history: gate.History) -> Decision:
    """What becomes of the batch; without a gate, a failing test of `fail` stops it."""
    outcomes, total = [each.outcome for each in judged], sum(lots.values())
    if node.config.gate is None:
        reasons = tuple(gate.stops(outcomes, total))
        published = frozenset[Lot]() if reasons else gate.published(None)
        return Decision(published, gate.quarantined(None), reasons)
    verdict = gate.judge(_rules(node), lots, outcomes, history)
    notes = [*verdict.notes]
    if history.note is not None and history.previous is not None:
        notes.append(f"the last row count: {history.note}")
    record = _recorded(verdict, node.config.gate.require_pass_rate)
    return Decision(gate.published(verdict), gate.quarantined(verdict), verdict.reasons, record, tuple(notes))


def _rules(node: Node) -> gate.Rules:
    config = node.config.gate
    assert config is not None
    limits = None
    if config.row_count is not None:
        count = config.row_count
        limits = gate.RowLimits(count.min, count.max, count.change_threshold, count.on_missing_history == "pass")
    thresholds = {each.test: each.min_pass_rate for each in config.thresholds}
    return gate.Rules(config.require_pass_rate, config.on_fail, thresholds, limits)


def _recorded(verdict: gate.Verdict, required: float) -> GateRecord:
    counted = verdict.row_count
    return GateRecord(
        verdict.passed,
        verdict.pass_rate,
        required,
        None if verdict.action is None else str(verdict.action),
        verdict.total_rows,
        verdict.passed_rows,
        verdict.failed_rows,
        dict(verdict.per_test_rates),
        RowCountRecord(counted.current, counted.previous, counted.change),
        verdict.reasons,
        verdict.notes,
    )
