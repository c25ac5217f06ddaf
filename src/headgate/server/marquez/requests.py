"""What the routes share: the parameters they take, and how they send an answer."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from fastapi import Depends, Path, Query
from fastapi.responses import Response
from pydantic import BeforeValidator

from headgate.errors import FieldError, InvalidFields
from headgate.server.times import read_moment

PREFIX: Final = "/marquez/api/v1"
TAG: Final = "marquez"
MAX_LIMIT: Final = 1000
MAX_OFFSET: Final = 100_000
# Counts stop where pages do: past it nobody can look, and counting millions of rows is slow.
MAX_COUNT: Final = MAX_OFFSET + MAX_LIMIT
DEFAULT_LIMIT: Final = 100
# Names are no longer, and two of them still fit into a request line in any encoding.
MAX_NAME: Final = 2000

NamespaceName = Annotated[str, Path(min_length=1, max_length=MAX_NAME, description="The namespace, percent-encoded")]
DatasetName = Annotated[str, Path(min_length=1, max_length=MAX_NAME, description="The dataset's name, percent-encoded")]
JobName = Annotated[str, Path(min_length=1, max_length=MAX_NAME, description="The job's name, percent-encoded")]
Limit = Annotated[int, Query(ge=0, le=MAX_LIMIT)]
Offset = Annotated[int, Query(ge=0, description=f"How many to leave out; at most {MAX_OFFSET:,}")]


def _read_time(value: object) -> datetime | None:
    """A moment, or a day for its beginning; Marquez's pages send an empty text for none."""
    if value is None or value == "":
        return None
    return read_moment(f"{value}T00:00:00Z" if isinstance(value, str) and len(value) == 10 else value)


Time = Annotated[datetime | None, BeforeValidator(_read_time), Query(description="A moment or a day in ISO 8601")]


class Window(NamedTuple):
    """A page by its place in the list."""

    limit: int
    offset: int

    def of(self, items: list[Any]) -> list[Any]:
        return items[self.offset : self.offset + self.limit]


async def window_of(limit: Limit = DEFAULT_LIMIT, offset: Offset = 0) -> Window:
    if offset > MAX_OFFSET:
        raise InvalidFields(
            [FieldError("query.offset", f"is larger than {MAX_OFFSET:,}", f"{offset}"[:120])],
            hint="narrow the list to one namespace, or follow the cursors of the lists under /api/v1",
        )
    return Window(limit, offset)


Windowed = Annotated[Window, Depends(window_of)]


def answer(body: Any) -> Response:
    """Plain values as JSON. Their shape is documented, and not checked again for each of a thousand entries."""
    return Response(msgspec.json.encode(body), media_type="application/json")
