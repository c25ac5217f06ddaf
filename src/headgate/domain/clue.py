"""What speaks for each candidate as one failure sees it: evidence, and how well its column fits the failing one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headgate.domain.effects import Nature, Signal, affinity, signal_of
from headgate.domain.scene import Candidate, Evidence, EvidenceKind, Failure

_EXPLAINED: Final = 0.9
# How well evidence about another column fits: known to be another, not known, not known but named alike.
_OTHER_COLUMN: Final = 0.12
_TABLE_ONLY: Final = 0.6
_SAME_STEM: Final = 0.85
# What a column that an error message speaks of counts for if it has just changed.
_NAMED: Final = 0.85
_WORD: Final = re.compile(r"\w+")
_QUOTED: Final = re.compile(r"""[`'"\[]([^`'"\[\]\s]+)[`'"\]]""")

# Where an explanation comes from: how far it reaches (its strength times its size), how strong it is, of how large a
# change, by which candidate, and what is left of it after a quiet run. A plain tuple: there are many of them.
Reason = tuple[float, float, float, int, float]


class Named(NamedTuple):
    """Words of what the failure says, and what is quoted in any error."""

    words: frozenset[str]
    quoted: frozenset[str]


@dataclass(slots=True)
class Clue:
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
class Node:
    candidate: Candidate
    clues: list[Clue]
    upstream: list[int]
    reasons: dict[Signal, Reason]
    # Whether it read what other jobs had written.
    is_reader: bool = False
    own: float = 0.0
    credit: float = 0.0
    way: float = 0.0
    score: float = 0.0


def nodes_of(failure: Failure, nature: Nature, candidates: Sequence[Candidate]) -> list[Node]:
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
        is_reader = any(candidates[place].job is not None for place in upstream)
        nodes.append(Node(candidate, clues, upstream, {}, is_reader))
    return nodes


def _named(failure: Failure, candidates: Sequence[Candidate]) -> Named:
    """What the failure and the errors of the runs before it speak of."""
    errors = [
        evidence.sentence
        for candidate in candidates
        for evidence in candidate.evidence
        if evidence.kind is EvidenceKind.run_failed
    ]
    detail = failure.detail or ""
    quoted = {word for text in (detail, *errors) for word in _QUOTED.findall(text)}
    return Named(frozenset(_WORD.findall(detail)), frozenset(quoted))


def _clue(failure: Failure, nature: Nature, candidate: Candidate, evidence: Evidence, named: Named) -> Clue:
    signal = signal_of(evidence)
    strength = min(1.0, max(0.0, evidence.weight)) * _fit(failure, candidate, evidence, named.words)
    if signal is Signal.schema and evidence.column in named.quoted:
        strength = max(strength, _NAMED)
    return Clue(evidence, signal, strength, strength * affinity(nature, signal))


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
