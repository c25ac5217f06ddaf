"""Why something failed: which run, of all that led to it, is the likeliest cause, and what speaks for it.

Each candidate is judged by what is odd about it and not already explained by what it read. Evidence travels down
the lineage: fewer rows in a source explain fewer rows after it, a dropped column explains nulls. What is left
unexplained counts, the more so the closer it fits the failure and the less quiet the way from there to here is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

from headgate.domain.effects import EFFECTS, OUTPUT, SILENT, UNSEEN, Nature, Signal, affinity, nature_of, signal_of
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

__all__ = [
    "Candidate",
    "DatasetRef",
    "Evidence",
    "EvidenceKind",
    "Failure",
    "JobRef",
    "Ranking",
    "Rejected",
    "rank",
]

# How much of an explanation is left after a run that shows nothing of it itself: little where it would show, most
# where stale data passes without a trace or where nothing is measured.
_QUIET_HOP: Final = 0.7
_QUIET_STEP: Final = 0.75
_SILENT_HOP: Final = 0.85
_UNSEEN_HOP: Final = 0.9
# That a run fails or does not come is explained by what it reads itself, hardly by what that was made of.
_AT_ONCE: Final = frozenset({Signal.late, Signal.failed})
_STOPS: Final = 0.3
_FAINTEST: Final = 0.2
# A change may get smaller on its way down, hardly larger: this share of it still explains it fully.
_SHRINKS: Final = 0.6
_EXPLAINED: Final = 0.9
# Who changed its own code at the same time needs less of an explanation from elsewhere.
_OWN_CODE: Final = 0.6
# A batch that was written over may be gone.
_SUPERSEDED: Final = 0.85
# How well evidence about another column fits: known to be another, not known, not known but named alike.
_OTHER_COLUMN: Final = 0.12
_TABLE_ONLY: Final = 0.6
_SAME_STEM: Final = 0.85
# What is off the way of the failing column, where column lineage tells its way and where it does not.
_OFF_THE_WAY: Final = 0.5
_WAY_UNKNOWN: Final = 0.85
# What is left for those of whom nothing is known; who wrote the failing data is asked first.
_NO_EVIDENCE: Final = 0.02
_PRODUCER: Final = 0.06
_PER_STEP: Final = 0.98
# Fitted on simulated pipelines (benchmarks/causes): the share of right answers among those with such scores.
# From the start, by the lead over the next job, and if an input is not measured.
_CONFIDENCE: Final = (0.0, 6.3, -1.6)
_PLENTY: Final = 0.4
_SUREST: Final = 0.98
_SUREST_BLIND: Final = 0.8
# From here on an explanation is worth telling.
_TOLD: Final = 0.4
# What changed code counts for if the output is as usual, and if nobody measured it.
_QUIET_CODE: Final = 0.3
_UNSEEN_CODE: Final = 0.7
_ON_THE_WAY: Final = 0.9
# What a column that an error message speaks of counts for if it has just changed.
_NAMED: Final = 0.85
_NOTHING: Final[frozenset[Signal]] = frozenset()
_WORD: Final = re.compile(r"\w+")
_QUOTED: Final = re.compile(r"""[`'"\[]([^`'"\[\]\s]+)[`'"\]]""")


# Where an explanation comes from: how far it reaches (its strength times its size), how strong it is, of how large a
# change, by which candidate, and what is left of it after a quiet run. A plain tuple: there are many of them.
_Reason = tuple[float, float, float, int, float]


class _Named(NamedTuple):
    """Words of what the failure says, and what is quoted in any error."""

    words: frozenset[str]
    quoted: frozenset[str]


@dataclass(slots=True)
class _Clue:
    """Evidence as it looks to this failure."""

    evidence: Evidence
    signal: Signal
    strength: float
    relevance: float
    explained: float = 0.0
    by: int | None = None

    @property
    def left(self) -> float:
        return self.relevance * (1 - _EXPLAINED * self.explained)


