"""Jobs: lists, single jobs, how they are doing, and how one is named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from headgate.server.pagination import SortedPage, sorted_page
from headgate.server.runs.jobs.store import JobFilter, JobStore
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.golden import golden
from tests.support.server import Server, Tenant


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


def ago(**span: float) -> str:
    return (datetime.now(UTC) - timedelta(**span)).isoformat()


def a_type(job_type: str = "JOB", integration: str = "SPARK", processing: str = "BATCH") -> Json:
    return {"jobType": a_facet(jobType=job_type, integration=integration, processingType=processing)}


async def get(tenant: Tenant, path: str, **params: Any) -> Json:
    response = await tenant.client.get(f"/api/v1/{path}", params=params)
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


async def names(tenant: Tenant, **params: Any) -> list[str]:
    return [job["name"] for job in (await get(tenant, "jobs", **params))["items"]]


async def test_jobs_come_by_name_and_page_by_page(tenant: Tenant) -> None:
    for name in ("b", "é/ü:1", "a", "B", "a b", "c"):
        await tenant.send_ok(an_event(job=name))
    await tenant.send_ok(an_event(job="a", namespace="other"))

    found, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = await get(tenant, "jobs", limit=2, **({"cursor": cursor} if cursor else {}))
        found += [job["name"] for job in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1

    assert found == ["B", "a", "a", "a b", "b", "c", "é/ü:1"]
    assert pages == 4


@pytest.mark.parametrize("narrowed", [{}, {"namespace": "tests"}, {"text": "tests/"}], ids=str)
async def test_jobs_can_come_by_name_from_the_last_to_the_first(tenant: Tenant, narrowed: Json) -> None:
    for name in ("b", "é", "a", "B", "\U0010ffff\U0010ffff\U0010ffff"):
        await tenant.send_ok(an_event(job=name))
    await tenant.send_ok(an_event(job="c", namespace="other"))
    up = [job["id"] for job in (await get(tenant, "jobs", **narrowed))["items"]]

    found: list[str] = []
    page: Json = {"next_cursor": None}
    while not found or page["next_cursor"]:
        cursor = {"cursor": page["next_cursor"]} if found else {}
        page = await get(tenant, "jobs", sort="-name", limit=2, **narrowed, **cursor)
        found += [job["id"] for job in page["items"]]

    assert len(up) >= 5
    assert found == up[::-1]


async def test_a_cursor_of_another_order_is_refused(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(job="a"), an_event(job="b"))
    cursor = (await get(tenant, "jobs", limit=1))["next_cursor"]

    response = await tenant.client.get("/api/v1/jobs", params={"sort": "-name", "cursor": cursor})

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "query.cursor"


async def test_a_job_in_a_list_shows_what_it_says_of_itself_and_its_latest_run(tenant: Tenant) -> None:
    old, new, dag = a_run_id(), a_run_id(), a_run_id()
    facets = {
        **a_type("TASK", "AIRFLOW"),
        "documentation": a_facet(description="Loads orders"),
        "ownership": a_facet(owners=[{"name": "team:shop", "type": "OWNER"}, {"name": "ada"}, {"type": "none"}]),
        "tags": a_facet(tags=[{"key": "tier", "value": "gold"}, {"key": "pii", "value": "true"}, {"value": "?"}]),
    }
    parent = {"parent": a_facet(run={"runId": dag}, job={"namespace": "airflow", "name": "etl"})}
    await tenant.send_ok(
        an_event("COMPLETE", run=new, job="etl.load", time=at(70), run_facets=parent),
        an_event("START", run=new, job="etl.load", time=at(60), job_facets=facets),
        an_event("FAIL", run=old, job="etl.load", time=at(50)),
    )

    (item,) = (await get(tenant, "jobs"))["items"]

    assert item == {
        "id": item["id"],
        "namespace": "tests",
        "name": "etl.load",
        "job_type": "TASK",
        "processing_type": "BATCH",
        "integration": "AIRFLOW",
        "description": "Loads orders",
        "owners": ["team:shop", "ada"],
        "tags": ["tier:gold", "pii"],
        "pipeline": "etl",
        "latest_run": {
            "run_id": new,
            "state": "COMPLETE",
            "started_at": at(60),
            "ended_at": at(70),
            "duration_ms": 10_000,
        },
        "first_seen_at": item["first_seen_at"],
    }


async def test_facets_of_another_shape_than_expected_are_no_owners_tags_or_description(tenant: Tenant) -> None:
    facets = {"ownership": a_facet(owners="ada"), "tags": a_facet(tags={"key": 1}), "documentation": a_facet(n=1e300)}
    await tenant.send_ok(an_event(job_facets=facets))

    (item,) = (await get(tenant, "jobs"))["items"]

    assert (item["owners"], item["tags"], item["description"]) == ([], [], None)


async def test_the_pipeline_is_the_parent_runs_job_where_the_facet_names_none(tenant: Tenant) -> None:
    dag = a_run_id()
    await tenant.send_ok(
        an_event(run=dag, job="etl"),
        an_event(job="etl.load", run_facets={"parent": a_facet(run={"runId": dag})}),
    )

    items = (await get(tenant, "jobs"))["items"]

    assert {item["name"]: item["pipeline"] for item in items} == {"etl": None, "etl.load": "etl"}


async def test_jobs_are_filtered(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event("COMPLETE", job="Load_Orders", namespace="airflow", job_facets=a_type("TASK", "AIRFLOW")),
        an_event("FAIL", job="load_payments", namespace="spark", job_facets=a_type("JOB", "SPARK")),
        an_event("START", job="report", namespace="spark"),
    )

    assert await names(tenant, text="LOAD_") == ["Load_Orders", "load_payments"]
    assert await names(tenant, text="spark/re") == ["report"]
    assert await names(tenant, namespace="spark") == ["load_payments", "report"]
    assert await names(tenant, namespace="spark", text="pay") == ["load_payments"]
    assert await names(tenant, type="task") == ["Load_Orders"]
    assert await names(tenant, integration="SPARK") == ["load_payments"]
    assert await names(tenant, state="FAIL") == ["load_payments"]
    assert await names(tenant, state=["FAIL", "START"], namespace="spark") == ["load_payments", "report"]
    assert await names(tenant, text="%") == []
    assert await names(tenant, namespace="nowhere") == []


async def test_a_search_that_finds_little_says_where_it_goes_on(server: Server) -> None:
    for place in range(7):
        await server.tenant.send_ok(an_event("FAIL" if place == 5 else "COMPLETE", job=f"job_{place}"))

    for asked in (JobFilter(states=("FAIL",)), JobFilter(text="job_5"), JobFilter(text="job_5", namespace="tests")):
        found, page, pages = [], SortedPage(10, "name", None, None), 0
        async with server.database.tenant(server.tenant.organization_id) as conn:
            store = JobStore(conn, server.tenant.organization_id, max_looked_at=3, max_judged=3)
            while pages == 0 or not page.is_first:
                items, cursor = await store.page(asked, page)
                found += [item["name"] for item in items]
                page = sorted_page("name", 10, cursor)
                pages += 1
        assert (found, pages) == (["job_5"], 3)


async def test_a_job_is_found_by_id_name_run_and_application(tenant: Tenant) -> None:
    run = a_run_id()
    details = {"spark_applicationDetails": a_facet(applicationId="application_7")}
    name, namespace = "daily/orders: été", "s3://lake/jobs"
    await tenant.send_ok(an_event(run=run, job=name, namespace=namespace, run_facets=details))
    job = (await tenant.run(run))["job"]

    for text in (job["id"], run, "application_7", name, f"{namespace}/{name}"):
        found = await get(tenant, f"jobs/{quote(text, safe='')}")
        assert (found["id"], found["name"], found["namespace"]) == (job["id"], name, namespace)


async def test_a_name_that_several_jobs_have_is_a_conflict_that_names_them(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(job="load", namespace="a"), an_event(job="load", namespace="b"))

    response = await tenant.client.get("/api/v1/jobs/load")

    assert response.status_code == 409
    problem = response.json()
    assert problem["detail"] == "'load' means 2 jobs: a/load, b/load"
    assert [job["namespace"] for job in problem["context"]["candidates"]] == ["a", "b"]
    assert (await get(tenant, "jobs/b%2Fload"))["namespace"] == "b"


async def test_if_a_name_can_be_cut_in_two_ways_the_longer_namespace_wins(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(job="b/c", namespace="a"), an_event(job="c", namespace="a/b"))

    assert (await get(tenant, "jobs/a%2Fb%2Fc"))["namespace"] == "a/b"


@pytest.mark.parametrize("text", ["daily_oders", "tests/daily_oders", "tests/daly_orders"])
async def test_an_unknown_name_suggests_the_nearest(tenant: Tenant, text: str) -> None:
    await tenant.send_ok(an_event(job="daily_orders"), an_event(job="payments"))

    response = await tenant.client.get(f"/api/v1/jobs/{quote(text, safe='')}")

    assert response.status_code == 404
    assert response.json()["context"]["nearest"] == ["tests/daily_orders"]
    assert response.json()["hint"] == "did you mean 'tests/daily_orders'?"


NOBODY = "0190d0a0-0000-7000-8000-00000000dead"


@pytest.mark.parametrize("text", ["x" * 4001, "x" * 3999, "%00", "%ff%fe", "/" * 3000, "\U0001f600", NOBODY])
@pytest.mark.parametrize("rest", ["", "/runs", "/stages", "/stages/1"])
async def test_a_name_that_nobody_has_is_refused_kindly(tenant: Tenant, text: str, rest: str) -> None:
    await tenant.send_ok(an_event())
    path = text if text.startswith("%") else quote(text, safe="")

    response = await tenant.client.get(f"/api/v1/jobs/{path}{rest}")

    assert response.status_code == (422 if text in ("x" * 4001, "%00") else 404), response.text


async def test_a_job_shows_what_it_reads_and_writes_and_how_its_runs_go(tenant: Tenant) -> None:
    runs = [a_run_id() for _ in range(4)]
    for place, (run, seconds, state) in enumerate(
        zip(runs, (10, 20, 30, 40), ("COMPLETE", "COMPLETE", "COMPLETE", "FAIL"), strict=True)
    ):
        begin = datetime.now(UTC) - timedelta(days=4 - place)
        await tenant.send_ok(
            an_event("START", run=run, time=begin.isoformat()),
            an_event(
                state,
                run=run,
                time=(begin + timedelta(seconds=seconds)).isoformat(),
                inputs=[a_dataset("raw")],
                outputs=[a_dataset("orders")],
                job_facets={"sql": a_facet(query="select 1")},
            ),
        )
    await tenant.send_ok(an_event(time=ago(days=40)))

    found = await get(tenant, "jobs/orders")

    assert [item["name"] for item in found["inputs"]] == ["raw"]
    assert [item["urn"] for item in found["outputs"]] == ["postgres://db/orders"]
    assert (found["input_count"], found["output_count"]) == (1, 1)
    assert found["outputs"][0]["last_completed_at"] < found["outputs"][0]["last_seen_at"]
    assert found["facets"]["sql"]["query"] == "select 1"
    summary = found["runs"]
    assert (summary["days"], summary["total"], summary["truncated"]) == (30, 4, False)
    assert summary["by_state"] == {"COMPLETE": 3, "FAIL": 1}
    assert summary["mean_duration_ms"] == pytest.approx(20_000)
    assert summary["p50_duration_ms"] == pytest.approx(20_000)
    assert summary["p99_duration_ms"] == pytest.approx(29_800)
    assert [run["run_id"] for run in found["latest_runs"]][:4] == runs[::-1]
    assert len(found["latest_runs"]) == 5


async def test_a_job_shows_what_it_is_part_of_and_consists_of(tenant: Tenant) -> None:
    for event in golden("airflow"):
        assert (await tenant.send(event)).status_code == 201

    dag = await get(tenant, "jobs/shop_etl")
    task = await get(tenant, "jobs/shop_etl.load_orders")

    assert [job["name"] for job in dag["children"]] == [
        "shop_etl.check_quality",
        "shop_etl.extract",
        "shop_etl.load_orders",
    ]
    assert (dag["parents"], dag["job_type"], dag["pipeline"]) == ([], "DAG", None)
    assert task["parents"] == [{"id": dag["id"], "namespace": "airflow-prod", "name": "shop_etl"}]
    assert [job["name"] for job in task["children"]] == [f"shop_etl.load_orders.query.{i}" for i in (1, 2, 3)]
    assert task["pipeline"] == "shop_etl"


async def test_a_parent_that_never_sent_an_event_is_known_by_name(tenant: Tenant) -> None:
    facet = a_facet(run={"runId": a_run_id()}, job={"namespace": "airflow", "name": "ghost"})
    await tenant.send_ok(an_event(run_facets={"parent": facet}))

    found = await get(tenant, "jobs/orders")

    assert found["parents"] == [{"id": None, "namespace": "airflow", "name": "ghost"}]


async def test_a_job_whose_runs_are_all_another_jobs_has_a_latest_run(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(
        an_event("START", run=run, job="one", time=at(0)),
        an_event("RUNNING", run=run, job="two", time=at(1)),
    )

    found = await get(tenant, "jobs/two")

    assert found["latest_run"]["run_id"] == run
    assert [item["run_id"] for item in found["latest_runs"]] == [run]


async def test_runs_of_a_job_can_be_filtered_as_all_runs(tenant: Tenant) -> None:
    failed, done = a_run_id(), a_run_id()
    await tenant.send_ok(
        an_event("FAIL", run=failed, time=at(0)),
        an_event("COMPLETE", run=done, time=at(1)),
        an_event("FAIL", job="other", time=at(2)),
    )

    assert [run["run_id"] for run in (await get(tenant, "jobs/tests%2Forders/runs"))["items"]] == [done, failed]
    assert [run["run_id"] for run in (await get(tenant, "jobs/orders/runs", state="FAIL"))["items"]] == [failed]
    assert (await tenant.client.get("/api/v1/jobs/odrers/runs")).status_code == 404


async def test_the_summary_counts_runs_by_state_and_integration(tenant: Tenant) -> None:
    spark, stuck = a_type("JOB", "SPARK"), a_run_id()
    for place, state in enumerate(("COMPLETE", "COMPLETE", "COMPLETE", "FAIL")):
        run = a_run_id()
        await tenant.send_ok(
            an_event("START", run=run, job="load", time=ago(hours=place + 1), job_facets=spark),
            an_event(state, run=run, job="load", time=ago(hours=place + 0.5), job_facets=spark),
        )
    await tenant.send_ok(
        an_event("START", run=stuck, job="slow", time=ago(hours=30)),
        an_event("RUNNING", job="young", time=ago(hours=2)),
        an_event("COMPLETE", job="old", time=ago(hours=60)),
    )

    found = await get(tenant, "jobs/stats/summary", hours=48)

    mean = found.pop("mean_duration_ms")
    assert mean == pytest.approx(1_800_000, rel=0.01)
    assert found == {
        "hours": 48,
        "total": 6,
        "by_state": {"COMPLETE": 3, "FAIL": 1, "START": 1, "RUNNING": 1},
        "success_rate": 0.75,
        "running": 2,
        "stuck": 1,
        "by_integration": [
            {"integration": "SPARK", "total": 4, "by_state": {"COMPLETE": 3, "FAIL": 1}},
            {"integration": None, "total": 2, "by_state": {"START": 1, "RUNNING": 1}},
        ],
        "truncated": False,
    }


async def test_the_summary_tells_what_goes_on_now_however_long_ago_it_began(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event("START", job="lost", time=ago(days=40)),
        an_event("RUNNING", job="young", time=ago(hours=2)),
        an_event("COMPLETE", job="done", time=ago(hours=2)),
    )

    found = await get(tenant, "jobs/stats/summary", hours=1)

    assert (found["total"], found["by_state"]) == (0, {})
    assert (found["running"], found["stuck"]) == (2, 1)
    assert len((await get(tenant, "runs", stuck="true"))["items"]) == 1


async def test_runs_of_which_only_the_end_is_known_count_but_not_for_durations(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(
        an_event("START", run=run, time=ago(minutes=30)),
        an_event("COMPLETE", run=run, time=ago(minutes=20)),
        an_event("COMPLETE", time=ago(minutes=10)),
    )

    summary, job = await get(tenant, "jobs/stats/summary"), await get(tenant, "jobs/orders")

    ten_minutes = pytest.approx(600_000, rel=0.01)
    assert (summary["by_state"], summary["mean_duration_ms"]) == ({"COMPLETE": 2}, ten_minutes)
    assert (job["runs"]["total"], job["runs"]["mean_duration_ms"]) == (2, ten_minutes)
    assert job["runs"]["p50_duration_ms"] == ten_minutes
    assert job["latest_run"]["duration_ms"] is None


async def test_the_summary_of_nothing_has_no_rates(tenant: Tenant) -> None:
    found = await get(tenant, "jobs/stats/summary")

    assert (found["hours"], found["total"], found["success_rate"], found["mean_duration_ms"]) == (24, 0, None, None)


async def test_countries_are_those_of_partition_contexts(tenant: Tenant) -> None:
    for country in ("US", "DE", "US"):
        await tenant.send_ok(an_event(outputs=[a_dataset(f"lake/orders/country={country}", "s3://lake")]))
    await tenant.send_ok(an_event(outputs=[a_dataset("lake/orders/dt=2026-01-01", "s3://lake")]))

    assert await get(tenant, "jobs/countries") == {"items": ["DE", "US"], "next_cursor": None}


@pytest.mark.parametrize(
    ("path", "params", "field"),
    [
        ("jobs", {"limit": 0}, "query.limit"),
        ("jobs", {"cursor": "nonsense"}, "query.cursor"),
        ("jobs", {"state": "DONE"}, "query.state"),
        ("jobs", {"sort": "state"}, "query.sort"),
        ("jobs", {"text": ""}, "query.text"),
        ("jobs", {"text": "x" * 10_000}, "query.text"),
        ("jobs/stats/summary", {"hours": 0}, "query.hours"),
        ("jobs/stats/summary", {"hours": 10**20}, "query.hours"),
        ("jobs/orders/runs", {"stuck": "maybe"}, "query.stuck"),
    ],
)
async def test_a_wrong_parameter_is_named(tenant: Tenant, path: str, params: Json, field: str) -> None:
    response = await tenant.client.get(f"/api/v1/{path}", params=params)

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"].startswith(field)


async def test_jobs_of_others_are_as_unknown_as_any(server: Server) -> None:
    other, run = await server.add_tenant("Second"), a_run_id()
    await other.send_ok(an_event(run=run, job="secret"))
    theirs = (await other.run(run))["job"]["id"]

    for text in (theirs, run, "secret", "tests%2Fsecret"):
        for rest in ("", "/runs", "/stages"):
            response = await server.client.get(f"/api/v1/jobs/{text}{rest}")
            assert (response.status_code, response.json()["context"]["nearest"]) == (404, [])
    assert await names(server.tenant) == []
