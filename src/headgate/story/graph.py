"""The picture of a run's lineage: its own nodes and datasets, and what other pipelines have around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headgate.pipelines.record import DatasetRef, NodeRecord, RunRecord, Status
from headgate.story.facts import Kind, Lineage, Story, dataset_id, job_id, job_name
from headgate.story.figures import count, cut_middle
from headgate.story.layout import Box, Layout, Point, lay_out

MAX_LABEL = 17
MAX_BELOW = 22


@dataclass(frozen=True)
class Mark:
    """A dataset or a job to draw; `group` is the pipeline, and on which side of the run it is."""

    id: str
    label: str
    kind: Kind
    below: str
    full: str
    group: tuple[str, str] | None
    is_own: bool
    status: Status | None = None
    anchor: str | None = None
    writes: str | None = None

    @property
    def short_writes(self) -> str:
        return cut_middle(self.writes or "", MAX_BELOW)

    @property
    def short(self) -> str:
        return cut_middle(self.label, MAX_LABEL)

    @property
    def short_below(self) -> str:
        return cut_middle(self.below, MAX_BELOW)


@dataclass(frozen=True)
class Frame:
    title: str
    is_own: bool
    box: Box


@dataclass(frozen=True)
class Line:
    path: str
    is_own: bool


@dataclass(frozen=True)
class Picture:
    """What is drawn where; `flows` says the same in words."""

    marks: tuple[tuple[Mark, Box], ...]
    frames: tuple[Frame, ...]
    lines: tuple[Line, ...]
    ground: Box
    flows: tuple[tuple[str, str], ...]

    @property
    def foreign(self) -> int:
        return sum(not mark.is_own for mark, _ in self.marks)


class _Graph:
    def __init__(self) -> None:
        self.marks: dict[str, Mark] = {}
        self.edges: dict[tuple[str, str], bool] = {}

    def add(self, mark: Mark) -> None:
        self.marks.setdefault(mark.id, mark)

    def link(self, source: str, target: str, *, is_own: bool) -> None:
        self.edges.setdefault((source, target), is_own)


def picture(story: Story, anchors: Mapping[str, str]) -> Picture | None:
    """The drawing of a story's lineage; None when there is nothing to draw."""
    graph = _Graph()
    _add_run(graph, story.run, anchors)
    for side, lineage in (("upstream", story.upstream), ("downstream", story.downstream)):
        _add_lineage(graph, lineage, side)
    if not graph.marks:
        return None
    flows = tuple((graph.marks[source].full, graph.marks[target].full) for source, target in graph.edges)
    _fold(graph)
    points = [Point(mark.id, _key(mark.group), mark.is_own) for mark in graph.marks.values()]
    layout = lay_out(points, list(graph.edges))
    return Picture(
        marks=tuple((mark, layout.points[each]) for each, mark in graph.marks.items()),
        frames=tuple(_frames(graph.marks.values(), layout)),
        lines=tuple(Line(path, graph.edges[edge]) for edge, path in layout.paths.items()),
        ground=layout.ground,
        flows=flows,
    )


def _add_run(graph: _Graph, run: RunRecord, anchors: Mapping[str, str]) -> None:
    for node in run.nodes:
        group = (node.pipeline, "own")
        graph.add(_job(run, node, anchors.get(job_name(node))))
        if node.output is not None:
            graph.add(_dataset(node.output, group))
            graph.link(job_id(run, node), dataset_id(node.output), is_own=True)
    for node in run.nodes:
        for dataset in node.inputs:
            graph.add(_dataset(dataset, None))
            graph.link(dataset_id(dataset), job_id(run, node), is_own=True)


def _add_lineage(graph: _Graph, lineage: Lineage, side: str) -> None:
    for node in lineage.nodes:
        group = None if node.pipeline is None else (node.pipeline, side)
        below = node.pipeline or node.kind
        known = graph.marks.get(node.id)
        if known is None:
            graph.add(Mark(node.id, node.label, node.kind, below, node.id, group, is_own=False))
        elif known.group is None and group is not None:
            # The run reads it, and only the server knows whose it is.
            graph.marks[node.id] = Mark(node.id, known.label, known.kind, known.below, node.id, group, is_own=False)
    for edge in lineage.edges:
        if edge.source in graph.marks and edge.target in graph.marks:
            graph.link(edge.source, edge.target, is_own=False)


def _fold(graph: _Graph) -> None:
    """Draw a dataset as part of the one job that writes it, where that job writes nothing else."""
    writers, written = defaultdict(list), defaultdict(list)
    for source, target in graph.edges:
        if graph.marks[source].kind is Kind.job:
            writers[target].append(source)
            written[source].append(target)
    held = {each: by[0] for each, by in writers.items() if len(by) == 1 and written[by[0]] == [each]}
    for dataset, job in held.items():
        mark = graph.marks.pop(dataset)
        whole = f"{graph.marks[job].full}, writes {mark.full}"
        graph.marks[job] = replace(graph.marks[job], writes=mark.label, full=whole)
    edges = {(held.get(source, source), held.get(target, target)): own for (source, target), own in graph.edges.items()}
    graph.edges = {edge: own for edge, own in edges.items() if edge[0] != edge[1]}


def _job(run: RunRecord, node: NodeRecord, anchor: str | None) -> Mark:
    below: str = node.status
    if node.status is Status.published:
        below = count(node.rows_published, "row")
    elif node.status is Status.stopped:
        below = f"stopped {count(node.rows_in, 'row')}"
    full = f"{job_name(node)}: {node.status}"
    group = (node.pipeline, "own")
    return Mark(job_id(run, node), node.name, Kind.job, below, full, group, True, node.status, anchor)


def _dataset(dataset: DatasetRef, group: tuple[str, str] | None) -> Mark:
    return Mark(
        dataset_id(dataset),
        dataset.label,
        Kind.dataset,
        dataset.namespace,
        dataset_id(dataset),
        group,
        group is not None,
    )


def _key(group: tuple[str, str] | None) -> str | None:
    return None if group is None else "\0".join(group)


def _frames(marks: Iterable[Mark], layout: Layout) -> Iterable[Frame]:
    groups = dict.fromkeys(mark.group for mark in marks if mark.group is not None)
    for group in groups:
        pipeline, side = group
        title = pipeline if side == "own" else f"{pipeline} ({side})"
        yield Frame(title, side == "own", layout.groups[_key(group) or ""])