@dataclass(slots=True)
class _Node:
    candidate: Candidate
    clues: list[_Clue]
    upstream: list[int]
    reasons: dict[Signal, _Reason]
    own: float = 0.0
    credit: float = 0.0
    way: float = 0.0
    score: float = 0.0


def rank(failure: Failure, candidates: Sequence[Candidate]) -> Ranking:
    """The likeliest cause of a failure among the candidates; none that ended after it was observed."""
    early, late = _by_time(failure, candidates)
    if not early:
        return Ranking(None, 0.0, "No run that could have caused it is known.", rejected=tuple(late))
    nature = _nature(failure, early)
    nodes = _nodes(failure, nature, early)
    order = _upstream_first(nodes)
    _explain(nodes, order)
    _find_ways(nodes, order)
    _give_credit(nodes)
    beside = _beside(failure, nature, early)
    for node in nodes:
        node.score = _score(node, nature, beside)
    return _answer(failure, nodes, late)


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


# --- what speaks for each ---


def _nodes(failure: Failure, nature: Nature, candidates: Sequence[Candidate]) -> list[_Node]:
    places = {candidate.key: place for place, candidate in enumerate(candidates)}
    named = _named(failure, candidates)
    nodes = []
    for candidate in candidates:
        clues = [
            _clue(failure, nature, candidate, evidence, named)
            for evidence in candidate.evidence
            if evidence.at is None or evidence.at <= failure.observed_at
        ]
        upstream = [places[key] for key in candidate.upstream if key in places and key != candidate.key]
        nodes.append(_Node(candidate, clues, upstream, {}))
    return nodes


def _named(failure: Failure, candidates: Sequence[Candidate]) -> _Named:
    """What the failure and the errors of the runs before it speak of."""
    errors = [
        evidence.sentence
        for candidate in candidates
        for evidence in candidate.evidence
        if evidence.kind is EvidenceKind.run_failed
    ]
    detail = failure.detail or ""
    quoted = {word for text in (detail, *errors) for word in _QUOTED.findall(text)}
    return _Named(frozenset(_WORD.findall(detail)), frozenset(quoted))


def _clue(failure: Failure, nature: Nature, candidate: Candidate, evidence: Evidence, named: _Named) -> _Clue:
    signal = signal_of(evidence)
    strength = min(1.0, max(0.0, evidence.weight)) * _fit(failure, candidate, evidence, named.words)
    if signal is Signal.schema and evidence.column in named.quoted:
        strength = max(strength, _NAMED)
    return _Clue(evidence, signal, strength, strength * affinity(nature, signal))


def _fit(failure: Failure, candidate: Candidate, evidence: Evidence, named: frozenset[str]) -> float:
    """How well the column of the evidence fits the failing one; what is about no column always does."""
    if evidence.column is None:
        return 1.0
    if failure.column is None:
        if not named:
            return 0.8
        return 1.0 if evidence.column in named else 0.4
    if candidate.via_column:
        return 1.0 if evidence.column in candidate.columns else _OTHER_COLUMN
    if evidence.column in candidate.columns or _is_like(evidence.column, failure.column):
        return _SAME_STEM
    return _TABLE_ONLY


def _is_like(column: str, failing: str) -> bool:
    """Whether the one may be the other under a new name: columns mostly keep a part of it."""
    mine, other = column.lower(), failing.lower()
    return mine == other or f"_{mine}_" in f"_{other}_" or f"_{other}_" in f"_{mine}_"


# --- what explains what ---


def _upstream_first(nodes: Sequence[_Node]) -> list[int]:
    """Places of the nodes so that what was read comes before who read it; a cycle is cut where it closes."""
    done: set[int] = set()
    order: list[int] = []
    for root in range(len(nodes)):
        if root in done:
            continue
        done.add(root)
        open_: list[tuple[int, Iterator[int]]] = [(root, iter(nodes[root].upstream))]
        while open_:
            place, rest = open_[-1]
            for following in rest:
                if following not in done:
                    done.add(following)
                    open_.append((following, iter(nodes[following].upstream)))
                    break
            else:
                open_.pop()
                order.append(place)
    return order


