"""How much speaks for a candidate in the end: what is left unexplained of its evidence, and what it explains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.domain.clue import Clue, Node
from headgate.domain.effects import OUTPUT, Nature, Signal
from headgate.domain.scene import Candidate, Failure

# A batch that was written over may be gone.
_SUPERSEDED: Final = 0.85
# What is off the way of the failing column, where column lineage tells its way and where it does not.
_OFF_THE_WAY: Final = 0.5
_WAY_UNKNOWN: Final = 0.85
# What is left for those of whom nothing is known; who wrote the failing data is asked first.
_NO_EVIDENCE: Final = 0.02
PRODUCER: Final = 0.06
_PER_STEP: Final = 0.98
# What changed code counts for if the output is as usual, and if nobody measured it.
QUIET_CODE: Final = 0.3
_UNSEEN_CODE: Final = 0.7
# A job that reads what others write, and is itself as it was, passes on what is odd rather than makes it. What is odd
# about the failing data itself is the failure, not why.
_FIGURES: Final = frozenset(
    {Signal.rows_down, Signal.rows_up, Signal.bytes_down, Signal.bytes_up, Signal.nulls_up, Signal.test}
)
_OWN_DOING: Final = frozenset({Signal.code, Signal.schema, Signal.failed, Signal.missing, Signal.quarantine})
_TELLING: Final = 0.1
_PASSED_ON: Final = 0.6
_FAILURE_ITSELF: Final = 0.4


def beside_the_way(failure: Failure, nature: Nature, candidates: Sequence[Candidate]) -> float:
    """What is left of evidence that is not on the way of the failing column: little where that way is known.

    Rows come from any input, whichever column shows that there are too many.
    """
    if failure.column is None:
        return 1.0
    return _OFF_THE_WAY if is_way_known(failure, nature, candidates) else _WAY_UNKNOWN


def is_way_known(failure: Failure, nature: Nature, candidates: Sequence[Candidate]) -> bool:
    """Whether column lineage tells what the failing column is made of, and that is what matters."""
    if failure.column is None or nature not in (Nature.nulls, Nature.values):
        return False
    return any(candidate.via_column and candidate.depth > 0 for candidate in candidates)


def score_of(node: Node, nature: Nature, beside: float) -> float:
    candidate = node.candidate
    least = (PRODUCER if candidate.depth == 0 else _NO_EVIDENCE) * 0.9**candidate.depth
    if not node.clues and not node.credit:
        return least
    left = sorted((_weighed(node, clue, nature) for clue in node.clues), reverse=True)
    node.own = min(1.0, left[0] + 0.15 * sum(left[1:3])) if left else 0.0
    off = beside if not candidate.via_column and candidate.depth > 0 else 1.0
    way = node.way or _PER_STEP ** (5 * candidate.depth) * 0.5
    judged = max(node.own * way * off, 0.9 * node.credit) * (_SUPERSEDED if candidate.is_superseded else 1.0)
    return max(least, judged * _PER_STEP**candidate.depth)


def _weighed(node: Node, clue: Clue, nature: Nature) -> float:
    if clue.signal is Signal.code:
        return clue.relevance * shown_of_code(node)
    if clue.signal is Signal.failed and node.candidate.depth == 0 and nature is Nature.run:
        # That it failed is the failure itself, not why.
        return clue.left * 0.35
    if clue.signal in _FIGURES and node.is_reader and not _has_own_doing(node):
        return clue.left * (_FAILURE_ITSELF if node.candidate.depth == 0 else _PASSED_ON)
    return clue.left


def _has_own_doing(node: Node) -> bool:
    return any(clue.signal in _OWN_DOING and clue.evidence.weight > _TELLING for clue in node.clues)


def shown_of_code(node: Node) -> float:
    """How much of a change in the code shows in what the run wrote, and comes from nowhere else."""
    least = QUIET_CODE if node.candidate.is_measured else _UNSEEN_CODE
    changes = [clue.left for clue in node.clues if clue.signal in OUTPUT]
    return max(least, QUIET_CODE + 1.2 * max(changes)) if changes else least
