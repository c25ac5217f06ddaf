"""What goes wrong in a simulated world: which cause, where, when, for how long. Nothing of this is in the events."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from benchmarks.causes.shape import Dataset, downstream

KINDS = ("bad_source_batch", "dropped_column", "late_parent", "failed_job", "wrong_join")
WARM_UP_DAYS = 8
# How far it goes wrong: the share that is null, or the factor on the rows.
SIZES = {
    "bad_source_batch": {"nulls": (0.4, 0.95), "rows": (0.03, 0.4), "duplicates": (1.8, 3.0)},
    "wrong_join": {"mismatch": (0.4, 0.9), "loss": (0.1, 0.45), "fanout": (1.8, 4.0)},
}


@dataclass(frozen=True)
class Plant:
    """A cause: from which of the job's scheduled runs on, for how many; `variant` is the way it goes wrong."""

    id: int
    kind: str
    dataset: int
    slot: int
    slots: int
    variant: str
    size: float
    column: int = 0
    changes_sql: bool = False
    delay_s: float = 0.0
    attempts: int = 1


def plant(rng: Random, datasets: list[Dataset], days: int) -> list[Plant]:
    """Causes over the days after the warm-up, all kinds in turn, each where somebody downstream has tests."""
    count = {10: 5, 100: 15}.get(len(datasets), max(5, min(40, len(datasets) // 20)))
    span = days - WARM_UP_DAYS - 1.5
    made: list[Plant] = []
    kinds = [KINDS[place % len(KINDS)] for place in range(count)]
    rng.shuffle(kinds)
    for number, kind in enumerate(kinds):
        chosen = _choose(rng, datasets, kind)
        if chosen is not None:
            day = WARM_UP_DAYS + span * (number + rng.uniform(0.1, 0.7)) / count
            made.append(_plant(rng, datasets, number, kind, chosen, day))
    return made


def _choose(rng: Random, datasets: list[Dataset], kind: str) -> Dataset | None:
    fitting = [each for each in datasets if _fits(each, kind) and _is_watched(datasets, each, kind)]
    return rng.choice(fitting) if fitting else None


def _fits(dataset: Dataset, kind: str) -> bool:
    if kind == "bad_source_batch":
        return dataset.is_source
    if kind == "wrong_join":
        return len(dataset.inputs) > 1
    return bool(dataset.readers)


def _is_watched(datasets: list[Dataset], dataset: Dataset, kind: str) -> bool:
    reach = downstream(datasets, dataset.index) | ({dataset.index} if kind == "wrong_join" else set())
    return any(datasets[place].tests for place in reach)


def _plant(rng: Random, datasets: list[Dataset], number: int, kind: str, dataset: Dataset, day: float) -> Plant:
    slot = int(day * 24 / dataset.period_h)
    variant, size = _variant(rng, kind)
    lasting = kind in ("dropped_column", "wrong_join")
    return Plant(
        id=number,
        kind=kind,
        dataset=dataset.index,
        slot=slot,
        slots=rng.randint(1, 3) if lasting else rng.randint(1, 2) if kind == "failed_job" else 1,
        variant=variant,
        size=size,
        column=_column(rng, datasets, dataset),
        changes_sql=kind == "wrong_join" or (kind == "dropped_column" and rng.random() < 0.6),
        delay_s=rng.uniform(1.2, dataset.period_h * 0.8) * 3600 if kind == "late_parent" else 0.0,
        attempts=rng.randint(1, 3),
    )


def _variant(rng: Random, kind: str) -> tuple[str, float]:
    sizes = SIZES.get(kind)
    if sizes is None:
        return "", 0.0
    variant = rng.choice(sorted(sizes))
    return variant, rng.uniform(*sizes[variant])


def _column(rng: Random, datasets: list[Dataset], dataset: Dataset) -> int:
    """A column that others are made of, where there is one."""
    used = {
        source.column
        for reader in dataset.readers
        for column in datasets[reader].columns
        for source in column.sources
        if source.dataset == dataset.index and source.column > 0
    }
    return rng.choice(sorted(used)) if used else rng.randrange(1, len(dataset.columns))
