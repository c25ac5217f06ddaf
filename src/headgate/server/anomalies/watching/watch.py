"""Watches for what does not come: the end of a run, the next write of a dataset.

Everything that is watched has a time at which to look, so that a round costs what is due and not what there is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from headgate.domain.anomaly import AnomalyType, Severity
from headgate.domain.rhythm import Lateness, due_by, in_hours, late
from headgate.domain.stuck import MIN_COMPLETED, NO_HISTORY, WITHOUT_HISTORY, History, expected_end, next_look
from headgate.server.anomalies.judging.findings import Finding, ended, keep_findings
from headgate.server.anomalies.judging.rules import FRESHNESS, STUCK, hold_names, load_rules
from headgate.server.anomalies.watching.earlier import read_earlier
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.queue import enqueue

Q = Queries("headgate.server.anomalies.watching")

MAX_NEW_RUNS: Final = 20_000
MAX_RUNS: Final = 500
MAX_DATASETS: Final = 500
# A run is seen when its transaction ends, which is later than the time it says it was made.
_OVERLAP: Final = timedelta(minutes=5)
_FIRST_LOOK: Final = timedelta(days=2)
# Runs that were long overdue when they came in are history that somebody sends.
_HISTORY: Final = timedelta(days=1)
_SWITCHED_OFF: Final = timedelta(days=1)


class Watch:
    """One round for one organisation."""

    def __init__(self, conn: Connection, organization_id: UUID, now: datetime) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._now = now

    async def look(self) -> bool:
        """Look at a page of all that is due; whether there may be more."""
        await hold_names(self._conn, self._organization_id)
        is_left = await self._note_new_runs()
        runs = await self._fetch(Q.list_due_runs, self._now, MAX_RUNS)
        datasets = await self._fetch(Q.list_due_datasets, self._now, MAX_DATASETS)
        found = [*await self._stuck_runs(runs), *await self._late_datasets(datasets)]
        await keep_findings(self._conn, self._organization_id, found)
        is_left |= await read_earlier(self._conn, self._organization_id)
        return is_left or len(runs) == MAX_RUNS or len(datasets) == MAX_DATASETS

    async def _note_new_runs(self) -> bool:
        seen = await self._conn.fetchval(Q.get_progress, self._organization_id)
        begin = self._now - _FIRST_LOOK if seen is None else seen
        row = await self._conn.fetchrow(Q.watch_new_runs, self._organization_id, begin, self._now, MAX_NEW_RUNS)
        # A full page goes on where it ended; else the next look begins a little earlier than this one ended.
        is_full = bool(row["runs"] >= MAX_NEW_RUNS)
        until = row["seen_until"] if is_full else self._now - _OVERLAP
        await self._conn.execute(Q.set_progress, self._organization_id, max(begin, until))
        return is_full

    async def _stuck_runs(self, rows: Sequence[Record]) -> list[Finding]:
        if not rows:
            return []
        rules = await load_rules(self._conn, self._organization_id, {row["output_id"] for row in rows} - {None})
        histories = await self._histories({row["job_id"] for row in rows if row["job_id"] is not None})
        later: dict[UUID, datetime] = {}
        found = []
        for row in rows:
            history = histories.get(row["job_id"], NO_HISTORY)
            due = _due(row, history) or self._look_again(row)
            if due is not None and due > self._now:
                later[row["run_id"]] = due
            elif due is not None and due >= row["created_at"] - _HISTORY:
                finding = _stuck(row, due, history)
                if rules.policy(finding.dataset_id, STUCK).enabled:
                    found.append(finding)
        over = [row["run_id"] for row in rows if row["run_id"] not in later]
        await self._conn.execute(Q.forget_runs, self._organization_id, over)
        await self._conn.execute(Q.put_off_runs, self._organization_id, list(later), list(later.values()))
        return found

    def _look_again(self, row: Record) -> datetime | None:
        """When to look at a run again that has not begun as far as we know; None for one that is over or streams."""
        if row["state"] is None or _is_streaming(row):
            return None
        return next_look(row["state"], row["created_at"], self._now)

    async def _late_datasets(self, rows: Sequence[Record]) -> list[Finding]:
        if not rows:
            return []
        rules = await load_rules(self._conn, self._organization_id, {row["dataset_id"] for row in rows})
        due: dict[UUID, datetime | None] = {}
        found = []
        for row in rows:
            is_on = rules.policy(row["dataset_id"], FRESHNESS).enabled
            due[row["dataset_id"]] = self._next_look(row) if is_on else self._now + _SWITCHED_OFF
            finding = self._missed(row)
            if finding is not None and is_on:
                found.append(finding)
        await self._end_missed([row for row in rows if not row["is_gone"] and self._missed(row) is None])
        await self._put_off(due)
        await self._set_staleness([row for row in rows if row["sla_hours"] is not None])
        return await self._since_asked(found)

    def _missed(self, row: Record) -> Finding | None:
        lateness = None if row["is_gone"] else self._lateness(row)
        if lateness is None or (row["sla_hours"] is None and lateness.expected_by < row["since"]):
            return None
        return _missed(row, lateness)

    def _lateness(self, row: Record) -> Lateness | None:
        return late(row["writes"] or (), self._now, row["sla_hours"], known_since=row["first_seen_at"])

    async def _end_missed(self, rows: Sequence[Record]) -> None:
        """Resolve what was told of datasets that nobody has written since: by what is asked now, it is not so."""
        told = [(row["dataset_id"], _waits_since(row), _why_not_missed(row)) for row in rows]
        if not told:
            return
        closed = await self._fetch(Q.end_missed, *map(list, zip(*told, strict=True)))
        tasks = [ended(row["id"], row["resolution_notes"]) for row in closed]
        await enqueue(self._conn, self._organization_id, tasks)

    async def _since_asked(self, found: Sequence[Finding]) -> list[Finding]:
        """The same; what was not missing for a while, because less was asked, is so only now."""
        rows = await self._fetch(Q.list_not_missed, [each.dataset_id for each in found]) if found else ()
        again = {(row["dataset_id"], row["waits_since"]) for row in rows}
        return [
            each._replace(observed_at=self._now) if (each.dataset_id, each.occasion) in again else each
            for each in found
        ]

    def _next_look(self, row: Record) -> datetime | None:
        """When a write will be missing if none comes; None if nothing but a write will tell."""
        if row["is_gone"]:
            return None
        due = next_write(row)
        return due if due is not None and due > self._now else None

    async def _put_off(self, due: dict[UUID, datetime | None]) -> None:
        ids = sorted(due)
        times = [at.isoformat() if (at := due[each]) is not None else "infinity" for each in ids]
        await self._conn.execute(Q.put_off_datasets, self._organization_id, ids, times)

    async def _set_staleness(self, rows: Sequence[Record]) -> None:
        told = [(row["dataset_id"], max(row["writes"] or (), default=None), self._lateness(row)) for row in rows]
        columns = [[each[0] for each in told], [each[1] for each in told], [each[2] is not None for each in told]]
        await self._conn.execute(Q.set_staleness, self._organization_id, *columns)

    async def _histories(self, job_ids: Collection[UUID]) -> dict[UUID, History]:
        rows = await self._fetch(Q.list_durations, list(job_ids)) if job_ids else ()
        return {row["id"]: History(*(row[name] for name in History._fields)) for row in rows}

    async def _fetch(self, query: str, *arguments: Any) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *arguments)
        return rows


def next_write(row: Record) -> datetime | None:
    """By when a dataset should be written next, whether that is past or not; None if nothing says so."""
    return due_by(row["writes"] or (), row["sla_hours"], known_since=row["first_seen_at"])


def _due(row: Record, history: History) -> datetime | None:
    if row["state"] is None:
        return None
    return expected_end(row["state"], row["started_at"], history, is_streaming=_is_streaming(row))


def _is_streaming(row: Record) -> bool:
    return any((kind or "").upper() == "STREAMING" for kind in (row["processing_type"], row["job_processing_type"]))


def _waits_since(row: Record) -> datetime:
    """The last write; what was never written is as old as we know it."""
    found: datetime = max(row["writes"] or (row["first_seen_at"],))
    return found


def _why_not_missed(row: Record) -> str:
    if row["sla_hours"] is None:
        return "it has no SLA now, and by its rhythm no write is missing"
    age = "the last write is not older" if row["writes"] else "it is not known for longer"
    return f"its SLA is {in_hours(row['sla_hours'])} now, and {age}"


def _stuck(row: Record, due: datetime, history: History) -> Finding:
    rule = "as almost all before it would have"
    if history.completed < MIN_COMPLETED:
        rule = (
            f"{in_hours(WITHOUT_HISTORY / timedelta(hours=1))} after it began, which counts while fewer than "
            f"{MIN_COMPLETED} completed runs of its job are known"
        )
    return Finding(
        dataset_id=row["output_id"],
        job_id=row["job_id"],
        run_id=row["run_id"],
        type=AnomalyType.StuckRun,
        severity=Severity.WARNING,
        metric=None,
        column=None,
        partition_key="",
        observed_at=due,
        expected={"ended_by": due.isoformat()},
        actual={"state": row["state"], "started_at": row["started_at"].isoformat()},
        score=None,
        job_name=row["job_name"],
        description=f"the run of {row['job_name']} has not ended: it should have by {due:%Y-%m-%d %H:%M} UTC, {rule}",
    )


def _missed(row: Record, lateness: Lateness) -> Finding:
    last, since = lateness.last_write_at, _waits_since(row).isoformat()
    return Finding(
        dataset_id=row["dataset_id"],
        job_id=row["job_id"],
        run_id=None,
        type=AnomalyType.FreshnessMissed,
        severity=lateness.severity,
        metric=None,
        column=None,
        partition_key="",
        observed_at=lateness.expected_by,
        expected={"written_by": lateness.expected_by.isoformat(), "sla_hours": row["sla_hours"]},
        actual={"last_write_at": since} if last else {"last_write_at": None, "known_since": since},
        score=None,
        job_name=row["job_name"],
        description=lateness.reason,
        metadata={"by": lateness.source},
        occasion=since,
    )
