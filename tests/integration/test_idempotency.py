"""The same event again: a duplicate for a day, harmless after that, and forgotten in batches."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from headgate.server.db.pool import Database
from headgate.server.tasks import jobs
from headgate.server.worker import Worker
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.ingest import BATCH, EVENTS, post
from tests.support.server import Server, Tenant
from tests.support.stored import Stored

# All that an event can change, but for the log and the count of events.
MODEL = (
    "datasets", "dataset_aliases", "dataset_facets", "jobs", "job_datasets", "lineage_edges", "column_lineage_edges",
    "schema_versions", "dataset_metrics", "test_results", "stage_metrics", "async_task",
)  # fmt: skip


async def tended(database: Database) -> None:
    """All recurring work is done once."""
    worker = Worker(database, jobs.KINDS)
    await worker.schedule()
    assert await worker.drain() > 0


@pytest.fixture
async def tenant(server: Server) -> Tenant:
    return server.tenant


@pytest.fixture
async def stored(tenant: Tenant, db: asyncpg.Connection) -> Stored:
    return Stored(db, tenant.organization_id)


async def age_keys(stored: Stored, hours: float) -> None:
    """Let time pass for everything that is remembered."""
    await stored.db.execute(
        "UPDATE idempotency_keys SET created_at = created_at - make_interval(secs => $1)", hours * 3600
    )


def telling_event(run: str | None = None, event_type: str = "COMPLETE", **more: Any) -> Json:
    """An event with something for every table."""
    columns = {"id": {"inputFields": [{"namespace": "postgres://db:5432", "name": "a", "field": "id"}]}}
    test = {"assertion": "not_null", "success": False, "column": "id"}
    return an_event(
        event_type,
        run=run,
        run_facets={
            "errorMessage": a_facet(message="odd"),
            "headgate_stages": a_facet(stages=[{"stage_id": 1, "num_tasks": 3}]),
        },
        job_facets={"jobType": a_facet(processingType="BATCH", integration="SPARK", jobType="JOB")},
        inputs=[
            a_dataset("a", facets=with_schema("id"), inputFacets={"dataQualityAssertions": a_facet(assertions=[test])})
        ],
        outputs=[
            a_dataset(
                "x",
                facets=with_schema("id") | {"columnLineage": a_facet(fields=columns)},
                outputFacets={"outputStatistics": a_facet(rowCount=5, size=10)},
            )
        ],
        **more,
    )


async def test_an_event_is_a_duplicate_for_a_day(tenant: Tenant, stored: Stored) -> None:
    event = an_event()
    await tenant.send_ok(event)
    await age_keys(stored, 23.9)
    assert (await tenant.send(event)).status_code == 200
    assert len(await stored.log()) == 1


async def test_after_a_day_an_event_is_logged_again_and_changes_nothing(tenant: Tenant, stored: Stored) -> None:
    event = telling_event()
    await tenant.send_ok(event)
    before = await stored.everything(MODEL)
    run = await tenant.run(event["run"]["runId"])
    await age_keys(stored, 24.1)

    assert (await tenant.send(event)).status_code == 201

    assert len(await stored.log()) == 2
    assert await stored.everything(MODEL) == before
    assert await tenant.run(event["run"]["runId"]) | {"event_count": 1} == run


async def test_after_a_day_the_day_begins_anew(tenant: Tenant, stored: Stored) -> None:
    event = an_event()
    await tenant.send_ok(event)
    await age_keys(stored, 25)
    assert [(await tenant.send(event)).status_code for _ in range(3)] == [201, 200, 200]


async def test_a_whole_run_resent_after_a_day_stays_as_it_was(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    events = [telling_event(run, event_type="START", time=at(0)), telling_event(run, time=at(9))]
    await tenant.send_ok(*events)
    # A third look makes the uses known, so that nothing but times can still move.
    await tenant.send_ok(telling_event(time=at(20)), telling_event(time=at(30)))
    await asyncio.sleep(0.3)
    before = await stored.everything(MODEL)
    await age_keys(stored, 25)

    await tenant.send_ok(*events)
    await asyncio.sleep(0.3)

    assert await stored.everything(MODEL) == before


async def test_two_different_events_of_one_instant_both_survive(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    one = an_event("RUNNING", run=run, inputs=[a_dataset("a")])
    other = an_event("RUNNING", run=run, inputs=[a_dataset("b")])
    await tenant.send_ok(one, other)
    assert len(await stored.log(run)) == 2
    assert [dataset["name"] for dataset in (await tenant.run(run))["inputs"]] == ["a", "b"]


async def test_a_refused_event_is_not_remembered(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event("COMPLETE", run=run, time=at(5)))
    late = an_event("FAIL", run=run, time=at(9))
    assert [(await tenant.send(late)).status_code for _ in range(3)] == [422, 422, 422]
    assert await stored.count("idempotency_keys") == 1


async def test_an_event_refused_for_its_fields_is_not_remembered(tenant: Tenant, stored: Stored) -> None:
    wrong = an_event("DONE")
    assert [(await tenant.send(wrong)).status_code for _ in range(2)] == [422, 422]
    assert (await stored.count("idempotency_keys"), await stored.count("refused_events")) == (0, 2)


async def test_the_same_event_under_another_organisation_is_another_event(server: Server, stored: Stored) -> None:
    event = an_event()
    second = await server.add_tenant("Second")
    await server.tenant.send_ok(event)
    assert (await second.send(event)).status_code == 201


@pytest.mark.parametrize(
    "spelling",
    [{"separators": (",", ":")}, {"indent": 1}, {"sort_keys": True}],
    ids=["tight", "indented", "sorted"],
)
async def test_only_the_same_bytes_are_the_same_event(tenant: Tenant, stored: Stored, spelling: dict[str, Any]) -> None:
    event = an_event()
    raw = json.dumps(event).encode()
    assert (await tenant.send(raw)).status_code == 201
    assert (await tenant.send(json.dumps(event, **spelling).encode())).status_code == 201
    assert (await tenant.send(raw)).status_code == 200


async def test_a_single_event_and_the_same_in_a_batch_are_one(tenant: Tenant, stored: Stored) -> None:
    raw = json.dumps(an_event()).encode()
    assert (await tenant.send(raw)).status_code == 201
    answer = (await post(tenant, BATCH, b"[\n  " + raw + b" , " + raw + b"\n]")).json()
    assert answer["summary"]["duplicates"] == 2
    assert len(await stored.log()) == 1


async def test_the_same_event_twice_in_one_batch_is_stored_once(tenant: Tenant, stored: Stored) -> None:
    raw = json.dumps(telling_event()).encode()
    answer = (await post(tenant, EVENTS, b"[" + raw + b"," + raw + b"]")).json()
    assert [result["message"] for result in answer["results"]] == ["stored", "duplicate"]
    assert (len(await stored.log()), len(await stored.metrics()), len(await stored.tests())) == (1, 1, 1)


async def test_a_refused_event_twice_in_one_batch_is_refused_twice(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event("COMPLETE", run=run, time=at(5)))
    raw = json.dumps(an_event("FAIL", run=run, time=at(9))).encode()
    other = json.dumps(an_event()).encode()
    answer = (await post(tenant, EVENTS, b"[" + b",".join([raw, other, raw]) + b"]")).json()
    assert [result["status"] for result in answer["results"]] == [422, 200, 422]


async def test_fifty_at_once_store_one(tenant: Tenant, stored: Stored) -> None:
    event = telling_event()
    codes = [response.status_code for response in await asyncio.gather(*(tenant.send(event) for _ in range(50)))]
    assert sorted(codes) == [200] * 49 + [201]
    assert len(await stored.log()) == 1
    assert await stored.count("job_runs") == 1
    assert len(await stored.follow_ups("DETECT")) == 1


async def test_an_event_is_stored_once_whichever_routes_bring_it_at_once(tenant: Tenant, stored: Stored) -> None:
    raw = json.dumps(telling_event()).encode()
    single, batch = (("/api/v1/lineage", raw), (BATCH, b"[" + raw + b"]"))
    answers = await asyncio.gather(*(post(tenant, *(single if n % 2 else batch)) for n in range(50)))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert len(await stored.log()) == 1


async def test_expired_keys_are_removed_in_batches(
    tenant: Tenant, stored: Stored, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "CLEANUP_BATCH", 10)
    await post(tenant, BATCH, [an_event() for _ in range(25)])
    await age_keys(stored, 25)
    await post(tenant, BATCH, [an_event() for _ in range(5)])

    await tended(database)

    assert await stored.count("idempotency_keys") == 5


async def test_the_cleanup_comes_back_every_ten_minutes(stored: Stored, database: Database, tenant: Tenant) -> None:
    await tended(database)
    (task,) = await stored.rows(
        """SELECT repeat_s, claim_token, next_run_at - now() AS due_in FROM async_task
            WHERE organization_id = $1 AND task_type = 'CLEAN_KEYS'"""
    )
    assert (task["repeat_s"], task["claim_token"]) == (600, None)
    assert 550 < task["due_in"].total_seconds() <= 600


async def test_each_organisation_is_cleaned_up(server: Server, database: Database, db: asyncpg.Connection) -> None:
    second = await server.add_tenant("Second")
    for tenant in (server.tenant, second):
        await tenant.send_ok(an_event())
    await db.execute("UPDATE idempotency_keys SET created_at = created_at - interval '25 hours'")
    await tended(database)
    assert await db.fetchval("SELECT count(*) FROM idempotency_keys") == 0


async def test_refused_events_are_kept_for_a_week(tenant: Tenant, stored: Stored, database: Database) -> None:
    await tenant.send(an_event("DONE"))
    await stored.db.execute("UPDATE refused_events SET received_at = received_at - interval '8 days'")
    await tenant.send(an_event("UNDONE"))
    await tended(database)
    (kept,) = await stored.rows("SELECT reason, body FROM refused_events WHERE organization_id = $1")
    assert b"UNDONE" in kept["body"]


async def test_a_refused_event_is_kept_with_its_reasons_and_its_beginning(tenant: Tenant, stored: Stored) -> None:
    event = an_event("DONE", run_facets={"x": a_facet(text="x" * 100_000)})
    raw = json.dumps(event).encode()
    await post(tenant, "/api/v1/lineage", raw, x_correlation_id="look-here")
    (kept,) = await stored.rows("SELECT * FROM refused_events WHERE organization_id = $1")
    assert (kept["route"], kept["code"], kept["correlation_id"]) == ("/api/v1/lineage", "fields.invalid", "look-here")
    assert (kept["body"], kept["body_size"]) == (raw[: 64 * 1024], len(raw))
    assert [error["path"] for error in json.loads(kept["errors"])] == ["eventType"]


async def test_a_refused_caller_leaves_nothing(server: Server, stored: Stored) -> None:
    async with server.anonymous() as client:
        assert (await client.post("/api/v1/lineage", json=an_event("DONE"))).status_code == 401
    assert await stored.count("refused_events") == 0
