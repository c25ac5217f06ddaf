"""Writes groups of events. One transaction a group, which the caller owns; it answers after the commit."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from headgate.domain.run import Verdict, judge
from headgate.openlineage.facts import Facts
from headgate.openlineage.marks import marks_of
from headgate.server.db.pool import DATABASE_GONE, Connection
from headgate.server.ingest.anomalies import store_anomalies
from headgate.server.ingest.batch import Prepared, named_datasets
from headgate.server.ingest.content import store_columns, store_facets, store_job_facets
from headgate.server.ingest.context import Context, Q, as_columns, write_touches
from headgate.server.ingest.counters import IngestCounters
from headgate.server.ingest.edges import EdgeSpan, fold_edges, has_too_many_edges, touch_completed
from headgate.server.ingest.memory import EdgeKey, GroupMemory, Touches
from headgate.server.ingest.pipelines import store_pipelines, tells_of_pipelines
from headgate.server.ingest.quality import store_stages, store_tests
from headgate.server.ingest.renames import carry_renamed, is_renamed
from headgate.server.ingest.repeats import Repeat, part
from headgate.server.ingest.rows import (
    NO_RUN,
    Content,
    RunRow,
    UseRow,
    course_of,
    fold_metrics,
    fold_runs,
    fold_uses,
    moment_of,
)
from headgate.server.ingest.symlinks import link_symlinks
from headgate.server.ingest.versions import store_schemas
from headgate.server.queue import DETECT_PRIORITY, NewTask

log = logging.getLogger("headgate.ingest")

# Another writer was in the way; the same group will go through on another try.
COLLISION: tuple[type[BaseException], ...] = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
)
RUN_MADE_MEANWHILE = "HG002"
RUN_KEY = "job_runs_pkey"

REASONS = {Verdict.ENDED_OTHERWISE: "run.ended_otherwise", Verdict.AFTER_END: "run.after_end"}

Step = Callable[[Context, Any], Awaitable[None]]


class Stale(NamedTuple):
    """Places (from 1) of uses whose content is not what is stored."""

    facets: Sequence[int]
    columns: Sequence[int]
    schemas: Sequence[int]


NOTHING_STALE = Stale((), (), ())


class Folded(NamedTuple):
    """What the accepted events of a group come to. Others are those that do not merely repeat what is known."""

    accepted: Sequence[Prepared]
    held: dict[UUID, Any]
    repeats: Sequence[Repeat]
    others: Sequence[Facts]
    runs: dict[UUID, RunRow]
    uses: Sequence[UseRow]


def is_collision(error: BaseException) -> bool:
    return (
        isinstance(error, COLLISION)
        or getattr(error, "sqlstate", None) == RUN_MADE_MEANWHILE
        or (isinstance(error, asyncpg.UniqueViolationError) and error.constraint_name == RUN_KEY)
    )


class IngestStore:
    """Writes one organisation's events on a connection whose transaction the caller owns."""

    def __init__(
        self, conn: Connection, organization_id: UUID, counters: IngestCounters, pending: Sequence[Touches] = ()
    ) -> None:
        """`pending` is what groups before this one have seen again and is not written yet."""
        self._conn = conn
        self._organization_id = organization_id
        self._counters = counters
        self._pending = pending

    async def write(
        self, tenant_code: str, events: Sequence[Prepared], ids: GroupMemory, touches: Touches
    ) -> list[Verdict]:
        """Store the events and everything they say; the verdict of each, in order.

        `ids` learns what is to be remembered after the commit; `touches` gets what was merely seen again.
        """
        runs = {event.facts.run_id for event in events if event.facts.kind == "run"}
        keys = [event.key for event in events]
        row = await self._conn.fetchrow(Q.claim_events, self._organization_id, keys, list(runs))
        fresh = set(row["fresh"])
        ids.see_epoch(row["epoch"])
        verdicts = [Verdict.STORED if event.key in fresh else Verdict.DUPLICATE for event in events]
        if not fresh:
            return verdicts
        held = {run["run_id"]: run for run in row["held"] or ()}
        _judge_all(events, verdicts, held)
        new = [event for event, verdict in zip(events, verdicts, strict=True) if verdict != Verdict.DUPLICATE]
        refused = {event.key: v for event, v in zip(events, verdicts, strict=True) if v in REASONS}
        accepted = [event for event in new if event.key not in refused] if refused else new
        context = Context(self._conn, self._organization_id, ids, self._pending, touches)
        await self._store(context, tenant_code, new, refused, await self._fold(context, accepted, held))
        if refused:
            await self._conn.execute(Q.release_keys, self._organization_id, list(refused))
        return verdicts

    async def keep_others_out(self) -> None:
        await self._conn.execute(Q.lock_names, self._organization_id)

    async def touch(self, touches: Touches) -> None:
        """Write when known uses and edges were last seen."""
        await write_touches(self._conn, self._organization_id, touches)

    async def known_keys(self, keys: Sequence[bytes]) -> set[bytes]:
        rows = await self._conn.fetch(Q.find_known_keys, self._organization_id, list(keys))
        return {row["key"] for row in rows}

    async def _fold(self, context: Context, accepted: Sequence[Prepared], held: dict[UUID, Any]) -> Folded:
        """The runs and uses of these events: those that only repeat what is known, and the others with care."""
        repeats, others = part(accepted, held, context.ids)
        facts = [event.facts for event in others]
        await self._learn_names(context, facts)
        runs = fold_runs(facts, held, context.ids)
        uses = fold_uses(facts, runs, context.ids)
        if repeats and not all(use.is_known(context.ids) for use in uses):
            # Something is news. What came before and after it counts too, so no event is taken for a repetition.
            repeats, facts = [], [event.facts for event in accepted]
            runs = fold_runs(facts, held, context.ids)
            uses = fold_uses(facts, runs, context.ids)
        return Folded(accepted, held, repeats, facts, runs, uses)

    async def _learn_names(self, context: Context, events: Sequence[Facts]) -> None:
        if events:
            seen_at = min(facts.event_time for facts in events)
            await context.resolve_jobs((facts.job for facts in events if facts.job is not None), seen_at)
            await context.resolve(named_datasets(events), seen_at)

    async def _store(
        self,
        context: Context,
        tenant_code: str,
        new: Sequence[Prepared],
        refused: dict[bytes, Verdict],
        folded: Folded,
    ) -> None:
        ids, touches, runs = context.ids, context.touches, folded.runs
        accepted = [event.facts for event in folded.accepted]
        for repeat in folded.repeats:
            repeat.touch(touches)
        uses = _new_uses(folded.uses, ids, touches)
        edges = _new_edges(fold_edges(folded.others, runs, ids), ids, touches)
        touch_completed(folded.others, runs, ids, touches)
        for run in filter(has_too_many_edges, runs.values()):
            self._counters.secondary_failed.labels(fact="edges").inc()
            log.warning("run %s names too many datasets for edges between them", run.run_id)
        log_rows = [_log_row(event, refused.get(event.key), ids) for event in new]
        metrics = await self._new_metrics(fold_metrics(accepted, ids), folded.held, runs)
        stale = await self._compare(uses) if uses else NOTHING_STALE
        run_columns = as_columns(_run_rows(folded, metrics), 21)
        await self._conn.execute(
            Q.store_events,
            self._organization_id,
            tenant_code,
            *as_columns(log_rows, 8),
            *run_columns[:17],
            *as_columns([use.columns() for use in uses], 12),
            *as_columns(edges, 7),
            *as_columns(metrics, 9),
            *run_columns[17:],
            timeout=120,
        )
        await context.follow_up(_judged_alone(folded.accepted, metrics, ids))
        await self._store_secondary(context, accepted, uses, stale)

    async def _new_metrics(
        self, metrics: list[tuple[Any, ...]], held: dict[UUID, Any], runs: dict[UUID, RunRow]
    ) -> list[tuple[Any, ...]]:
        """Metrics to insert. Of a run that has some already the latest event's stay, and without a run, of a time."""
        known: list[tuple[Any, ...]] = []
        new: list[tuple[Any, ...]] = []
        for metric in metrics:
            (known if metric[2] in held or metric[2] == NO_RUN else new).append(metric)
        if not known:
            return metrics
        windows = [(*metric[:4], *_window(metric, runs), *metric[5:]) for metric in known]
        kept = await self._conn.fetchval(Q.supersede_metrics, self._organization_id, *as_columns(windows, 10))
        return new + [known[place - 1] for place in kept]

    async def _compare(self, uses: Sequence[UseRow]) -> Stale:
        """Which uses have new content. What is newer is told by when the known content was last seen."""
        seen = Touches()
        for key in (use.key for use in uses):
            for touches in self._pending:
                if key in touches.uses:
                    seen.add_use(key, *touches.uses[key])
        if seen:
            await self.touch(seen)
        columns = as_columns([use.columns() for use in uses], 12)
        row = await self._conn.fetchrow(Q.compare_uses, self._organization_id, *columns[:3], *columns[6:9], columns[10])
        return Stale(*row)

    async def _store_secondary(
        self, context: Context, accepted: Sequence[Facts], uses: Sequence[UseRow], stale: Stale
    ) -> None:
        """What the events say beyond runs and lineage. None of it can fail an event."""
        facets = _contents(uses, stale.facets)
        telling = [facts for facts in accepted if _tells_more(facts)]
        context.shown = {(use.dataset_id, use.schema_at): use.schema for use in uses if use.schema is not None}
        steps: list[tuple[str, Sequence[Any], Step]] = [
            ("job facets", [facts for facts in accepted if _has_new_job_facets(facts, context.ids)], store_job_facets),
            ("facets", facets, store_facets),
            ("column lineage", _contents(uses, stale.columns), store_columns),
            ("renames", [content for content in facets if is_renamed(content)], carry_renamed),
            ("schemas", _contents(uses, stale.schemas), store_schemas),
            ("tests", [facts for facts in telling if facts.tests], store_tests),
            ("stages", [facts for facts in telling if facts.stages], store_stages),
            ("symlinks", [content for content in facets if content.use.symlinks], link_symlinks),
            ("pipelines", [facts for facts in telling if tells_of_pipelines(facts)], store_pipelines),
            ("anomalies", [facts for facts in telling if facts.anomalies], store_anomalies),
        ]
        for name, rows, step in steps:
            if rows:
                await self._secondary(name, rows, step, context)
        if context.ids.misleads_others:
            await self._conn.execute(Q.bump_epoch, self._organization_id)
        _remember(uses, stale, context)

    async def _secondary(self, name: str, rows: Sequence[Any], step: Step, context: Context) -> None:
        before = context.ids.snapshot()
        try:
            async with self._conn.transaction():
                await step(context, rows)
        except DATABASE_GONE:
            raise
        except (asyncpg.PostgresError, ValueError) as error:
            if is_collision(error):
                raise
            context.ids.restore(before)
            if len(rows) > 1:
                # One of them is the cause; alone, each can only take itself down.
                for row in rows:
                    await self._secondary(name, [row], step, context)
                return
            self._counters.secondary_failed.labels(fact=name).inc()
            log.warning("a secondary fact was left out", extra={"fact": name, "error": str(error)})


