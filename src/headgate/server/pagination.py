"""Lists by page, with a cursor that clients pass back and never read.

A cursor holds the last row's place, be it a number, a time or a text, and an id that tells rows of the same place
apart.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from fastapi import Depends, Query

from headgate.errors import FieldError, InvalidFields

MAX_LIMIT = 1000
DEFAULT_LIMIT = 100

_NUMBER_BYTES = 8
_CURSOR_BYTES = _NUMBER_BYTES + 16

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT)]
Cursor = Annotated[str | None, Query(max_length=64, description="`next_cursor` of the previous page")]


class Page(NamedTuple):
    """Part of a list that is newest first: at most `limit` rows older than (`at`, `id`)."""

    limit: int
    at: datetime | None
    id: UUID | None

    def cut(self, rows: Sequence[Any], time_column: str = "created_at") -> tuple[Sequence[Any], str | None]:
        """The rows of this page and the cursor of the next, given `limit + 1` rows."""
        if len(rows) <= self.limit:
            return rows, None
        kept = rows[: self.limit]
        return kept, encode(kept[-1][time_column], kept[-1]["id"])


class NumberedPage(NamedTuple):
    """Part of a list that is in order of a number: at most `limit` rows after (`number`, `id`)."""

    limit: int
    number: int | None
    id: UUID | None

    def cut(self, rows: Sequence[Any], number_column: str = "position") -> tuple[Sequence[Any], str | None]:
        """The rows of this page and the cursor of the next, given `limit + 1` rows."""
        if len(rows) <= self.limit:
            return rows, None
        kept = rows[: self.limit]
        return kept, encode_number(kept[-1][number_column], kept[-1]["id"])


class SortedPage(NamedTuple):
    """Part of a list in an order that the caller chose: at most `limit` rows after (`value`, `id`)."""

    limit: int
    sort: str
    value: str | None
    id: UUID | None

    @property
    def is_first(self) -> bool:
        return self.id is None

    def cut(self, rows: Sequence[Any], value_column: str) -> tuple[Sequence[Any], str | None]:
        """The rows of this page and the cursor of the next, given `limit + 1` rows."""
        if len(rows) <= self.limit:
            return rows, None
        kept = rows[: self.limit]
        return kept, encode_sorted(self.sort, kept[-1][value_column], kept[-1]["id"])


def sorted_page(sort: str, limit: int, cursor: str | None) -> SortedPage:
    """The page that a cursor leads to, if it is of a list in this order."""
    if cursor is None:
        return SortedPage(limit, sort, None, None)
    value, row_id = decode_sorted(sort, cursor)
    return SortedPage(limit, sort, value, row_id)


def encode_sorted(sort: str, value: object, row_id: UUID) -> str:
    place = value.isoformat() if isinstance(value, datetime) else None if value is None else str(value)
    return base64.urlsafe_b64encode(json.dumps([sort, place, str(row_id)]).encode()).decode()


def decode_sorted(sort: str, cursor: str) -> tuple[str | None, UUID]:
    try:
        made_for, value, row_id = json.loads(base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True))
        if made_for != sort or not isinstance(value, str | None) or "\0" in (value or ""):
            raise _not_ours(cursor)
        (value or "").encode()  # half a surrogate pair cannot go to the database
        return value, UUID(row_id)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise _not_ours(cursor) from None


def encode(at: datetime, row_id: UUID) -> str:
    seconds = int((at.astimezone(UTC).replace(microsecond=0)).timestamp())
    return encode_number(seconds * 1_000_000 + at.microsecond, row_id)


def decode(cursor: str) -> tuple[datetime, UUID]:
    number, row_id = decode_number(cursor)
    seconds, micros = divmod(number, 1_000_000)
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros), row_id
    except (ValueError, OverflowError, OSError):
        raise _not_ours(cursor) from None


def encode_number(number: int, row_id: UUID) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(_NUMBER_BYTES, "big", signed=True) + row_id.bytes).decode()


def decode_number(cursor: str) -> tuple[int, UUID]:
    try:
        raw = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise _not_ours(cursor) from None
    if len(raw) != _CURSOR_BYTES:
        raise _not_ours(cursor)
    return int.from_bytes(raw[:_NUMBER_BYTES], "big", signed=True), UUID(bytes=raw[_NUMBER_BYTES:])


async def page_of(limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> Page:
    at, row_id = decode(cursor) if cursor else (None, None)
    return Page(limit, at, row_id)


async def numbered_page_of(limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> NumberedPage:
    number, row_id = decode_number(cursor) if cursor else (None, None)
    return NumberedPage(limit, number, row_id)


# A place in a sorted list may be a name, which is long.
LongCursor = Annotated[
    str | None,
    Query(max_length=12_000, pattern="^[A-Za-z0-9_=-]*$", description="`next_cursor` of the previous page"),
]
Paged = Annotated[Page, Depends(page_of)]
Numbered = Annotated[NumberedPage, Depends(numbered_page_of)]


def _not_ours(cursor: str) -> InvalidFields:
    return InvalidFields(
        [FieldError("query.cursor", "is not a cursor of this server", cursor[:120])],
        hint="pass `next_cursor` of the previous page as it is, or leave it out",
    )
