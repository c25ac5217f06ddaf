"""Lists of runs, narrowed in every way there is."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

import asyncpg
import pytest

from headgate.server.pagination import encode_sorted
from headgate.server.references.datasets import find_dataset
from headgate.server.runs.filters import RunFilter
from headgate.server.runs.order import EARLIEST, RunSlice, RunSort, run_slice
from headgate.server.runs.picking.store import Q, Wanted
from headgate.server.runs.store import RunStore
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.server import Server, Tenant

SPARK = "application_17_0001"


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


def a_parent(run: str, job: str = "dag.task", root: str | None = None, root_job: str = "dag") -> Json:
    facet = a_facet(run={"runId": run}, job={"namespace": "airflow", "name": job})
    if root:
        facet["root"] = {"run": {"runId": root}, "job": {"namespace": "airflow", "name": root_job}}
    return {"parent": facet}


def ago(**span: float) -> str:
    return (datetime.now(UTC) - timedelta(**span)).isoformat()


async def listed(tenant: Tenant, path: str = "/api/v1/runs", **params: Any) -> list[Json]:
    response = await tenant.client.get(path, params=params)
    assert response.status_code == 200, response.text
    items: list[Json] = response.json()["items"]
    return items


async def run_ids(tenant: Tenant, path: str = "/api/v1/runs", **params: Any) -> list[str]:
    return [run["run_id"] for run in await listed(tenant, path, **params)]


async def test_runs_come_latest_start_first_and_page_by_page(tenant: Tenant) -> None:
    runs = [a_run_id() for _ in range(5)]
    await tenant.send_ok(*(an_event("START", run=run, time=at(place)) for place, run in enumerate(runs)))

    first = (await tenant.client.get("/api/v1/runs", params={"limit": 2})).json()
    second = (await tenant.client.get("/api/v1/runs", params={"limit": 2, "cursor": first["next_cursor"]})).json()
    third = (await tenant.client.get("/api/v1/runs", params={"limit": 2, "cursor": second["next_cursor"]})).json()

    found = [run["run_id"] for page in (first, second, third) for run in page["items"]]
    assert found == runs[::-1]
    assert third["next_cursor"] is None


async def paged(tenant: Tenant, path: str = "/api/v1/runs", **params: Any) -> list[str]:
    """Ids of the runs of all pages."""
    found: list[str] = []
    while True:
        page = (await tenant.client.get(path, params=params)).json()
        found += [run["run_id"] for run in page["items"]]
        if page["next_cursor"] is None:
            return found
        params["cursor"] = page["next_cursor"]


FAMILY = "0194f2b0-0000-7000-8000-00000000fa31"
WAYS: list[Json] = [
    {},
    {"job": "tests/orders"},
    {"job_name": "order"},
    {"application_id": SPARK},
    {"parent": FAMILY},
    {"stuck": "true"},
    {"state": "start", "hours": 24 * 365 * 9},
    {"path": "/api/v1/jobs/orders/runs"},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_runs_can_come_earliest_start_first_however_they_are_found(tenant: Tenant, way: Json) -> None:
    runs = [a_run_id() for _ in range(5)]
    facets = {"spark_applicationDetails": a_facet(applicationId=SPARK)} | a_parent(FAMILY)
    for place, run in enumerate(runs):
        await tenant.send_ok(an_event("START", run=run, time=at(place // 2), run_facets=facets))
    latest_first = await paged(tenant, limit=2, **way)

    earliest_first = await paged(tenant, limit=2, sort="started", **way)

    assert sorted(earliest_first) == sorted(runs)
    assert earliest_first[-1] == runs[-1]
    assert earliest_first == latest_first[::-1]


async def test_a_cursor_is_of_the_order_it_was_made_for(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(time=at(0)), an_event(time=at(1)))
    cursor = (await tenant.client.get("/api/v1/runs", params={"limit": 1})).json()["next_cursor"]

    response = await tenant.client.get("/api/v1/runs", params={"limit": 1, "sort": "started", "cursor": cursor})

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "query.cursor"


async def test_runs_are_filtered_by_state(tenant: Tenant) -> None:
    done, failed, open_ = a_run_id(), a_run_id(), a_run_id()
    await tenant.send_ok(
        an_event("COMPLETE", run=done, time=at(2)),
        an_event("FAIL", run=failed, time=at(1)),
        an_event("START", run=open_, time=at(0)),
    )

    assert await run_ids(tenant, state="FAIL") == [failed]
    assert await run_ids(tenant, state="fail") == [failed]
    assert await run_ids(tenant, state=["COMPLETE", "Start"]) == [done, open_]


async def test_a_run_of_which_only_the_end_is_known_has_no_duration(tenant: Tenant) -> None:
    end_only, instant, seen_running = a_run_id(), a_run_id(), a_run_id()
    await tenant.send_ok(
        an_event("COMPLETE", run=end_only, time=at(9)),
        an_event("START", run=instant, time=at(9)),
        an_event("COMPLETE", run=instant, time=at(9)),
        an_event("RUNNING", run=seen_running, time=at(5)),
        an_event("COMPLETE", run=seen_running, time=at(9)),
    )

    assert {run["run_id"]: run["duration_ms"] for run in await listed(tenant)} == {
        end_only: None,
        instant: 0,
        seen_running: 4000,
    }


async def test_runs_of_which_only_the_end_is_known_say_nothing_of_how_long_others_take(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(
        *(an_event("COMPLETE", time=ago(days=day)) for day in range(1, 7)),
        an_event("START", run=run, time=ago(hours=1)),
    )

    assert (await tenant.run(run))["is_stuck"] is False


async def test_runs_are_filtered_by_job(tenant: Tenant) -> None:
    orders, payments = a_run_id(), a_run_id()
    await tenant.send_ok(
        an_event(run=orders, job="Daily_Orders", namespace="s3://lake/jobs"),
        an_event(run=payments, job="payments", namespace="shop"),
    )

    assert await run_ids(tenant, job="s3://lake/jobs/Daily_Orders") == [orders]
    assert await run_ids(tenant, job_name="ORDER") == [orders]
    assert await run_ids(tenant, job_name="nothing like it") == []
    job = (await tenant.run(payments))["job"]["id"]
    assert await run_ids(tenant, job=job) == [payments]
    assert await run_ids(tenant, job=job, state="FAIL") == []


async def test_a_part_of_a_name_that_many_jobs_have_finds_runs_of_all_of_them(tenant: Tenant) -> None:
    runs = [a_run_id() for _ in range(25)]
    await tenant.send_ok(*(an_event(run=run, job=f"load_{i}", time=at(i)) for i, run in enumerate(runs)))
    await tenant.send_ok(an_event(job="other", time=at(99)))

    assert await run_ids(tenant, job_name="load") == runs[::-1]


async def test_a_run_is_found_by_each_of_its_jobs(tenant: Tenant) -> None:
    run, other = a_run_id(), a_run_id()
    await tenant.send_ok(
        an_event("START", run=run, job="one", time=at(0)),
        an_event("RUNNING", run=run, job="two", time=at(1)),
        an_event("COMPLETE", run=other, job="two", time=at(2)),
    )

    assert await run_ids(tenant, job="tests/one") == [run]
    assert await run_ids(tenant, job="tests/two") == [other, run]
    assert await run_ids(tenant, "/api/v1/jobs/two/runs") == [other, run]


async def test_runs_are_filtered_by_application_and_parent(tenant: Tenant) -> None:
    parent, child, grandchild = a_run_id(), a_run_id(), a_run_id()
    details = {"spark_applicationDetails": a_facet(applicationId=SPARK)}
    await tenant.send_ok(
        an_event(run=parent, job="app", time=at(0), run_facets=details),
        an_event(run=child, job="app.query", time=at(1), run_facets=details | a_parent(parent, "app")),
        an_event(run=grandchild, job="app.query.part", time=at(2), run_facets=a_parent(child, "app.query")),
    )

    assert await run_ids(tenant, application_id=SPARK) == [child, parent]
    assert await run_ids(tenant, application_id=SPARK, job="tests/app") == [parent]
    assert await run_ids(tenant, parent=parent) == [child]
    assert await run_ids(tenant, parent=child, state="COMPLETE") == [grandchild]
    assert await run_ids(tenant, application_id="application_none") == []


async def test_runs_are_filtered_by_partition_context(tenant: Tenant) -> None:
    us, de = a_run_id(), a_run_id()
    for run, country, second in ((us, "US", 0), (de, "DE", 1)):
        path = f"warehouse/orders/country={country}/dt=2026-03-01"
        await tenant.send_ok(an_event(run=run, time=at(second), outputs=[a_dataset(path, "s3://lake")]))

    assert (await tenant.run(us))["partition_context"] == {"country": "US", "dt": "2026-03-01"}
    assert await run_ids(tenant, country="US") == [us]
    assert await run_ids(tenant, partition="country:DE") == [de]
    assert await run_ids(tenant, partition=["country:DE", "dt:2026-03-01"]) == [de]
    assert await run_ids(tenant, partition=["country:DE", "dt:2026-03-02"]) == []
    assert await run_ids(tenant, partition="dt:2026-03-01", job="tests/orders") == [de, us]


async def test_runs_are_filtered_by_hours_and_tests(tenant: Tenant) -> None:
    old, new, test = a_run_id(), a_run_id(), a_run_id()
    facets = {"jobType": a_facet(jobType="TEST", integration="DBT", processingType="BATCH")}
    await tenant.send_ok(
        an_event(run=old, time=ago(hours=30)),
        an_event(run=new, time=ago(hours=3)),
        an_event(run=test, job="check", time=ago(hours=2), job_facets=facets),
    )

    assert await run_ids(tenant, hours=24) == [test, new]
    assert await run_ids(tenant, hours=24, job_name="orders") == [new]
    assert await run_ids(tenant, is_test="true") == [test]
    assert await run_ids(tenant, is_test="false") == [new, old]


async def found_in_pages(
    server: Server, asked: RunFilter, limit: int, max_looked_at: int, sort: RunSort = RunSort.latest_first
) -> list[list[str]]:
    """Ids of the runs of each page, by looks that end early."""
    pages: list[list[str]] = []
    page = RunSlice(limit, sort)
    async with server.database.tenant(server.tenant.organization_id) as conn:
        store = RunStore(conn, server.tenant.organization_id, max_looked_at=max_looked_at)
        while not pages or page.place:
            answer = await store.page(asked, page)
            pages.append([str(run.run_id) for run in answer.items])
            page = await run_slice(sort, limit, answer.next_cursor)
    return pages


@pytest.mark.parametrize("way", [{}, {"job": "tests/orders"}, {"application_id": SPARK}, {"parent": UUID(FAMILY)}])
async def test_a_search_that_finds_little_says_where_it_goes_on(server: Server, way: Json) -> None:
    runs = [a_run_id() for _ in range(10)]
    facets = {"spark_applicationDetails": a_facet(applicationId=SPARK)} | a_parent(FAMILY)
    for place, run in enumerate(runs):
        state = "FAIL" if place in (0, 4) else "COMPLETE"
        await server.tenant.send_ok(an_event(state, run=run, time=at(place), run_facets=facets))
    asked = RunFilter(states=("FAIL",), **way)

    pages = await found_in_pages(server, asked, 100, max_looked_at=3)

    assert pages == [[], [runs[4]], [], [runs[0]]]
    upward = await found_in_pages(server, asked, 100, 3, RunSort.earliest_first)
    assert upward == [[runs[0]], [runs[4]], [], []]


@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_no_job_gets_ahead_of_another_whose_runs_were_not_all_looked_at(server: Server, limit: int) -> None:
    courses = {"load_a": [(20, "COMPLETE"), (19, "COMPLETE"), (18, "COMPLETE"), (10, "FAIL")]}
    courses["load_b"] = [(9, "FAIL"), (8, "FAIL"), (7, "FAIL")]
    failed = []
    for job, course in courses.items():
        for second, state in course:
            run = a_run_id()
            await server.tenant.send_ok(an_event(state, run=run, job=job, time=at(second)))
            failed += [run] if state == "FAIL" else []

    pages = await found_in_pages(server, RunFilter(states=("FAIL",), job_name="load_"), limit, max_looked_at=4)

    assert [run for page in pages for run in page] == failed


async def test_a_run_that_takes_longer_than_almost_all_before_it_is_stuck(tenant: Tenant) -> None:
    for day in range(1, 6):
        run, begin = a_run_id(), datetime.now(UTC) - timedelta(days=day)
        await tenant.send_ok(
            an_event("START", run=run, time=begin.isoformat()),
            an_event("COMPLETE", run=run, time=(begin + timedelta(minutes=20)).isoformat()),
        )
    slow, young = a_run_id(), a_run_id()
    await tenant.send_ok(
        an_event("START", run=slow, time=ago(minutes=25)), an_event("START", run=young, time=ago(minutes=15))
    )

    late, fine = await tenant.run(slow), await tenant.run(young)

    assert (late["is_stuck"], fine["is_stuck"]) == (True, False)
    assert late["stuck_since"] == late["expected_end"]
    expected = datetime.fromisoformat(late["expected_end"]) - datetime.fromisoformat(late["started_at"])
    assert expected == timedelta(minutes=21)
    assert fine["stuck_since"] is None
    assert await run_ids(tenant, stuck="true") == [slow]
    assert await run_ids(tenant, stuck="true", job_name="nothing") == []
    assert slow not in await run_ids(tenant, stuck="false")
    assert young in await run_ids(tenant, stuck="false")


async def test_without_history_a_run_is_stuck_after_a_day_unless_it_streams(tenant: Tenant) -> None:
    streaming = {"jobType": a_facet(processingType="STREAMING", integration="FLINK", jobType="JOB")}
    day, hours, stream, passing = a_run_id(), a_run_id(), a_run_id(), a_run_id()
    await tenant.send_ok(
        an_event("START", run=day, job="a", time=ago(hours=25)),
        an_event("RUNNING", run=hours, job="b", time=ago(hours=23)),
        an_event("START", run=stream, job="c", time=ago(days=30), job_facets=streaming),
        an_event("OTHER", run=passing, job="d", time=ago(days=30)),
    )

    assert await run_ids(tenant, stuck="true") == [day]
    assert (await tenant.run(stream))["expected_end"] is None
    assert (await tenant.run(passing))["expected_end"] is None


async def test_a_late_end_frees_a_stuck_run(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event("START", run=run, time=ago(days=3)))
    assert (await tenant.run(run))["is_stuck"]

    await tenant.send_ok(an_event("FAIL", run=run, time=ago(days=2)))

    found = await tenant.run(run)
    assert (found["is_stuck"], found["expected_end"], found["state"]) == (False, None, "FAIL")


async def test_runs_of_a_dataset_by_what_they_did_with_it(tenant: Tenant) -> None:
    writer, reader, both, neither = (a_run_id() for _ in range(4))
    orders = a_dataset("orders")
    await tenant.send_ok(
        an_event(run=writer, job="write", time=at(0), outputs=[orders]),
        an_event(run=reader, job="read", time=at(1), inputs=[orders]),
        an_event(run=both, job="update", time=at(2), inputs=[orders], outputs=[orders]),
        an_event(run=neither, job="write", time=at(3), outputs=[a_dataset("payments")]),
    )

    path = f"/api/v1/datasets/{quote('postgres://db:5432/orders', safe='')}/runs"
    assert await run_ids(tenant, path) == [both, reader, writer]
    assert await run_ids(tenant, path, role="read") == [both, reader]
    assert await run_ids(tenant, path, role="write") == [both, writer]
    page = (await tenant.client.get(path, params={"limit": 2})).json()
    assert await run_ids(tenant, path, cursor=page["next_cursor"]) == [writer]
    assert (await tenant.client.get("/api/v1/datasets/odrers/runs")).status_code == 404


async def test_a_dataset_of_a_run_of_several_jobs_leads_to_that_run(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(
        an_event("START", run=run, job="one", time=at(0)),
        an_event("RUNNING", run=run, job="two", time=at(1), outputs=[a_dataset("orders")]),
    )

    assert await run_ids(tenant, "/api/v1/datasets/orders/runs", role="write") == [run]


@pytest.mark.parametrize("max_looked_at", [1, 4, 1000])
async def test_all_runs_of_a_dataset_are_reached_however_little_is_looked_at(
    server: Server, max_looked_at: int
) -> None:
    orders, users = a_dataset("orders"), []
    for second in range(12):
        run, uses = a_run_id(), second in (0, 1, 5, 11)
        users += [run] if uses else []
        outputs = [orders] if uses else [a_dataset("payments")]
        await server.tenant.send_ok(an_event(run=run, job=f"job_{second % 3}", time=at(second), outputs=outputs))

    assert await run_ids(server.tenant, "/api/v1/datasets/orders/runs") == users[::-1]

    found, page, is_first = [], RunSlice(2), True
    async with server.database.tenant(server.tenant.organization_id) as conn:
        store = RunStore(conn, server.tenant.organization_id, max_looked_at=max_looked_at)
        dataset = await find_dataset(conn, server.tenant.organization_id, "orders")
        while is_first or page.place:
            answer = await store.of_dataset(dataset, ["output"], page)
            found += [str(run.run_id) for run in answer.items]
            page, is_first = await run_slice(RunSort.latest_first, 2, answer.next_cursor), False

    assert found == users[::-1]


COPIES = """
INSERT INTO headgate.job_runs (organization_id, run_id, job_id, job_ids, state, started_at, last_event_at, producer,
                               parent_run_id, application_id)
