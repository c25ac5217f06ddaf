"""Planted causes in a real server: a simulated platform sends its events, and the incidents are asked for the cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import asyncpg
import httpx
from fastapi import FastAPI

from benchmarks.causes.loader import Loader
from benchmarks.causes.score import is_blamed
from benchmarks.causes.world import Planted, World, simulate
from benchmarks.stage import Store, say
from headgate.server.app import create_app
from headgate.server.db.pool import Database
from headgate.server.kinds import KINDS
from headgate.server.worker import Worker
from headgate.settings import Settings

# Of the simulated time; what looks at the clock would find everything long overdue.
_KINDS: Final = [kind for kind in KINDS if kind.task_type in ("DETECT", "CORRELATE")]
_BATCH: Final = 200

_CAUSE = """
SELECT i.cause_run_id, j.name AS job, i.confidence, i.root_cause
  FROM headgate.incident_symptoms s
  JOIN headgate.incidents i ON i.organization_id = s.organization_id AND i.id = s.incident_id
  LEFT JOIN headgate.jobs j ON j.organization_id = i.organization_id AND j.id = i.cause_job_id
 WHERE s.organization_id = $1
   AND s.test_name IS NOT DISTINCT FROM $3
   -- A retry on what the same run had produced is counted, and has no row of its own.
   AND (s.run_id = $2 OR ($3::text IS NOT NULL AND $4 BETWEEN s.observed_at AND s.last_observed_at))
 ORDER BY s.run_id = $2 DESC, s.observed_at DESC
 LIMIT 1
"""


class Answer(NamedTuple):
    """What became of a planted cause."""

    planted: Planted
    is_found: bool
    is_first: bool
    root_cause: str | None
    # Whether the newest run that had written the failing dataset would have been it.
    is_newest: bool


async def served(store: Store, seed: int, datasets: int, days: int = 30) -> list[Answer]:
    """Send all that a simulated platform says to a server, and look at the incidents afterwards."""
    world = simulate(seed, datasets, days)
    say(f"sending {len(world.events):,} events of {datasets:,} datasets")
    organization = await store.add_organization(f"Platform {seed} of {datasets}")
    async with store.application(8) as database:
        await _send(database, organization.api_key, world)
    loader = Loader(world.events)
    async with store.plain() as conn:
        return [await _answer(conn, organization.id, planted, loader) for planted in world.planted]


async def _send(database: Database, api_key: str, world: World) -> None:
    settings = Settings(rate_global=None, rate_key=None, rate_anonymous=None, _env_file=None)
    app = create_app(settings, database)
    api = cast(FastAPI, app.api)
    worker = Worker(database, _KINDS)
    headers = {"authorization": f"Bearer {api_key}"}
    transport = httpx.ASGITransport(app=app)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://bench", headers=headers, timeout=120) as client,
    ):
        for batch in _batches(world.events):
            response = await client.post("/api/v1/lineage/batch", json=batch)
            if response.status_code != 200:
                raise RuntimeError(f"a batch was answered with {response.status_code}: {response.text[:500]}")
            await worker.drain()


def _batches(events: Sequence[Mapping[str, Any]]) -> list[Sequence[Mapping[str, Any]]]:
    return [events[first : first + _BATCH] for first in range(0, len(events), _BATCH)]


async def _answer(conn: asyncpg.Connection, organization_id: UUID, planted: Planted, loader: Loader) -> Answer:
    symptom = planted.scored
    is_newest = is_blamed(planted, loader.newest(symptom.dataset, symptom.observed_at))
    row = await conn.fetchrow(_CAUSE, organization_id, UUID(symptom.run_id), symptom.test, symptom.observed_at)
    if row is None:
        return Answer(planted, False, False, None, is_newest)
    run_id = row["cause_run_id"]
    is_run = run_id is None if planted.kind == "late_parent" else str(run_id) in planted.run_ids
    return Answer(planted, True, row["job"] == planted.job and is_run, row["root_cause"], is_newest)
