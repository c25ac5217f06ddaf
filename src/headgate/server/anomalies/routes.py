"""Anomalies: lists, one of them, what people make of it, and counts. Policies, marks and freshness have own modules."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID, uuid4

import msgspec
from fastapi import Depends, Query, Request
from pydantic import Field

from headgate.domain.anomaly import Severity, Status, read_type
from headgate.domain.verdict import side_of
from headgate.errors import Conflict, FieldError, InvalidFields, NotFound
from headgate.server.anomalies import schemas
from headgate.server.anomalies.judging.rules import hold_names
from headgate.server.anomalies.policies.schemas import MarkKind
from headgate.server.anomalies.policies.store import NewMark, PolicyStore
from headgate.server.anomalies.schemas import (
    AnomalyDetailOut,
    AnomalyIn,
    AnomalyOut,
    AnomalyPage,
    DayOut,
    ExpectIn,
    SummaryOut,
)
from headgate.server.anomalies.store import AnomalyStore, Filters
from headgate.server.db.pool import Connection, Record
from headgate.server.deps import Db, Reads, Writer
from headgate.server.pagination import Paged
from headgate.server.problems import problems
from headgate.server.queue import CORRELATE_PRIORITY, NewTask, content_hash, enqueue
from headgate.server.references.datasets import find_dataset
from headgate.server.references.jobs import find_job
from headgate.server.routing import new_router
from headgate.server.shapes import DatasetRefOut, JobOut
from headgate.server.times import Moment

router = new_router("/api/v1", "anomalies")

Name = Annotated[str | None, Query(min_length=1, max_length=4000, description="Id, urn or any name of a dataset")]

# A word has more to it than what separates its parts.
Word = Annotated[str, Field(min_length=1, max_length=200, pattern=r"[^\s_.:/-]")]
Types = Annotated[
    list[Word] | None, Query(alias="type", max_length=50, description="Such as RowCountDrop; may be repeated")
]
Severities = Annotated[list[Severity] | None, Query(alias="severity", description="How bad; may be repeated")]
Statuses = Annotated[list[Status] | None, Query(alias="status", description="How far it is; may be repeated")]
Job = Annotated[str | None, Query(min_length=1, max_length=4000, description="Id, `namespace/name` or name of a job")]
Column = Annotated[str | None, Query(min_length=1, max_length=1000, description="Of this column")]
Source = Annotated[schemas.Source | None, Query(description="Found by the `detector`, or by a `client`")]
_DEFAULT_DAYS: Final = 30


def asked_span(
    days: Annotated[int | None, Query(ge=1, le=365, description="How far back; 30 days if nothing is said")] = None,
    hours: Annotated[int | None, Query(ge=1, le=8760, description="The same in hours")] = None,
) -> tuple[int | None, int | None]:
    """How far back to count, in days or in hours; the other is None."""
    if days is not None and hours is not None:
        error = FieldError("query.hours", "does not go with `days`", str(hours))
        raise InvalidFields([error], hint="give either `days` or `hours`")
    return (None, hours) if hours is not None else (days or _DEFAULT_DAYS, None)


def asked_window(
    hours: Annotated[int | None, Query(ge=1, le=87_600, description="Found within the last hours")] = None,
    begin: Annotated[Moment | None, Query(alias="from", description="Found at or after this time")] = None,
    to: Annotated[Moment | None, Query(description="Found before this time")] = None,
) -> tuple[datetime | None, datetime | None]:
    """From when to when; `hours` are until `to`, or until now."""
    if begin is not None and hours is not None:
        error = FieldError("query.hours", "does not go with `from`", str(hours))
        raise InvalidFields([error], hint="give either `from` or `hours`")
    if begin is not None and to is not None and begin >= to:
        error = FieldError("query.from", "must be before `to`", begin.isoformat())
        raise InvalidFields([error], hint="give the earlier time as `from`")
    if begin is None and hours is not None:
        begin = (to or datetime.now(UTC)) - timedelta(hours=hours)
    return begin, to


@router.get("/anomalies", responses=problems(NotFound, Conflict))
async def list_anomalies(
    reads: Reads,
    page: Paged,
    window: Annotated[tuple[datetime | None, datetime | None], Depends(asked_window)],
    dataset: Name = None,
    dataset_name: Annotated[Name, Query(description="The same as `dataset`")] = None,
    types: Types = None,
    severities: Severities = None,
    statuses: Statuses = None,
    run: Annotated[UUID | None, Query(description="Of this run")] = None,
    incident: Annotated[UUID | None, Query(description="Of this incident")] = None,
    job: Job = None,
    column: Column = None,
    source: Source = None,
) -> AnomalyPage:
    """What was found out of the ordinary, the latest first."""
    asked = dataset or dataset_name
    several = ([_type(each) for each in types or ()], severities or (), statuses or ())
    wanted = Filters(None, *several, run, incident, None, column, source, *window)
    async with reads.open() as conn:
        if asked:
            found = await find_dataset(conn, reads.organization_id, asked)
            wanted = wanted._replace(dataset_id=found.id)
        if job:
            wanted = wanted._replace(job_id=(await find_job(conn, reads.organization_id, job)).id)
        rows, cursor = await AnomalyStore(conn, reads.organization_id).page(wanted, page)
    return AnomalyPage(items=[AnomalyOut(**_anomaly(row)) for row in rows], next_cursor=cursor)


@router.get("/anomalies/stats/summary")
async def summarize_anomalies(
    reads: Reads, span: Annotated[tuple[int | None, int | None], Depends(asked_span)]
) -> SummaryOut:
    """How many anomalies were found over the last days or hours, by type, severity, status and day."""
    days, hours = span
    since = datetime.now(UTC) - timedelta(days=days or 0, hours=hours or 0)
    async with reads.open() as conn:
        store = AnomalyStore(conn, reads.organization_id)
        rows, now = await store.counts(since), await store.open_counts()
    by_day = _tally(rows, "day")
    return SummaryOut(
        days=days,
        hours=hours,
        total=sum(row["count"] for row in rows),
        by_type=_tally(rows, "anomaly_type"),
        by_severity=dict.fromkeys(Severity, 0) | _tally(rows, "severity"),
        by_status=dict.fromkeys(Status, 0) | _tally(rows, "status"),
        by_day=[DayOut(day=day, count=by_day[day]) for day in sorted(by_day)],
        open=now["open"],
        last_24h=now["last_24h"],
        last_7d=now["last_7d"],
    )


@router.get("/anomalies/{anomaly}", responses=problems(NotFound))
async def get_anomaly(anomaly: UUID, reads: Reads) -> AnomalyDetailOut:
    """One anomaly, with who changed its status and when."""
    async with reads.open() as conn:
        return _detail(await AnomalyStore(conn, reads.organization_id).get(anomaly))


@router.patch("/anomalies/{anomaly}", responses=problems(NotFound, Conflict))
async def change_anomaly(
    anomaly: UUID, body: AnomalyIn, caller: Writer, database: Db, request: Request
) -> AnomalyDetailOut:
    """Sets the status, with notes. `FALSE_POSITIVE` makes the value a part of what is usual.

    `expect` says that such values are to be expected: on this day, on this day of every week, or until a time.
    """
    async with database.tenant(caller.organization_id) as conn:
        store = AnomalyStore(conn, caller.organization_id)
        await hold_names(conn, caller.organization_id)
        before = await store.lock(anomaly)
        if body.expect is not None:
            await _expect(conn, caller.organization_id, anomaly, before, body.expect, body.notes, caller.name)
        if body.status is not None or body.notes is not None:
            status = body.status or Status(before["status"])
            await store.change(anomaly, before, status, body.notes, caller.name)
            # Its incident may be over with it.
            await enqueue(conn, caller.organization_id, [_looked_into(anomaly, status)])
        detail = _detail(await store.get(anomaly))
    request.app.state.bell.ring(caller.organization_id)
    return detail


def _looked_into(anomaly: UUID, status: Status) -> NewTask:
    payload = {"kind": "anomaly", "anomaly_id": str(anomaly)}
    return NewTask(
        "CORRELATE", "ANOMALY", str(anomaly), content_hash(anomaly, status, uuid4()), payload, CORRELATE_PRIORITY
    )


async def _expect(
    conn: Connection,
    organization_id: UUID,
    anomaly_id: UUID,
    anomaly: Record,
    expect: ExpectIn,
    note: str | None,
    by: str,
) -> None:
    if anomaly["dataset_id"] is None or anomaly["metric"] is None:
        raise Conflict(
            "nothing can be expected of this anomaly: it is not of a metric of a dataset",
            hint="leave out `expect`, and set the status alone",
        )
    at = anomaly["observed_at"]
    mark = NewMark(
        kind=expect.kind,
        at=at if expect.kind in (MarkKind.once, MarkKind.until) else None,
        weekday=at.astimezone(UTC).weekday() if expect.kind is MarkKind.weekday else None,
        until=expect.until,
        metric=None if expect.all_metrics else anomaly["metric"],
        column=None if expect.all_metrics else anomaly["column_name"],
        partition_key=anomaly["partition_key"],
        note=note,
        anomaly_id=anomaly_id,
        created_by=by,
        # That there may be more says nothing of less.
        side=side_of(anomaly["anomaly_type"]),
    )
    await PolicyStore(conn, organization_id).add_mark(anomaly["dataset_id"], mark)


def _type(text: str) -> str:
    """A type of the vocabulary however it is spelled; else a client's own."""
    return read_type(text) or text


