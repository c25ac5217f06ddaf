"""Reads what the Spark stages of a run cost."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec

from headgate.domain.signals import Signal, run_totals, signals
from headgate.errors import NotFound
from headgate.openlineage.stages import COUNTERS, WHOLE_RUN
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries

Q = Queries("headgate.server.runs.stages")

MAX_STAGES: Final = 10_000
MAX_ATTEMPTS: Final = 100
_SHOWN_IDS: Final = 50


class StageStore:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def page(self, run_id: UUID, *, after: int, limit: int) -> list[dict[str, Any]]:
        """Stages in their order, each as its latest attempt."""
        rows = await self._conn.fetch(Q.list_stages, self._organization_id, run_id, after, limit)
        return [_stage(row) for row in rows]

    async def attempts(self, run_id: UUID, stage_id: int) -> list[dict[str, Any]]:
        """Attempts of one stage, the latest first; NotFound names the stages that there are."""
        rows = await self._conn.fetch(Q.list_attempts, self._organization_id, run_id, stage_id, MAX_ATTEMPTS)
        if not rows:
            raise await self._unknown_stage(run_id, stage_id)
        return [_stage(row) for row in rows]

    async def totals(self, run_id: UUID) -> dict[str, int | None] | None:
        """What the whole run cost; None if nothing is known of that."""
        rows = await self._conn.fetch(Q.list_costs, self._organization_id, run_id, MAX_STAGES)
        if not rows:
            return None
        whole = next((dict(row) for row in rows if row["stage_id"] == WHOLE_RUN), None)
        return run_totals(whole, [dict(row) for row in rows if row["stage_id"] != WHOLE_RUN], COUNTERS)

    async def signals(self, run_id: UUID) -> list[Signal]:
        return signals(await self.totals(run_id) or {})

    async def _unknown_stage(self, run_id: UUID, stage_id: int) -> NotFound:
        rows = await self._conn.fetch(Q.list_stage_ids, self._organization_id, run_id, _SHOWN_IDS + 1)
        known = [row["stage_id"] for row in rows]
        shown = ", ".join(map(str, known[:_SHOWN_IDS])) + (", ..." if len(known) > _SHOWN_IDS else "")
        hint = f"there are {shown}" if known else "no stages were reported for this run"
        return NotFound(f"run {str(run_id)!r} has no stage {stage_id}", hint=hint, stages=known[:_SHOWN_IDS])


def _stage(row: Record) -> dict[str, Any]:
    stage = dict(row)
    stage["extra"] = msgspec.json.decode(stage["extra"])
    return stage
