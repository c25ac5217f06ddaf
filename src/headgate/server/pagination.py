"""Lists by page, with a cursor that clients pass back and never read.

A cursor holds the last row's place: a number or a time, and an id that tells rows of the same place apart.
"""

from __future__ import annotations

import base64
import binascii
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


Paged = Annotated[Page, Depends(page_of)]
Numbered = Annotated[NumberedPage, Depends(numbered_page_of)]


def _not_ours(cursor: str) -> InvalidFields:
    return InvalidFields(
        [FieldError("query.cursor", "is not a cursor of this server", cursor[:120])],
        hint="pass `next_cursor` of the previous page as it is, or leave it out",
    )
