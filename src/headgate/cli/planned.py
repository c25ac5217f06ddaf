"""A plan for people and scripts: what each node reads, tests, asks for and writes, and how the nodes hang together.

Knows plans and text; prints nothing.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from headgate.cli import trees

if TYPE_CHECKING:
    from headgate.pipelines.config.gate import GateConfig
    from headgate.pipelines.places import Address
    from headgate.pipelines.plan import Key, Node, Plan
    from headgate.pipelines.record import FieldRecord

    Columns: TypeAlias = Mapping[Key, Sequence[FieldRecord] | None]

WIDTH = 80
_INDENT = 5
_LABEL = 11


def head(plan: Plan) -> str:
    """The one line above a plan."""
    nodes, pipelines = len(plan.nodes), len(plan.pipelines)
    where = f" ({plan.loaded.environment})" if plan.loaded.environment else ""
    return f"{plan.loaded.project.project}{where}: {_count(nodes, 'node')} in {_count(pipelines, 'pipeline')}"


def lines(plan: Plan, columns: Columns | None = None) -> Iterator[str]:
    """The nodes in the order in which they run, each with what it does; `columns` are those that Spark has found."""
    for number, node in enumerate(plan.nodes, 1):
        yield f"{number:>3}. {node.job_name}"
        for label, said in _facts(plan, node):
            yield from _wrapped(label, said)
        if columns is not None:
            yield from _wrapped("columns", _listed(columns.get(node.key)))


def _listed(found: Sequence[FieldRecord] | None) -> str:
    return "known when it runs" if found is None else ", ".join(f"{each.name} {each.type}" for each in found)


def checked(plan: Plan, columns: Columns) -> str:
    """What was found out about the columns, and where only a run will tell."""
    left = [node.job_name for node in plan.nodes if columns.get(node.key) is None]
    if not left:
        return "the steps and tests fit the columns; nothing was written"
    known = len(plan.nodes) - len(left)
    head = f"the steps and tests of {known} of {_count(len(plan.nodes), 'node')} fit the columns; nothing was written"
    return f"{head}\nnot checked, since their columns are known when they run: {', '.join(left)}"


def as_json(plan: Plan, columns: Columns | None = None) -> dict[str, Any]:
    found = columns or {}
    return {
        "project": plan.loaded.project.project,
        "environment": plan.loaded.environment,
        "file": str(plan.loaded.file),
        "nodes": [{**_node_json(node), "columns": found.get(node.key)} for node in plan.nodes],
    }


def _node_json(node: Node) -> dict[str, Any]:
    write, gate = node.config.write, node.config.gate
    return {
        "name": node.job_name,
        "pipeline": node.pipeline.pipeline,
        "node": node.config.name,
        "after": [".".join(key) for key in sorted(node.after)],
        "reads": [_label(node.source)] if node.source else [],
        "writes": _label(node.target),
        "mode": None if write is None else str(write.mode),
        "format": None if write is None else write.format,
        "quarantine": _label(node.quarantine),
        "tests": [
            {"name": test.name, "type": test.config.kind, "on_fail": str(test.config.on_fail)} for test in node.tests
        ],
        "gate": None if gate is None else gate.model_dump(mode="json"),
    }


def _facts(plan: Plan, node: Node) -> Iterator[tuple[str, str]]:
    running = {each.key for each in plan.nodes}
    if after := [".".join(key) for key in sorted(node.after & running)]:
        yield "after", ", ".join(after)
    if node.source is not None and node.config.read is not None:
        yield "reads", _with_format(node.source, node.config.read.format)
    if node.tests:
        yield "tests", _tests(node)
    if node.config.gate is not None:
        yield "gate", gate_in_words(node.config.gate)
    if node.quarantine is not None:
        yield "quarantine", str(node.quarantine)
    if node.target is not None and node.config.write is not None:
        yield "writes", f"{_with_format(node.target, node.config.write.format)}, {node.config.write.mode}"
    else:
        yield "writes", "nothing; other nodes live on it"


def _with_format(address: Address, kind: str | None) -> str:
    return f"{address} ({kind})" if kind else str(address)


def _tests(node: Node) -> str:
    tally = Counter(str(test.config.on_fail) for test in node.tests)
    return f"{', '.join(test.name for test in node.tests)} ({', '.join(f'{n} {what}' for what, n in tally.items())})"


def gate_in_words(gate: GateConfig) -> str:
    """What a gate asks for, and what it does otherwise."""
    asked = [f"{gate.require_pass_rate:.10g} of the rows"]
    asked += [f"{each.test} {each.min_pass_rate:.10g}" for each in gate.thresholds]
    if gate.row_count is not None:
        count = gate.row_count
        asked += [f"at least {count.min:,} rows"] if count.min is not None else []
        asked += [f"at most {count.max:,} rows"] if count.max is not None else []
        asked += [f"change up to {count.change_threshold:.10g}"] if count.change_threshold is not None else []
    return f"{', '.join(asked)}, else {gate.on_fail}"


def _wrapped(label: str, said: str) -> list[str]:
    start = " " * _INDENT + f"{label:<{_LABEL}}"
    return textwrap.wrap(said, WIDTH, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False)


def _label(address: Address | None) -> str | None:
    return None if address is None else str(address)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing if number == 1 else thing + 's'}"


@dataclass(frozen=True)
class Point:
    """A node of the graph, or a dataset that no node of the file writes."""

    id: str
    label: str
    is_external: bool = False


@dataclass(frozen=True)
class Picture:
    """How nodes hang together, and what comes to them from elsewhere. `writes` is by point."""

    project: str
    points: tuple[Point, ...]
    arrows: tuple[tuple[str, str], ...]
    writes: dict[str, str]


def picture(plan: Plan) -> Picture:
    """The graph of a plan; what is read of another node is an arrow from it."""
    nodes = [Point(node.job_name, node.job_name) for node in plan.nodes]
    running = {node.key for node in plan.nodes}
    arrows = [(".".join(key), node.job_name) for node in plan.nodes for key in sorted(node.after & running)]
    outside: dict[str, Point] = {}
    for node in plan.nodes:
        for label in _from_outside(plan, node):
            outside.setdefault(label, Point(f"dataset:{label}", label, is_external=True))
            arrows.append((outside[label].id, node.job_name))
    writes = {node.job_name: str(node.target) for node in plan.nodes if node.target is not None}
    return Picture(plan.loaded.project.project, (*outside.values(), *nodes), tuple(arrows), writes)


def _from_outside(plan: Plan, node: Node) -> list[str]:
    """Datasets that a node reads and none of the plan's nodes writes."""
    running = {each.key for each in plan.nodes}
    written = {str(plan.node(key).target) for key in node.after & running}
    read = [node.source, *(test.reference for test in node.tests)]
    read += [plan.node(key).target for key in sorted(node.after - running)]
    labels = [str(each) for each in read if each is not None]
    return list(dict.fromkeys(label for label in labels if not _is_part(label, written)))


