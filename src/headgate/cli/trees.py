"""Lineage as a tree of lines, for terminals. Knows graphs and text; prints nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Leaf:
    """A dataset in the tree: what it is called, how far from the root it is, and what is said below it."""

    label: str
    depth: int
    is_external: bool = False
    notes: tuple[str, ...] = ()


class Step(NamedTuple):
    """From one dataset to the next, and the jobs to name beside it."""

    to: str
    jobs: tuple[str, ...] = ()


@dataclass
class Graph:
    """Datasets by id, and the steps from each in the direction that is shown."""

    leaves: Mapping[str, Leaf]
    steps: Mapping[str, Sequence[Step]] = field(default_factory=dict)
    # Whether it ends at some depth, where further steps only lead back.
    is_cut: bool = True


def lines(graph: Graph, root: str) -> Iterator[str]:
    """The tree under `root`. Each dataset is opened once, at its least depth; elsewhere it is only named."""
    yield graph.leaves[root].label
    shown, deepest = {root}, max(leaf.depth for leaf in graph.leaves.values())
    # A stack of our own: lineage may be deeper than Python likes to recurse.
    pending = [(step, root, "", is_last) for step, is_last in _steps(graph, root, deepest)][::-1]
    while pending:
        step, parent, indent, is_last = pending.pop()
        leaf = graph.leaves[step.to]
        opens = leaf.depth == graph.leaves[parent].depth + 1 and step.to not in shown
        aside = "" if opens else " (shown above)" if step.to in shown else " (shown below)"
        yield f"{indent}{'└── ' if is_last else '├── '}{_text(leaf, step)}{aside}"
        if not opens:
            continue
        shown.add(step.to)
        deeper = indent + ("    " if is_last else "│   ")
        further = _steps(graph, step.to, deepest)
        yield from (f"{deeper}{'│   ' if further else '    '}{note}" for note in leaf.notes)
        pending += [(next_, step.to, deeper, last) for next_, last in further][::-1]


def _text(leaf: Leaf, step: Step) -> str:
    marked = f"[external] {leaf.label}" if leaf.is_external else leaf.label
    return f"{marked} ({', '.join(step.jobs)})" if step.jobs else marked


def _steps(graph: Graph, node: str, deepest: int) -> list[tuple[Step, bool]]:
    """The steps from a dataset, by name; none from the last level of a graph that is cut there."""
    if graph.is_cut and graph.leaves[node].depth == deepest:
        return []
    found = sorted(graph.steps.get(node, ()), key=lambda step: graph.leaves[step.to].label)
    return [(step, place == len(found) - 1) for place, step in enumerate(found)]
