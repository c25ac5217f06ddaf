"""Layered lineage graphs, made inside the database: the same for the same size and shape.

Twenty layers; an edge leads from a dataset to one of the next layer, to any of it (random) or to a near one (local).
Each dataset is written by a job of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import asyncpg

from benchmarks.stage import Store, say

LAYERS = 20
# Checking foreign keys and counting neighbours row by row takes too long beyond this.
_TRIGGERED = 200_000

_DATASETS = """
INSERT INTO headgate.datasets (organization_id, id, namespace, name, display_name, type, first_seen_at)
SELECT $1::uuid, md5($1::uuid::text || n)::uuid,
       'postgres://' || (ARRAY['erp','crm','web','dwh','ml'])[1 + n % 5] || '-db',
       (ARRAY['raw','clean','core','mart'])[1 + n * 4 / $2::bigint] || '.'
         || (ARRAY['orders','customers','payments','sessions','shipments','invoices','products'])[1 + n % 7] || '_'
         || (ARRAY['daily','hourly','history','latest','summary'])[1 + n / 7 % 5] || '_' || n,
       (ARRAY['raw','clean','core','mart'])[1 + n * 4 / $2::bigint] || '.'
         || (ARRAY['orders','customers','payments','sessions','shipments','invoices','products'])[1 + n % 7] || '_'
         || (ARRAY['daily','hourly','history','latest','summary'])[1 + n / 7 % 5] || '_' || n,
       'table', now() - interval '60 days'
  FROM generate_series(0, $2::bigint - 1) AS n
"""
_ALIASES = """
INSERT INTO headgate.dataset_aliases (organization_id, namespace, name, dataset_id, source)
SELECT organization_id, namespace, name, id, 'primary'
  FROM headgate.datasets
 WHERE organization_id = $1
"""
_JOBS = """
INSERT INTO headgate.jobs (organization_id, id, namespace, name, first_seen_at)
SELECT $1::uuid, md5('job' || $1::uuid::text || n)::uuid, 'nightly', 'build_' || n, now() - interval '60 days'
  FROM generate_series($3::bigint, $2::bigint - 1) AS n
"""
_OUTPUTS = """
INSERT INTO headgate.job_datasets
       (organization_id, job_id, dataset_id, role, first_seen_at, last_seen_at, last_completed_at)
SELECT $1::uuid, md5('job' || $1::uuid::text || n)::uuid, md5($1::uuid::text || n)::uuid, 'output',
       t.first, t.last, t.last
  FROM generate_series($3::bigint, $2::bigint - 1) AS n,
       LATERAL (SELECT now() - interval '60 days' AS first, now() - make_interval(mins => (n % 20000)::int) AS last) t
"""
_EDGES = """
INSERT INTO headgate.lineage_edges
       (organization_id, source_id, target_id, job_id, first_seen_at, last_seen_at, last_completed_at)
SELECT $1::uuid, md5($1::uuid::text || e.source)::uuid, md5($1::uuid::text || e.target)::uuid,
       md5('job' || $1::uuid::text || e.target)::uuid, now() - interval '60 days', t.last, t.last
  FROM (SELECT n % ($2::bigint - $3::bigint) AS source,
               (n % ($2::bigint - $3::bigint) / $3::bigint + 1) * $3::bigint
                 + CASE WHEN $5::boolean THEN (n % $3::bigint + abs(hashint8(n)::bigint) % 11) % $3::bigint
                        ELSE abs(hashint8(n)::bigint) % $3::bigint END AS target
          FROM generate_series(0, $4::bigint - 1) AS n) e,
       LATERAL (SELECT now() - make_interval(mins => (e.target % 20000)::int) AS last) t
    ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True)
class Graph:
    """One organisation with a graph in it."""

    name: str
    organization_id: UUID
    api_key: str
    datasets: int
    edges: int

    @property
    def width(self) -> int:
        return self.datasets // LAYERS


async def build(store: Store, name: str, datasets: int, edges: int, *, local: bool) -> Graph:
    """Make an organisation and its graph."""
    say(f"making {name}: {datasets:,} datasets, {edges:,} edges")
    organization = await store.add_organization(name)
    graph = Graph(name, organization.id, organization.api_key, datasets, edges)
    async with store.plain() as conn:
        if datasets > _TRIGGERED:
            await conn.execute("SET session_replication_role = replica")
        async with conn.transaction():
            await _fill(conn, graph, local=local)
        await conn.execute("ANALYZE", timeout=900)
        async with conn.transaction():
            await _settle(conn, graph)
    return graph


async def _settle(conn: asyncpg.Connection, graph: Graph) -> None:
    """What a worker would have done meanwhile."""
    await _act_as(conn, graph)
    await conn.execute("SELECT settle_dataset_stats($1, 10000000)", graph.organization_id, timeout=900)


async def _act_as(conn: asyncpg.Connection, graph: Graph) -> None:
    await conn.execute("SET LOCAL search_path = headgate")
    await conn.execute("SELECT set_config('headgate.organization_id', $1, true)", str(graph.organization_id))


async def _fill(conn: asyncpg.Connection, graph: Graph, *, local: bool) -> None:
    await _act_as(conn, graph)
    org, count, width = graph.organization_id, graph.datasets, graph.width
    await conn.execute(_DATASETS, org, count, timeout=900)
    await conn.execute(_ALIASES, org, timeout=900)
    await conn.execute(_JOBS, org, count, width, timeout=900)
    await conn.execute(_OUTPUTS, org, count, width, timeout=900)
    await conn.execute(_EDGES, org, count, width, graph.edges, local, timeout=1800)
