"""What a secondary step of ingest needs: the transaction it is part of, and where to find ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from headgate.domain.names import DatasetName
from headgate.openlineage.facts import Facts
from headgate.server.db.pool import Connection
from headgate.server.db.queries import Queries
from headgate.server.ingest.memory import GroupMemory, NameKey, Touches, UseKey, use_order
from headgate.server.queue import NewTask, enqueue

Q = Queries("headgate.server.ingest")
MAX_FACET_BYTES = 1024 * 1024


class Context:
    """One organisation's part of a group: its transaction, and its ids."""

    def __init__(
        self,
        conn: Connection,
        organization_id: UUID,
        ids: GroupMemory,
        pending: Sequence[Touches],
        touches: Touches,
    ) -> None:
        self.conn = conn
        self.organization_id = organization_id
        self.ids = ids
        # What was seen again lately and is not in the database yet: by groups before, and by this one.
        self.pending = pending
        self.touches = touches
        # The schemas that this group shows last, by dataset and time.
        self.shown: dict[tuple[UUID, datetime | None], bytes] = {}
        # Uses whose schema is the one that is known, in other words.
        self.respelled: set[UseKey] = set()

    def job_id(self, facts: Facts) -> UUID | None:
        return None if facts.job is None else self.ids.jobs[facts.job]

    async def resolve(
        self, wanted: dict[NameKey, tuple[DatasetName, str | None, str | None]], seen_at: datetime
    ) -> None:
        """Learn the ids of these datasets, making the ones that do not exist yet."""
        missing = [wanted[key] for key in self.ids.missing_datasets(wanted)]
        if not missing:
            return
        found = await self.conn.fetchval(
            Q.resolve_datasets,
            self.organization_id,
            [name.namespace for name, _, _ in missing],
            [name.name for name, _, _ in missing],
            [name.display_name for name, _, _ in missing],
            [type_ for _, type_, _ in missing],
            [location for _, _, location in missing],
            seen_at,
        )
        self.ids.datasets |= {name[:2]: id_ for (name, _, _), id_ in zip(missing, found, strict=True)}

    async def resolve_jobs(self, wanted: Iterable[NameKey], seen_at: datetime) -> None:
        missing = self.ids.missing_jobs(wanted)
        if missing:
            namespaces, names = zip(*missing, strict=True)
            found = await self.conn.fetchval(
                Q.resolve_jobs, self.organization_id, list(namespaces), list(names), seen_at
            )
            self.ids.jobs |= dict(zip(missing, found, strict=True))

    async def follow_up(self, tasks: Sequence[NewTask]) -> None:
        """Tasks in the same transaction."""
        await enqueue(self.conn, self.organization_id, tasks)


async def write_touches(conn: Connection, organization_id: UUID, touches: Touches) -> None:
    """Write when known uses and edges were last seen."""
    uses = [(*key, *times) for key, times in sorted(touches.uses.items(), key=lambda use: use_order(use[0]))]
    edges = [(*key, *times) for key, times in sorted(touches.edges.items())]
    await conn.execute(Q.touch_lineage, organization_id, *as_columns(uses, 8), *as_columns(edges, 7))


def as_columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows as the arrays of an `unnest`, which fills up the shorter ones: a column without values need not travel."""
    if not rows:
        return [[] for _ in range(width)]
    return [list(column) if any(value is not None for value in column) else [] for column in zip(*rows, strict=True)]


def storable(body: bytes) -> str | None:
    """A facet body as jsonb will take it, or None: numbers beyond any type, or simply too much."""
    if len(body) > MAX_FACET_BYTES:
        return None
    try:
        return msgspec.json.encode(msgspec.json.decode(body)).decode()
    except (msgspec.MsgspecError, RecursionError):
        return None
