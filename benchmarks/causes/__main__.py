"""Scores the ranking of causes on simulated pipelines; the last line is one JSON object.

The figures of the ranking were chosen on seeds below 1,000; what is told here is of seeds from there on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks.causes.loader import Loader
from benchmarks.causes.plants import KINDS
from benchmarks.causes.score import Scored, score, share
from benchmarks.causes.world import simulate
from headgate.domain.cause import rank

FIRST_SEED = 1000
FULL: Mapping[int, int] = {10: 60, 100: 10, 1000: 2}
QUICK: Mapping[int, int] = {10: 12, 100: 2}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.causes", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer worlds, none of 1,000 datasets")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="the first seed")
    given = parser.parse_args(arguments)
    worlds = QUICK if given.quick else FULL
    scored = [each for datasets, count in worlds.items() for each in _worlds(datasets, count, given.seed)]
    _tell_shares(scored)
    _tell_reliability(scored)
    answer = {
        "cause_first": round(share(each.is_first for each in scored), 4),
        "newest_run_first": round(share(each.is_newest for each in scored), 4),
        "newest_run_first_later": round(share(each.is_newest_later for each in scored), 4),
        "planted": len(scored),
        "rank_p95_ms": round(_rank_p95_ms(given.seed), 3),
    }
    print(json.dumps(answer))


def _worlds(datasets: int, count: int, first: int) -> Iterable[Scored]:
    for seed in range(first, first + count):
        print(f"simulating {datasets:,} datasets, seed {seed}", file=sys.stderr)
        yield from score(simulate(seed, datasets))


def _tell_shares(scored: Sequence[Scored]) -> None:
    print(f"{'planted cause':<20}{'datasets':>10}{'planted':>10}{'ours':>8}{'newest':>9}{'later':>8}")
    _tell_rows(scored, KINDS, lambda each: each.kind, "all")
    _tell_rows(scored, sorted({each.datasets for each in scored}), lambda each: each.datasets, None)
    _tell_row("all", "all", scored)


def _tell_rows(
    scored: Sequence[Scored], values: Iterable[object], of: Callable[[Scored], object], datasets: str | None
) -> None:
    for value in values:
        rows = [each for each in scored if of(each) == value]
        _tell_row(str(value) if datasets else "all", datasets or f"{value:,}", rows)


def _tell_row(kind: str, datasets: str, rows: Sequence[Scored]) -> None:
    ours, newest = share(each.is_first for each in rows), share(each.is_newest for each in rows)
    later = share(each.is_newest_later for each in rows)
    print(f"{kind:<20}{datasets:>10}{len(rows):>10}{ours:>8.3f}{newest:>9.3f}{later:>8.3f}")


def _tell_reliability(scored: Sequence[Scored]) -> None:
    print(f"\n{'confidence':<14}{'answers':>9}{'told':>8}{'right':>8}")
    for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 0.8), (0.8, 0.9), (0.9, 0.95), (0.95, 1.0)):
        rows = [each for each in scored if low <= each.ranking.confidence < high]
        if rows:
            told = statistics.fmean(each.ranking.confidence for each in rows)
            right = share(each.is_first for each in rows)
            print(f"{f'{low:.2f} to {high:.2f}':<14}{len(rows):>9}{told:>8.3f}{right:>8.3f}")


def _rank_p95_ms(seed: int) -> float:
    world = simulate(seed, 100)
    loader = Loader(world.events)
    taken = []
    for planted in world.planted:
        for symptom in planted.symptoms:
            failure, candidates = loader.scene(symptom)
            started = time.process_time()
            rank(failure, candidates)
            taken.append((time.process_time() - started) * 1000)
    return statistics.quantiles(taken, n=20)[-1] if len(taken) > 1 else 0.0


if __name__ == "__main__":
    main()
