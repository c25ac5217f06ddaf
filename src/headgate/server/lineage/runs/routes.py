"""Lineage of single runs: what led to one, at its time."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from headgate.errors import NotFound
from headgate.server.deps import Reads
from headgate.server.lineage.runs.schemas import RunLineageOut
from headgate.server.lineage.runs.store import RunLineageStore
from headgate.server.problems import problems


def add_run_lineage(router: APIRouter) -> None:
    """Put the route of this module among those of the slice."""
    router.get("/runs/{run}/lineage", responses=problems(NotFound))(get_run_lineage)


async def get_run_lineage(
    run: UUID,
    reads: Reads,
    depth: Annotated[int, Query(ge=1, le=5, description="How many runs to go back from each input")] = 1,
) -> RunLineageOut:
    """What exactly a run read and wrote, and the runs that had written its inputs when it began."""
    async with reads.open() as conn:
        return await RunLineageStore(conn, reads.organization_id).lineage(run, depth)
