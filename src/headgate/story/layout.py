"""Where each point of a layered graph is drawn: columns from left to right, groups as boxes that share no ground.

Knows sizes and places; knows nothing of datasets, jobs or SVG.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.story.layers import Edge, layers, without_cycles

WIDTH, HEIGHT = 190, 62
COLUMN, ROW = WIDTH + 58, HEIGHT + 12
PAD, TITLE = 14, 24
GAP = 16
MARGIN = 6
LANE = 8
SWEEPS = 6
# Beyond this many long edges a corridor for each would push the picture apart.
MAX_CORRIDORS = 80


@dataclass(frozen=True)
class Point:
    """Something to draw. Points of one group share a box; a point without one stands alone."""

    id: str
    group: str | None = None
    is_own: bool = True


@dataclass(frozen=True)
class Box:
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Box) -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


@dataclass(frozen=True)
class Layout:
    """The places of a drawing, and the ground that it covers."""

    points: dict[str, Box] = field(default_factory=dict)
    groups: dict[str, Box] = field(default_factory=dict)
    paths: dict[Edge, str] = field(default_factory=dict)
    ground: Box = Box(0, 0, 0, 0)


@dataclass
class _Block:
    """What is placed as one: a group with its columns, or a point alone."""

    name: str
    is_framed: bool
    is_own: bool
    columns: dict[int, list[str]]
    y: float = 0

    @property
    def rows(self) -> int:
        return max(len(column) for column in self.columns.values())

    @property
    def height(self) -> float:
        inner = self.rows * ROW - (ROW - HEIGHT)
        return inner + TITLE + 2 * PAD if self.is_framed else inner

    @property
    def left(self) -> float:
        return min(self.columns) * COLUMN - (PAD if self.is_framed else 0)

    @property
    def right(self) -> float:
        return max(self.columns) * COLUMN + WIDTH + (PAD if self.is_framed else 0)

    @property
    def box(self) -> Box:
        return Box(self.left, self.y, self.right - self.left, self.height)

    def tops(self) -> dict[str, float]:
        """The upper edge of each point; short columns stand in the middle."""
        first = self.y + (TITLE + PAD if self.is_framed else 0)
        found = {}
        for column in self.columns.values():
            start = first + (self.rows - len(column)) * ROW / 2
            found.update({each: start + place * ROW for place, each in enumerate(column)})
        return found


def lay_out(points: Sequence[Point], edges: Sequence[Edge]) -> Layout:
    """Place points so that edges lead to the right and cross as little as a few sweeps can manage."""
    if not points:
        return Layout()
    ids = [point.id for point in points]
    forward, back = without_cycles(ids, edges)
    layer = layers(ids, forward, {point.id for point in points if not point.is_own})
    blocks = _blocks(points, layer)
    tops = _settled(blocks, forward, layer)
    boxes = {each: Box(layer[each] * COLUMN, tops[each], WIDTH, HEIGHT) for each in ids}
    taken = [block.box for block in blocks]
    paths = {edge: _forward_path(boxes, edge, layer, taken) for edge in forward}
    paths |= {edge: _back_path(boxes, edge) for edge in back}
    groups = {block.name: block.box for block in blocks if block.is_framed}
    return Layout(boxes, groups, paths, _ground(taken))


def crossings(tops: Mapping[str, float], edges: Sequence[Edge], layer: Mapping[str, int]) -> int:
    """How often edges between neighbouring columns cross."""
    by_layer: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for source, target in edges:
        if layer[target] - layer[source] == 1:
            by_layer[layer[source]].append((tops[source], tops[target]))
    found = 0
    for pairs in by_layer.values():
        ends: list[float] = []
        for _, end in sorted(pairs):
            found += len(ends) - bisect_right(ends, end)
            insort(ends, end)
    return found


def _blocks(points: Sequence[Point], layer: Mapping[str, int]) -> list[_Block]:
    found: dict[tuple[bool, str], _Block] = {}
    for point in points:
        is_framed = point.group is not None
        name = point.group if point.group is not None else point.id
        block = found.setdefault((is_framed, name), _Block(name, is_framed, point.is_own, {}))
        block.columns.setdefault(layer[point.id], []).append(point.id)
    return sorted(found.values(), key=lambda block: (not block.is_own, min(block.columns)))


def _settled(blocks: list[_Block], edges: Sequence[Edge], layer: Mapping[str, int]) -> dict[str, float]:
    near = _near(edges)
    best = _placed(blocks, near)
    kept = [dict(block.columns) for block in blocks]
    fewest = crossings(best, edges, layer)
    tops = best
    for sweep in range(SWEEPS):
        _reorder(blocks, near, tops, layer, to_right=sweep % 2 == 0)
        tops = _placed(blocks, near)
        counted = crossings(tops, edges, layer)
        if counted < fewest:
            fewest, best, kept = counted, tops, [dict(block.columns) for block in blocks]
    for block, columns in zip(blocks, kept, strict=True):
        block.columns = columns
    return _placed(blocks, near)


def _near(edges: Sequence[Edge]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        found[source].append(target)
        found[target].append(source)
    return found


def _reorder(
    blocks: list[_Block],
    near: Mapping[str, list[str]],
    tops: Mapping[str, float],
    layer: Mapping[str, int],
    *,
    to_right: bool,
) -> None:
    """Sort each column by the middle of what its points are tied to on one side."""

    def middle(each: str) -> float:
        side = [other for other in near.get(each, ()) if (layer[other] < layer[each]) is to_right]
        return sum(tops[other] for other in side) / len(side) if side else tops[each]

    for block in blocks:
        block.columns = {number: sorted(column, key=middle) for number, column in block.columns.items()}


def _placed(blocks: list[_Block], near: Mapping[str, list[str]]) -> dict[str, float]:
    tops: dict[str, float] = {}
    taken: list[Box] = []
    for block in blocks:
        block.y = 0
        offsets = block.tops()
        wanted = [tops[other] - top for each, top in offsets.items() for other in near.get(each, ()) if other in tops]
        ideal = sum(wanted) / len(wanted) if wanted else 0
        block.y = _nearest_free(taken, Box(block.left, ideal, block.right - block.left, block.height))
        taken.append(block.box)
        tops.update(block.tops())
    return tops


def _nearest_free(taken: Sequence[Box], wanted: Box, gap: float = GAP) -> float:
    """The place nearest to the wanted one, up or down, where a box touches no other."""
    beside = [box for box in taken if box.x < wanted.x + wanted.width and wanted.x < box.x + box.width]
    blocked = sorted((box.y - gap - wanted.height, box.y + box.height + gap) for box in beside)
    best, end = None, float("-inf")
    for top, bottom in blocked:
        if top >= end:
            best = _nearer(best, min(max(wanted.y, end), top), wanted.y)
        end = max(end, bottom)
    return _nearer(best, max(wanted.y, end), wanted.y)


def _nearer(best: float | None, found: float, wanted: float) -> float:
    return found if best is None or abs(found - wanted) <= abs(best - wanted) else best


def _forward_path(boxes: Mapping[str, Box], edge: Edge, layer: Mapping[str, int], taken: list[Box]) -> str:
    source, target = boxes[edge[0]], boxes[edge[1]]
    x1, y1 = source.x + source.width, source.y + source.height / 2
    x2, y2 = target.x, target.y + target.height / 2
    is_long = layer[edge[1]] - layer[edge[0]] > 1
    lanes = sum(box.height == LANE for box in taken)
    if not is_long or lanes >= MAX_CORRIDORS:
        return f"M{x1:g} {y1:g}{_curve(x1, y1, x2, y2)}"
    left, right = (layer[edge[0]] + 1) * COLUMN - PAD, (layer[edge[1]] - 1) * COLUMN + WIDTH + PAD
    y = _nearest_free(taken, Box(left, (y1 + y2) / 2 - LANE / 2, right - left, LANE), gap=3)
    taken.append(Box(left, y, right - left, LANE))
    middle = y + LANE / 2
    return f"M{x1:g} {y1:g}{_curve(x1, y1, left, middle)}L{right:g} {middle:g}{_curve(right, middle, x2, y2)}"


def _back_path(boxes: Mapping[str, Box], edge: Edge) -> str:
    source, target = boxes[edge[0]], boxes[edge[1]]
    x1, y1 = source.x + source.width / 2, source.y + source.height
    x2, y2 = target.x + target.width / 2, target.y + target.height
    low = max(y1, y2) + ROW / 2
    return f"M{x1:g} {y1:g}C{x1:g} {low:g} {x2:g} {low:g} {x2:g} {y2:g}"


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    half = (x1 + x2) / 2
    return f"C{half:g} {y1:g} {half:g} {y2:g} {x2:g} {y2:g}"


def _ground(taken: Sequence[Box]) -> Box:
    left, top = min(box.x for box in taken) - MARGIN, min(box.y for box in taken) - MARGIN
    right, bottom = max(box.x + box.width for box in taken), max(box.y + box.height for box in taken)
    return Box(left, top, right - left + MARGIN, bottom - top + MARGIN)
