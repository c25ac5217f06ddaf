"""Graphs around a job: what it consists of is rolled up into it, and so are the jobs around it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from headgate.server.lineage.hierarchy import JobGraphOut
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.golden import golden
from tests.support.server import Server, Tenant


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


async def graph(tenant: Tenant, job: str, **params: Any) -> Json:
    response = await tenant.client.get("/api/v1/lineage", params={"job": job, **params})
    assert response.status_code == 200, response.text
    found: Json = response.json()
    JobGraphOut.model_validate(found)
    return found


def names(found: Json) -> dict[str, int]:
    """Names of all nodes, with their depth."""
    return {node["name"]: node["depth"] for node in found["nodes"]}


def edges(found: Json) -> set[tuple[str, str, str]]:
    name = {node["id"]: node["name"] for node in found["nodes"]}
    return {(name[edge["source"]], edge["kind"], name[edge["target"]]) for edge in found["edges"]}


def tree(branch: Json) -> dict[str, Any]:
    return {child["name"]: tree(child) for child in branch["children"]}


class Dag:
    """One run of a DAG with runs of tasks, applications and queries below, each under the one named."""

    def __init__(self, name: str) -> None:
        self.runs: dict[str, str] = {}
        self.parents: dict[str, str] = {}
        self.events: list[Json] = []
        self.add(name)

    def add(self, job: str, parent: str | None = None, *, reads: str = "", writes: str = "", second: int = 0) -> Dag:
        self.runs[job] = a_run_id()
        facets = {}
        if parent is not None:
            self.parents[job] = parent
            root = next(iter(self.runs))
            facets["parent"] = a_facet(
                run={"runId": self.runs[parent]},
                job={"namespace": "airflow", "name": parent},
                root={"run": {"runId": self.runs[root]}, "job": {"namespace": "airflow", "name": root}},
            )
        self.events.append(
            an_event(
                run=self.runs[job],
                job=job,
                namespace="airflow",
                time=at(second),
                run_facets=facets,
                inputs=[a_dataset(name) for name in reads.split()],
                outputs=[a_dataset(name) for name in writes.split()],
            )
        )
        return self


def an_etl() -> Dag:
    """etl: extract > spark > two queries, then load, which reads what extract wrote."""
    return (
        Dag("etl")
        .add("etl.extract", "etl")
        .add("etl.spark", "etl.extract")
        .add("etl.spark.q1", "etl.spark", reads="raw", writes="staged")
        .add("etl.spark.q2", "etl.spark", reads="rates", writes="staged_rates")
        .add("etl.load", "etl", reads="staged", writes="orders")
    )


async def test_a_dag_stands_for_its_tasks_applications_and_queries(tenant: Tenant) -> None:
    await tenant.send_ok(*an_etl().events)

    found = await graph(tenant, "airflow/etl")

    assert names(found) == {"etl": 0, "raw": 1, "rates": 1, "staged": 1, "staged_rates": 1, "orders": 1}
    assert edges(found) == {
        ("raw", "reads", "etl"),
        ("rates", "reads", "etl"),
        ("staged", "reads", "etl"),
        ("etl", "writes", "staged"),
        ("etl", "writes", "staged_rates"),
        ("etl", "writes", "orders"),
    }
    parts: Json = {"etl.extract": {"etl.spark": {"etl.spark.q1": {}, "etl.spark.q2": {}}}, "etl.load": {}}
    assert tree(found["hierarchy"]) == parts
    (node,) = [node for node in found["nodes"] if node["kind"] == "job"]
    assert (node["id"], tree(node)) == (found["root"], parts)
    assert (found["parents"], found["truncated"], found["hidden"]) == ([], False, 0)


async def test_events_may_come_in_any_order_and_a_parent_after_its_children(tenant: Tenant) -> None:
    await tenant.send_ok(*an_etl().events[::-1])

    assert tree((await graph(tenant, "etl"))["hierarchy"]) == {
        "etl.extract": {"etl.spark": {"etl.spark.q1": {}, "etl.spark.q2": {}}},
        "etl.load": {},
    }


async def test_without_rolling_up_each_part_is_a_node(tenant: Tenant) -> None:
    await tenant.send_ok(*an_etl().events)

    found = await graph(tenant, "airflow/etl", rollup="false")

    assert {name for name, depth in names(found).items() if depth == 0} == {
        "etl",
        "etl.extract",
        "etl.spark",
        "etl.spark.q1",
        "etl.spark.q2",
        "etl.load",
    }
    assert {edge for edge in edges(found) if edge[1] == "contains"} == {
        ("etl", "contains", "etl.extract"),
        ("etl", "contains", "etl.load"),
        ("etl.extract", "contains", "etl.spark"),
        ("etl.spark", "contains", "etl.spark.q1"),
        ("etl.spark", "contains", "etl.spark.q2"),
    }
    assert ("etl.spark.q1", "writes", "staged") in edges(found)
    assert ("staged", "reads", "etl.load") in edges(found)
    assert all(node["children"] == [] for node in found["nodes"])


async def test_around_a_task_its_siblings_are_tasks_and_strangers_are_dags(tenant: Tenant) -> None:
    report = (
        Dag("report")
        .add("report.sum", "report", reads="orders", writes="sums")
        .add("report.mail", "report", reads="sums")
    )
    await tenant.send_ok(*an_etl().events, *report.events)

    found = await graph(tenant, "airflow/etl.extract", depth=3)

    assert names(found) == {
        "etl.extract": 0,
        "raw": 1,
        "rates": 1,
        "staged": 1,
        "staged_rates": 1,
        "etl.load": 1,
        "orders": 2,
        "report": 2,
        # What one part of a job leaves to another is no further away than the job.
        "sums": 3,
    }
    (stranger,) = [node for node in found["nodes"] if node["name"] == "report"]
    assert tree(stranger) == {"report.sum": {}, "report.mail": {}}
    assert [parent["name"] for parent in found["parents"]] == ["etl"]


async def test_depth_counts_jobs_up_and_down(tenant: Tenant) -> None:
    chain = [("a", "", "d1"), ("b", "d1", "d2"), ("c", "d2", "d3"), ("d", "d3", "d4"), ("e", "d4", "")]
    await tenant.send_ok(
        *(
            an_event(
                job=job,
                inputs=[a_dataset(name) for name in reads.split()],
                outputs=[a_dataset(name) for name in writes.split()],
            )
            for job, reads, writes in chain
        )
    )

    near = await graph(tenant, "tests/c", depth=1)
    far = await graph(tenant, "tests/c", depth=2)

    assert names(near) == {"c": 0, "d2": 1, "d3": 1, "b": 1, "d": 1}
    assert names(far) == names(near) | {"d1": 2, "d4": 2, "a": 2, "e": 2}
    assert edges(near) == {("b", "writes", "d2"), ("d2", "reads", "c"), ("c", "writes", "d3"), ("d3", "reads", "d")}


async def test_jobs_that_feed_each_other_end_the_walk(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(job="one", inputs=[a_dataset("b")], outputs=[a_dataset("a")]),
        an_event(job="two", inputs=[a_dataset("a")], outputs=[a_dataset("b")]),
    )

    found = await graph(tenant, "one", depth=10)

    assert names(found) == {"one": 0, "a": 1, "b": 1, "two": 1}


async def test_runs_that_are_their_own_ancestors_end_the_hierarchy(tenant: Tenant) -> None:
    dag = Dag("one").add("two", "one")
    facet = a_facet(run={"runId": dag.runs["two"]}, job={"namespace": "airflow", "name": "two"})
    dag.events[0]["run"]["facets"] = {"parent": facet}
    await tenant.send_ok(*dag.events)

    found = await graph(tenant, "airflow/one")

    assert tree(found["hierarchy"]) == {"two": {}}
    assert [parent["name"] for parent in found["parents"]] == ["two"]


async def test_what_does_not_fit_is_counted(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(job="wide", outputs=[a_dataset(f"t{i}") for i in range(10)]))

    found = await graph(tenant, "wide", limit=4)

    assert len(found["nodes"]) == 4
    assert (found["truncated"], found["hidden"]) == (True, 7)
    assert {edge["target"] for edge in found["edges"]} <= {node["id"] for node in found["nodes"]}


async def test_datasets_that_are_gone_are_left_out(tenant: Tenant) -> None:
    dropped = a_dataset("old", facets={"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")})
    await tenant.send_ok(
        an_event(job="load", time=at(0), outputs=[a_dataset("old"), a_dataset("new")]),
        an_event(job="drop", time=at(5), outputs=[dropped]),
    )

    assert names(await graph(tenant, "load")) == {"load": 0, "new": 1}


async def test_what_a_job_no_longer_does_is_left_out(tenant: Tenant) -> None:
    month = 31 * 86_400
    await tenant.send_ok(
        an_event(job="load", time=at(0), outputs=[a_dataset("old"), a_dataset("new")]),
        an_event(job="load", time=at(month), outputs=[a_dataset("new")]),
    )

    assert names(await graph(tenant, "load")) == {"load": 0, "new": 1}


async def test_a_dataset_that_nobody_writes_is_external(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(job="load", inputs=[a_dataset("raw")], outputs=[a_dataset("orders")]))

    found = await graph(tenant, "load")

    assert {node["name"]: node["external"] for node in found["nodes"]} == {"load": False, "raw": True, "orders": False}


async def test_the_hierarchy_of_airflow_comes_from_its_own_events(tenant: Tenant) -> None:
    for event in golden("airflow"):
        assert (await tenant.send(event)).status_code == 201

    found = await graph(tenant, "airflow-prod/shop_etl")

    assert tree(found["hierarchy"]) == {
        "shop_etl.extract": {},
        "shop_etl.load_orders": {f"shop_etl.load_orders.query.{i}": {} for i in (1, 2, 3)},
        "shop_etl.check_quality": {f"shop_etl.check_quality.query.{i}": {} for i in (1, 2, 3)},
    }
    assert found["hierarchy"]["job_type"] == "DAG"


async def test_a_job_may_be_named_by_its_run_or_application(tenant: Tenant) -> None:
    run = a_run_id()
    details = {"spark_applicationDetails": a_facet(applicationId="application_1")}
    await tenant.send_ok(an_event(run=run, job="load", run_facets=details, outputs=[a_dataset("orders")]))

    for text in (run, "application_1", "tests/load"):
        assert names(await graph(tenant, text)) == {"load": 0, "orders": 1}


async def test_jobs_of_others_are_unknown(server: Server) -> None:
    other = await server.add_tenant("Second")
    await other.send_ok(an_event(job="load", outputs=[a_dataset("orders")]))
    await server.tenant.send_ok(an_event(job="report", inputs=[a_dataset("orders")]))

    assert (await server.client.get("/api/v1/lineage", params={"job": "tests/load"})).status_code == 404
    assert names(await graph(server.tenant, "report", depth=3)) == {"report": 0, "orders": 1}
    assert (await server.client.get(f"/api/v1/lineage?job={quote('tests/laod')}")).status_code == 404
