"""A row in each table of anomalies, for tests that look at every table."""

from __future__ import annotations

from uuid import UUID

import asyncpg

_ROWS = (
    """INSERT INTO anomalies (organization_id, dataset_id, run_id, anomaly_type, severity, observed_at, description,
                              source)
       VALUES ($1, $2, gen_random_uuid(), 'RowCountDrop', 'CRITICAL', now(), $3, 'detector')
       ON CONFLICT DO NOTHING""",
    """INSERT INTO detection_policies (organization_id, dataset_id, description, enabled, method, sigma, min_points,
                                       window_days, drop_share, seasonality, small_sample)
       VALUES ($1, $2, $3, true, 'sigma', 3, 5, 30, 0.5, 'auto', true) ON CONFLICT DO NOTHING""",
    """INSERT INTO expected_marks (organization_id, dataset_id, kind, weekday, note)
       VALUES ($1, $2, 'weekday', 0, $3)""",
    """INSERT INTO watched_datasets (organization_id, dataset_id) SELECT $1, $2 WHERE $3 <> ''
       ON CONFLICT DO NOTHING""",
    """INSERT INTO watched_runs (organization_id, run_id, due_at)
       SELECT $1, $2, 'infinity' WHERE $3 <> '' ON CONFLICT DO NOTHING""",
    """INSERT INTO watch_progress (organization_id, runs_seen_until)
       SELECT $1, now() WHERE $2::uuid IS NOT NULL AND $3 <> '' ON CONFLICT DO NOTHING""",
    """INSERT INTO earlier_anomalies (organization_id, last_id)
       SELECT $1, 1 WHERE $2::uuid IS NOT NULL AND $3 <> '' ON CONFLICT DO NOTHING""",
)


async def insert_judged_rows(db: asyncpg.Connection, organization_id: UUID, mark: str) -> None:
    """Needs a dataset; the mark is in every text."""
    dataset_id = await db.fetchval("SELECT id FROM datasets WHERE organization_id = $1 LIMIT 1", organization_id)
    for sql in _ROWS:
        await db.execute(sql, organization_id, dataset_id, mark)