def _explain(nodes: list[_Node], order: Sequence[int]) -> None:
    present = {clue.signal for node in nodes for clue in node.clues}
    if not present:
        return
    effects = {
        signal: [(effect, degree) for effect, degree in found.items() if effect in present]
        for signal, found in {**EFFECTS, Signal.code: UNSEEN}.items()
        if signal in present
    }
    for place in order:
        node = nodes[place]
        reasons = _told(nodes, node)
        if node.clues:
            doubt = _OWN_CODE if any(clue.signal is Signal.code for clue in node.clues) else 1.0
            for clue in node.clues:
                _explain_clue(clue, reasons.get(clue.signal), doubt)
        node.reasons = _passed_on(node, reasons) if reasons else reasons
        for clue in node.clues:
            if clue.signal is not Signal.code or not node.candidate.is_measured:
                _bring_about(node.reasons, clue, place, effects.get(clue.signal, ()))


def _told(nodes: Sequence[_Node], node: _Node) -> dict[Signal, _Reason]:
    """What the inputs of a run explain to it, the best for each signal."""
    reasons: dict[Signal, _Reason] = {}
    for upstream in node.upstream:
        for signal, reason in nodes[upstream].reasons.items():
            known = reasons.get(signal)
            if known is None or reason[0] > known[0]:
                reasons[signal] = reason
    return reasons


def _explain_clue(clue: _Clue, reason: _Reason | None, doubt: float) -> None:
    # Nobody changes code because a table upstream has changed.
    if reason is None or clue.signal is Signal.code:
        return
    _, strength, reason_size, origin, _ = reason
    size = _size(clue.evidence)
    fits = min(1.0, reason_size / size / _SHRINKS) if 0 < size < math.inf else 1.0
    clue.explained, clue.by = strength * fits * doubt, origin


def _passed_on(node: _Node, reasons: Mapping[Signal, _Reason]) -> dict[Signal, _Reason]:
    """What a run passes on of what its inputs explain, fainter by what it shows nothing of."""
    # Where nothing is measured, that nothing shows means nothing.
    least = 0.0 if node.candidate.is_measured else _UNSEEN_HOP
    passed = {}
    for signal, (reach, strength, size, origin, fades) in reasons.items():
        left = _STOPS if signal in _AT_ONCE else max(least, fades)
        if strength * left >= _FAINTEST:
            passed[signal] = (reach * left, strength * left, size, origin, fades)
    return passed


def _bring_about(
    reasons: dict[Signal, _Reason], clue: _Clue, place: int, effects: Sequence[tuple[Signal, float]]
) -> None:
    """Adds what a run explains to its readers by its own evidence."""
    size = _size(clue.evidence)
    origin = clue.by if clue.by is not None and clue.explained > 0.5 else place
    fades = _SILENT_HOP if clue.signal in SILENT else _QUIET_HOP
    for signal, degree in effects:
        # A job fails of any column that it asks for, whichever column is missed in the end.
        shown = max(clue.evidence.weight, clue.strength) if signal is Signal.failed else clue.strength
        strength = degree * min(1.0, 1.4 * shown)
        reach = strength * min(1.0, size)
        known = reasons.get(signal)
        if strength >= _FAINTEST and (known is None or reach > known[0]):
            reasons[signal] = (reach, strength, size, origin, fades)


def _size(evidence: Evidence) -> float:
    """How large a change is, so that half and double are alike; what has no size can bring about any."""
    if evidence.change is None:
        return math.inf
    if evidence.kind is EvidenceKind.null_share:
        return abs(evidence.change)
    return abs(math.log1p(max(-0.99, evidence.change)))


