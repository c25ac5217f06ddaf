"""Runs that do what their job has done before: new, of one ordinary event, with nothing in it that is not known.

Most events are like that. Their rows follow from a shape that was worked out once; whatever is not sure goes the long
way, through `rows`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from headgate.openlineage.facts import DatasetUse, Facts
from headgate.server.ingest.batch import Prepared
from headgate.server.ingest.memory import GroupMemory, Memory, Shape, Touches, UseKey
from headgate.server.ingest.rows import MOVES, as_json, as_uuids

# Others have more to tell than when they were.
_PLAIN = frozenset({"START", "COMPLETE"})
MAX_SHAPES = 10_000
MAX_USES = 100


class Repeat(NamedTuple):
    event: Prepared
    shape: Shape

    def touch(self, touches: Touches) -> None:
        facts = self.event.facts
        at = facts.event_time
        touches.add_shape(self.shape, at, at, at if facts.event_type == "COMPLETE" else None, facts.run_id)

    def columns(self) -> tuple[Any, ...]:
        """The run's row, as `RunRow.columns` has them; times that are the event's are said once."""
        facts, shape = self.event.facts, self.shape
        has_ended = facts.event_type == "COMPLETE"
        return (
            facts.run_id, None, has_ended, shape.job_id, facts.event_type, None, facts.event_time, None, None, None,
            facts.parent_run, facts.root_run, facts.processing_type, shape.inputs, shape.outputs,
            facts.producer, None, as_json(facts.parent_job), as_json(facts.root_job), facts.application_id,
            self.event.key.hex() if has_ended or facts.metrics else None,
        )  # fmt: skip


def part(events: Sequence[Prepared], held: Collection[UUID], ids: GroupMemory) -> tuple[list[Repeat], list[Prepared]]:
    """The events that repeat what is known, and the others. Of the former `ids` has the names."""
    number = Counter(event.facts.run_id for event in events)
    repeats: list[Repeat] = []
    others: list[Prepared] = []
    for event in events:
        facts = event.facts
        shape = None
        if facts.kind == "run" and number[facts.run_id] == 1 and facts.run_id not in held and _is_plain(facts):
            shape = _shape(facts, ids.committed)
        if shape is None:
            others.append(event)
        else:
            repeats.append(Repeat(event, shape))
            ids.datasets.update(shape.datasets)
            assert facts.job is not None
            ids.jobs[facts.job] = shape.job_id
    return repeats, others


def _is_plain(facts: Facts) -> bool:
    return (
        facts.event_type in _PLAIN
        and len(facts.uses) <= MAX_USES
        and facts.edges is None
        and not facts.is_test
        and facts.error is None
        and facts.partition_context is None
    )


def _shape(facts: Facts, memory: Memory) -> Shape | None:
    assert facts.job is not None
    contents = tuple([(use.role, use.key, use.facets_hash) for use in facts.uses])
    key = (facts.job, facts.event_type == "START", contents)
    shape = memory.shapes.get(key)
    if shape is None:
        shape = _new_shape(facts, memory)
        if shape is not None:
            if len(memory.shapes) >= MAX_SHAPES:
                memory.shapes.clear()
            memory.shapes[key] = shape
    return shape


def _new_shape(facts: Facts, memory: Memory) -> Shape | None:
    """What is known of such events; None if any part of it is not."""
    assert facts.job is not None
    job_id = memory.jobs.get(facts.job)
    known = {use.key: id_ for use in facts.uses if (id_ := memory.datasets.get(use.key)) is not None}
    if job_id is None or any(use.key not in known or use.sources is not None for use in facts.uses):
        return None
    uses: dict[UseKey, tuple[UseKey, bool, bool]] = {}
    for use in facts.uses:
        use_key = (job_id, known[use.key], use.role)
        if use_key in uses or not _is_known(use, memory.use(use_key), facts.event_type == "START"):
            return None
        uses[use_key] = (use_key, use.columns is not None, use.schema is not None)
    inputs = {known[use.key]: None for use in facts.uses if use.role == "input"}
    outputs = {known[use.key]: None for use in facts.uses if use.role == "output"}
    edges = tuple((source, target, job_id) for source in inputs for target in outputs if source != target)
    if not all(edge in memory.edges for edge in edges):
        return None
    return Shape(job_id, known, as_uuids(inputs), as_uuids(outputs), tuple(uses.values()), edges)


def _is_known(use: DatasetUse, known: tuple[int | None, int | None] | None, is_start: bool) -> bool:
    if known is None or use.lifecycle in MOVES:
        return False
    return use.facets_hash is None or use.facets_hash == known[0 if is_start else 1]
