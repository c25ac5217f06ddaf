"""What it costs to find a cause: the same few rows, however often the jobs have run."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from headgate.server.db.pool import Connection, Database
from headgate.server.incidents.correlation.correlate import Correlator
from headgate.server.incidents.correlation.symptoms import Symptom
from headgate.server.incidents.record.history import History
from headgate.server.incidents.scene.load import load_scene
from headgate.server.incidents.scene.walk import Observed
from tests.support.events import PRODUCER, T0
from tests.support.graphs import an_organization

JOBS = 5
READ = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables"


class Chain:
    """Five jobs in a row, each run so many times, a day apart."""

    def __init__(self, db: asyncpg.Connection, organization_id: UUID, runs: int) -> None:
        self._db = db
        self.organization_id = organization_id
        self.runs = runs
        self.datasets = [uuid4() for _ in range(JOBS + 1)]
        self.jobs = [uuid4() for _ in range(JOBS)]

    async def fill(self) -> None:
        own = self.organization_id
        first = T0 - timedelta(days=self.runs)
        for place, dataset in enumerate(self.datasets):
            await self._db.execute(
                "INSERT INTO datasets (organization_id, id, namespace, name, display_name, first_seen_at) "
                "VALUES ($1, $2, 'db', $3, $3, $4)",
                *(own, dataset, f"t{place}", first),
            )
        for place, job in enumerate(self.jobs):
            source, target = self.datasets[place : place + 2]
            await self._db.execute(
                "INSERT INTO jobs (organization_id, id, namespace, name, first_seen_at) VALUES ($1, $2, 'n', $3, $4)",
                *(own, job, f"j{place}", first),
            )
            await self._db.execute(
                "INSERT INTO job_datasets (organization_id, job_id, dataset_id, role, first_seen_at, last_seen_at, "
                "last_completed_at) SELECT $1, $2, u.id, u.role, $5, $6, $6 "
                "FROM unnest(ARRAY[$3::uuid, $4], ARRAY['input', 'output']) AS u (id, role)",
                *(own, job, source, target, first, T0),
            )
            await self._db.execute(
                "INSERT INTO lineage_edges (organization_id, source_id, target_id, job_id, first_seen_at, last_seen_at)"
                " VALUES ($1, $2, $3, $4, $5, $6)",
                *(own, source, target, job, first, T0),
            )
            await self._db.execute(
                "INSERT INTO job_runs (organization_id, run_id, job_id, job_ids, state, started_at, complete_at, "
                "last_event_at, input_ids, output_ids, producer) "
                "SELECT $1, gen_random_uuid(), $2, ARRAY[$2::uuid], 'COMPLETE', t.at, t.at + interval '1 minute', "
                "t.at + interval '1 minute', ARRAY[$3::uuid], ARRAY[$4::uuid], $5 "
                "FROM generate_series(1, $6) n CROSS JOIN LATERAL (SELECT $7::timestamptz + n * interval '1 day' "
                "+ $8 * interval '10 minutes' AS at) t",
                *(own, job, source, target, PRODUCER, self.runs, first, place),
            )
            await self._db.execute(
                "INSERT INTO dataset_metrics (organization_id, dataset_id, measured_at, run_id, direction, job_id, "
                "row_count) SELECT organization_id, $3, complete_at, run_id, 'output', job_id, 1000 "
                "FROM job_runs WHERE organization_id = $1 AND job_id = $2",
                *(own, job, target),
            )

    def symptom(self, days_ago: int) -> Symptom:
        at = T0 - timedelta(days=days_ago) + timedelta(hours=2)
        key = f"test:{self.datasets[-1]}:{days_ago}"
        return Symptom("TestFailed", key, "CRITICAL", "it failed", at, self.datasets[-1], "t5", "id")


@pytest.fixture
async def chains(db: asyncpg.Connection) -> tuple[Chain, Chain]:
    made = [Chain(db, await an_organization(db), runs) for runs in (10, 1000)]
    for each in made:
        await each.fill()
    return made[0], made[1]


async def rows_read(conn: Connection) -> int:
    read: int = await conn.fetchval(READ)
    return read


@pytest.mark.parametrize("days_ago", [0, 3], ids=["newest", "older"])
@pytest.mark.parametrize("is_analysed", [False, True], ids=["never analysed", "analysed"])
async def test_correlation_reads_as_much_of_a_thousand_runs_as_of_ten(
    database: Database, db: asyncpg.Connection, chains: tuple[Chain, Chain], days_ago: int, is_analysed: bool
) -> None:
    if is_analysed:
        await db.execute("ANALYZE")
    read = []
    for chain in chains:
        async with database.tenant(chain.organization_id) as conn:
            await History(conn, chain.organization_id).lock()
            before = await rows_read(conn)
            await Correlator(conn, chain.organization_id).take(chain.symptom(days_ago))
            read.append(await rows_read(conn) - before)
            found = await conn.fetchrow(
                "SELECT run_id, cause FROM incidents WHERE organization_id = $1", chain.organization_id
            )
            assert found is not None

    few, many = read
    assert few > 0
    # The days before count as evidence, up to ten runs and thirty measurements a dataset.
    assert many <= few * 1.5 + 5 * 60, read
    assert many < 2000, read


async def test_a_scene_reaches_the_end_of_the_chain_by_the_runs_of_the_day(
    database: Database, chains: tuple[Chain, Chain]
) -> None:
    for chain in chains:
        at = T0 - timedelta(days=3) + timedelta(hours=2)
        async with database.tenant(chain.organization_id) as conn:
            scene = await load_scene(conn, chain.organization_id, Observed(at, chain.datasets[-1], None, None))
        ended = [each.ended_at for each in scene.candidates if each.ended_at]
        assert len(ended) == JOBS
        assert {each.date() for each in ended} == {at.date()}


async def test_the_view_of_failures_is_cheap_with_many_failures_and_runs(
    database: Database, db: asyncpg.Connection
) -> None:
    chain = Chain(db, await an_organization(db), 500)
    await chain.fill()
    await db.execute(
        "INSERT INTO test_results (organization_id, run_id, dataset_id, test_key, name, status, severity, observed_at) "
        "SELECT $1, gen_random_uuid(), $2, 'k', 'unique', 'failed', 'error', $3::timestamptz - n * interval '1 day' "
        "FROM generate_series(1, 500) n",
        *(chain.organization_id, chain.datasets[-1], T0 + timedelta(hours=2)),
    )
    async with database.tenant(chain.organization_id) as conn:
        before = await rows_read(conn)
        rows = await conn.fetch("SELECT run_id, job_started_at, test_executed_at FROM incident_correlation_view")
        read = await rows_read(conn) - before

    assert len(rows) == 500
    assert all(row["job_started_at"] < row["test_executed_at"] for row in rows if row["run_id"])
    assert read < 500 * 20, "a handful of rows a failure, not a run each"
