"""Why something failed: which run, of all that led to it, is the likeliest cause, and what speaks for it.

Each candidate is judged by what is odd about it and not already explained by what it read. Evidence travels down
the lineage: fewer rows in a source explain fewer rows after it, a dropped column explains nulls. What is left
unexplained counts, the more so the closer it fits the failure and the less quiet the way from there to here is.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.domain.answer import answer
from headgate.domain.clue import nodes_of
from headgate.domain.effects import Nature, Signal, nature_of, signal_of
from headgate.domain.explanation import explain, find_ways, give_credit, upstream_first
from headgate.domain.scene import (
    Candidate,
    DatasetRef,
    Evidence,
    EvidenceKind,
    Failure,
    JobRef,
    Ranking,
    Rejected,
)
from headgate.domain.score import beside_the_way, is_way_known, score_of

__all__ = [
    "Candidate",
    "DatasetRef",
    "Evidence",
    "EvidenceKind",
    "Failure",
    "JobRef",
    "Ranking",
    "Rejected",
    "on_the_way",
    "rank",
]


def rank(failure: Failure, candidates: Sequence[Candidate]) -> Ranking:
    """The likeliest cause of a failure among the candidates; none that ended after it was observed."""
    early, late = _by_time(failure, candidates)
    if not early:
        return Ranking(None, 0.0, "No run that could have caused it is known.", rejected=tuple(late))
    nature = _nature(failure, early)
    nodes = nodes_of(failure, nature, early)
    order = upstream_first(nodes)
    explain(nodes, order)
    find_ways(nodes, order)
    give_credit(nodes)
    beside = beside_the_way(failure, nature, early)
    for node in nodes:
        node.score = score_of(node, nature, beside)
    return answer(failure, nodes, late, is_way_known=is_way_known(failure, nature, early))


def on_the_way(failure: Failure, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those upstream that a failure can come from: along its column where lineage tells of it, else all of them."""
    is_known = is_way_known(failure, _nature(failure, candidates), candidates)
    return [each for each in candidates if each.depth > 0 and (each.via_column or not is_known)]


def _by_time(failure: Failure, candidates: Sequence[Candidate]) -> tuple[list[Candidate], list[Rejected]]:
    early, late = [], []
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.key in seen:
            continue
        seen.add(candidate.key)
        reason = _too_late(failure, candidate)
        if reason is None:
            early.append(candidate)
        else:
            late.append(Rejected(candidate, reason, 0.0))
    return early, late


def _too_late(failure: Failure, candidate: Candidate) -> str | None:
    for verb, at in (("ended", candidate.ended_at), ("started", candidate.started_at)):
        if at is not None and at > failure.observed_at:
            return f"{verb} at {at.isoformat()}, after the failure was observed at {failure.observed_at.isoformat()}"
    return None


def _nature(failure: Failure, candidates: Sequence[Candidate]) -> Nature:
    """What the failure does not say of itself, the run that wrote the failing data may."""
    nature = nature_of(failure)
    if nature not in (Nature.rows, Nature.values):
        return nature
    written = [each for candidate in candidates if candidate.depth == 0 for each in candidate.evidence]
    shown = {signal_of(each) for each in written if each.column is None or each.column == failure.column}
    if Signal.nulls_up in shown and nature is Nature.values:
        return Nature.nulls
    if Signal.rows_down in shown:
        return Nature.fewer_rows
    return Nature.more_rows if Signal.rows_up in shown else nature
