"""Reads results of tests."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.pagination import Page

Q = Queries("headgate.server.quality")


class ResultStore:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def list(
        self, dataset_id: UUID, *, history: bool, status: str | None, page: Page
    ) -> tuple[Sequence[Record], str | None]:
        """The latest result of each test, or all results, newest first, and the cursor of the next page."""
        query = Q.list_results if history else Q.list_latest_results
        rows = await self._conn.fetch(
            query, self._organization_id, dataset_id, status, page.at, page.id, page.limit + 1
        )
        return page.cut(rows, "observed_at")
