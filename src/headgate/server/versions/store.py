"""Reads versions of a dataset's schema, and who reads its columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from itertools import zip_longest
from uuid import UUID

import msgspec

from headgate.domain.schema import Field
from headgate.errors import NotFound
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.pagination import MAX_LIMIT, Page, encode
from headgate.server.references.datasets import Dataset

Q = Queries("headgate.server.versions")

_MAX_NUMBER = 2**31 - 1
_MAX_NAMED = 20
_decode = msgspec.json.Decoder(list[Field]).decode


class Word(StrEnum):
    """Versions that are found by their place in the history."""

    current = "current"
    previous = "previous"
    first = "first"


Wanted = int | UUID | datetime | Word


class Version:
    """A version as stored, and the schema before it, if there was one."""

    def __init__(self, row: Record, before: Record | None) -> None:
        self.row = row
        self.number: int = row["version"]
        self._before = before

    @cached_property
    def fields(self) -> Sequence[Field]:
        return _decode(self.row["fields"])

    @cached_property
    def fields_before(self) -> Sequence[Field] | None:
        return None if self._before is None else _decode(self._before["fields"])


class VersionStore:
    def __init__(self, conn: Connection, organization_id: UUID, dataset: Dataset) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._dataset = dataset

    async def find(self, wanted: Wanted) -> Version:
        """The version that is meant, or NotFound with those that are known."""
        at = wanted if isinstance(wanted, datetime) else None
        number = await self._number(wanted)
        if number is None or 0 < number <= _MAX_NUMBER:
            found = _versions(await self._list(at, number, 2))
            if found and number in (None, found[0].number):
                return found[0]
        raise await self._unknown(wanted)

    async def page(self, page: Page) -> tuple[Sequence[Version], str | None]:
        """Versions older than a place, newest first, and the cursor of the next ones."""
        number = await self._after(page.id) if page.id else None
        at = page.at if number is None else None
        found = _versions(await self._list(at, number, page.limit + 1))
        kept = found[: page.limit]
        # What has a version before it that was not read was read for that one's sake only.
        if kept and kept[-1].number > 1 and len(found) == len(kept):
            kept = kept[:-1]
        more = bool(kept) and kept[-1].number > 1
        return kept, encode(kept[-1].row["valid_from"], kept[-1].row["id"]) if more else None

    async def between(self, older: Version, newer: Version) -> list[Version]:
        """Both versions and those between them, oldest first; if they are many, the latest of them."""
        limit = min(MAX_LIMIT, newer.number - older.number + 1)
        return _versions(await self._list(None, newer.number, limit))[::-1]

    async def readers(self, columns: Sequence[str], limit: int) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(
            Q.list_readers, self._organization_id, self._dataset.id, columns, limit
        )
        return rows

    async def possible_readers(self, limit: int) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(
            Q.list_possible_readers, self._organization_id, self._dataset.id, limit
        )
        return rows

    async def _list(self, at: datetime | None, number: int | None, limit: int) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(
            Q.list_versions, self._organization_id, self._dataset.id, at, number, limit
        )
        return rows

    async def _number(self, wanted: Wanted) -> int | None:
        """The number of the version that is meant, unless it goes by time; 0 is no version's."""
        match wanted:
            case int():
                return wanted
            case UUID():
                return await self._number_of(wanted) or 0
            case Word.first:
                return 1
            case Word.previous:
                return (await self.find(Word.current)).number - 1
        return None

    async def _number_of(self, version_id: UUID) -> int | None:
        number: int | None = await self._conn.fetchval(
            Q.find_version_number, self._organization_id, self._dataset.id, version_id
        )
        return number

    async def _after(self, version_id: UUID) -> int | None:
        """The number after which a page goes on. Numbers move when older versions are found, ids do not."""
        number = await self._number_of(version_id)
        return None if number is None else number - 1

    async def _unknown(self, wanted: Wanted) -> NotFound:
        rows = await self._list(None, None, 1)
        urn = self._dataset.urn
        if not rows:
            return NotFound(
                f"no schema of {urn!r} is known", hint="no event has carried a schema facet of this dataset yet"
            )
        newest: int = rows[0]["version"]
        if isinstance(wanted, datetime):
            (first,) = await self._list(None, 1, 1)
            begin = first["valid_from"].isoformat().replace("+00:00", "Z")
            said = wanted.isoformat().replace("+00:00", "Z")
            return NotFound(f"no schema of {urn!r} was known at '{said}'", hint=f"its first version begins at {begin}")
        known = f"v1 to v{newest}" if newest > 1 else "v1 only"
        return NotFound(
            f"the schema of {urn!r} has no version '{wanted}'",
            hint=f"it has {known}; see /schema/history",
            known=[f"v{number}" for number in range(newest, max(0, newest - _MAX_NAMED), -1)],
        )


def _versions(rows: Sequence[Record]) -> list[Version]:
    """Each with the one before it, where that was read too."""
    return [Version(row, before) for row, before in zip_longest(rows, rows[1:])]
