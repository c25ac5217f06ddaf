"""How each slice removes what has been kept long enough: a batch at a time, hour after hour."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from headgate.server.db.pool import Connection, Database
from headgate.server.queue import Batch, Kind

EVERY_S: Final = 3600


class Cleaning(ABC):
    """Removes what is older than some days. `clock` can be given by tests."""

    def __init__(self, days: int, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._kept = timedelta(days=days)
        self._clock = clock

    async def send(self, database: Database, batch: Batch) -> Mapping[int, BaseException]:
        """Batch after batch, each in a transaction of its own, so that none holds many rows."""
        now, is_left = self._clock(), True
        while is_left:
            async with database.tenant(batch.organization_id) as conn:
                is_left = await self.clean(conn, batch.organization_id, now, now - self._kept)
        return {}

    def kind(self, task_type: str) -> Kind:
        return Kind(task_type, send=self.send, every_s=EVERY_S)

    @abstractmethod
    async def clean(self, conn: Connection, organization_id: UUID, now: datetime, before: datetime) -> bool:
        """Remove one batch of what was over before a time; whether there may be more."""
