"""What the benchmark judges in: many measured datasets, and chains of jobs with few and with many runs."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import asyncpg

from benchmarks.stage import Store, say

NAMESPACE: Final = "postgres://dwh"
JOBS: Final = "nightly"
POINTS: Final = 90
LINKS: Final = 5
# Inserted so many datasets at a time, so that the log of the database stays small.
_PART = 5000

_DATASETS = """
INSERT INTO headgate.datasets (organization_id, id, namespace, name, display_name, type, first_seen_at)
SELECT $1::uuid, md5($1::uuid::text || n)::uuid, 'postgres://dwh', 'public.table_' || n, 'table_' || n, 'table',
       now() - interval '60 days'
  FROM generate_series($2::bigint, $3::bigint - 1) AS n
"""
_ALIASES = """
INSERT INTO headgate.dataset_aliases (organization_id, namespace, name, dataset_id, source)
SELECT organization_id, namespace, name, id, 'primary'
  FROM headgate.datasets
 WHERE organization_id = $1
    ON CONFLICT DO NOTHING
"""
_JOBS = """
INSERT INTO headgate.jobs (organization_id, id, namespace, name, first_seen_at)
SELECT $1::uuid, md5('job' || $1::uuid::text || n)::uuid, 'nightly', 'build_' || n, now() - interval '60 days'
  FROM generate_series($2::bigint, $3::bigint - 1) AS n
"""
_OUTPUTS = """
INSERT INTO headgate.job_datasets
       (organization_id, job_id, dataset_id, role, first_seen_at, last_seen_at, last_completed_at)
SELECT $1::uuid, md5('job' || $1::uuid::text || n)::uuid, md5($1::uuid::text || n)::uuid, 'output',
       now() - interval '60 days', now() - interval '1 hour', now() - interval '1 hour'
  FROM generate_series($2::bigint, $3::bigint - 1) AS n
"""
# Three a day, around a level of its own for each dataset, with a spread of a few per cent.
_METRICS = """
INSERT INTO headgate.dataset_metrics
       (organization_id, dataset_id, measured_at, run_id, direction, job_id, row_count, byte_size)
SELECT $1::uuid, md5($1::uuid::text || n)::uuid, date_trunc('hour', now()) - make_interval(hours => p * 8),
       md5(n || '/' || p)::uuid, 'output', md5('job' || $1::uuid::text || n)::uuid, c.rows,
       c.rows * 120
  FROM generate_series($2::bigint, $3::bigint - 1) AS n
 CROSS JOIN generate_series(1, $4::int) AS p
 CROSS JOIN LATERAL (SELECT ((1000 + n % 9000) * (1 + 0.02 * (hashint8(n * 1000 + p) % 100) / 100.0))::bigint AS rows) c
"""
# Job k + 1 of a chain reads dataset k and writes dataset k + 1, every ten minutes.
_CHAIN_EDGES = """
INSERT INTO headgate.lineage_edges
       (organization_id, source_id, target_id, job_id, first_seen_at, last_seen_at, last_completed_at)
SELECT $1::uuid, md5($1::uuid::text || n)::uuid, md5($1::uuid::text || n + 1)::uuid,
       md5('job' || $1::uuid::text || n + 1)::uuid, now() - interval '60 days', now(), now()
  FROM generate_series(0, $2::bigint - 1) AS n
"""
_CHAIN_INPUTS = """
INSERT INTO headgate.job_datasets
       (organization_id, job_id, dataset_id, role, first_seen_at, last_seen_at, last_completed_at)
SELECT $1::uuid, md5('job' || $1::uuid::text || n + 1)::uuid, md5($1::uuid::text || n)::uuid, 'input',
       now() - interval '60 days', now(), now()
  FROM generate_series(0, $2::bigint - 1) AS n
"""
_CHAIN_RUNS = """
INSERT INTO headgate.job_runs
       (organization_id, run_id, job_id, job_ids, state, started_at, last_event_at, start_at, complete_at, input_ids,
        output_ids, producer)
SELECT $1::uuid, gen_random_uuid(), j.id, ARRAY[j.id], 'COMPLETE', t.at, t.at + interval '1 minute', t.at,
       t.at + interval '1 minute', ARRAY[md5($1::uuid::text || n)::uuid], ARRAY[md5($1::uuid::text || n + 1)::uuid],
       'https://example.org/bench'
  FROM generate_series(0, $2::bigint - 1) AS n
 CROSS JOIN generate_series(1, $3::bigint) AS r
 CROSS JOIN LATERAL (SELECT md5('job' || $1::uuid::text || n + 1)::uuid AS id) j
 CROSS JOIN LATERAL (SELECT now() - make_interval(mins => (r * 10 + (5 - n) * 2)::int) AS at) t
"""


@dataclass(frozen=True)
class World:
    """One organisation, ready to be judged; its datasets are numbered."""

    organization_id: UUID
    api_key: str
    datasets: int

    def name(self, number: int) -> str:
        return f"public.table_{number}"

    def dataset_id(self, number: int) -> UUID:
        """As the statement above makes it."""
        return UUID(hashlib.md5(f"{self.organization_id}{number}".encode(), usedforsecurity=False).hexdigest())

    def job(self, number: int) -> str:
        return f"build_{number}"


async def measured(store: Store, name: str, datasets: int) -> World:
    """Datasets with so many points each, and a job for each of them."""
    say(f"making {name}: {datasets:,} datasets with {POINTS} points each")
    world = await _empty(store, name, datasets)
    async with _filling(store) as conn:
        for first in range(0, datasets, _PART):
            last = min(first + _PART, datasets)
            for statement in (_DATASETS, _JOBS, _OUTPUTS):
                await conn.execute(statement, world.organization_id, first, last, timeout=900)
            await conn.execute(_METRICS, world.organization_id, first, last, POINTS, timeout=900)
        await conn.execute(_ALIASES, world.organization_id, timeout=900)
    return world


async def chained(store: Store, name: str, runs: int) -> World:
    """A chain of jobs with so many runs each."""
    say(f"making {name}: {LINKS} jobs with {runs:,} runs each")
    world = await _empty(store, name, LINKS + 1)
    async with _filling(store) as conn:
        for statement in (_DATASETS, _JOBS, _OUTPUTS):
            await conn.execute(statement, world.organization_id, 0, LINKS + 1)
        await conn.execute(_ALIASES, world.organization_id)
        await conn.execute(_CHAIN_EDGES, world.organization_id, LINKS)
        await conn.execute(_CHAIN_INPUTS, world.organization_id, LINKS)
        await conn.execute(_CHAIN_RUNS, world.organization_id, LINKS, runs, timeout=900)
    return world


async def settled(store: Store) -> None:
    """What autovacuum would have done by now."""
    async with store.plain() as conn:
        await conn.execute("VACUUM ANALYZE", timeout=1800)


async def _empty(store: Store, name: str, datasets: int) -> World:
    organization = await store.add_organization(name)
    return World(organization.id, organization.api_key, datasets)


@asynccontextmanager
async def _filling(store: Store) -> AsyncIterator[asyncpg.Connection]:
    """A connection that neither checks nor counts row by row: that would take longer than everything else."""
    async with store.plain() as conn:
        await conn.execute("SET session_replication_role = replica")
        yield conn
