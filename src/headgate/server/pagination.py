"""Lists by page: newest first, with a cursor that clients pass back and never read."""

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


class Page(NamedTuple):
    """What part of a list is asked for: at most `limit` rows older than (`at`, `id`)."""

    limit: int
    at: datetime | None
    id: UUID | None

    def cut(self, rows: Sequence[Any], time_column: str = "created_at") -> tuple[Sequence[Any], str | None]:
        """The rows of this page and the cursor of the next, given `limit + 1` rows."""
        if len(rows) <= self.limit:
            return rows, None
        kept = rows[: self.limit]
        return kept, encode(kept[-1][time_column], kept[-1]["id"])


def encode(at: datetime, row_id: UUID) -> str:
    micros = int(at.timestamp()) * 1_000_000 + at.microsecond
    return base64.urlsafe_b64encode(micros.to_bytes(8, "big", signed=True) + row_id.bytes).decode()


def decode(cursor: str) -> tuple[datetime, UUID]:
    try:
        raw = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
        seconds, micros = divmod(int.from_bytes(raw[:8], "big", signed=True), 1_000_000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros), UUID(bytes=raw[8:])
    except (ValueError, OverflowError, OSError, binascii.Error):
        raise InvalidFields(
            [FieldError("query.cursor", "is not a cursor of this server", cursor[:120])],
            hint="pass `next_cursor` of the previous page as it is, or leave it out",
        ) from None


async def page_of(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
    cursor: Annotated[str | None, Query(max_length=64, description="`next_cursor` of the previous page")] = None,
) -> Page:
    at, row_id = decode(cursor) if cursor else (None, None)
    return Page(limit, at, row_id)


Paged = Annotated[Page, Depends(page_of)]
