"""One card a node: what a reader wants to see first, and whether the card is open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.pipelines.record import GateRecord, NodeRecord, QuarantineRecord, RunRecord, Status, TestRecord
from headgate.story.changes import FAILING
from headgate.story.facts import job_name
from headgate.story.figures import apart, count, difference, duration, elapsed_s, number, percent
from headgate.story.figures import change as change_of
from headgate.story.headline import why

MAX_SAMPLES = 5
TOTAL = "total"
_RANK = {Status.failed: 0, Status.stopped: 1, Status.skipped: 3, Status.published: 4}
_WITH_FINDINGS = 2
_DONE = {
    "abort": "nothing was published",
    "warn_and_write": "the rows were published all the same",
    "write_valid_only": "only the rows that pass were published",
}


@dataclass(frozen=True)
class Segment:
    """A part of a bar."""

    label: str
    value: str
    share: float
    style: str

    @property
    def width(self) -> str:
        return f"{self.share * 100:.3f}"


@dataclass(frozen=True)
class TestRow:
    record: TestRecord
    is_failing: bool
    columns: str
    evaluated: str
    failed: str
    share: str
    observed: str


@dataclass(frozen=True)
class GateView:
    """A gate's verdict as it is shown; `rates` are the tests that did not pass for every row."""

    record: GateRecord
    title: str
    rate: str
    required: str
    rates: tuple[tuple[str, str], ...]
    flawless: int
    change: str | None


@dataclass(frozen=True)
class QuarantineView:
    record: QuarantineRecord
    by_test: tuple[tuple[str, str, str], ...]
    columns: tuple[str, ...]
    samples: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Card:
    """All that is shown of a node."""

    node: NodeRecord
    anchor: str
    name: str
    is_open: bool
    rank: int
    line: str
    reason: str | None
    reasons: tuple[str, ...]
    took: str
    arrived: tuple[Segment, ...]
    left: tuple[Segment, ...]
    gate: GateView | None
    failing: tuple[TestRow, ...]
    passing: tuple[TestRow, ...]
    quarantine: QuarantineView | None
    timings: tuple[Segment, ...]
    drifted: Mapping[str, str]


def anchors(run: RunRecord) -> dict[str, str]:
    """A name for the address of each card, readable and given once."""
    found: dict[str, str] = {}
    for index, node in enumerate(run.nodes, start=1):
        name = job_name(node)
        anchor = "node-" + re.sub(r"[^A-Za-z0-9_.-]", "-", name)
        found.setdefault(name, f"{anchor}-{index}" if anchor in found.values() else anchor)
    return found


def cards(run: RunRecord, named: Mapping[str, str]) -> list[Card]:
    """The cards of a run, those with problems first."""
    return sorted((card(node, named[job_name(node)]) for node in run.nodes), key=lambda each: each.rank)


def card(node: NodeRecord, anchor: str) -> Card:
    tests = [_test(test) for test in node.tests]
    rank = _WITH_FINDINGS if node.status is Status.published and has_findings(node) else _RANK[node.status]
    return Card(
        node=node,
        anchor=anchor,
        name=job_name(node),
        is_open=rank <= _WITH_FINDINGS,
        rank=rank,
        line=_line(node),
        reason=why(node),
        reasons=_reasons(node),
        took=duration(_took_s(node)),
        arrived=_arrived(node),
        left=_left(node),
        gate=None if node.gate is None else _gate(node.gate),
        failing=tuple(row for row in tests if row.is_failing),
        passing=tuple(row for row in tests if not row.is_failing),
        quarantine=None if node.quarantine is None else _quarantine(node.quarantine),
        timings=tuple(_timings(node)),
        drifted=_drifted(node),
    )


def has_findings(node: NodeRecord) -> bool:
    """Whether there is something to see at a node that was published."""
    return bool(
        node.reasons
        or node.error
        or node.rows_quarantined
        or (node.gate is not None and not node.gate.passed)
        or (node.drift is not None and not node.drift.is_empty)
        or any(test.status in FAILING for test in node.tests)
    )


def _line(node: NodeRecord) -> str:
    if node.status in (Status.skipped, Status.failed):
        return why(node) or ""
    if node.status is Status.stopped:
        parts = [f"{count(node.rows_in, 'row')} kept from being published"]
    else:
        parts = [f"{count(node.rows_published, 'row')} published"]
    if node.rows_quarantined:
        parts.append(f"{number(node.rows_quarantined)} quarantined")
    failing = sum(test.status in FAILING for test in node.tests)
    if failing:
        parts.append(f"{failing:,} of {count(len(node.tests), 'test')} failing")
    if node.drift is not None and not node.drift.is_empty:
        parts.append("columns changed")
    return " · ".join(parts)


