"""Layers of a graph in which edges lead onwards. Pure; a million nodes and five million edges are plain arrays.

Beside the edges it is given it needs 4 bytes an edge and 20 a node, and no object for either.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate

Numbers = array  # of type code "i"


def ranks_of(size: int, sources: Numbers[int], targets: Numbers[int]) -> Numbers[int]:
    """For each node the most steps that lead to it. An edge that closes a cycle leads back and counts for nothing."""
    starts, following = _by_source(size, sources, targets)
    waiting = _counts(size, targets)
    ranks = _zeros(size)
    entered = array("i")
    queue = array("i", (node for node in range(size) if not waiting[node]))
    cuts = _cuts(size, waiting, entered)
    done = 0
    while done < size:
        if done == len(queue):
            queue.append(next(cuts))
        node = queue[done]
        done += 1
        rank = ranks[node] + 1
        for target in following[starts[node] : starts[node + 1]]:
            if not waiting[target]:
                continue
            if not ranks[target]:
                entered.append(target)
            ranks[target] = max(ranks[target], rank)
            waiting[target] -= 1
            if not waiting[target]:
                queue.append(target)
    return ranks


def _cuts(size: int, waiting: Numbers[int], entered: Numbers[int]) -> Iterator[int]:
    """Where to cut open what waits for a cycle: a node that something leads to already, else the first of all."""
    met = 0
    first = 0
    while True:
        while met < len(entered) and not waiting[entered[met]]:
            met += 1
        if met < len(entered):
            node = entered[met]
        else:
            node = first = next(node for node in range(first, size) if waiting[node])
        waiting[node] = 0
        yield node


def _by_source(size: int, sources: Numbers[int], targets: Numbers[int]) -> tuple[Numbers[int], Numbers[int]]:
    """The targets of all nodes in a row, and where those of each begin."""
    starts = array("i", accumulate(_counts(size, sources), initial=0))
    places = array("i", starts)
    following = _zeros(len(targets))
    for source, target in zip(sources, targets, strict=True):
        following[places[source]] = target
        places[source] += 1
    return starts, following


def _counts(size: int, nodes: Numbers[int]) -> Numbers[int]:
    counts = _zeros(size)
    for node in nodes:
        counts[node] += 1
    return counts


def _zeros(size: int) -> Numbers[int]:
    return array("i", bytes(4 * size))
