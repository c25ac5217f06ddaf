"""The orders that runs and jobs can be listed in, and where a page of runs begins. Knows nothing of what is listed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, NamedTuple
from uuid import UUID

from fastapi import Depends

from headgate.errors import FieldError, InvalidFields
from headgate.server.pagination import DEFAULT_LIMIT, Limit, LongCursor, encode_sorted, sorted_page

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


class RunSort(StrEnum):
    latest_first = "-started"
    earliest_first = "started"


class JobSort(StrEnum):
    name = "name"
    name_descending = "-name"


class Place(NamedTuple):
    """Where a run stands in a list."""

    started_at: datetime
    run_id: UUID


_BEGINS: Final = {
    RunSort.latest_first: Place(datetime.max.replace(tzinfo=UTC), UUID(int=2**128 - 1)),
    RunSort.earliest_first: Place(EARLIEST, UUID(int=0)),
}


@dataclass(frozen=True, slots=True)
class RunSlice:
    """Part of a list of runs: at most `limit` of those after `place`, or the first ones."""

    limit: int
    sort: RunSort = RunSort.latest_first
    place: Place | None = None

    @property
    def begin(self) -> Place:
        return self.place or _BEGINS[self.sort]

    def goes_as_far_as(self, last: Place, place: Place) -> bool:
        return place >= last if self.sort is RunSort.latest_first else place <= last

    def cursor(self, end: Place | None) -> str | None:
        return None if end is None else encode_sorted(self.sort, *end)


async def run_slice(
    sort: RunSort = RunSort.latest_first, limit: Limit = DEFAULT_LIMIT, cursor: LongCursor = None
) -> RunSlice:
    page = sorted_page(sort, limit, cursor)
    if cursor is None or page.id is None:
        return RunSlice(limit, sort)
    return RunSlice(limit, sort, Place(_time(page.value, cursor), page.id))


RunsPaged = Annotated[RunSlice, Depends(run_slice)]


def _time(value: str | None, cursor: str) -> datetime:
    try:
        return datetime.fromisoformat(value or "").astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidFields(
            [FieldError("query.cursor", "is not a cursor of this list", cursor[:120])],
            hint="pass `next_cursor` of the previous page as it is, or leave it out",
        ) from None