def _reasons(node: NodeRecord) -> tuple[str, ...]:
    """Those that the gate, or the line that says why a node was skipped, does not say already."""
    if node.status is Status.skipped:
        return node.reasons[1:]
    said = node.gate.reasons if node.gate is not None else ()
    return tuple(reason for reason in node.reasons if reason not in said)


def _took_s(node: NodeRecord) -> float | None:
    found = elapsed_s(node.started_at, node.ended_at)
    return node.timings_s.get(TOTAL) if found is None else found


def _test(test: TestRecord) -> TestRow:
    share = percent(test.failed / test.evaluated) if test.evaluated else "–"
    is_counted = test.evaluated is not None or test.failed
    return TestRow(
        record=test,
        is_failing=test.status in FAILING,
        columns=", ".join(test.columns) or "–",
        evaluated=number(test.evaluated),
        failed=number(test.failed) if is_counted else "–",
        share=share,
        observed=test.observed if isinstance(test.observed, str) else number(test.observed),
    )


def _arrived(node: NodeRecord) -> tuple[Segment, ...]:
    scale = _scale(node)
    return _segments(scale, ("valid", node.rows_valid, "valid"), ("quarantined", node.rows_quarantined, "quarantined"))


def _left(node: NodeRecord) -> tuple[Segment, ...]:
    withheld = max(0, node.rows_in - node.rows_quarantined - node.rows_published)
    return _segments(
        _scale(node), ("published", node.rows_published, "published"), ("not published", withheld, "withheld")
    )


def _scale(node: NodeRecord) -> int:
    return max(node.rows_in, node.rows_valid + node.rows_quarantined, node.rows_published)


def _segments(scale: int, *parts: tuple[str, int, str]) -> tuple[Segment, ...]:
    return tuple(
        Segment(label, number(rows), rows / scale if scale else 0.0, style)
        for label, rows, style in parts
        if rows or label in ("valid", "published")
    )


def _gate(gate: GateRecord) -> GateView:
    if gate.passed:
        title = "The gate passed"
    else:
        title = f"The gate did not pass: {_DONE.get(gate.action or '', gate.action or 'no action')}"
    low = sorted((rate, name) for name, rate in gate.per_test_rates.items() if rate < 1)
    rows = gate.row_count
    moved = None
    if rows.previous is not None:
        moved = f"{difference(rows.current - rows.previous)} ({change_of(rows.current, rows.previous)})"
    return GateView(
        record=gate,
        title=title,
        rate=apart(gate.pass_rate, gate.required),
        required=apart(gate.required, gate.pass_rate),
        rates=tuple((name, percent(rate)) for rate, name in low),
        flawless=len(gate.per_test_rates) - len(low),
        change=moved,
    )


def _quarantine(quarantine: QuarantineRecord) -> QuarantineView:
    by_test = sorted(quarantine.failed_tests.items(), key=lambda item: (-item[1], item[0]))
    samples = quarantine.samples[:MAX_SAMPLES]
    return QuarantineView(
        record=quarantine,
        by_test=tuple((name, number(rows), _share(rows, quarantine.rows)) for name, rows in by_test),
        columns=tuple(dict.fromkeys(str(key) for sample in samples for key in sample)),
        samples=samples,
    )


def _share(rows: int, total: int) -> str:
    return percent(rows / total) if total else "–"


def _timings(node: NodeRecord) -> Iterable[Segment]:
    phases = [(name, seconds) for name, seconds in node.timings_s.items() if name != TOTAL]
    named = sum(seconds for _, seconds in phases)
    total = max(node.timings_s.get(TOTAL, 0), named)
    # What is too short to be seen is not worth a word.
    if phases and total - named > 0.01 * total:
        phases.append(("other", total - named))
    for place, (name, seconds) in enumerate(phases):
        yield Segment(name, duration(seconds), seconds / total if total else 0.0, f"phase{place % 6}")


def _drifted(node: NodeRecord) -> Mapping[str, str]:
    drift = node.drift
    if drift is None:
        return {}
    marked: list[tuple[Sequence[str], str]] = [(drift.added, "added"), (drift.changed, "changed")]
    return {re.split(r"[:\s]", name, maxsplit=1)[0]: word for names, word in marked for name in names}