def _is_part(label: str, written: set[str]) -> bool:
    return any(f"{label}/".startswith(f"{each}/") for each in written)


def tree(drawn: Picture) -> Iterator[str]:
    """The graph as a tree under the project; what has several ways to it is opened once."""
    steps: dict[str, list[trees.Step]] = {}
    for source, target in drawn.arrows:
        steps.setdefault(source, []).append(trees.Step(target))
    begun = {target for _, target in drawn.arrows}
    steps[""] = [trees.Step(point.id) for point in drawn.points if point.id not in begun]
    depths = _depths(steps)
    leaves = {"": trees.Leaf(drawn.project, 0)}
    for point in drawn.points:
        arrow = f" → {drawn.writes[point.id]}" if point.id in drawn.writes else ""
        leaves[point.id] = trees.Leaf(f"{point.label}{arrow}", depths[point.id], point.is_external)
    yield from trees.lines(trees.Graph(leaves, steps, is_cut=False), "")


def _depths(steps: dict[str, list[trees.Step]]) -> dict[str, int]:
    depths, edge = {"": 0}, [""]
    while edge:
        reached = [step.to for near in edge for step in steps.get(near, ()) if step.to not in depths]
        for near in edge:
            for step in steps.get(near, ()):
                depths.setdefault(step.to, depths[near] + 1)
        edge = list(dict.fromkeys(reached))
    return depths


def mermaid(drawn: Picture) -> Iterator[str]:
    names = {point.id: f"n{number}" for number, point in enumerate(drawn.points)}
    yield "graph LR"
    for point in drawn.points:
        text = point.label.replace('"', "#quot;")
        yield f'    {names[point.id]}[("{text}")]' if point.is_external else f'    {names[point.id]}["{text}"]'
    for source, target in drawn.arrows:
        yield f"    {names[source]} --> {names[target]}"


def dot(drawn: Picture) -> Iterator[str]:
    yield f"digraph {_quoted(drawn.project)} {{"
    yield "    rankdir=LR;"
    for point in drawn.points:
        shape = "cylinder" if point.is_external else "box"
        yield f"    {_quoted(point.id)} [label={_quoted(point.label)}, shape={shape}];"
    for source, target in drawn.arrows:
        yield f"    {_quoted(source)} -> {_quoted(target)};"
    yield "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def picture_json(drawn: Picture) -> dict[str, Any]:
    return {
        "project": drawn.project,
        "nodes": [
            {
                "id": point.id,
                "label": point.label,
                "kind": "dataset" if point.is_external else "node",
                "writes": drawn.writes.get(point.id),
            }
            for point in drawn.points
        ],
        "edges": [{"source": source, "target": target} for source, target in drawn.arrows],
    }
