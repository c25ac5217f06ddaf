"""`make bench-ingest`: measures the way of an event from bytes to commit; the last line is one JSON object.

Falls short or not, it exits 0: it reports, and whoever reads decides.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from benchmarks import batch, costs, decode, traffic
from benchmarks.command import run
from benchmarks.events import Events, mean_size
from benchmarks.report import Report, machine
from benchmarks.stage import Stage, elapsed_s, say

LIMIT_S = 40 * 60
# What is left for stopping and cleaning up when time runs out.
RESERVE_S = 90
MAX_EVENTS = 5_000_000


@dataclass(frozen=True)
class Plan:
    """How long everything is measured."""

    batch_rounds: int = 120
    batches: int = 20
    traffic_rounds: int = 30
    group_events: int = 8000
    single_events: int = 2000
    decode_rounds: int = 1000
    sequence_rounds: int = 60
    trigger_rounds: int = 40
    organization_rounds: int = 20
    organizations: tuple[int, ...] = (1, 10, 100)
    growth_events: int = 500_000
    growth_step: int = 50_000


QUICK = Plan(
    batch_rounds=3,
    batches=5,
    traffic_rounds=2,
    group_events=1000,
    single_events=300,
    decode_rounds=30,
    sequence_rounds=3,
    trigger_rounds=3,
    organization_rounds=1,
    organizations=(1, 10),
    growth_events=10_000,
    growth_step=5000,
)


async def measure(plan: Plan, at: Stage, report: Report) -> None:
    report.add(_circumstances(at))
    report.add(*await decode.measure(rounds=plan.decode_rounds))
    tallies = await batch.compare_with_copy(at, rounds=plan.batch_rounds, batches=plan.batches)
    report.add(*batch.batch_figures(tallies))
    report.add(
        *await traffic.measure(
            at, rounds=plan.traffic_rounds, group_events=plan.group_events, single_events=plan.single_events
        )
    )
    report.add(*await costs.sequence_check(at, rounds=plan.sequence_rounds))
    report.add(*await costs.trigger(at, rounds=plan.trigger_rounds))
    report.add(*await costs.organizations(at, rounds=plan.organization_rounds, counts=plan.organizations))
    await _grow(plan, at, report)
    report.add({"seconds": elapsed_s()})


async def _grow(plan: Plan, at: Stage, report: Report) -> None:
    say(f"growing an empty database to {plan.growth_events:,} events")
    rates, bytes_per_event = await batch.growth(
        at,
        events=plan.growth_events,
        step=plan.growth_step,
        has_time=lambda: elapsed_s() < LIMIT_S - RESERVE_S,
    )
    figures: dict[str, Any] = {f"growth_{events}_per_s": rate for events, rate in rates}
    figures["growth_events"] = rates[-1][0] if rates else 0
    figures["database_bytes_per_event"] = bytes_per_event
    report.add(figures, {"growth_last_vs_first": rates[-1][1] / rates[0][1]} if rates else {})


def _circumstances(at: Stage) -> dict[str, Any]:
    return {
        "event_bytes": mean_size(Events(1).take(2000)),
        **machine(),
        "sync_ms": at.sync_ms(),
    }


def _plan(is_quick: bool) -> Plan:
    plan = QUICK if is_quick else Plan()
    wanted = os.environ.get("HEADGATE_BENCH_EVENTS")
    if not wanted:
        return plan
    return Plan(**{**vars(plan), "growth_events": min(int(wanted), MAX_EVENTS)})


def main() -> None:
    run("benchmarks.ingest", __doc__, lambda is_quick, at, report: measure(_plan(is_quick), at, report))


if __name__ == "__main__":
    main()
