"""What is different from the run before: rows, tests, columns and time."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.pipelines.record import NodeRecord, RunRecord, Status, TestRecord
from headgate.story.facts import job_name
from headgate.story.figures import change, difference, duration, elapsed_s, number

FAILING = ("failed", "error")
_COUNTED = (Status.published, Status.stopped)


@dataclass(frozen=True)
class Move:
    """A figure now and before; `note` says why they cannot be compared."""

    now: str
    difference: str | None = None
    share: str | None = None
    before: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class NodeChange:
    name: str
    status: str
    rows_in: Move
    published: Move
    took: Move
    is_same: bool


@dataclass(frozen=True)
class TestChange:
    node: str
    test: str
    now: str
    before: str


@dataclass(frozen=True)
class ColumnChange:
    node: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Changes:
    """All differences; `gone` are the nodes that only the run before had."""

    previous: RunRecord
    took: Move
    nodes: tuple[NodeChange, ...]
    gone: tuple[str, ...]
    began: tuple[TestChange, ...]
    ceased: tuple[TestChange, ...]
    still: int
    columns: tuple[ColumnChange, ...]

    @property
    def moved(self) -> list[NodeChange]:
        return [node for node in self.nodes if not node.is_same]

    @property
    def same(self) -> list[NodeChange]:
        return [node for node in self.nodes if node.is_same]


def changes(run: RunRecord, previous: RunRecord) -> Changes:
    """The differences between two runs, node by node."""
    before = {job_name(node): node for node in previous.nodes}
    pairs = [(node, before.get(job_name(node))) for node in run.nodes]
    known = {job_name(node) for node in run.nodes}
    began, ceased, still = _tests(pairs)
    return Changes(
        previous=previous,
        took=_took(elapsed_s(run.started_at, run.ended_at), elapsed_s(previous.started_at, previous.ended_at)),
        nodes=tuple(_node(now, then) for now, then in pairs),
        gone=tuple(name for name in before if name not in known),
        began=began,
        ceased=ceased,
        still=still,
        columns=tuple(found for now, then in pairs if (found := _columns(now, then)) is not None),
    )


def _node(now: NodeRecord, then: NodeRecord | None) -> NodeChange:
    rows_in = _rows(now, then, now.rows_in, then.rows_in if then else 0)
    published = _rows(now, then, now.rows_published, then.rows_published if then else 0)
    then_s = elapsed_s(then.started_at, then.ended_at) if then else None
    took = _took(elapsed_s(now.started_at, now.ended_at), then_s)
    return NodeChange(job_name(now), now.status, rows_in, published, took, _is_same(now, then))


def _is_same(now: NodeRecord, then: NodeRecord | None) -> bool:
    if then is None or then.status is not now.status:
        return False
    return (then.rows_in, then.rows_published) == (now.rows_in, now.rows_published)


def _rows(now: NodeRecord, then: NodeRecord | None, rows: int, rows_then: int) -> Move:
    if now.status not in _COUNTED:
        return Move("–", note=f"{now.status} now", before=_counted(then, rows_then))
    if then is None:
        return Move(number(rows), note="new in this run")
    if then.status not in _COUNTED:
        return Move(number(rows), note=f"{then.status} before")
    return Move(number(rows), difference(rows - rows_then), change(rows, rows_then), number(rows_then))


def _counted(node: NodeRecord | None, rows: int) -> str | None:
    return number(rows) if node is not None and node.status in _COUNTED else None


def _took(now_s: float | None, then_s: float | None) -> Move:
    if now_s is None or then_s is None:
        return Move(duration(now_s), before=None if then_s is None else duration(then_s))
    sign = "+" if now_s >= then_s else "−"
    # In milliseconds, because a share of whole seconds would say "no change" of short runs.
    share = change(round(now_s * 1000), round(then_s * 1000))
    return Move(duration(now_s), sign + duration(abs(now_s - then_s)), share, duration(then_s))


def _tests(
    pairs: list[tuple[NodeRecord, NodeRecord | None]],
) -> tuple[tuple[TestChange, ...], tuple[TestChange, ...], int]:
    began, ceased, still = [], [], 0
    for now, then in pairs:
        before = {test.name: test for test in then.tests} if then else {}
        for test in now.tests:
            old = before.get(test.name)
            was = old is not None and old.status in FAILING
            if test.status in FAILING and was:
                still += 1
            elif test.status in FAILING:
                began.append(_test_change(now, test, old))
            elif was and test.status == "passed":
                ceased.append(_test_change(now, test, old))
    return tuple(began), tuple(ceased), still


def _test_change(node: NodeRecord, test: TestRecord, old: TestRecord | None) -> TestChange:
    return TestChange(job_name(node), test.name, _outcome(test), "not there" if old is None else _outcome(old))


def _outcome(test: TestRecord) -> str:
    return f"{test.status}, {test.failed:,} failing" if test.status in FAILING and test.failed else test.status


def _columns(now: NodeRecord, then: NodeRecord | None) -> ColumnChange | None:
    if then is not None and then.schema and now.schema:
        return _compared(now, then)
    drift = now.drift
    if drift is None or drift.is_empty:
        return None
    return ColumnChange(job_name(now), drift.added, drift.removed, drift.changed)


def _compared(now: NodeRecord, then: NodeRecord) -> ColumnChange | None:
    new, old = ({field.name: field for field in node.schema} for node in (now, then))
    added = tuple(f"{name} {field.type}" for name, field in new.items() if name not in old)
    removed = tuple(f"{name} {field.type}" for name, field in old.items() if name not in new)
    changed = [
        f"{name}: {old[name].type} → {field.type}"
        for name, field in new.items()
        if name in old and old[name].type != field.type
    ]
    changed += [
        f"{name}: {'may be null now' if field.nullable else 'may no longer be null'}"
        for name, field in new.items()
        if name in old and old[name].nullable != field.nullable
    ]
    if not (added or removed or changed):
        return None
    return ColumnChange(job_name(now), added, removed, tuple(changed))
