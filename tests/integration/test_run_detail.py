"""One run: what is above and below it, its facets and error, and what it read and wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.server.runs.detail import FIRST_EVENTS, LATEST_EVENTS, MAX_CHILDREN, MAX_DATASETS
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.golden import golden
from tests.support.server import Server, Tenant


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


def a_parent(run: str, job: str = "dag.task", root: str | None = None, root_job: str = "dag") -> Json:
    facet = a_facet(run={"runId": run}, job={"namespace": "airflow", "name": job})
    if root:
        facet["root"] = {"run": {"runId": root}, "job": {"namespace": "airflow", "name": root_job}}
    return {"parent": facet}


async def runs_of(tenant: Tenant, **params: Any) -> list[Json]:
    response = await tenant.client.get("/api/v1/runs", params=params)
    items: list[Json] = response.json()["items"]
    return items


async def send_array(tenant: Tenant, *events: Json) -> None:
    response = await tenant.client.post("/api/v1/lineage/batch", json=events)
    assert response.status_code == 200, response.text


async def test_a_run_shows_what_is_above_it_as_far_as_it_is_known(tenant: Tenant) -> None:
    dag, task, app, query = (a_run_id() for _ in range(4))
    await tenant.send_ok(
        an_event("START", run=app, job="etl.spark", run_facets=a_parent(task, root=dag)),
        an_event("START", run=query, job="etl.spark.query", run_facets=a_parent(app, "etl.spark", root=dag)),
    )

    assert [(p["run_id"], p["state"], p["job"]) for p in (await tenant.run(query))["parents"]] == [
        (app, "START", (await tenant.run(app))["job"]),
        (task, None, {"id": None, "namespace": "airflow", "name": "dag.task"}),
        (dag, None, {"id": None, "namespace": "airflow", "name": "dag"}),
    ]

    await tenant.send_ok(
        an_event("START", run=task, job="dag.task", namespace="airflow", run_facets=a_parent(dag, "dag")),
        an_event("START", run=dag, job="dag", namespace="airflow"),
    )
    parents = (await tenant.run(query))["parents"]
    assert [(p["job"]["name"], p["state"]) for p in parents] == [
        ("etl.spark", "START"),
        ("dag.task", "START"),
        ("dag", "START"),
    ]
    assert all(parent["job"]["id"] for parent in parents)


@pytest.mark.parametrize("size", [1, 2, 3])
async def test_runs_that_are_their_own_ancestors_end_the_chain(tenant: Tenant, size: int) -> None:
    runs = [a_run_id() for _ in range(size)]
    for place, run in enumerate(runs):
        await tenant.send_ok(an_event("START", run=run, run_facets=a_parent(runs[(place + 1) % size])))

    found = await tenant.run(runs[0])
    assert [parent["run_id"] for parent in found["parents"]] == runs[1:]
    assert [child["run_id"] for child in found["children"]] == runs[:0:-1]
    assert found["children_truncated"] is False


async def test_a_run_shows_its_children_and_counts_all_of_them(tenant: Tenant) -> None:
    parent, children = a_run_id(), [a_run_id() for _ in range(MAX_CHILDREN + 1)]
    await tenant.send_ok(an_event("START", run=parent, job="dag"))
    await send_array(
        tenant,
        *(
            an_event("COMPLETE" if i else "FAIL", run=run, job=f"task_{i}", time=at(i), run_facets=a_parent(parent))
            for i, run in enumerate(children)
        ),
    )

    found = await tenant.run(parent)

    assert [child["run_id"] for child in found["children"]] == children[:-1]
    assert found["children"][1]["job"]["name"] == "task_1"
    assert found["children_by_state"] == {"COMPLETE": MAX_CHILDREN, "FAIL": 1}
    assert found["children_truncated"] is True
    assert (await tenant.run(children[0]))["children_truncated"] is False


async def test_a_run_shows_all_levels_below_it_the_nearest_first(tenant: Tenant) -> None:
    dag, task, other, app, query = (a_run_id() for _ in range(5))
    await tenant.send_ok(
        an_event("START", run=dag, job="dag", time=at(0)),
        an_event("START", run=query, job="dag.task.app.query", time=at(0), run_facets=a_parent(app)),
        an_event("START", run=app, job="dag.task.app", time=at(1), run_facets=a_parent(task)),
        an_event("START", run=task, job="dag.task", time=at(3), run_facets=a_parent(dag)),
        an_event("START", run=other, job="dag.other", time=at(2), run_facets=a_parent(dag)),
    )

    found = await tenant.run(dag)

    assert [(child["run_id"], child["parent_run_id"], child["depth"]) for child in found["children"]] == [
        (other, dag, 1),
        (task, dag, 1),
        (app, task, 2),
        (query, app, 3),
    ]
    assert found["children_by_state"] == {"START": 2}
    assert found["children_truncated"] is False


@pytest.mark.parametrize(("grandchildren", "truncated"), [(MAX_CHILDREN - 1, False), (MAX_CHILDREN, True)])
async def test_deeper_levels_are_shown_as_far_as_there_is_room(
    tenant: Tenant, grandchildren: int, truncated: bool
) -> None:
    dag, task = a_run_id(), a_run_id()
    below = (an_event("START", job="query", run_facets=a_parent(task)) for _ in range(grandchildren))
    await send_array(tenant, an_event("START", run=dag), an_event("START", run=task, run_facets=a_parent(dag)), *below)

    found = await tenant.run(dag)

    assert [child["depth"] for child in found["children"]] == [1] + [2] * (MAX_CHILDREN - 1)
    assert found["children_truncated"] is truncated


async def test_facets_of_a_run_are_the_latest_of_each_name_byte_for_byte(tenant: Tenant) -> None:
    """In order of event time, whatever the order of arrival."""
    run = a_run_id()
    odd = '{ "_producer": "https://x.example", "_schemaURL": "https://x.example/f.json", "n": 1e400, "n": [1,  2] }'
    first = an_event("START", run=run, time=at(0), run_facets={"kept": a_facet(v=1), "changed": a_facet(v=1)})
    last = an_event(
        "COMPLETE",
        run=run,
        time=at(9),
        run_facets={"changed": a_facet(v=3), "gone": a_facet(_deleted=True), "odd": "ODD"},
        job_facets={"sql": a_facet(query="select 1")},
    )
    middle = an_event("RUNNING", run=run, time=at(5), run_facets={"changed": a_facet(v=2), "gone": a_facet(v=2)})
    sent = await tenant.send(json.dumps(last).replace('"ODD"', odd).encode())
    assert sent.status_code == 201, sent.text
    await tenant.send_ok(first, middle)

    response = await tenant.client.get(f"/api/v1/runs/{run}")

    assert odd.encode() in response.content
    found = response.json()
    assert {name: body.get("v") for name, body in found["facets"].items()} == {"changed": 3, "kept": 1, "odd": None}
    assert found["job_facets"]["sql"]["query"] == "select 1"
    assert found["facets_truncated"] is False


async def test_of_very_many_events_the_latest_and_the_first_give_the_facets(tenant: Tenant) -> None:
    run, total = a_run_id(), FIRST_EVENTS + LATEST_EVENTS + 1
    await send_array(
        tenant, *(an_event("RUNNING", run=run, time=at(i), run_facets={f"f{i}": a_facet(v=i)}) for i in range(total))
    )

    found = await tenant.run(run)

    missing = {f"f{i}" for i in range(total)} - set(found["facets"])
    assert missing == {f"f{FIRST_EVENTS}"}
    assert found["facets_truncated"] is True


async def test_an_error_comes_with_its_stack(tenant: Tenant) -> None:
    run = a_run_id()
    facet = a_facet(message="out of memory", programmingLanguage="SCALA", stackTrace="at line 1\n  at line 2")
    await tenant.send_ok(
        an_event("START", run=run, time=at(0)),
        an_event("FAIL", run=run, time=at(1), run_facets={"errorMessage": facet}),
    )

    found = await tenant.run(run)

    assert found["error"] == "out of memory"
    assert found["error_detail"] == {
        "message": "out of memory",
        "programming_language": "SCALA",
        "stack_trace": "at line 1\n  at line 2",
    }
    fine = a_run_id()
    await tenant.send_ok(an_event(run=fine))
    assert (await tenant.run(fine))["error_detail"] is None


async def test_inputs_and_outputs_come_with_row_counts(tenant: Tenant) -> None:
    run, many = a_run_id(), MAX_DATASETS + 1
    await tenant.send_ok(
        an_event(
            run=run,
            inputs=[a_dataset(f"in_{i:04}", inputFacets={"inputStatistics": a_facet(rowCount=i)}) for i in range(many)],
            outputs=[a_dataset("out", outputFacets={"outputStatistics": a_facet(rowCount=7, size=70, fileCount=2)})],
        )
    )

    found = await tenant.run(run)

    expected = [(f"in_{i:04}", i) for i in range(MAX_DATASETS)]
    assert [(item["name"], item["row_count"]) for item in found["inputs"]] == expected
    assert (found["input_count"], found["output_count"]) == (many, 1)
    assert [(item["row_count"], item["byte_size"], item["file_count"]) for item in found["outputs"]] == [(7, 70, 2)]


async def test_rows_of_partitions_that_add_up_to_more_than_fits_are_the_most_that_does(tenant: Tenant) -> None:
    run, huge = a_run_id(), {"outputStatistics": a_facet(rowCount=9 * 10**18, size=9 * 10**18, fileCount=9 * 10**18)}
    parts = [
        a_dataset(f"orders/country={country}", namespace="s3://lake", outputFacets=huge) for country in ("DE", "IT")
    ]
    await tenant.send_ok(an_event(run=run, outputs=parts))

    (output,) = (await tenant.run(run))["outputs"]

    assert [output[name] for name in ("row_count", "byte_size", "file_count")] == [2**63 - 1] * 3


async def test_events_of_airflow_make_a_tree_of_runs(tenant: Tenant) -> None:
    for event in golden("airflow"):
        assert (await tenant.send(event)).status_code == 201
    (dag,) = await runs_of(tenant, job="airflow-prod/shop_etl")

    top = await tenant.run(dag["run_id"])
    queries = await runs_of(tenant, job_name=".query.1")

    assert top["children_by_state"] == {"COMPLETE": 2, "FAIL": 1}
    assert [child["job"]["name"] for child in top["children"] if child["depth"] == 1] == [
        "shop_etl.extract",
        "shop_etl.load_orders",
        "shop_etl.check_quality",
    ]
    for query in queries:
        task = query["job"]["name"].removesuffix(".query.1")
        parents = (await tenant.run(query["run_id"]))["parents"]
        assert [parent["job"]["name"] for parent in parents] == [task, "shop_etl"]