SELECT r.organization_id, gen_random_uuid(), r.job_id, r.job_ids, 'START', r.started_at + n * interval '1 second',
       r.last_event_at, r.producer, md5((n / 10)::text)::uuid, 'application_' || n / 10
  FROM headgate.job_runs r
 CROSS JOIN generate_series(1, 20000) AS n
"""


@pytest.mark.parametrize("is_analyzed", [False, True])
@pytest.mark.parametrize("query", ["pick_child_runs", "pick_child_runs_rising"])
async def test_runs_under_a_parent_are_found_by_it(
    server: Server, db: asyncpg.Connection, query: str, is_analyzed: bool
) -> None:
    await _make_copies(server, db, is_analyzed=is_analyzed)

    assert await _indexes_used(server, query, None, UUID(int=7)) == {"job_runs_parent"}


@pytest.mark.parametrize("is_analyzed", [False, True])
@pytest.mark.parametrize("query", ["pick_application_runs", "pick_application_runs_rising"])
async def test_runs_of_an_application_are_found_by_it(
    server: Server, db: asyncpg.Connection, query: str, is_analyzed: bool
) -> None:
    await _make_copies(server, db, is_analyzed=is_analyzed)

    assert await _indexes_used(server, query, "application_7", None) == {"job_runs_application"}


async def _make_copies(server: Server, db: asyncpg.Connection, *, is_analyzed: bool) -> None:
    await server.tenant.send_ok(an_event(time=at(0)))
    await db.execute(COPIES)
    if is_analyzed:
        await db.execute("ANALYZE headgate.job_runs")


async def _indexes_used(server: Server, query: str, application_id: str | None, parent: UUID | None) -> set[str]:
    sort = RunSort.earliest_first if query.endswith("_rising") else RunSort.latest_first
    fits = Wanted(RunFilter(application_id=application_id, parent=parent)).arguments()
    async with server.database.tenant(server.tenant.organization_id) as conn:
        plan = await conn.fetchval(
            f"EXPLAIN (FORMAT JSON) {getattr(Q, query)}",
            *(server.tenant.organization_id, *RunSlice(100, sort).begin, EARLIEST, 101, *fits, 101),
        )
    return set(re.findall(r'"Index Name": "(\w+)"', plan))


BAD: list[tuple[Json, str]] = [
    ({"state": "BROKEN"}, "query.state"),
    ({"hours": 0}, "query.hours"),
    ({"hours": "soon"}, "query.hours"),
    ({"hours": 10**30}, "query.hours"),
    ({"parent": "x"}, "query.parent"),
    ({"stuck": "perhaps"}, "query.stuck"),
    ({"partition": "US"}, "query.partition"),
    ({"partition": ":US"}, "query.partition"),
    ({"application_id": ""}, "query.application_id"),
    ({"job_name": "x" * 10_000}, "query.job_name"),
    ({"limit": 1001}, "query.limit"),
    ({"cursor": "???"}, "query.cursor"),
    ({"cursor": encode_sorted("-started", "soon", UUID(int=1))}, "query.cursor"),
    ({"cursor": encode_sorted("-started", None, UUID(int=1))}, "query.cursor"),
    ({"cursor": encode_sorted("-started", "0001-01-01T00:00:00+10:00", UUID(int=1))}, "query.cursor"),
    ({"sort": "-duration"}, "query.sort"),
]


@pytest.mark.parametrize(("params", "field"), BAD, ids=[str(params)[:24] for params, _ in BAD])
async def test_a_wrong_parameter_is_named(tenant: Tenant, params: Json, field: str) -> None:
    response = await tenant.client.get("/api/v1/runs", params=params)

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"].startswith(field)


PATHS = ("", "/events", "/stages", "/stages/1")


@pytest.mark.parametrize("rest", PATHS)
async def test_runs_of_others_are_as_unknown_as_any(server: Server, rest: str) -> None:
    other, run = await server.add_tenant("Second"), a_run_id()
    await other.send_ok(an_event(run=run))

    theirs = await server.client.get(f"/api/v1/runs/{run}{rest}")
    nobodys = await server.client.get(f"/api/v1/runs/{a_run_id()}{rest}")

    assert theirs.status_code == nobodys.status_code == 404
    assert theirs.json()["detail"] == f"no run {run!r}"
    assert (await server.client.get(f"/api/v1/runs/nothing{rest}")).status_code == 422
    assert await run_ids(server.tenant) == []
