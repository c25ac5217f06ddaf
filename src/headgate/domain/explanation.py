"""What explains what: evidence travels down the lineage, and each run is told what its inputs explain of its own.

What a run shows of a change as well passes on undiminished; where nothing shows, it gets fainter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from headgate.domain.clue import Clue, Node, Reason
from headgate.domain.effects import EFFECTS, SILENT, UNSEEN, Signal
from headgate.domain.scene import Evidence, EvidenceKind

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
# Who changed its own code at the same time needs less of an explanation from elsewhere.
_OWN_CODE: Final = 0.6
_ON_THE_WAY: Final = 0.9
# From here on what a run shows is held to come from elsewhere.
_MOSTLY: Final = 0.5
_NOTHING: Final[frozenset[Signal]] = frozenset()


def upstream_first(nodes: Sequence[Node]) -> list[int]:
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


def explain(nodes: list[Node], order: Sequence[int]) -> None:
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


def _told(nodes: Sequence[Node], node: Node) -> dict[Signal, Reason]:
    """What the inputs of a run explain to it, the best for each signal."""
    reasons: dict[Signal, Reason] = {}
    for upstream in node.upstream:
        for signal, reason in nodes[upstream].reasons.items():
            known = reasons.get(signal)
            if known is None or reason[0] > known[0]:
                reasons[signal] = reason
    return reasons


def _explain_clue(clue: Clue, reason: Reason | None, doubt: float) -> None:
    # Nobody changes code because a table upstream has changed.
    if reason is None or clue.signal is Signal.code:
        return
    _, strength, reason_size, origin, _ = reason
    size = _size(clue.evidence)
    fits = min(1.0, reason_size / size / _SHRINKS) if 0 < size < math.inf else 1.0
    clue.explained, clue.by = strength * fits * doubt, origin


def _passed_on(node: Node, reasons: Mapping[Signal, Reason]) -> dict[Signal, Reason]:
    """What a run passes on of what its inputs explain: all that it shows as well, and the rest fainter."""
    shown = {(clue.signal, clue.by) for clue in node.clues if clue.explained > _MOSTLY}
    # Where nothing is measured, that nothing shows means nothing.
    least = 0.0 if node.candidate.is_measured else _UNSEEN_HOP
    passed = {}
    for signal, (reach, strength, size, origin, fades) in reasons.items():
        left = _STOPS if signal in _AT_ONCE else 1.0 if (signal, origin) in shown else max(least, fades)
        if strength * left >= _FAINTEST:
            passed[signal] = (reach * left, strength * left, size, origin, fades)
    return passed


def _bring_about(
    reasons: dict[Signal, Reason], clue: Clue, place: int, effects: Sequence[tuple[Signal, float]]
) -> None:
    """Adds what a run explains to its readers by its own evidence."""
    size = _size(clue.evidence)
    origin = clue.by if clue.by is not None and clue.explained > _MOSTLY else place
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


def find_ways(nodes: list[Node], order: Sequence[int]) -> None:
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


def _step(reader: Node, seen: Set[Signal], sent: Set[Signal]) -> float:
    if reader.candidate.depth == 0 or any(not seen.isdisjoint(EFFECTS.get(signal, ())) for signal in sent):
        return 0.97
    if not reader.candidate.is_measured:
        return 0.9
    return 0.9 if sent & SILENT else _QUIET_STEP


def give_credit(nodes: list[Node]) -> None:
    """What a candidate explains downstream speaks for it, as far as it explains it."""
    for node in nodes:
        for clue in node.clues:
            if clue.by is not None:
                origin = nodes[clue.by]
                origin.credit = max(origin.credit, clue.relevance * clue.explained**2 * node.way)
