"""Two sets of edges against the expected ones: what was seen, missed, and seen beyond."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

INDIRECT = frozenset({"JOIN", "FILTER", "GROUP_BY", "SORT", "WINDOW", "CONDITIONAL", "INDIRECT"})
Pair = tuple[str, str]
Kinds = dict[Pair, frozenset[str]]


@dataclass(frozen=True)
class Score:
    """How many of the expected edges were seen, were seen from a whole struct instead of its field, or were missed."""

    seen: int = 0
    coarse: int = 0
    missed: int = 0
    beyond: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(
            self.seen + other.seen,
            self.coarse + other.coarse,
            self.missed + other.missed,
            self.beyond + other.beyond,
        )

    def __str__(self) -> str:
        more = (("~", self.coarse), ("−", self.missed), ("+", self.beyond))
        return " ".join([str(self.seen), *(f"{sign}{count}" for sign, count in more if count)])


def score(found: Iterable[Pair], expected: Iterable[Pair]) -> Score:
    found, expected = set(found), set(expected)
    missed, beyond = expected - found, found - expected
    coarse = {pair: _struct_of(pair, beyond) for pair in missed}
    structs = {struct for struct in coarse.values() if struct}
    nearly = sum(1 for struct in coarse.values() if struct)
    return Score(len(found & expected), nearly, len(missed) - nearly, len(beyond - structs))


def _struct_of(pair: Pair, found: set[Pair]) -> Pair | None:
    """The edge that says the same of the struct that the source's field is in."""
    target, source = pair
    return next((other for other in found if other[0] == target and source.startswith(f"{other[1]}.")), None)


def pairs(edges: Iterable[tuple[str, str, str]]) -> Kinds:
    """Edges of one kind each, as the kinds of each pair of target and source."""
    found: dict[Pair, set[str]] = {}
    for target, source, kind in edges:
        found.setdefault((target, source), set()).add(kind)
    return {pair: frozenset(kinds) for pair, kinds in found.items()}


def alike(found: Kinds, expected: Kinds) -> Kinds:
    """The same in the form of the expected: what decides on rows may be said of a table or of each of its columns."""
    moved: dict[Pair, set[str]] = {}
    for (target, source), kinds in found.items():
        whole = (_table(target), source)
        shared = kinds & INDIRECT - expected.get((target, source), frozenset()) if whole in expected else frozenset()
        moved.setdefault(whole, set()).update(shared)
        moved.setdefault((target, source), set()).update(kinds - shared)
    return {pair: frozenset(kinds) for pair, kinds in moved.items() if kinds}


def _table(target: str) -> str:
    return target.partition(".")[0]
