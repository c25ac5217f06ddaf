"""The answer in words: the cause and how sure it is, what speaks for it, and why it is none of the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from headgate.domain.anomaly import AnomalyType
from headgate.domain.clue import Clue, Node
from headgate.domain.effects import Signal
from headgate.domain.scene import Candidate, Evidence, Failure, Ranking, Rejected
from headgate.domain.score import PRODUCER, QUIET_CODE, shown_of_code

# Fitted on simulated pipelines (benchmarks/causes): the share of right answers among those with such scores.
# From the start, by the lead over the next job, and if an input is not measured.
_CONFIDENCE: Final = (0.0, 6.3, -1.6)
_PLENTY: Final = 0.4
_SUREST: Final = 0.98
_SUREST_BLIND: Final = 0.8
# What the failing column is known not to be made of may be near to the cause; nobody is told apart by it.
_SUREST_BESIDE: Final = 0.55
# From here on an explanation is worth telling.
_TOLD: Final = 0.4


def answer(failure: Failure, nodes: list[Node], late: list[Rejected], *, is_way_known: bool = False) -> Ranking:
    """`is_way_known` says that column lineage tells what the failing column is made of."""
    ranked = sorted(nodes, key=_place)
    best = ranked[0]
    is_beside = is_way_known and best.candidate.depth > 0 and not best.candidate.via_column
    clues = sorted(best.clues, key=lambda clue: -clue.left)
    rejected = [Rejected(node.candidate, _why_not(node, best, nodes), node.score) for node in ranked[1:]]
    return Ranking(
        cause=best.candidate,
        confidence=0.0 if _is_nobody(best) else _confidence(best, ranked, nodes, is_beside=is_beside),
        sentence=_sentence(failure, best, clues, is_beside=is_beside),
        evidence=tuple(clue.evidence for clue in clues),
        explains=_explained_by(best, nodes),
        rejected=(*rejected, *late),
        chain=best.candidate.chain,
    )


def _place(node: Node) -> tuple[float, int, float, str]:
    """Best first; of equals the nearer, then the more recent, then any one, but always the same."""
    ended = node.candidate.ended_at
    return -round(node.score, 6), node.candidate.depth, -(ended.timestamp() if ended else 0.0), node.candidate.key


def _is_unknown(candidate: Candidate) -> bool:
    """Whether it stands for whoever wrote a dataset, of whom nothing is known."""
    return candidate.job is None and candidate.run_id is None


def _is_nobody(best: Node) -> bool:
    return _is_unknown(best.candidate) and (not best.clues or best.own < PRODUCER)


def _is_same(node: Node, other: Node) -> bool:
    return node.candidate.job is not None and node.candidate.job == other.candidate.job


def _confidence(best: Node, ranked: Sequence[Node], nodes: Sequence[Node], *, is_beside: bool) -> float:
    """From how far ahead of the next job's candidate it is; little evidence never makes for much confidence."""
    base, by_lead, if_blind = _CONFIDENCE
    second = next((node.score for node in ranked[1:] if not _is_same(node, best)), 0.0)
    is_blind = _is_blind(best, nodes)
    logit = base + by_lead * (1 - second / best.score) + (if_blind if is_blind else 0.0)
    surest = _SUREST_BESIDE if is_beside else _SUREST_BLIND if is_blind else _SUREST
    return min(surest, min(1.0, best.score / _PLENTY) / (1 + math.exp(-logit)))


def _is_blind(best: Node, nodes: Sequence[Node]) -> bool:
    """Whether what was odd about it may have come from an input of which no figures are known."""
    if any(clue.signal is Signal.code for clue in best.clues):
        return False
    return any(not nodes[place].candidate.is_measured for place in best.upstream)


def _explained_by(best: Node, nodes: Sequence[Node]) -> tuple[Evidence, ...]:
    found = [
        (node.candidate.depth, clue.evidence)
        for node in nodes
        for clue in node.clues
        if clue.by is not None and nodes[clue.by] is best and clue.explained >= _TOLD and node is not best
    ]
    return tuple(evidence for _, evidence in sorted(found, key=lambda each: -each[0]))


def _sentence(failure: Failure, best: Node, clues: Sequence[Clue], *, is_beside: bool) -> str:
    candidate = best.candidate
    if not clues or best.own < PRODUCER:
        return _without_clues(failure, candidate)
    strong = (clue.evidence.sentence for clue in clues if clue.left >= 0.5 * clues[0].left)
    # Measured twice, as what was written and as what lies there, it is still one thing to say.
    said = list(dict.fromkeys(strong))[:2]
    beside = f", though column '{failure.column}' is not made of it" if is_beside else ""
    return f"{_who(candidate)} {' and '.join(said)}{_where(failure, candidate)}{beside}."


def _without_clues(failure: Failure, candidate: Candidate) -> str:
    if _is_unknown(candidate):
        return f"No run is known that wrote {_what(failure, candidate)}."
    is_stuck = failure.type == AnomalyType.StuckRun and candidate.run_id == failure.run_id
    if is_stuck and candidate.started_at is not None and candidate.ended_at is None:
        did = f"{_job(candidate)} began at {candidate.started_at:%Y-%m-%d %H:%M} and has not ended"
    else:
        did = f"{_who(candidate)} wrote {_what(failure, candidate)}"
    return f"{did}; nothing unusual is known upstream of it."


def _job(candidate: Candidate) -> str:
    return f"Job '{candidate.job.name}'" if candidate.job is not None else "An unknown job"


def _who(candidate: Candidate) -> str:
    job = _job(candidate)
    when = candidate.ended_at or candidate.started_at
    return f"{job} at {when:%Y-%m-%d %H:%M}" if when is not None and candidate.run_id is not None else job


def _what(failure: Failure, candidate: Candidate) -> str:
    dataset = candidate.dataset or failure.dataset
    return f"'{dataset.urn}'" if dataset is not None else "what failed"


def _where(failure: Failure, candidate: Candidate) -> str:
    place = f" ({_what(failure, candidate)})" if candidate.dataset is not None else ""
    if candidate.depth == 0 or failure.dataset is None:
        return place
    steps = "one step" if candidate.depth == 1 else f"{candidate.depth} steps"
    return f"{place}, {steps} upstream of '{failure.dataset.urn}'"


def _why_not(node: Node, best: Node, nodes: Sequence[Node]) -> str:
    if not node.clues:
        return "nothing unusual is known of it"
    clue = max(node.clues, key=lambda each: each.strength)
    told = clue.evidence.sentence
    if clue.explained >= _TOLD and clue.by is not None:
        return f"{told}, which follows from {_whose(nodes[clue.by].candidate)}"
    if clue.evidence.column is not None and clue.strength < 0.3 * clue.evidence.weight:
        return f"{told}, but the failing column is not made of it"
    if clue.signal is Signal.code and shown_of_code(node) <= QUIET_CODE:
        return f"{told}, but what it wrote was as usual"
    if node.own > best.own:
        return f"{told}, but little of it shows on the way to the failure"
    return f"{told}, which fits the failure less well than what is known of {_whose(best.candidate)}"


def _whose(candidate: Candidate) -> str:
    return f"'{candidate.job.name}'" if candidate.job is not None else f"candidate {candidate.key!r}"