# --- how it got here ---


def _find_ways(nodes: list[_Node], order: Sequence[int]) -> None:
    """How open the way from each node to the failure is: each step where nothing shows makes it less likely."""
    for node in nodes:
        node.way = 1.0 if node.candidate.depth == 0 else 0.0
    shows = [
        {clue.signal for clue in node.clues if clue.strength >= 0.15} if node.clues else _NOTHING for node in nodes
    ]
    for place in reversed(order):
        node = nodes[place]
        for upstream in node.upstream:
            sent = shows[upstream]
            way = node.way * (_step(node, shows[place], sent) if sent else _ON_THE_WAY)
            if way > nodes[upstream].way:
                nodes[upstream].way = way


def _step(reader: _Node, seen: Set[Signal], sent: Set[Signal]) -> float:
    if reader.candidate.depth == 0 or any(not seen.isdisjoint(EFFECTS.get(signal, ())) for signal in sent):
        return 0.97
    if not reader.candidate.is_measured:
        return 0.9
    return 0.9 if sent & SILENT else _QUIET_STEP


def _give_credit(nodes: list[_Node]) -> None:
    """What a candidate explains downstream speaks for it, as far as it explains it."""
    for node in nodes:
        for clue in node.clues:
            if clue.by is not None:
                origin = nodes[clue.by]
                origin.credit = max(origin.credit, clue.relevance * clue.explained**2 * node.way)


def _beside(failure: Failure, nature: Nature, candidates: Sequence[Candidate]) -> float:
    """What is left of evidence that is not on the way of the failing column: little where that way is known.

    Rows come from any input, whichever column shows that there are too many.
    """
    if failure.column is None:
        return 1.0
    is_known = nature in (Nature.nulls, Nature.values) and any(
        candidate.via_column and candidate.depth > 0 for candidate in candidates
    )
    return _OFF_THE_WAY if is_known else _WAY_UNKNOWN


def _score(node: _Node, nature: Nature, beside: float) -> float:
    candidate = node.candidate
    least = (_PRODUCER if candidate.depth == 0 else _NO_EVIDENCE) * 0.9**candidate.depth
    if not node.clues and not node.credit:
        return least
    left = sorted((_weighed(node, clue, nature) for clue in node.clues), reverse=True)
    node.own = min(1.0, left[0] + 0.15 * sum(left[1:3])) if left else 0.0
    off = beside if not candidate.via_column and candidate.depth > 0 else 1.0
    way = node.way or _PER_STEP ** (5 * candidate.depth) * 0.5
    judged = max(node.own * way * off, 0.9 * node.credit) * (_SUPERSEDED if candidate.is_superseded else 1.0)
    return max(least, judged * _PER_STEP**candidate.depth)


def _weighed(node: _Node, clue: _Clue, nature: Nature) -> float:
    if clue.signal is Signal.code:
        return clue.relevance * _shown(node)
    if clue.signal is Signal.failed and node.candidate.depth == 0 and nature is Nature.run:
        # That it failed is the failure itself, not why.
        return clue.left * 0.35
    return clue.left


def _shown(node: _Node) -> float:
    """How much of a change in the code shows in what the run wrote, and comes from nowhere else."""
    least = _QUIET_CODE if node.candidate.is_measured else _UNSEEN_CODE
    changes = [clue.left for clue in node.clues if clue.signal in OUTPUT]
    return max(least, _QUIET_CODE + 1.2 * max(changes)) if changes else least


# --- the answer ---


def _answer(failure: Failure, nodes: list[_Node], late: list[Rejected]) -> Ranking:
    ranked = sorted(nodes, key=_place)
    best = ranked[0]
    clues = sorted(best.clues, key=lambda clue: -clue.left)
    rejected = [Rejected(node.candidate, _why_not(node, best, nodes), node.score) for node in ranked[1:]]
    return Ranking(
        cause=best.candidate,
        confidence=_confidence(best, ranked, nodes),
        sentence=_sentence(failure, best, clues),
        evidence=tuple(clue.evidence for clue in clues),
        explains=_explained_by(best, nodes),
        rejected=(*rejected, *late),
        chain=best.candidate.chain,
    )


