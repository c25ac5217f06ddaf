"""How the runs of an organisation have been going."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from headgate.domain.run import TERMINAL
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.runs.jobs.schemas import IntegrationOut, JobsSummaryOut
from headgate.server.runs.store import MAX_LOOKED_AT, RunStore

Q = Queries("headgate.server.runs.jobs")

# Which runs are stuck is found out one by one.
MAX_JUDGED: Final = 1000


async def summarize(conn: Connection, organization_id: UUID, hours: int) -> JobsSummaryOut:
    """Runs that started within the last hours, by state and integration, and what goes on now, whenever it started."""
    since = datetime.now(UTC) - timedelta(hours=hours)
    rows = await conn.fetch(Q.count_runs, organization_id, since, MAX_LOOKED_AT)
    states = _by_state(rows)
    ended = sum(states[state] for state in TERMINAL)
    timed = sum(row["timed"] for row in rows)
    now = await RunStore(conn, organization_id).count_now(MAX_JUDGED)
    return JobsSummaryOut(
        hours=hours,
        total=states.total(),
        by_state=dict(states),
        success_rate=states["COMPLETE"] / ended if ended else None,
        mean_duration_ms=sum(row["timed_ms"] or 0.0 for row in rows) / timed if timed else None,
        running=now.running,
        stuck=now.stuck,
        by_integration=_by_integration(rows),
        truncated=states.total() >= MAX_LOOKED_AT,
    )


def _by_state(rows: Sequence[Record]) -> Counter[str]:
    states: Counter[str] = Counter()
    for row in rows:
        states[row["state"]] += row["runs"]
    return states


def _by_integration(rows: Sequence[Record]) -> list[IntegrationOut]:
    """The one with most runs first; None stands for jobs that do not say."""
    names = {row["integration"] for row in rows}
    found = []
    for name in names:
        states = _by_state([row for row in rows if row["integration"] == name])
        found.append(IntegrationOut(integration=name, total=states.total(), by_state=dict(states)))
    return sorted(found, key=lambda item: (-item.total, item.integration or ""))
