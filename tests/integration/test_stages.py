"""What Spark stages cost, read back by run and by job, and what that gives away."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from headgate.openlineage.stages import COUNTERS
from tests.support.events import Json, a_facet, a_run_id, an_event, at
from tests.support.server import Server, Tenant

APPLICATION = "application_17_0001"


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


def a_stage(stage_id: int, attempt: int = 0, **counters: Any) -> Json:
    return {"stage_id": stage_id, "attempt": attempt, **counters}


def with_stages(*stages: Json, **totals: int) -> Json:
    facets = {"headgate_stages": a_facet(stages=list(stages), applicationId=APPLICATION)}
    if totals:
        facets["headgate_execution"] = a_facet(metrics=totals)
    return facets


async def get(tenant: Tenant, path: str, **params: Any) -> Json:
    response = await tenant.client.get(f"/api/v1/{path}", params=params)
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


async def test_every_counter_of_a_stage_comes_back(tenant: Tenant) -> None:
    run = a_run_id()
    counters = {name: 100 + place for place, name in enumerate(COUNTERS)}
    stage = a_stage(3, name="scan", started_at=at(0), ended_at=at(5), accumulables={"x": 1}, **counters)
    await tenant.send_ok(an_event(run=run, run_facets=with_stages(stage)))

    found = await get(tenant, f"runs/{run}/stages/3")

    assert {name: found[name] for name in COUNTERS} == counters
    assert (found["stage_id"], found["attempt"], found["name"]) == (3, 0, "scan")
    assert (found["started_at"], found["ended_at"]) == (at(0), at(5))
    assert found["extra"] == {"accumulables": {"x": 1}}
    assert found["run_id"] == run


async def test_a_stage_is_shown_as_its_latest_attempt_with_all_of_them(tenant: Tenant) -> None:
    run = a_run_id()
    stages = [a_stage(1, 0, num_tasks=5), a_stage(1, 2, num_tasks=7), a_stage(1, 1, num_tasks=6), a_stage(0)]
    await tenant.send_ok(an_event(run=run, run_facets=with_stages(*stages)))

    listed = await get(tenant, f"runs/{run}/stages")
    found = await get(tenant, f"runs/{run}/stages/1")

    assert [(s["stage_id"], s["attempt"], s["attempt_count"]) for s in listed["items"]] == [(0, 0, 1), (1, 2, 3)]
    assert (found["attempt"], found["num_tasks"], found["attempt_count"]) == (2, 7, 3)
    assert [(a["attempt"], a["num_tasks"]) for a in found["attempts"]] == [(2, 7), (1, 6), (0, 5)]


async def test_the_whole_run_is_no_stage_but_the_totals(tenant: Tenant) -> None:
    run = a_run_id()
    facets = with_stages(a_stage(0, num_tasks=5, disk_bytes_spilled=3), num_tasks=9)
    await tenant.send_ok(an_event(run=run, run_facets=facets))

    found = await get(tenant, f"runs/{run}/stages")

    assert [stage["stage_id"] for stage in found["items"]] == [0]
    assert (found["totals"]["num_tasks"], found["totals"]["disk_bytes_spilled"]) == (9, 3)
    assert (await tenant.client.get(f"/api/v1/runs/{run}/stages/-1")).status_code == 422


async def test_totals_are_summed_over_latest_attempts_where_none_were_reported(tenant: Tenant) -> None:
    run = a_run_id()
    stages = [a_stage(0, 0, failed_tasks=4), a_stage(0, 1, failed_tasks=1), a_stage(1, failed_tasks=2)]
    await tenant.send_ok(an_event(run=run, run_facets=with_stages(*stages)))

    found = await get(tenant, f"runs/{run}/stages")

    assert found["totals"]["failed_tasks"] == 3
    assert found["totals"]["input_bytes"] is None
    assert [(s["code"], s["value"]) for s in found["signals"]] == [("failed_tasks", 3)]


async def test_stages_are_paged(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event(run=run, run_facets=with_stages(*(a_stage(i) for i in range(5)))))

    found, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = await get(tenant, f"runs/{run}/stages", limit=2, **({"cursor": cursor} if cursor else {}))
        found += [stage["stage_id"] for stage in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1

    assert (found, pages) == ([0, 1, 2, 3, 4], 3)


async def test_an_unknown_stage_names_those_there_are(tenant: Tenant) -> None:
    run, bare = a_run_id(), a_run_id()
    await tenant.send_ok(
        an_event(run=run, run_facets=with_stages(a_stage(4), a_stage(2))),
        an_event(run=bare, job="bare"),
    )

    response = await tenant.client.get(f"/api/v1/runs/{run}/stages/7")
    without = await tenant.client.get(f"/api/v1/runs/{bare}/stages/7")

    assert (response.status_code, response.json()["hint"]) == (404, "there are 2, 4")
    assert response.json()["context"]["stages"] == [2, 4]
    assert (without.status_code, without.json()["hint"]) == (404, "no stages were reported for this run")
    assert await get(tenant, f"runs/{bare}/stages") == {
        "run_id": bare,
        "items": [],
        "totals": None,
        "signals": [],
        "next_cursor": None,
    }


@pytest.mark.parametrize("stage", ["x", "-2", str(2**31), str(10**30), "1.5"])
async def test_a_stage_that_is_no_small_number_is_a_wrong_field(tenant: Tenant, stage: str) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event(run=run, run_facets=with_stages(a_stage(4))))

    response = await tenant.client.get(f"/api/v1/runs/{run}/stages/{stage}")

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "path.stage_id"


async def test_the_stages_of_a_job_are_those_of_its_latest_run_or_of_the_run_named(tenant: Tenant) -> None:
    old, new = a_run_id(), a_run_id()
    await tenant.send_ok(
        an_event(run=new, job="etl/load", time=at(9), run_facets=with_stages(a_stage(2, num_tasks=2))),
        an_event(run=old, job="etl/load", time=at(0), run_facets=with_stages(a_stage(1, num_tasks=1))),
    )

    for text, run, stage in (("tests/etl/load", new, 2), ("etl/load", new, 2), (old, old, 1), (APPLICATION, new, 2)):
        path = f"jobs/{quote(text, safe='')}/stages"
        found = await get(tenant, path)
        assert (found["run_id"], [s["stage_id"] for s in found["items"]]) == (run, [stage])
        assert (await get(tenant, f"{path}/{stage}"))["num_tasks"] == stage


async def test_a_job_without_runs_has_no_stages(tenant: Tenant) -> None:
    event = an_event(job="described")
    await tenant.send_ok({name: part for name, part in event.items() if name not in ("run", "eventType")})

    response = await tenant.client.get("/api/v1/jobs/described/stages")

    assert (response.status_code, response.json()["detail"]) == (404, "job 'tests/described' has no runs")


async def test_a_run_says_what_could_be_better(tenant: Tenant) -> None:
    run = a_run_id()
    totals = {
        "disk_bytes_spilled": 1,
        "jvm_gc_time_ms": 200,
        "executor_run_time_ms": 1000,
        "executor_cpu_time_ns": 900_000_000,
        "any_locality_tasks": 1,
        "process_local_tasks": 9,
    }
    await tenant.send_ok(an_event(run=run, run_facets=with_stages(**totals)))

    found = (await tenant.run(run))["signals"]

    assert found == [
        {
            "code": "disk_spill",
            "severity": "critical",
            "value": 1,
            "threshold": 0,
            "message": "1 bytes were spilled to disk",
        },
        {
            "code": "gc_time",
            "severity": "warning",
            "value": 0.2,
            "threshold": 0.1,
            "message": "garbage collection took 20% of the executors' time",
        },
    ]


async def test_the_simple_form_gives_totals_and_signals(tenant: Tenant) -> None:
    body = {
        "job_id": "spark-7",
        "job_name": "daily orders",
        "application_id": APPLICATION,
        "timestamp": at(60),
        "started_at": at(0),
        "ended_at": at(60),
        "status": "Success",
        "inputs": [{"name": "orders", "type": "Table"}],
        "outputs": [{"name": "daily", "type": "Table"}],
        "execution_metrics": {"execution_time_ms": 1000, "jvm_gc_time_ms": 300, "failed_tasks": 2, "total_tasks": 8},
    }
    response = await tenant.client.post("/api/v1/ingest/metadata", json=body)
    assert response.status_code == 202, response.text

    found = await get(tenant, f"jobs/{APPLICATION}/stages")

    assert found["totals"]["num_tasks"] == 8
    assert [signal["code"] for signal in found["signals"]] == ["gc_time", "failed_tasks"]
