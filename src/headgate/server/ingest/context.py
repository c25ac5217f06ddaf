"""What a secondary step of ingest needs: the transaction it is part of, and where to find ids."""

from __future__ import annotations

from uuid import UUID

import msgspec

from headgate.server.db.pool import Connection
from headgate.server.db.queries import Queries
from headgate.server.ingest.batch import Batch, Use, Written

Q = Queries("headgate.server.ingest")
MAX_FACET_BYTES = 1024 * 1024


class Context:
    """One group's transaction, batch and ids."""

    def __init__(self, conn: Connection, organization_id: UUID, batch: Batch, written: Written) -> None:
        self.conn = conn
        self.organization_id = organization_id
        self.batch = batch
        self.written = written

    def job_id(self, place: int) -> UUID | None:
        job = self.batch.events[place - 1].facts.job
        return None if job is None else self.written.job_ids[self.batch.jobs[job] - 1]

    def dataset_id(self, row: Use) -> UUID:
        found = self.written.dataset_ids[row.dataset - 1]
        assert found is not None, "an accepted event's datasets always have ids"
        return found

    def dataset_id_of(self, key: tuple[str, str]) -> UUID | None:
        place = self.batch.datasets.get(key)
        return None if place is None else self.written.dataset_ids[place - 1]

    async def follow_up(self, rows: list[tuple[str, UUID | None, UUID | None, dict[str, object]]]) -> None:
        """Outbox rows (kind, run, dataset, payload) in the same transaction."""
        if rows:
            kinds, runs, datasets, payloads = zip(*rows, strict=True)
            texts = [msgspec.json.encode(payload).decode() for payload in payloads]
            await self.conn.execute(
                Q.insert_follow_ups, self.organization_id, list(kinds), list(runs), list(datasets), texts
            )


def storable(body: bytes) -> str | None:
    """A facet body as jsonb will take it, or None: numbers beyond any type, or simply too much."""
    if len(body) > MAX_FACET_BYTES:
        return None
    try:
        return msgspec.json.encode(msgspec.json.decode(body)).decode()
    except (msgspec.MsgspecError, RecursionError):
        return None
