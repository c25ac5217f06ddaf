"""Shapes of the search API."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel

from headgate.server.search.ranking import Kind, Match
from headgate.server.shapes import DatasetRefOut


class ItemOut(BaseModel):
    """Something that fits. `id` leads to it: of a column, to its dataset; null for a pipeline that sent no event.

    `dropped`: a dataset that is gone. False for everything else.
    """

    kind: Kind
    id: UUID | None
    namespace: str
    name: str
    urn: str | None
    display: str
    dataset: DatasetRefOut | None
    dropped: bool
    match: Match
    score: float


class SearchOut(BaseModel):
    """`truncated`: there is more. `indexing`: what came in last cannot be found yet, ask again in a moment."""

    query: str
    items: list[ItemOut]
    truncated: bool
    indexing: bool
