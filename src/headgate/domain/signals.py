"""What the cost of a Spark run says about how it could be made cheaper.

Knows counters and thresholds; where the counters come from and who is told is the business of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

Counters = Mapping[str, int | None]

# Of memory at its highest, the sum over stages says nothing.
PEAKS: Final = frozenset({"peak_execution_memory"})
_LOCALITIES: Final = ("process_local_tasks", "node_local_tasks", "rack_local_tasks", "any_locality_tasks")
_NS_PER_MS: Final = 1_000_000


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Signal:
    """Something to improve: `value` is beyond `threshold`. Shares are from 0 to 1."""

    code: str
    severity: Severity
    value: float
    threshold: float
    message: str


def signals(totals: Counters) -> list[Signal]:
    """What the totals of a run give away, in a fixed order. Counters that are missing say nothing."""
    found = (
        _disk_spill(totals),
        _memory_spill(totals),
        _gc_time(totals),
        _cpu_use(totals),
        _locality(totals),
        _failed_tasks(totals),
    )
    return [signal for signal in found if signal is not None]


def run_totals(reported: Counters | None, stages: Iterable[Counters], counters: Iterable[str]) -> dict[str, int | None]:
    """What a run cost: as it was reported for the whole run or, where that is silent, over its stages."""
    rows = list(stages)
    return {name: _total(name, reported or {}, rows) for name in counters}


def _total(name: str, reported: Counters, rows: list[Counters]) -> int | None:
    if (whole := reported.get(name)) is not None:
        return whole
    values = [value for row in rows if (value := row.get(name)) is not None]
    if not values:
        return None
    return max(values) if name in PEAKS else sum(values)


def _disk_spill(totals: Counters) -> Signal | None:
    spilled = totals.get("disk_bytes_spilled") or 0
    if spilled <= 0:
        return None
    return Signal("disk_spill", Severity.CRITICAL, spilled, 0, f"{spilled} bytes were spilled to disk")


def _memory_spill(totals: Counters) -> Signal | None:
    spilled = totals.get("memory_bytes_spilled") or 0
    if spilled <= 0:
        return None
    return Signal("memory_spill", Severity.WARNING, spilled, 0, f"{spilled} bytes in memory were spilled")


def _gc_time(totals: Counters) -> Signal | None:
    share = _share(totals.get("jvm_gc_time_ms"), _executor_ms(totals))
    levels = ((Severity.CRITICAL, 0.25), (Severity.WARNING, 0.10))
    return _above("gc_time", share, levels, "garbage collection took {} of the executors' time")


def _cpu_use(totals: Counters) -> Signal | None:
    share = _share(totals.get("executor_cpu_time_ns"), (_executor_ms(totals) or 0) * _NS_PER_MS)
    for severity, threshold in ((Severity.WARNING, 0.25), (Severity.INFO, 0.50)):
        if share is not None and share < threshold:
            return Signal("cpu_use", severity, share, threshold, f"executors computed {share:.0%} of their time")
    return None


def _locality(totals: Counters) -> Signal | None:
    # Some listeners count only the tasks that were far away.
    placed = sum(totals.get(name) or 0 for name in _LOCALITIES)
    share = _share(totals.get("any_locality_tasks"), max(placed, totals.get("num_tasks") or 0))
    levels = ((Severity.CRITICAL, 0.30), (Severity.WARNING, 0.10))
    return _above("locality", share, levels, "{} of the tasks ran far from their data")


def _failed_tasks(totals: Counters) -> Signal | None:
    failed = totals.get("failed_tasks") or 0
    if failed <= 0:
        return None
    return Signal("failed_tasks", Severity.CRITICAL, failed, 0, f"{failed} task{'s' * (failed != 1)} failed")


def _executor_ms(totals: Counters) -> int | None:
    """How long the executors worked. Some listeners tell only one time for a run, which is that of its tasks."""
    told = totals.get("executor_run_time_ms")
    return totals.get("duration_ms") if told is None else told


def _above(code: str, share: float | None, levels: Iterable[tuple[Severity, float]], message: str) -> Signal | None:
    beyond: Iterator[Signal] = (
        Signal(code, severity, share, threshold, message.format(f"{share:.0%}"))
        for severity, threshold in levels
        if share is not None and share > threshold
    )
    return next(beyond, None)


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole or whole < 0 else part / whole
