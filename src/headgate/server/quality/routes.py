"""Results of tests on datasets."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query

from headgate.errors import Conflict, NotFound
from headgate.server.db.pool import Record
from headgate.server.deps import Reads
from headgate.server.pagination import Paged
from headgate.server.problems import problems
from headgate.server.quality.schemas import ResultOut, ResultPage, Status
from headgate.server.quality.store import ResultStore
from headgate.server.references.datasets import DatasetRef, find_dataset
from headgate.server.routing import new_router
from headgate.server.shapes import JobOut

_NOBODY = UUID(int=0)
router = new_router("/api/v1", "tests")


@router.get("/datasets/{dataset}/tests", responses=problems(NotFound, Conflict))
async def list_dataset_tests(
    dataset: DatasetRef,
    reads: Reads,
    page: Paged,
    history: Annotated[bool, Query(description="All results, not just the latest of each test")] = False,
    status: Annotated[Status | None, Query(description="Only results that ended like this")] = None,
) -> ResultPage:
    """How the tests of a dataset ended, newest first."""
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        store = ResultStore(conn, reads.organization_id)
        rows, cursor = await store.list(found.id, history=history, status=status, page=page)
    return ResultPage(items=[_result(row) for row in rows], next_cursor=cursor)


def _result(row: Record) -> ResultOut:
    job = None
    if row["job_name"] is not None:
        job = JobOut(id=row["job_id"], namespace=row["job_namespace"], name=row["job_name"])
    return ResultOut(
        id=row["id"],
        name=row["name"],
        assertion=row["assertion"],
        column=row["column_name"],
        status=row["status"],
        severity=row["severity"],
        expected=row["expected"],
        actual=row["actual"],
        description=row["description"],
        run_id=None if row["run_id"] == _NOBODY else row["run_id"],
        job=job,
        observed_at=row["observed_at"],
    )