def _tally(rows: Any, column: str) -> dict[Any, int]:
    counts: Counter[Any] = Counter()
    for row in rows:
        counts[row[column]] += row["count"]
    return dict(sorted(counts.items()))


def _anomaly(row: Record) -> dict[str, Any]:
    score = row["deviation_score"]
    return {
        "id": row["id"],
        "type": row["anomaly_type"],
        "dataset": _dataset(row),
        "job": _job(row),
        "column": row["column_name"],
        "partition_key": row["partition_key"] or None,
        "expected_value": _value(row["expected_value"]),
        "actual_value": _value(row["actual_value"]),
        "deviation_score": None if score is None else float(score),
        **{name: row[name] for name in _AS_THEY_ARE},
    }


_AS_THEY_ARE = (
    "severity", "status", "run_id", "metric", "detected_at", "observed_at", "description", "source", "incident_id",
    "resolved_at", "resolved_by", "resolution_notes", "updated_at",
)  # fmt: skip


def _detail(row: Record) -> AnomalyDetailOut:
    return AnomalyDetailOut(
        **_anomaly(row),
        job_id=row["job_id"],
        job_name=row["job_name"],
        metadata=_value(row["metadata"]) or {},
        changes=msgspec.json.decode(row["changes"]),
    )


def _value(text: str | None) -> dict[str, Any] | None:
    found = None if text is None else msgspec.json.decode(text)
    return found if isinstance(found, dict) or found is None else {"value": found}


def _dataset(row: Record) -> DatasetRefOut | None:
    if row["dataset_id"] is None or row["name"] is None:
        return None
    named = {name: row[name] for name in ("namespace", "name", "display_name", "type")}
    return DatasetRefOut(id=row["dataset_id"], urn=f"{row['namespace']}/{row['name']}", **named)


def _job(row: Record) -> JobOut | None:
    if row["known_job"] is None:
        return None
    return JobOut(id=row["job_uuid"], namespace=row["job_namespace"], name=row["known_job"])
