"""Measures what tests, split, reasons and gate cost; the last line is one JSON object.

Falls short or not, it exits 0: it reports, and whoever reads decides.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.pipelines.peers import PEERS, locked_version, python_of
from benchmarks.pipelines.sides import Side, Turn, sides
from benchmarks.report import Report, machine
from benchmarks.stage import elapsed_s, say

OURS = ("checks", "checks_unique", "tests50")
PACKAGES = {"dqx": "databricks-labs-dqx", "gx": "great-expectations"}
Work = tuple[str, str]


@dataclass(frozen=True)
class Plan:
    """How much is measured, and how often."""

    rows: int = 5_000_000
    rounds: int = 5
    # Planning takes many runs to get warm, however few the rows: so most of them are few.
    small_warm_up: int = 5
    warm_up: int = 2
    peers: tuple[str, ...] = PEERS

    @property
    def works(self) -> list[Work]:
        """Each side and what it does; every one of them also does the bare job, for its Spark is its own."""
        own = [("ours", work) for work in ("bare", *OURS)]
        return own + [(peer, work) for peer in self.peers for work in ("bare", peer)]


SMALL = 100_000
QUICK = Plan(rows=20_000, rounds=1, small_warm_up=0, warm_up=1)


@dataclass
class Results:
    """What the turns of each work took, round by round."""

    turns: dict[Work, list[Turn]] = field(default_factory=dict)

    def add(self, work: Work, turn: Turn) -> None:
        self.turns.setdefault(work, []).append(turn)

    def median(self, work: Work, figure: str) -> float:
        return statistics.median(getattr(turn, figure) for turn in self.turns[work])

    def ratio(self, one: Work, other: Work, figure: str) -> float:
        return self.median(one, figure) / self.median(other, figure)

    def spread(self, one: Work, other: Work) -> list[float]:
        """Smallest and largest ratio of CPU among the rounds."""
        pairs = zip(self.turns[one], self.turns[other], strict=True)
        ratios = sorted(turn.cpu_s / base.cpu_s for turn, base in pairs)
        return [round(ratios[0], 3), round(ratios[-1], 3)]


def measure(plan: Plan, report: Report) -> None:
    report.add({**machine(), "rows": plan.rows, "rounds": plan.rounds})
    say("making the environments of the peers")
    pythons = {"ours": Path(sys.executable)} | {peer: python_of(peer) for peer in plan.peers}
    with tempfile.TemporaryDirectory(prefix="headgate-bench-pipelines-") as folder:
        say("starting Spark")
        with sides(pythons, Path(folder)) as running:
            report.add(_versions(plan, running))
            if plan.small_warm_up:
                _warm_up(plan, running, SMALL, plan.small_warm_up)
            _warm_up(plan, running, plan.rows, plan.warm_up)
            report.add(_counts(plan, running))
            results = _rounds(plan, running)
    _report_ratios(plan, report, results)
    _report_costs(plan, report, results)
    report.add({"seconds": elapsed_s()})


def _versions(plan: Plan, running: Mapping[str, Side]) -> dict[str, str]:
    found = {f"{peer}_version": locked_version(peer, PACKAGES[peer]) for peer in plan.peers}
    return found | {f"{name}_spark": side.spark for name, side in running.items()}


def _warm_up(plan: Plan, running: Mapping[str, Side], rows: int, rounds: int) -> None:
    """Make so many rows and do everything with them; they stay."""
    running["ours"].ask("make", rows=rows)
    for number in range(rounds):
        say(f"warming up with {rows:,} rows, {number + 1} of {rounds}")
        for side, work in plan.works:
            running[side].turn(work)


def _counts(plan: Plan, running: Mapping[str, Side]) -> dict[str, int]:
    """The rows that each side has let through and set apart: what was not the same work is not compared."""
    done = [(side, work) for side, work in plan.works if work != "bare"]
    found = {work: running[side].ask("count", work=work) for side, work in done}
    rejected = {work: counts["rejected"] for work, counts in found.items()}
    lossy = [work for work, counts in found.items() if sum(counts.values()) != plan.rows]
    alike = [{"checks", "tests50", "gx"}, {"checks_unique", "dqx"}]
    unlike = [works for works in alike if len({rejected[work] for work in works & rejected.keys()}) > 1]
    if lossy or unlike or not 0 < rejected["checks"] < rejected["checks_unique"]:
        raise RuntimeError(f"of {plan.rows:,} rows the sides make not the same: {found}")
    return {f"{work}_rejected": count for work, count in rejected.items()}


def _rounds(plan: Plan, running: Mapping[str, Side]) -> Results:
    results, chance = Results(), random.Random(1)
    for number in range(plan.rounds):
        shown = {}
        for side, work in chance.sample(plan.works, len(plan.works)):
            turn = running[side].turn(work)
            results.add((side, work), turn)
            shown[f"{side} {work}"] = f"{turn.cpu_s:.2f}/{turn.wall_s:.2f}"
        say(f"round {number + 1} of {plan.rounds}, CPU/wall s: {shown}")
    return results


def _report_ratios(plan: Plan, report: Report, results: Results) -> None:
    bare, ten = ("ours", "bare"), ("ours", "checks")
    pairs = {"checks_unique": (("ours", "checks_unique"), bare), "checks": (ten, bare)}
    pairs["tests50_vs_10"] = (("ours", "tests50"), ten)
    pairs |= {peer: ((peer, peer), (peer, "bare")) for peer in plan.peers}
    for name, pair in pairs.items():
        ratios = {name: results.ratio(*pair, "cpu_s"), f"{name}_wall": results.ratio(*pair, "wall_s")}
        report.add({f"{name}_rounds": results.spread(*pair)}, ratios)


def _report_costs(plan: Plan, report: Report, results: Results) -> None:
    for side, work in plan.works:
        name = f"{side}_bare" if work == "bare" else work
        report.add({f"{name}_{figure}": results.median((side, work), figure) for figure in ("cpu_s", "wall_s")})
    jobs = {"jobs_10": "checks", "jobs_50": "tests50", "jobs_10_unique": "checks_unique"}
    report.add({name: int(results.median(("ours", work), "jobs")) for name, work in jobs.items()})
    report.add({f"jobs_{peer}": int(results.median((peer, peer), "jobs")) for peer in plan.peers})


def _plan() -> Plan:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.pipelines", description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="a short run that shows that everything works")
    arguments.add_argument("--without-peers", action="store_true", help="only our side")
    arguments.add_argument("--rows", type=int, help="how many rows")
    arguments.add_argument("--rounds", type=int, help="how many rounds are measured")
    given = arguments.parse_args()
    wanted = {name: value for name in ("rows", "rounds") if (value := getattr(given, name)) is not None}
    plan = replace(QUICK if given.quick else Plan(), **wanted)
    return replace(plan, peers=()) if given.without_peers else plan


def main() -> None:
    report = Report()
    measure(_plan(), report)
    print(report.line())


if __name__ == "__main__":
    main()
