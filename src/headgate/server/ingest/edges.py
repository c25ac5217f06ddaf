"""Lineage edges of a group: all that a run has read to all that it has written, or just what an event spells out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from headgate.openlineage.facts import Facts
from headgate.server.ingest.memory import EdgeKey, Memory, Touches
from headgate.server.ingest.rows import RunRow, Span, completion, run_of, widen

# More pairs than this from one run say nothing about lineage; the run keeps its inputs and outputs.
MAX_EDGES = 100_000

EdgeSpan = tuple[Span, UUID | None]


def fold_edges(events: Sequence[Facts], runs: Mapping[UUID, RunRow], ids: Memory) -> dict[EdgeKey, EdgeSpan]:
    edges: dict[EdgeKey, EdgeSpan] = {}
    for row in runs.values():
        _add_run(edges, row)
    for facts in events:
        run = run_of(facts, runs)
        if facts.job is None or facts.is_test or (run is not None and run.is_test):
            continue
        span = (facts.event_time, facts.event_time, completion(facts, run))
        for pair in _spelled_out(facts, ids):
            _add_edge(edges, (*pair, ids.jobs[facts.job]), span, facts.run_id)
        if facts.edges is None and facts.kind == "job":
            _add_product(edges, facts, ids)
    return dict(sorted(edges.items()))


def touch_completed(events: Sequence[Facts], runs: Mapping[UUID, RunRow], ids: Memory, touches: Touches) -> None:
    """A run may tell its datasets when it starts and nothing when it completes: then those are completed, too."""
    for facts in events:
        run = run_of(facts, runs)
        if run is None or facts.job is None or facts.event_type != "COMPLETE" or facts.uses or run.is_test:
            continue
        at, job_id = facts.event_time, ids.jobs[facts.job]
        inputs, outputs = run.uses_of(job_id)
        for role, datasets in (("input", inputs), ("output", outputs)):
            for dataset_id in datasets:
                touches.add_use((job_id, dataset_id, role), at, at, at)
        for pair in _pairs(inputs, outputs):
            touches.add_edge((*pair, job_id), at, at, at, run.run_id)


def has_too_many_edges(run: RunRow) -> bool:
    """Whether a run names more inputs and outputs than edges are made for."""
    return not run.is_test and len(run.inputs) * len(run.outputs) > MAX_EDGES


def _add_run(edges: dict[EdgeKey, EdgeSpan], row: RunRow) -> None:
    if row.is_test:
        return
    for job_id, (first_at, last_at, completed_at) in row.spans.items():
        # From the run's start, so that it does not matter which of its events arrived first.
        span = (min(first_at, row.course.started_at), last_at, completed_at or row.completed_at)
        inputs, outputs = row.uses_of(job_id)
        for source, target in _pairs(inputs, outputs.keys() - row.told if row.told else outputs):
            _add_edge(edges, (source, target, job_id), span, row.run_id)


def _spelled_out(facts: Facts, ids: Memory) -> Iterable[tuple[UUID, UUID]]:
    for source, target in facts.edges or ():
        yield ids.datasets[source[:2]], ids.datasets[target[:2]]
    for use in facts.uses:
        if use.role == "output":
            for source in use.sources or ():
                yield ids.datasets[source[:2]], ids.datasets[use.key]


def _add_product(edges: dict[EdgeKey, EdgeSpan], facts: Facts, ids: Memory) -> None:
    assert facts.job is not None
    inputs = {ids.datasets[use.key] for use in facts.uses if use.role == "input"}
    outputs = {ids.datasets[use.key] for use in facts.uses if use.role == "output" and use.sources is None}
    for pair in _pairs(inputs, outputs):
        _add_edge(edges, (*pair, ids.jobs[facts.job]), widen(None, facts), None)


def _pairs(inputs: Iterable[UUID], outputs: Iterable[UUID]) -> Iterable[tuple[UUID, UUID]]:
    sources, targets = list(inputs), list(outputs)
    if len(sources) * len(targets) <= MAX_EDGES:
        for source in sources:
            for target in targets:
                yield source, target


def _add_edge(
    edges: dict[EdgeKey, EdgeSpan],
    key: EdgeKey,
    span: Span,
    run_id: UUID | None,
) -> None:
    if key[0] == key[1]:
        return
    seen = edges.get(key)
    if seen is None:
        edges[key] = (span, run_id)
        return
    (first, last, completed), seen_run = seen
    ends = [at for at in (completed, span[2]) if at is not None]
    wider = (min(first, span[0]), max(last, span[1]), max(ends) if ends else None)
    edges[key] = (wider, run_id if span[1] >= last else seen_run)