def _place(node: _Node) -> tuple[float, int, float, str]:
    """Best first; of equals the nearer, then the more recent, then any one, but always the same."""
    ended = node.candidate.ended_at
    return -round(node.score, 6), node.candidate.depth, -(ended.timestamp() if ended else 0.0), node.candidate.key


def _is_same(node: _Node, other: _Node) -> bool:
    return node.candidate.job is not None and node.candidate.job == other.candidate.job


def _confidence(best: _Node, ranked: Sequence[_Node], nodes: Sequence[_Node]) -> float:
    """From how far ahead of the next job's candidate it is; little evidence never makes for much confidence."""
    base, by_lead, if_blind = _CONFIDENCE
    second = next((node.score for node in ranked[1:] if not _is_same(node, best)), 0.0)
    is_blind = _is_blind(best, nodes)
    logit = base + by_lead * (1 - second / best.score) + (if_blind if is_blind else 0.0)
    return min(_SUREST_BLIND if is_blind else _SUREST, min(1.0, best.score / _PLENTY) / (1 + math.exp(-logit)))


def _is_blind(best: _Node, nodes: Sequence[_Node]) -> bool:
    """Whether what was odd about it may have come from an input of which no figures are known."""
    if any(clue.signal is Signal.code for clue in best.clues):
        return False
    return any(not nodes[place].candidate.is_measured for place in best.upstream)


def _explained_by(best: _Node, nodes: Sequence[_Node]) -> tuple[Evidence, ...]:
    found = [
        (node.candidate.depth, clue.evidence)
        for node in nodes
        for clue in node.clues
        if clue.by is not None and nodes[clue.by] is best and clue.explained >= _TOLD and node is not best
    ]
    return tuple(evidence for _, evidence in sorted(found, key=lambda each: -each[0]))


def _sentence(failure: Failure, best: _Node, clues: Sequence[_Clue]) -> str:
    candidate = best.candidate
    if not clues or best.own < _PRODUCER:
        return f"{_who(candidate)} wrote {_what(failure, candidate)}; nothing unusual is known upstream of it."
    strong = (clue.evidence.sentence for clue in clues if clue.left >= 0.5 * clues[0].left)
    # Measured twice, as what was written and as what lies there, it is still one thing to say.
    said = list(dict.fromkeys(strong))[:2]
    return f"{_who(candidate)} {' and '.join(said)}{_where(failure, candidate)}."


def _who(candidate: Candidate) -> str:
    job = f"Job '{candidate.job.name}'" if candidate.job is not None else "An unknown job"
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


def _why_not(node: _Node, best: _Node, nodes: Sequence[_Node]) -> str:
    if not node.clues:
        return "nothing unusual is known of it"
    clue = max(node.clues, key=lambda each: each.strength)
    told = clue.evidence.sentence
    if clue.explained >= _TOLD and clue.by is not None:
        return f"{told}, which follows from {_whose(nodes[clue.by].candidate)}"
    if clue.evidence.column is not None and clue.strength < 0.3 * clue.evidence.weight:
        return f"{told}, but the failing column is not made of it"
    if clue.signal is Signal.code and _shown(node) <= _QUIET_CODE:
        return f"{told}, but what it wrote was as usual"
    if node.own > best.own:
        return f"{told}, but little of it shows on the way to the failure"
    return f"{told}, which fits the failure less well than what is known of {_whose(best.candidate)}"


def _whose(candidate: Candidate) -> str:
    return f"'{candidate.job.name}'" if candidate.job is not None else f"candidate {candidate.key!r}"
