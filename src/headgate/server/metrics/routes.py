"""What runs measured of datasets, as series and summaries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

import msgspec
from fastapi import Query
from fastapi.responses import Response

from headgate.domain.metric import MOST_COLUMNS, Direction, most_telling
from headgate.errors import Conflict, FieldError, InvalidFields, NotFound
from headgate.server.db.pool import Record
from headgate.server.deps import Admin, Db, Reads
from headgate.server.metrics.schemas import CleanupOut, FigureOut, MetricPage, StatsOut
from headgate.server.metrics.store import FIGURES, MetricStore, Place, Series
from headgate.server.pagination import (
    DEFAULT_LIMIT,
    Cursor,
    Limit,
    LongCursor,
    decode_number,
    encode_number,
    encode_sorted,
    sorted_page,
)
from headgate.server.problems import problems
from headgate.server.references.datasets import DatasetRef, find_dataset
from headgate.server.routing import new_router
from headgate.server.times import Moment, read_moment

CLEANUP_S = 10.0
CLEANUP_DATASETS = 500

_SORT = "measured_at"
_NOBODY = UUID(int=0)

router = new_router("/api/v1", "metrics")

Begin = Annotated[Moment | None, Query(alias="from", description="From this time on, instead of a time back from now")]
End = Annotated[Moment | None, Query(description="Before this time")]
PartitionKey = Annotated[
    str | None, Query(max_length=4000, description="One partition; empty for what was measured of no partition")
]


class Window(NamedTuple):
    begin: datetime
    end: datetime | None


@router.get("/datasets/{dataset}/metrics", response_model=MetricPage, responses=problems(NotFound, Conflict))
async def list_metrics(
    dataset: DatasetRef,
    reads: Reads,
    hours: Annotated[int, Query(ge=1, le=8760, description="How far back")] = 720,
    begin: Begin = None,
    to: End = None,
    direction: Direction | None = None,
    partition_key: PartitionKey = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: LongCursor = None,
) -> Response:
    """What was measured of a dataset, newest first."""
    window = _window(timedelta(hours=hours), begin, to)
    before = _place(cursor) if cursor else Place(window.end)
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        store = MetricStore(conn, reads.organization_id)
        series = Series(found.id, window.begin, direction, partition_key)
        rows = await store.list(series, before, limit + 1)
        latest_at = await store.latest(series)
    return _json(
        {
            "items": [_metric(row) for row in rows[:limit]],
            "next_cursor": _cursor(rows[limit - 1]) if len(rows) > limit else None,
            "latest_at": latest_at,
        }
    )


@router.get("/datasets/{dataset}/metrics/stats", responses=problems(NotFound, Conflict))
async def get_metric_stats(
    dataset: DatasetRef,
    reads: Reads,
    days: Annotated[int, Query(ge=1, le=365, description="How far back")] = 30,
    begin: Begin = None,
    to: End = None,
    direction: Annotated[
        Direction | None, Query(description="Left out: what was written, else profiled, else read")
    ] = None,
    partition_key: PartitionKey = None,
) -> StatsOut:
    """What is usual for a dataset: mean, sample standard deviation, extremes and percentiles."""
    window = _window(timedelta(days=days), begin, to)
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        store = MetricStore(conn, reads.organization_id)
        series = Series(found.id, window.begin, direction, partition_key)
        figures = await store.figures(series, window.end)
        durations = await store.durations(series, window.end)
        chosen = direction or most_telling(figures)
        latest_at = await store.latest(series._replace(direction=chosen))
    told = figures.get(chosen, {}) if chosen else {}
    return StatsOut(
        dataset=found.out(),
        direction=chosen,
        partition_key=partition_key,
        from_=window.begin,
        to=window.end,
        latest_at=latest_at,
        **{name: _figure(told.get(name)) for name in FIGURES},
        duration_ms=_figure(durations),
    )


@router.post("/admin/metrics/cleanup")
async def clean_up_metrics(
    database: Db,
    caller: Admin,
    keep: Annotated[
        int, Query(ge=1, le=1_000_000, description="How many to keep of each dataset, direction and partition")
    ],
    cursor: Cursor = None,
) -> CleanupOut:
    """Removes old measurements, for some seconds at a time. Until `next_cursor` is null there is more to do."""
    after = decode_number(cursor)[1] if cursor else _NOBODY
    started, deleted, thinned = time.monotonic(), 0, 0
    while True:
        async with database.tenant(caller.organization_id) as conn:
            store = MetricStore(conn, caller.organization_id)
            rows = await store.crowded(after, CLEANUP_DATASETS, keep)
            counts = [await store.thin_out(row["id"], keep) for row in rows if row["is_crowded"]]
        deleted += sum(counts)
        thinned += sum(count > 0 for count in counts)
        if len(rows) < CLEANUP_DATASETS:
            return CleanupOut(deleted=deleted, datasets=thinned, next_cursor=None)
        after = rows[-1]["id"]
        if time.monotonic() - started > CLEANUP_S:
            return CleanupOut(deleted=deleted, datasets=thinned, next_cursor=encode_number(0, after))


def _window(span: timedelta, begin: datetime | None, end: datetime | None) -> Window:
    """From a time on, or as far back as a span; what is dated ahead of now is in it, too, unless it has an end."""
    if begin is not None and end is not None and begin >= end:
        error = FieldError("query.from", "must be before `to`", begin.isoformat())
        raise InvalidFields([error], hint="give the earlier time as `from`")
    return Window(begin or (end or datetime.now(UTC)) - span, end)


def _cursor(row: Record) -> str:
    value = f"{row['measured_at'].isoformat()} {row['direction']} {row['partition_key']}"
    return encode_sorted(_SORT, value, row["run_id"])


def _place(cursor: str) -> Place:
    page = sorted_page(_SORT, 1, cursor)
    parts = (page.value or "").split(" ", 2)
    try:
        at, direction, partition_key = read_moment(parts[0]), parts[1], parts[2]
    except (ValueError, IndexError):
        error = FieldError("query.cursor", "is not a cursor of this list", cursor[:120])
        raise InvalidFields([error], hint="pass `next_cursor` of the previous page as it is") from None
    return Place(at, page.id or _NOBODY, direction, partition_key)


def _metric(row: Record) -> dict[str, Any]:
    job = {"id": row["job_id"], "namespace": row["job_namespace"], "name": row["job_name"]}
    return {
        "measured_at": row["measured_at"],
        "direction": row["direction"],
        "row_count": row["row_count"],
        "byte_size": row["byte_size"],
        "file_count": row["file_count"],
        "partition_count": row["partition_count"],
        "partition_key": row["partition_key"] or None,
        "columns": None if row["columns"] is None else msgspec.Raw(row["columns"].encode()),
        "columns_left_out": _left_out(row["columns"]),
        "verdicts": msgspec.Raw((row["verdicts"] or "{}").encode()),
        "anomalous": row["anomalous"],
        "run_id": None if row["run_id"] == _NOBODY else row["run_id"],
        "job": None if row["job_name"] is None else job,
    }


def _left_out(columns: str | None) -> int:
    try:
        return 0 if columns is None else max(0, len(_COLUMNS.decode(columns)) - MOST_COLUMNS)
    except msgspec.ValidationError:
        # What is no profile by column has none that could be judged.
        return 0


_COLUMNS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NOTHING = FigureOut(count=0, mean=None, stddev=None, min=None, max=None, p5=None, p95=None, latest=None)
_FIGURES: Sequence[str] = tuple(FigureOut.model_fields)


def _figure(row: Record | None) -> FigureOut:
    return _NOTHING if row is None else FigureOut(**{name: row[name] for name in _FIGURES})


def _json(answer: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")
