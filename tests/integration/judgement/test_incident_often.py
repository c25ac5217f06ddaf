"""Jobs that run often or overlap themselves, and clocks that are ahead: when an incident ends, and who had produced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from headgate.server.db.pool import Database
from tests.support.events import PRODUCER, a_run_id, at
from tests.support.graphs import an_organization
from tests.support.incidents import DAY, HOUR, Shop, checked, wrote
from tests.support.pipeline_events import a_full_record, a_node_end

MINUTE = 60
READ = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables"
NOW = datetime.now(UTC).replace(microsecond=0)


def from_now(seconds: float = 0) -> float:
    """As tests count seconds."""
    return (datetime.now(UTC) - datetime.fromisoformat(at())).total_seconds() + seconds


async def ran_before(shop: Shop, count: int, before: float) -> None:
    """So many runs of the job `load`, five minutes apart, the last one as long before a second."""
    runs = [wrote("load", before - 300 * n, "marts.orders", took=30)[1] for n in range(count, 0, -1)]
    for start in range(0, count, 100):
        await shop.send(*runs[start : start + 100])
    await shop.work()


# --- when it ends ---


async def test_an_incident_of_a_job_that_runs_all_day_ends_when_the_job_completes(shop: Shop) -> None:
    await ran_before(shop, 280, 0)
    await shop.send_and_work(*wrote("load", 0, "marts.orders", state="FAIL", took=30))
    assert (await shop.incident())["status"] == "open"

    await shop.send_and_work(*wrote("load", 300, "marts.orders", took=30))

    found = await shop.incident()
    assert (found["status"], found["resolution"], found["resolved_at"]) == ("resolved", "the job completed", at(300))


async def test_a_run_that_began_days_before_the_failure_ends_the_incident(shop: Shop) -> None:
    backfill = wrote("load", 600, "marts.orders", took=3 * DAY)
    await shop.send_and_work(backfill[0], *wrote("load", 0, "marts.orders", state="FAIL"))
    assert (await shop.incident())["status"] == "open"

    await shop.send_and_work(backfill[1])

    assert (await shop.incident())["resolved_at"] == at(600)


async def test_a_job_that_completes_after_very_many_failures_ends_the_incident(shop: Shop) -> None:
    await shop.send_and_work(*wrote("load", 0, "marts.orders", state="FAIL"))
    await shop.db.execute(
        "INSERT INTO job_runs (organization_id, run_id, job_id, job_ids, state, started_at, fail_at, last_event_at, "
        "producer) SELECT organization_id, gen_random_uuid(), job_id, job_ids, 'FAIL', fail_at + n * interval '1 s', "
        "fail_at + n * interval '1 s', fail_at, producer FROM job_runs CROSS JOIN generate_series(1, 1500) n "
        "WHERE organization_id = $1",
        shop.tenant.organization_id,
    )
    await shop.send_and_work(*wrote("load", HOUR, "marts.orders"))

    assert (await shop.incident())["status"] == "resolved"


class Often:
    """One job with so many runs within a day, each a few seconds long, that ends with now."""

    def __init__(self, db: asyncpg.Connection, organization_id: UUID, count: int) -> None:
        self._db = db
        self.organization_id = organization_id
        self.count = count
        self.job, self.dataset = uuid4(), uuid4()

    async def fill(self) -> None:
        own = self.organization_id
        await self._db.execute(
            "INSERT INTO datasets (organization_id, id, namespace, name, display_name, first_seen_at) "
            "VALUES ($1, $2, 'db', 't', 't', $3)",
            *(own, self.dataset, NOW),
        )
        await self._db.execute(
            "INSERT INTO jobs (organization_id, id, namespace, name, first_seen_at) VALUES ($1, $2, 'n', 'j', $3)",
            *(own, self.job, NOW),
        )
        await self._db.execute(
            "INSERT INTO job_datasets (organization_id, job_id, dataset_id, role, first_seen_at, last_seen_at, "
            "last_completed_at) VALUES ($1, $2, $3, 'output', $4, $4, $4)",
            *(own, self.job, self.dataset, NOW),
        )
        await self._db.execute(
            "INSERT INTO job_runs (organization_id, run_id, job_id, job_ids, state, started_at, complete_at, "
            "last_event_at, output_ids, producer, verdicts) "
            "SELECT $1, gen_random_uuid(), $2, ARRAY[$2::uuid], 'COMPLETE', t.at - interval '5 s', t.at, t.at, "
            'ARRAY[$3::uuid], $4, \'{"duration_ms": {"state": "normal"}}\' FROM generate_series(0, $5 - 1) n '
            "CROSS JOIN LATERAL (SELECT $6::timestamptz - n * interval '1 day' / $5 AS at) t",
            *(own, self.job, self.dataset, PRODUCER, self.count, NOW),
        )

    async def add_run(
        self,
        started_at: datetime,
        ended_at: datetime | None,
        *,
        came_at: datetime = NOW,
        processing_type: str = "batch",
    ) -> UUID:
        run_id = uuid4()
        await self._db.execute(
            "INSERT INTO job_runs (organization_id, run_id, job_id, job_ids, state, started_at, complete_at, "
            "last_event_at, output_ids, producer, created_at, updated_at, processing_type, verdicts) "
            "VALUES ($1, $2, $3, ARRAY[$3::uuid], $10, $4, $5, $4, ARRAY[$6::uuid], $7, $8, $8, $9, "
            '\'{"duration_ms": {"state": "normal"}}\')',
            *(self.organization_id, run_id, self.job, started_at, ended_at, self.dataset, PRODUCER, came_at),
            *(processing_type, "RUNNING" if ended_at is None else "COMPLETE"),
        )
        return run_id

    async def add_metric(self, measured_at: datetime, came_at: datetime) -> None:
        await self._db.execute(
            "INSERT INTO dataset_metrics (organization_id, dataset_id, measured_at, run_id, direction, row_count, "
            "created_at, verdicts) VALUES ($1, $2, $3, gen_random_uuid(), 'output', 10, $4, "
            '\'{"row_count": {"state": "normal"}}\')',
            *(self.organization_id, self.dataset, measured_at, came_at),
        )

    async def an_anomaly(self, metric: str = "duration_ms") -> UUID:
        """Of a metric of the job or of its dataset."""
        anomaly_id: UUID = await self._db.fetchval(
            "INSERT INTO anomalies (organization_id, anomaly_type, severity, status, source, metric, description, "
            "job_uuid, observed_at) VALUES ($1, 'SlowRun', 'WARNING', 'OPEN', 'detector', $4, 'odd', $2, $3) "
            "RETURNING id",
            *(self.organization_id, self.job, NOW, metric),
        )
        return anomaly_id

    async def end_of(self, database: Database, kind: str, after: datetime, anomaly: UUID | None = None) -> Any:
        """When a symptom of the job ended, and how many rows it took to know."""
        async with database.tenant(self.organization_id) as conn:
            before = await conn.fetchval(READ)
            found = await conn.fetchval(
                "SELECT e.at FROM symptom_end($1, jsonb_populate_record(NULL::incident_symptoms, jsonb_build_object("
                "'type', $2::text, 'job_id', $3::uuid, 'anomaly_id', $5::uuid, 'created_at', $4::timestamptz, "
                "'last_observed_at', $4::timestamptz, 'dataset_id', $6::uuid)), $4) e",
                *(self.organization_id, kind, self.job, after, anomaly, self.dataset),
            )
            return found, await conn.fetchval(READ) - before

    async def behind(self, database: Database, moment: datetime) -> tuple[UUID, int]:
        """The run behind the dataset at a moment, and how many rows it took to know."""
        async with database.tenant(self.organization_id) as conn:
            before = await conn.fetchval(READ)
            found = await conn.fetchval(
                "SELECT run_id FROM runs_behind($1, ARRAY[$2::uuid], ARRAY[$3::timestamptz])",
                *(self.organization_id, self.dataset, moment),
            )
            return found, await conn.fetchval(READ) - before


@pytest.fixture(params=[10, 10_000], ids=["ten runs", "ten thousand runs"])
async def often(request: pytest.FixtureRequest, db: asyncpg.Connection) -> Often:
    made = Often(db, await an_organization(db), request.param)
    await made.fill()
    return made


@pytest.mark.parametrize("kind", ["RunFailed", "StuckRun", "SlowRun"])
async def test_the_end_is_found_in_a_few_rows_however_often_the_job_ran(
    database: Database, often: Often, kind: str
) -> None:
    anomaly = await often.an_anomaly() if kind == "SlowRun" else None
    found, read = await often.end_of(database, kind, NOW - timedelta(seconds=1), anomaly)

    assert found == NOW
    assert read < 20, read


@pytest.mark.parametrize("kind", ["RunFailed", "SlowRun"])
async def test_what_a_clock_ahead_has_told_before_ends_nothing_later(
    database: Database, often: Often, kind: str
) -> None:
    anomaly = await often.an_anomaly() if kind == "SlowRun" else None
    await often.add_run(NOW + timedelta(days=2), NOW + timedelta(days=2), came_at=NOW - timedelta(hours=1))

    assert (await often.end_of(database, kind, NOW, anomaly))[0] is None

    await often.add_run(NOW, NOW + timedelta(days=2), came_at=NOW + timedelta(seconds=30))
    found, _ = await often.end_of(database, kind, NOW, anomaly)
    assert NOW < found <= datetime.now(UTC), "what comes in later counts, from when it came in at the latest"


# --- clocks that are ahead ---


async def test_a_figure_by_a_clock_that_is_ahead_ends_no_anomaly_that_comes_in_later(
    database: Database, often: Often
) -> None:
    anomaly, ahead = await often.an_anomaly("row_count"), NOW + timedelta(days=2)
    await often.add_metric(ahead, NOW - timedelta(hours=1))
    assert (await often.end_of(database, "RowCountDrop", NOW, anomaly))[0] is None

    await often.add_metric(ahead + timedelta(hours=1), NOW + timedelta(seconds=30))

    found, _ = await often.end_of(database, "RowCountDrop", NOW, anomaly)
    assert NOW < found <= datetime.now(UTC)


async def test_a_node_published_by_a_clock_that_is_ahead_opens_no_gate_that_is_shut_later(shop: Shop) -> None:
    await shop.send_and_work(a_node_end(a_run_id(), seconds=from_now(2 * DAY)))
    await shop.send_and_work(a_node_end(a_run_id(), status="stopped", seconds=from_now(-60), **a_full_record()))
    found = await shop.incident()
    assert (found["kind"], found["status"]) == ("GateBlocked", "open")

    await shop.send_and_work(a_node_end(a_run_id(), seconds=from_now()))

    assert (await shop.incident())["status"] == "resolved"


async def test_a_run_by_a_clock_that_is_ahead_hides_no_failure_that_comes_in_later(shop: Shop) -> None:
    await shop.send_and_work(*wrote("load", from_now(2 * DAY), "marts.orders"))
    await shop.send_and_work(*wrote("load", from_now(-180), "marts.orders", state="FAIL"))
    assert (await shop.incident())["status"] == "open"
    await shop.send_and_work(*wrote("load", from_now(-60), "marts.orders", state="FAIL"))
    found = await shop.incident()
    assert (found["status"], found["open_symptom_count"]) == ("open", 2)

    await shop.send_and_work(*wrote("load", from_now(-30), "marts.orders"))

    assert (await shop.incident())["status"] == "resolved"


@pytest.mark.parametrize("passes", ["test", "run"])
async def test_no_incident_ends_later_than_now(shop: Shop, passes: str) -> None:
    ahead = from_now(2 * DAY)
    if passes == "test":
        await shop.send_and_work(checked("marts.orders", from_now(-60), ("not_null", "id", False)))
        await shop.send_and_work(checked("marts.orders", ahead, ("not_null", "id", True)))
    else:
        await shop.send_and_work(*wrote("load", from_now(-60), "marts.orders", state="FAIL"))
        await shop.send_and_work(*wrote("load", ahead, "marts.orders"))

    found = await shop.incident()
    assert found["status"] == "resolved"
    for told in (found["resolved_at"], found["symptoms"][0]["cleared_at"]):
        assert datetime.fromisoformat(told) <= datetime.now(UTC)


# --- who had produced it ---


@pytest.mark.parametrize("count", [1, 20, 60])
async def test_a_long_run_that_others_of_its_job_overlap_has_produced_what_it_wrote_last(
    shop: Shop, count: int
) -> None:
    backfill = a_run_id()
    await shop.send(*wrote("load", -HOUR, "marts.orders", run=backfill, took=71 * HOUR))
    for n in range(count):
        await shop.send(*wrote("load", -70 * HOUR + n * HOUR, "marts.orders"))
    await shop.work()
    await shop.send_and_work(checked("marts.orders", -HOUR / 2, ("not_null", "id", False)))

    assert (await shop.incident())["run_id"] == backfill


async def test_who_had_produced_is_found_in_a_few_rows_however_often_the_job_ran(
    database: Database, often: Often
) -> None:
    last = await often.add_run(NOW - timedelta(days=9), NOW - timedelta(seconds=1))
    await often.add_run(NOW - timedelta(days=9), NOW + timedelta(seconds=5))

    found, read = await often.behind(database, NOW - timedelta(milliseconds=500))

    assert found == last
    assert read < 30, read


async def test_a_run_that_need_not_end_has_produced_what_it_writes(database: Database, often: Often) -> None:
    streaming = await often.add_run(NOW - timedelta(seconds=2), None, processing_type="streaming")

    assert (await often.behind(database, NOW))[0] == streaming
