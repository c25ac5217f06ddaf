"""Finds which runs belong on a page, by an index that leads to few of them. Does not read what they are.

A look ends after a number of runs whether it has found enough or not; it then says where it ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.runs.filters import RunFilter
from headgate.server.runs.order import EARLIEST, Place, RunSlice, RunSort

Q = Queries("headgate.server.runs.picking")

_SHORT_LOOK: Final = 2_000


class _Way(NamedTuple):
    """Queries that look through runs: for those that fit, and for the last that was looked at."""

    pick: str
    find_end: str


class _Ways(NamedTuple):
    """Those of one order."""

    all: _Way
    jobs: _Way
    application: _Way
    children: _Way


_WAYS: Final = {
    RunSort.latest_first: _Ways(
        all=_Way(Q.pick_runs, Q.find_place),
        jobs=_Way(Q.pick_job_runs, Q.find_job_place),
        application=_Way(Q.pick_application_runs, Q.find_application_place),
        children=_Way(Q.pick_child_runs, Q.find_child_place),
    ),
    RunSort.earliest_first: _Ways(
        all=_Way(Q.pick_runs_rising, Q.find_place_rising),
        jobs=_Way(Q.pick_job_runs_rising, Q.find_job_place_rising),
        application=_Way(Q.pick_application_runs_rising, Q.find_application_place_rising),
        children=_Way(Q.pick_child_runs_rising, Q.find_child_place_rising),
    ),
}


class Picked(NamedTuple):
    """Runs that were found, and where to look on; None if nothing is left."""

    places: list[Place]
    end: Place | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter with its job resolved."""

    filter: RunFilter
    job_ids: list[UUID] | None = None
    job_text: str | None = None

    def arguments(self) -> tuple[Any, ...]:
        """As `run_fits` takes them."""
        wanted = self.filter
        return (
            wanted.states,
            wanted.is_test,
            None if wanted.context is None else msgspec.json.encode(wanted.context).decode(),
            self.job_ids,
            wanted.application_id,
            wanted.parent,
        )


class RunPicker:
    def __init__(self, conn: Connection, organization_id: UUID, max_looked_at: int) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._max_looked_at = max_looked_at

    async def pick(self, wanted: Wanted, page: RunSlice) -> Picked:
        """Runs that fit a filter."""
        if wanted.job_ids == []:
            return Picked([], None)
        return await self._search(page, lambda look: self._look(wanted, page, look))

    async def pick_of_dataset(self, dataset_id: UUID, roles: Sequence[str], page: RunSlice) -> Picked:
        """Runs that read or wrote a dataset, latest first whatever the page says, by way of the jobs that use it."""
        jobs = await self._conn.fetchval(Q.count_dataset_jobs, self._organization_id, dataset_id, roles)
        asked = (self._organization_id, *page.begin, EARLIEST, dataset_id, roles)

        async def look_at(look: int) -> Picked:
            each = max(1, look // max(1, jobs))
            rows = await self._conn.fetch(Q.pick_dataset_runs, *asked, each, page.limit + 1)
            return _cut(rows, page, await self._conn.fetchrow(Q.find_dataset_place, *asked, each))

        return await self._search(page, look_at)

    async def _search(self, page: RunSlice, look_at: Callable[[int], Awaitable[Picked]]) -> Picked:
        # Most looks end soon; one that is told so is not planned as if it had to sort everything.
        for look in (page.limit + 1, _SHORT_LOOK):
            if look < self._max_looked_at:
                picked = await look_at(look)
                if picked.end is None or len(picked.places) == page.limit:
                    return picked
        return await look_at(self._max_looked_at)

    async def _look(self, wanted: Wanted, page: RunSlice, look: int) -> Picked:
        """What fits among the next `look` runs, and where they end."""
        ways, fits = _WAYS[page.sort], wanted.arguments()
        begin = (self._organization_id, *page.begin, wanted.filter.since or EARLIEST)
        if wanted.job_text is None and wanted.filter.parent is not None:
            return await self._go(ways.children, page, (*begin, look), fits, wanted.filter.parent)
        if wanted.job_text is None and wanted.filter.application_id is not None:
            return await self._go(ways.application, page, (*begin, look), fits, wanted.filter.application_id)
        if wanted.job_ids is None:
            return await self._go(ways.all, page, (*begin, look), (*fits, wanted.job_text))
        each = (*begin, max(1, look // len(wanted.job_ids)))
        rows = await self._conn.fetch(ways.jobs.pick, *each, *fits, page.limit + 1)
        return _cut(rows, page, await self._conn.fetchrow(ways.jobs.find_end, *each, wanted.job_ids))

    async def _go(
        self, way: _Way, page: RunSlice, begin: tuple[Any, ...], fits: tuple[Any, ...], *key: object
    ) -> Picked:
        """A look through a single list, whose end matters only if too little was found before it."""
        rows = await self._conn.fetch(way.pick, *begin, *fits, page.limit + 1)
        if len(rows) > page.limit:
            return _cut(rows, page)
        return _cut(rows, page, await self._conn.fetchrow(way.find_end, *begin, *key))


def _cut(rows: Sequence[Record], page: RunSlice, end: Record | None = None) -> Picked:
    """The runs of a page, of which one more was asked for; those beyond `end` are not for this page."""
    places = [Place(row["started_at"], row["run_id"]) for row in rows]
    last = None if end is None else Place(end["started_at"], end["run_id"])
    if last is not None:
        places = [place for place in places if page.goes_as_far_as(last, place)]
    kept = places[: page.limit]
    return Picked(kept, kept[-1]) if len(places) > page.limit else Picked(places, last)
