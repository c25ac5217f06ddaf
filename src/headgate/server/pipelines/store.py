"""Reads pipelines: their runs, nodes and quarantine, and the names that come nearest to one that is not there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from headgate.errors import FieldError, InvalidFields, NotFound
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.pagination import Page, SortedPage, encode_sorted
from headgate.server.references.datasets import spellings_of
from headgate.server.references.nearest import likest

Q = Queries("headgate.server.pipelines")

MAX_NODES: Final = 1000
_CANDIDATES: Final = 500
_NOBODY: Final = UUID(int=0)
_BEFORE_ALL: Final = ("", "")


class Filters(NamedTuple):
    """Batches that are asked for; what is None is not asked for."""

    project: str | None
    pipeline: str | None
    node: str | None
    state: str | None


class PipelineStore:
    """On a connection that has the organisation set."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def pipelines(self, page: SortedPage) -> tuple[Sequence[Record], str | None]:
        """Pipelines by project and name, and the cursor of the next page."""
        after = _BEFORE_ALL if page.value is None else _names(page.value)
        rows = await self._fetch(Q.list_pipelines, *after, page.limit + 1)
        if len(rows) <= page.limit:
            return rows, None
        kept = rows[: page.limit]
        place = json.dumps([kept[-1]["project"], kept[-1]["pipeline"]])
        return kept, encode_sorted(page.sort, place, _NOBODY)

    async def pipeline(self, project: str, pipeline: str) -> Record:
        """The latest run of a pipeline with `run_count`; NotFound names those that come nearest."""
        row = await self._fetchrow(Q.get_pipeline, project, pipeline)
        if row is None:
            raise await self._unknown_pipeline(project, pipeline)
        return row

    async def nodes(self, project: str, pipeline: str) -> Sequence[Record]:
        return await self._fetch(Q.list_nodes, project, pipeline, MAX_NODES)

    async def runs(self, project: str, pipeline: str, page: Page) -> tuple[Sequence[Record], str | None]:
        """Runs of a pipeline, the latest first, and the cursor of the next page."""
        rows = await self._fetch(Q.list_runs, project, pipeline, page.at, page.id, page.limit + 1)
        if not rows and page.id is None:
            raise await self._unknown_pipeline(project, pipeline)
        return page.cut(rows, "started_at")

    async def run(self, run_id: UUID) -> Record:
        row = await self._fetchrow(Q.get_run, run_id)
        if row is None:
            raise NotFound(
                f"no pipeline run {str(run_id)!r}", hint="list them at /api/v1/pipelines/{project}/{name}/runs"
            )
        return row

    async def previous(self, run: Record) -> Record | None:
        """The last run before this one that published."""
        names = (run["project"], run["pipeline"])
        return await self._fetchrow(Q.get_previous_run, *names, run["started_at"], run["run_id"])

    async def run_nodes(self, run_id: UUID) -> Sequence[Record]:
        return await self._fetch(Q.list_run_nodes, run_id)

    async def alerts(self, run_id: UUID) -> Sequence[Record]:
        return await self._fetch(Q.list_alerts, run_id)

    async def published(self, node: tuple[str, str, str], page: Page) -> tuple[Sequence[Record], str | None]:
        """Published runs of a node, the latest first, and the cursor of the next page."""
        rows = await self._fetch(Q.list_published, *node, page.at, page.id, page.limit + 1)
        if not rows:
            await self._check_node(*node)
        return page.cut(rows, "ended_at")

    async def last_published(self, node: tuple[str, str, str]) -> Record:
        row = await self._fetchrow(Q.get_last_published, *node)
        if row is None:
            await self._check_node(*node)
            raise NotFound(
                f"node {node[2]!r} of pipeline {node[0]}/{node[1]} was never published",
                hint="its first published run will be here",
            )
        return row

    async def batches(self, asked: Filters, page: Page) -> tuple[Sequence[Record], str | None]:
        """Batches in quarantine, the latest first, and the cursor of the next page."""
        rows = await self._fetch(Q.list_batches, *asked, page.at, page.id, page.limit + 1)
        return page.cut(rows, "rejected_at")

    async def datasets(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], UUID]:
        """Which datasets these names lead to, as ingest would read them."""
        spelled: dict[tuple[str, str], tuple[str, str]] = {}
        for name in names:
            for spelling in await spellings_of(self._conn, self._organization_id, [name]):
                spelled.setdefault(spelling, name)
        keys = list(spelled)
        rows = await self._fetch(Q.find_datasets, [key[0] for key in keys], [key[1] for key in keys])
        return {spelled[keys[row["place"] - 1]]: row["dataset_id"] for row in rows}

    async def flows(self, roots: Sequence[UUID], direction: str, depth: int, limit: int) -> Sequence[Record]:
        return await self._fetch(Q.list_flows, list(roots), direction, depth, limit) if roots else []

    async def _check_node(self, project: str, pipeline: str, node: str) -> None:
        """NotFound unless there is such a node."""
        if await self._conn.fetchval(Q.has_node, self._organization_id, project, pipeline, node):
            return
        await self.pipeline(project, pipeline)
        known = [(pipeline, row["node"]) for row in await self.nodes(project, pipeline)]
        near = [urn.removeprefix(f"{pipeline}/") for urn in likest(node, known)]
        hint = (
            f"did you mean {' or '.join(map(repr, near))}?"
            if near
            else f"list them at /api/v1/pipelines/{project}/{pipeline}"
        )
        raise NotFound(f"no node {node!r} in pipeline {project}/{pipeline}", hint=hint, nearest=near)

    async def _unknown_pipeline(self, project: str, pipeline: str) -> NotFound:
        rows = await self._fetch(Q.list_names, _CANDIDATES)
        near = likest(f"{project}/{pipeline}", [(row["project"], row["pipeline"]) for row in rows])
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "list them at /api/v1/pipelines"
        return NotFound(f"no pipeline {f'{project}/{pipeline}'!r}", hint=hint, nearest=near)

    async def _fetch(self, query: str, *arguments: object) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *arguments)
        return rows

    async def _fetchrow(self, query: str, *arguments: object) -> Record | None:
        return await self._conn.fetchrow(query, self._organization_id, *arguments)


def _names(place: str) -> tuple[str, str]:
    try:
        project, pipeline = json.loads(place)
        return project.encode().decode(), pipeline.encode().decode()
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InvalidFields(
            [FieldError("query.cursor", "is not a cursor of this list")],
            hint="pass `next_cursor` of the previous page as it is, or leave it out",
        ) from None
