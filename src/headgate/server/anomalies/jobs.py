"""Background work on anomalies: judging what ended, watching for what does not come, removing what is long over."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from headgate.server.anomalies.judging.detect import Detector
from headgate.server.anomalies.store import AnomalyStore
from headgate.server.anomalies.watching.watch import Watch
from headgate.server.cleaning import Cleaning
from headgate.server.db.pool import Connection, Database
from headgate.server.queue import Batch, Kind, NewTask, content_hash, enqueue

WATCH_S: Final = 60
# After so long others get a turn.
BUDGET_S: Final = 5.0
# As that of all recurring work.
WATCH_PRIORITY: Final = 200
CLEANUP_BATCH: Final = 10_000


async def detect(conn: Connection, batch: Batch) -> None:
    """Judge what some runs have measured, and what was measured of datasets by no run."""
    runs = {UUID(task.resource_id) for task in batch.tasks if task.resource_type == "RUN"}
    datasets: dict[UUID, datetime] = {}
    for task in batch.tasks:
        if task.resource_type == "DATASET":
            dataset_id = UUID(task.resource_id)
            datasets[dataset_id] = min(datasets.get(dataset_id, task.created_at), task.created_at)
    changed = (task.payload for task in batch.tasks if "schema_version" in task.payload)
    versions = {(UUID(told["dataset_id"]), UUID(told["schema_version"])) for told in changed}
    await Detector(conn, batch.organization_id).judge(runs, datasets, versions)


async def watch(database: Database, batch: Batch) -> Mapping[int, BaseException]:
    """Look for runs that should have ended and datasets that should have been written, a page at a time.

    Each page has a transaction of its own: whoever writes or merges a dataset does not wait for the others. What is
    left after a while is looked at in another turn, so that nobody else's work waits for it.
    """
    until = time.monotonic() + BUDGET_S
    while True:
        async with database.tenant(batch.organization_id) as conn:
            is_left = await Watch(conn, batch.organization_id, datetime.now(UTC)).look()
            if is_left and time.monotonic() >= until:
                await enqueue(conn, batch.organization_id, [_go_on(batch.organization_id)])
                return {}
        if not is_left:
            return {}


def _go_on(organization_id: UUID) -> NewTask:
    key = content_hash("more", organization_id, uuid4())
    return NewTask("WATCH", "ORGANIZATION", str(organization_id), key, priority=WATCH_PRIORITY)


class AnomalyCleaning(Cleaning):
    """Removes anomalies that were closed long ago."""

    async def clean(self, conn: Connection, organization_id: UUID, now: datetime, before: datetime) -> bool:
        removed = await AnomalyStore(conn, organization_id).remove_closed(before, CLEANUP_BATCH)
        return removed == CLEANUP_BATCH


def kinds(days: int) -> tuple[Kind, ...]:
    """All of them, with anomalies kept for so many days after they were closed."""
    return (*KINDS, AnomalyCleaning(days).kind("CLEAN_ANOMALIES"))


KINDS: tuple[Kind, ...] = (
    Kind("DETECT", detect, batch_size=100),
    Kind("WATCH", send=watch, batch_size=1, every_s=WATCH_S),
)
