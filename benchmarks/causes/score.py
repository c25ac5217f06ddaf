"""How often the planted cause is ranked first, beside the rule of the original."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from benchmarks.causes.loader import Loader, Told
from benchmarks.causes.world import Planted, Symptom, World
from headgate.domain.cause import Ranking, rank


class Scored(NamedTuple):
    """One failure: was its cause found, and would the newest run of the failing dataset have been it?

    The newest run is asked for twice: at the moment of the failure, and at the end of the simulated days.
    """

    datasets: int
    seed: int
    planted: Planted
    symptom: Symptom
    ranking: Ranking
    candidates: int
    is_first: bool
    is_newest: bool
    is_newest_later: bool

    @property
    def kind(self) -> str:
        return self.planted.kind


def score(world: World, *, all_symptoms: bool = False) -> Iterator[Scored]:
    """Each planted cause by one of its symptoms, drawn at random, or by all of them."""
    loader = Loader(world.events)
    for planted in world.planted:
        for symptom in planted.symptoms if all_symptoms else (planted.scored,):
            failure, candidates = loader.scene(symptom)
            ranking = rank(failure, candidates)
            yield Scored(
                datasets=len(world.datasets),
                seed=world.seed,
                planted=planted,
                symptom=symptom,
                ranking=ranking,
                candidates=len(candidates),
                is_first=is_cause(planted, ranking),
                is_newest=is_blamed(planted, loader.newest(symptom.dataset, symptom.observed_at)),
                is_newest_later=is_blamed(planted, loader.newest(symptom.dataset)),
            )


def is_cause(planted: Planted, ranking: Ranking) -> bool:
    """The right job, and one of its bad runs; of a late parent, the job whose run was missing."""
    cause = ranking.cause
    if cause is None or cause.job is None or cause.job.name != planted.job:
        return False
    return cause.run_id is None if planted.kind == "late_parent" else cause.run_id in planted.run_ids


def share(values: Iterable[bool]) -> float:
    known = list(values)
    return sum(known) / len(known) if known else 0.0


def is_blamed(planted: Planted, run: Told | None) -> bool:
    """Whether a rule that names a run, whatever is known of it, would have named a bad one."""
    return run is not None and run.id in planted.run_ids