def _judge_all(events: Sequence[Prepared], verdicts: list[Verdict], held: dict[UUID, Any]) -> None:
    """Refuse what cannot be part of its run any more; the runs' rows are locked."""
    places: dict[UUID | None, list[int]] = {}
    for place, event in enumerate(events):
        if verdicts[place] == Verdict.STORED and event.facts.kind == "run":
            places.setdefault(event.facts.run_id, []).append(place)
    for run_id, mine in places.items():
        record = held.get(run_id) if run_id is not None else None
        if record is None and len(mine) == 1:
            continue
        end = None if record is None or record["ended_at"] is None else course_of(record).end
        for place, verdict in zip(mine, judge(end, [moment_of(events[p].facts) for p in mine]), strict=True):
            verdicts[place] = verdict


def _window(metric: tuple[Any, ...], runs: dict[UUID, RunRow]) -> tuple[datetime, datetime]:
    """Between which times the metric may stand already."""
    at: datetime = metric[1]
    run = runs.get(metric[2])
    return (at, at) if run is None else run.course.window


def _log_row(event: Prepared, verdict: Verdict | None, ids: GroupMemory) -> tuple[Any, ...]:
    facts = event.facts
    job_id = None if facts.job is None else ids.jobs.get(facts.job)
    note = REASONS[verdict] if verdict is not None else marks_of(facts)
    return (
        facts.kind, facts.event_type, facts.event_time, facts.run_id, job_id, facts.producer, note, event.packed,
    )  # fmt: skip


