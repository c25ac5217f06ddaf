"""How well something fits what was searched for. Pure: hits in, the best of them out, always in the same order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from headgate.domain.words import IN_LAST_PART, IN_NAMESPACE
from headgate.server.index.reader import Hit, WholeHit


class Kind(StrEnum):
    dataset = "dataset"
    pipeline = "pipeline"
    job = "job"
    column = "column"
    run = "run"


class Match(StrEnum):
    exact = "exact"
    prefix = "prefix"
    infix = "infix"
    fuzzy = "fuzzy"


class Found(NamedTuple):
    """One result, before anybody has looked at what it is."""

    kind: Kind
    id: UUID
    match: Match
    score: float


# What the classes of fit begin at; within one, the more of a name the search covers, the better.
_EXACT = 1.0
_NAME, _WORD, _NAMESPACE, _ALL_WORDS, _INSIDE, _ALL_INSIDE = 0.85, 0.75, 0.65, 0.55, 0.45, 0.35
_COVERAGE = 0.09
# Of words alike, how alike they are counts most.
_LIKENESS = 0.3
_COVERAGE_ALIKE = 0.01
_ORDER = {kind: place for place, kind in enumerate(Kind)}
_MATCHES = {match: place for place, match in enumerate(Match)}


def exactly(kind: Kind, entry_id: UUID) -> Found:
    return Found(kind, entry_id, Match.exact, _EXACT)


def begun_id(run_id: UUID, digits: int) -> Found:
    """A run whose id begins with so many digits of the search."""
    return Found(Kind.run, run_id, Match.prefix, round(_WORD + _COVERAGE * digits / 32, 4))


def begun_application(run_id: UUID, application: str, text: str) -> Found:
    """A run of an application whose id begins with the search, or is it."""
    if application == text:
        return exactly(Kind.run, run_id)
    return Found(Kind.run, run_id, Match.prefix, round(_WORD + _COVERAGE * len(text) / len(application), 4))


def begun(hit: Hit, phrases: Sequence[str]) -> Found:
    """Something of which a word begins like the search, or all the words from there on."""
    if hit.tail in phrases and (hit.rank == IN_LAST_PART or len(hit.tail) >= hit.size):
        return exactly(Kind(hit.kind), hit.id)
    base = _NAME if hit.rank == IN_LAST_PART else _NAMESPACE if hit.rank == IN_NAMESPACE else _WORD
    return _found(hit, Match.prefix, base, phrases[0])


def with_all(hit: WholeHit, tokens: Sequence[str]) -> Found:
    """Something that has all the words of the search, if not in a row."""
    are_words = all(f" {token}" in f" {hit.body}" for token in tokens)
    match, base = (Match.prefix, _ALL_WORDS) if are_words else (Match.infix, _ALL_INSIDE)
    return _found(hit, match, base, " ".join(tokens))


def inside(hit: Hit, phrase: str) -> Found:
    return _found(hit, Match.infix, _INSIDE, phrase)


def similar(hit: Hit | WholeHit, phrase: str, likeness: float) -> Found:
    return _found(hit, Match.fuzzy, _LIKENESS * likeness, phrase, _COVERAGE_ALIKE)


def _found(hit: Hit | WholeHit, match: Match, base: float, phrase: str, coverage: float = _COVERAGE) -> Found:
    covered = len(phrase) / max(len(phrase), hit.size)
    return Found(Kind(hit.kind), hit.id, match, round(base + coverage * covered, 4))


def place(found: Found, *, is_dropped: bool = False) -> tuple[int, bool, float, int]:
    """Where it stands among others: better fits first, what was dropped last of its match, of equals datasets first."""
    return _MATCHES[found.match], is_dropped, -found.score, _ORDER[found.kind]


class Ranking:
    """The best of what was found, each thing once."""

    def __init__(self) -> None:
        self._best: dict[tuple[Kind, UUID], Found] = {}

    def __len__(self) -> int:
        return len(self._best)

    def add(self, found: Iterable[Found]) -> None:
        for each in found:
            known = self._best.get((each.kind, each.id))
            if known is None or known.score < each.score:
                self._best[(each.kind, each.id)] = each

    def first(self, limit: int) -> list[Found]:
        return sorted(self._best.values(), key=lambda each: (*place(each), each.id))[:limit]
