"""Facts about a run, weighed as evidence: how unusual each is by itself. Knows nothing of failures or lineage.

A function answers None, or nothing, where the fact is nothing out of the ordinary. Sentences are what
comes after the name of a job: "Job 'load' at 10:00 …".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from headgate.domain.amount import amount
from headgate.domain.scene import Evidence, EvidenceKind
from headgate.domain.trace import telling_line
from headgate.domain.verdict import Metric

# A verdict calls it anomalous at 3; a little less is still worth a look where something did fail.
MIN_SCORE: Final = 2.5
FULL_SCORE: Final = 8.0


class Scale(NamedTuple):
    """From which change on a figure tells anything, from which it tells all it can, and how much that is."""

    least: float
    full: float
    weight: float


# Null shares change by share points, the others relative to what was expected.
_SCALES: Final[Mapping[EvidenceKind, Scale]] = {
    EvidenceKind.row_count: Scale(0.12, 0.5, 0.9),
    EvidenceKind.volume: Scale(0.15, 0.6, 0.7),
    EvidenceKind.null_share: Scale(0.02, 0.3, 0.95),
    EvidenceKind.quarantine_burst: Scale(0.5, 4.0, 0.85),
    EvidenceKind.duration: Scale(0.5, 3.0, 0.3),
}
_MAX_ERROR: Final = 200
_MAX_NAMES: Final = 5
# Hardly anybody minds one more column.
_ADDED: Final = 0.05


def measured(
    kind: EvidenceKind,
    value: float,
    expected: float | None,
    score: float | None,
    *,
    column: str | None = None,
    link: str | None = None,
    at: datetime | None = None,
) -> Evidence | None:
    """row_count, volume, null_share, duration or quarantine_burst: a figure beside what was expected.

    `score` is in standard deviations, signed, as a verdict has it; null shares are from 0 to 1.
    """
    if expected is None or (score is not None and abs(score) < MIN_SCORE):
        return None
    change = value - expected if kind is EvidenceKind.null_share else (value - expected) / max(abs(expected), 1.0)
    scale = _SCALES[kind]
    if abs(change) < scale.least or (kind is EvidenceKind.quarantine_burst and change < 0):
        return None
    far = min(1.0, abs(change) / scale.full)
    # Without a score, the spread is not known: the same change may be usual here.
    rare = 0.3 if score is None else min(1.0, abs(score) / FULL_SCORE)
    weight = scale.weight * (0.65 * far + 0.35 * rare)
    return Evidence(kind, _figure(kind, value, expected, change, column), weight, link, column, at, change)


def schema_diff(
    *,
    removed: Sequence[str] = (),
    type_changed: Sequence[str] = (),
    added: Sequence[str] = (),
    breaking: bool = False,
    link: str | None = None,
    at: datetime | None = None,
) -> list[Evidence]:
    """One piece for each column that was dropped or changed its type, and for each of a few that were added."""
    kind = EvidenceKind.schema_diff
    found = [Evidence(kind, f"dropped the column '{name}'", 0.9, link, name, at) for name in removed]
    found += [Evidence(kind, f"changed the type of the column '{name}'", 0.75, link, name, at) for name in type_changed]
    if breaking and not found:
        found.append(Evidence(kind, "changed the schema so that readers can break", 0.4, link, None, at))
    if len(added) > _MAX_NAMES:
        return [*found, Evidence(kind, f"added {len(added):,} columns", _ADDED, link, None, at)]
    return found + [Evidence(kind, f"added the column '{name}'", _ADDED, link, name, at) for name in added]


def run_failed(
    state: str,
    error: str | None,
    *,
    made_up_at: datetime | None = None,
    link: str | None = None,
    at: datetime | None = None,
) -> Evidence:
    """The run ended as FAIL or ABORT, and no later run of its job had made up for it when its output was read.

    `made_up_at` is when one did, between then and the failure in question: most such gaps do no harm.
    """
    ended = "was aborted" if state == "ABORT" else "failed"
    line = telling_line(error)
    said = f": {_cut(line)}" if line else ""
    made_up = f" (made up for at {_time(made_up_at)})" if made_up_at is not None else ""
    weight = 0.9 if made_up_at is None else 0.5
    return Evidence(EvidenceKind.run_failed, f"{ended}{said}{made_up}", weight, link, None, at)


def run_late(
    last_ended_at: datetime | None,
    expected_by: datetime,
    read_at: datetime,
    usual_s: float | None = None,
    *,
    came_at: datetime | None = None,
    link: str | None = None,
) -> Evidence | None:
    """The job had not run again when its output was read, though it usually does every `usual_s` seconds.

    `came_at` is when it had, if that was before the failure in question: what comes soon after does little harm.
    """
    if read_at <= expected_by:
        return None
    overdue_s = (max(read_at, came_at or read_at) - expected_by).total_seconds()
    far = min(1.0, overdue_s / (0.15 * usual_s)) if usual_s else 0.5
    far = far if came_at is not None else max(far, 0.7)
    since = f"; its last run ended at {_time(last_ended_at)}" if last_ended_at is not None else ""
    said = f"had not run by {_time(read_at)}, though expected by {_time(expected_by)}{since}"
    return Evidence(EvidenceKind.run_late, said, 0.55 + 0.35 * far, link, None, expected_by)


def missing_input(urn: str, *, link: str | None = None, at: datetime | None = None) -> Evidence:
    """The run did not read what runs of its job usually read."""
    return Evidence(EvidenceKind.missing_input, f"did not read '{urn}', which it usually does", 0.7, link, None, at)


def code_changed(what: str, *, link: str | None = None, at: datetime | None = None) -> Evidence:
    """First run with other SQL or another code version than the run before; `what` says which ("its SQL")."""
    return Evidence(EvidenceKind.code_changed, f"ran with {what} changed", 0.6, link, None, at)


def failing_tests(
    names: Sequence[str], *, column: str | None = None, link: str | None = None, at: datetime | None = None
) -> Evidence | None:
    """Tests of severity error that failed on what the run wrote; `at` is when it was written, not tested."""
    if not names:
        return None
    told = ", ".join(f"'{name}'" for name in names[:_MAX_NAMES])
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    one = "the test" if len(names) == 1 else "the tests"
    return Evidence(EvidenceKind.test_failed, f"wrote what failed {one} {told}{more}", 0.6, link, column, at)


def _figure(kind: EvidenceKind, value: float, expected: float, change: float, column: str | None) -> str:
    if kind is EvidenceKind.null_share:
        return f"wrote {value:.1%} nulls in '{column}' instead of about {expected:.1%}"
    if kind is EvidenceKind.duration:
        return f"took {amount(Metric.duration_ms, value)} instead of about {amount(Metric.duration_ms, expected)}"
    if kind is EvidenceKind.quarantine_burst:
        return f"set {value:,.0f} rows apart instead of about {expected:,.0f}"
    share = f"{abs(change):,.0%} {'more' if change > 0 else 'fewer'}"
    if kind is EvidenceKind.row_count:
        return f"wrote {share} rows than expected: {value:,.0f} instead of about {expected:,.0f}"
    came, usual = amount(Metric.byte_size, value), amount(Metric.byte_size, expected)
    return f"wrote {share} bytes than expected: {came} instead of about {usual}"


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_ERROR else f"{line[: _MAX_ERROR - 1]}…"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