def _run_rows(folded: Folded, metrics: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of runs in the order of locks, each with the latest event that is a reason to judge it."""
    measured = {metric[2] for metric in metrics}
    told_by = {event.facts.run_id: event.key.hex() for event in folded.accepted} if folded.runs else {}
    rows = [
        run.columns(told_by[run_id] if run.has_ended_anew or run_id in measured else None)
        for run_id, run in folded.runs.items()
    ]
    rows.extend(repeat.columns() for repeat in folded.repeats)
    return sorted(rows, key=itemgetter(0))


def _judged_alone(events: Sequence[Prepared], metrics: Sequence[tuple[Any, ...]], ids: GroupMemory) -> list[NewTask]:
    """Tasks for measurements that came with no event of their run, or are of no run at all."""
    told = [event for event in events if event.facts.kind != "run" and event.facts.metrics]
    if not told:
        return []
    runs = {event.facts.run_id for event in events if event.facts.kind == "run"}
    kept = {metric[:3] for metric in metrics}
    tasks: dict[tuple[str, str], NewTask] = {}
    for event in told:
        run_id, at = event.facts.run_id, event.facts.event_time
        for metric in event.facts.metrics if run_id not in runs else ():
            dataset_id = ids.datasets[metric.dataset[:2]]
            if (dataset_id, at, run_id or NO_RUN) in kept:
                about = ("DATASET", str(dataset_id)) if run_id is None else ("RUN", str(run_id))
                tasks[about] = NewTask("DETECT", *about, event.key.hex(), priority=DETECT_PRIORITY)
    return list(tasks.values())


def _has_new_job_facets(facts: Facts, ids: GroupMemory) -> bool:
    if facts.job is None or facts.job_facets_hash is None:
        return False
    return not ids.has_job_facets(ids.jobs[facts.job], facts.job_facets_hash)


def _tells_more(facts: Facts) -> bool:
    """Whether an event tells of anything but its run, its job and its datasets."""
    return bool(facts.tests or facts.stages or facts.anomalies or tells_of_pipelines(facts))


def _new_uses(uses: Sequence[UseRow], ids: GroupMemory, touches: Touches) -> list[UseRow]:
    """Uses with content to look at; of the others only the time is noted."""
    new = []
    for row in uses:
        if row.is_known(ids):
            touches.add_use(row.key, row.first_at, row.last_at, row.completed_at, row.columns_at, row.schema_at)
        else:
            new.append(row)
    return new


def _new_edges(edges: dict[EdgeKey, EdgeSpan], ids: GroupMemory, touches: Touches) -> list[tuple[Any, ...]]:
    new = []
    for key, (span, run_id) in edges.items():
        if ids.has_edge(key):
            touches.add_edge(key, *span, run_id)
        else:
            new.append((*key, *span, run_id))
            ids.edges[key] = None
    return new


def _remember(uses: Sequence[UseRow], stale: Stale, context: Context) -> None:
    """Uses that are now stored as they were sent. Where something changed, the next event looks once more."""
    ids = context.ids
    schemas = (place for place in stale.schemas if uses[place - 1].key not in context.respelled)
    changed = {*stale.facets, *stale.columns, *schemas}
    for place, row in enumerate(uses, 1):
        if row.job_id is not None:
            if place in changed:
                ids.dropped_uses.add(row.key)
            else:
                ids.remember_use(row.key, (row.start_hash, row.facets_hash))


def _contents(uses: Sequence[UseRow], stale: Sequence[int]) -> list[Content]:
    """Contents that are not known, oldest first. Several in one group are all looked at: see `UseRow`."""
    always = {place for place, use in enumerate(uses) if len(use.contents) > 1 or use.has_moved}
    places = sorted(always | {place - 1 for place in stale})
    found = [content for place in places for content in uses[place].contents]
    return sorted(found, key=lambda content: content.facts.event_time)
