"""What comes before and is not judged yet: another worker has it, or will have.

A verdict follows from those before it. Whoever holds a series judges what waits of it first, so that it does not matter
who is sooner; the other finds the same once more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from headgate.server.anomalies.judging.series import Series
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries

Q = Queries("headgate.server.anomalies.judging")

# More than workers have at a time. Of a backlog in which the latest came first, the rest counts as it is.
MOST: Final = 2000
_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)
_MOMENT: Final = timedelta(microseconds=1)

Key = TypeVar("Key", bound=Hashable)


class Span(NamedTuple):
    """Where to look in a series, and how many days each of its points is compared with."""

    since: datetime
    until: datetime
    days: int


Spans = Mapping[Key, Span]
Look = Callable[[Spans[Key]], Awaitable[Sequence[tuple[Key, datetime, Record]]]]


class Waiting:
    """What waits beside some runs and datasets, in an organisation of which nobody else judges the same series."""

    def __init__(self, conn: Connection, organization_id: UUID, run_ids: Collection[UUID]) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._run_ids = list(run_ids)
        self._since: datetime | None = None

    async def begin(self, dataset_ids: Collection[UUID]) -> bool:
        """Whether anything waits at all."""
        ours = [str(each) for each in (*self._run_ids, *dataset_ids)]
        self._since = await self._conn.fetchval(Q.get_waiting_since, self._organization_id, ours)
        return self._since is not None

    async def measurements(self, series: Sequence[Series], days: Callable[[Series], int]) -> list[Record]:
        """Earlier measurements of the same series."""
        rows = {each.key: each.row for each in series}
        spans = _spans((each.key, each.row["measured_at"], days(each)) for each in series)

        async def look(spans: Spans[tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], datetime, Record]]:
            names = ("dataset_id", "direction", "partition_key", "job_id")
            columns = [[rows[key][name] for key in spans] for name in names]
            found = await self._fetch(Q.list_waiting, *columns, *_ends(spans))
            return [(Series(row, []).key, row["measured_at"], row) for row in found]

        return await _all(look, spans)

    async def runs(self, points: Iterable[tuple[UUID, datetime, int]]) -> list[Record]:
        """Runs of jobs that began before given moments; each moment with how many days it is compared with."""
        spans = _spans(points)

        async def look(spans: Spans[UUID]) -> list[tuple[UUID, datetime, Record]]:
            rows = await self._fetch(Q.list_waiting_runs, list(spans), *_ends(spans))
            return [(row["job_id"], row["started_at"], row) for row in rows]

        return await _all(look, spans)

    async def _fetch(self, query: str, *columns: Sequence[Any]) -> Sequence[Record]:
        given = (self._organization_id, self._since, self._run_ids, *columns, MOST)
        rows: Sequence[Record] = await self._conn.fetch(query, *given)
        return rows


async def _all(look: Look[Key], spans: Spans[Key]) -> list[Record]:
    """What waits before something, and before that: what the one is compared with need not be what the other is."""
    found: list[Record] = []
    while spans and len(found) < MOST:
        rows = await look(spans)
        found += [row for _, _, row in rows]
        reached = _spans((key, at, spans[key].days) for key, at, _ in rows)
        spans = {
            key: Span(span.since, spans[key].since - _MOMENT, span.days)
            for key, span in reached.items()
            if span.since < spans[key].since
        }
    return found[:MOST]


def _spans(points: Iterable[tuple[Key, datetime, int]]) -> dict[Key, Span]:
    """All that the points of each series are compared with."""
    spans: dict[Key, Span] = {}
    for key, at, days in points:
        span = spans.get(key, Span(at, at, days))
        spans[key] = Span(min(span.since, days_before(at, days)), max(span.until, at), max(span.days, days))
    return spans


def days_before(at: datetime, days: int) -> datetime:
    """The first moment that is so few days before another; a whole span is too long ago."""
    try:
        return at - timedelta(days=days) + _MOMENT
    except OverflowError:
        return _LONG_AGO


def _ends(spans: Mapping[Any, Span]) -> tuple[list[datetime], list[datetime]]:
    return [span.since for span in spans.values()], [span.until for span in spans.values()]
