"""How fresh a dataset is to be: what a person says, else a pipeline, else the rhythm of its writes."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from headgate.errors import Conflict, NotFound
from headgate.server.anomalies.judging.rules import hold_names
from headgate.server.anomalies.watching.schemas import FreshnessIn, FreshnessOut
from headgate.server.anomalies.watching.store import FreshnessStore
from headgate.server.anomalies.watching.watch import next_write
from headgate.server.db.pool import Connection
from headgate.server.deps import Db, Reads, Writer
from headgate.server.problems import problems
from headgate.server.references.datasets import Dataset, DatasetRef, find_dataset
from headgate.server.routing import new_router

router = new_router("/api/v1", "anomalies")


@router.get("/datasets/{dataset}/freshness-sla", responses=problems(NotFound, Conflict))
async def get_freshness_sla(dataset: DatasetRef, reads: Reads) -> FreshnessOut:
    """How old a dataset may become, and by when it should be written next."""
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        return await _freshness(FreshnessStore(conn, reads.organization_id), found)


@router.put("/datasets/{dataset}/freshness-sla", responses=problems(NotFound, Conflict))
async def set_freshness_sla(dataset: DatasetRef, body: FreshnessIn, caller: Writer, database: Db) -> FreshnessOut:
    """Sets how old a dataset may become, also in place of what a pipeline says."""
    async with database.tenant(caller.organization_id) as conn:
        found, store = await _held(conn, caller.organization_id, dataset)
        await store.set(found.id, body.sla_hours)
        return await _freshness(store, found)


@router.delete("/datasets/{dataset}/freshness-sla", status_code=204, responses=problems(NotFound, Conflict))
async def delete_freshness_sla(dataset: DatasetRef, caller: Writer, database: Db) -> None:
    """Lets the rhythm of its writes say when a dataset is late. A pipeline that says otherwise does so again."""
    async with database.tenant(caller.organization_id) as conn:
        found, store = await _held(conn, caller.organization_id, dataset)
        await store.remove(found.id)


async def _held(conn: Connection, organization_id: UUID, dataset: str) -> tuple[Dataset, FreshnessStore]:
    await hold_names(conn, organization_id)
    return await find_dataset(conn, organization_id, dataset), FreshnessStore(conn, organization_id)


async def _freshness(store: FreshnessStore, dataset: Dataset) -> FreshnessOut:
    row = await store.get(dataset.id)
    due = next_write(row)
    return FreshnessOut(
        dataset=dataset.out(),
        sla_hours=row["sla_hours"],
        source=row["source"],
        last_updated=max(row["writes"] or (), default=None),
        is_stale=row["is_overdue"] or (row["sla_hours"] is not None and due is not None and due < datetime.now(UTC)),
        expected_by=due,
        expected_from=None if due is None else "rhythm" if row["sla_hours"] is None else "sla",
    )
