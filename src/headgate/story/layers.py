"""In which column each point of a graph stands, so that data flows from left to right."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

Edge = tuple[str, str]


def without_cycles(ids: Sequence[str], edges: Iterable[Edge]) -> tuple[list[Edge], list[Edge]]:
    """The edges that lead forward, and those that lead back to where one has come from."""
    following = _neighbours(ids, edges)
    back: set[Edge] = set()
    state: dict[str, int] = {}
    for root in ids:
        stack = [(root, iter(following[root]))] if root not in state else []
        state.setdefault(root, 1)
        while stack:
            here, ahead = stack[-1]
            found = next(ahead, None)
            if found is None:
                state[here] = 2
                stack.pop()
            elif state.get(found) == 1:
                back.add((here, found))
            elif found not in state:
                state[found] = 1
                stack.append((found, iter(following[found])))
    every = [(source, target) for source in ids for target in following[source]]
    return [edge for edge in every if edge not in back], [edge for edge in every if edge in back]


def layers(ids: Sequence[str], edges: Sequence[Edge], movable: Collection[str] = ()) -> dict[str, int]:
    """The column of each id: behind all that it comes from.

    What is `movable` and only feeds others pushes nobody to the right: it stands close before its readers.
    """
    following = _neighbours(ids, edges)
    order = _sorted(ids, following)
    found = dict.fromkeys(ids, 0)
    feeders = set(movable)
    for source in order:
        if source in feeders:
            continue
        for target in following[source]:
            feeders.discard(target)
            found[target] = max(found[target], found[source] + 1)
    for source in reversed(order):
        if following[source] and source in feeders:
            found[source] = min(found[target] for target in following[source]) - 1
    least = min(found.values(), default=0)
    return {each: layer - least for each, layer in found.items()}


def _neighbours(ids: Sequence[str], edges: Iterable[Edge]) -> dict[str, list[str]]:
    found: dict[str, dict[str, None]] = {each: {} for each in ids}
    for source, target in edges:
        if source in found and target in found and source != target:
            found[source][target] = None
    return {source: list(targets) for source, targets in found.items()}


def _sorted(ids: Sequence[str], following: dict[str, list[str]]) -> list[str]:
    awaited = dict.fromkeys(ids, 0)
    for targets in following.values():
        for target in targets:
            awaited[target] += 1
    order = [each for each in ids if not awaited[each]]
    for here in order:
        for target in following[here]:
            awaited[target] -= 1
            if not awaited[target]:
                order.append(target)
    return order
