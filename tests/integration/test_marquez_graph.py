"""Marquez's lineage routes: graphs of jobs, datasets and columns around a node."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headgate.server.marquez import schemas
from headgate.server.marquez.graph import columns, jobs
from tests.conftest import Cluster
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.golden import golden
from tests.support.ingest import a_server
from tests.support.marquez import ask, at_dataset, refused, tell
from tests.support.server import Server

FOOD = "food_delivery"
DAY_S = 86_400


@pytest.fixture(scope="module")
async def food(cluster: Cluster) -> AsyncIterator[Server]:
    """A server that has Marquez's own sample events; tests only read it."""
    async with a_server(cluster) as server:
        await tell(server.tenant, *golden("marquez"))
        yield server


def ids(graph: Json) -> set[str]:
    """Ids of the nodes, without the namespace that all of them have."""
    return {node["id"].replace(f":{FOOD}:", ":") for node in graph["graph"]}


def arrows(graph: Json) -> set[tuple[str, str]]:
    """Names at the two ends of each edge, which both ends must agree on."""
    told = {
        side: {(_bare(edge["origin"]), _bare(edge["destination"])) for node in graph["graph"] for edge in node[side]}
        for side in ("inEdges", "outEdges")
    }
    assert told["inEdges"] == told["outEdges"]
    return told["inEdges"]


def _bare(node_id: str) -> str:
    return node_id.rpartition(":")[2]


async def lineage(server: Server, node_id: str, **params: object) -> Json:
    return await ask(server.client, schemas.Graph, "/lineage", nodeId=node_id, **params)


async def column_lineage(server: Server, node_id: str, **params: object) -> Json:
    return await ask(server.client, schemas.ColumnGraph, "/column-lineage", nodeId=node_id, **params)


async def test_the_graph_of_marquez_samples(food: Server) -> None:
    graph = await lineage(food, f"dataset:{FOOD}:public.delivery_7_days")

    assert arrows(graph) == {
        ("etl_menus", "public.menus"),
        ("etl_menu_items", "public.menu_items"),
        ("etl_categories", "public.categories"),
        ("etl_orders", "public.orders"),
        ("etl_customers", "public.customers"),
        ("etl_restaurants", "public.restaurants"),
        ("etl_order_status", "public.order_status"),
        ("etl_drivers", "public.drivers"),
        ("public.menus", "etl_orders_7_days"),
        ("public.menu_items", "etl_orders_7_days"),
        ("public.orders", "etl_orders_7_days"),
        ("public.categories", "etl_orders_7_days"),
        ("etl_orders_7_days", "public.orders_7_days"),
        ("public.orders_7_days", "etl_delivery_7_days"),
        ("public.customers", "etl_delivery_7_days"),
        ("public.order_status", "etl_delivery_7_days"),
        ("public.drivers", "etl_delivery_7_days"),
        ("public.restaurants", "etl_delivery_7_days"),
        ("etl_delivery_7_days", "public.delivery_7_days"),
        ("public.delivery_7_days", "delivery_times_7_days"),
        ("delivery_times_7_days", "public.top_delivery_times"),
        ("delivery_times_7_days", "public.discounts"),
        ("public.discounts", "email_discounts"),
        ("public.customers", "email_discounts"),
        ("public.customers", "orders_popular_day_of_week"),
        ("public.top_delivery_times", "orders_popular_day_of_week"),
        ("orders_popular_day_of_week", "public.popular_orders_day_of_week"),
    }
    assert graph["truncated"] is False


async def test_nodes_carry_what_they_are(food: Server) -> None:
    graph = await lineage(food, f"job:{FOOD}:etl_orders", depth=0)

    job, dataset = sorted(graph["graph"], key=lambda node: node["type"], reverse=True)
    assert (job["id"], job["data"]["description"], job["data"]["latestRun"]["state"]) == (
        f"job:{FOOD}:etl_orders",
        "Loads newly placed orders daily.",
        "COMPLETED",
    )
    assert (dataset["id"], dataset["data"]["description"]) == (f"dataset:{FOOD}:public.orders", "A table for orders.")


@pytest.mark.parametrize(
    ("depth", "jobs_there"),
    [
        (0, {"a"}),
        (1, {"a", "b"}),
        (2, {"a", "b", "c"}),
        (20, {"a", "b", "c"}),
    ],
)
async def test_depth_counts_jobs(server: Server, depth: int, jobs_there: set[str]) -> None:
    await tell(server.tenant, *a_chain("a", "b", "c"))

    graph = await lineage(server, "job:tests:a", depth=depth)

    assert {node["data"]["name"] for node in graph["graph"] if node["type"] == "JOB"} == jobs_there


def a_chain(*names: str) -> list[Json]:
    """Jobs of which each reads what the one before it writes."""
    return [
        an_event(job=name, inputs=[a_dataset(f"t{place}")], outputs=[a_dataset(f"t{place + 1}")])
        for place, name in enumerate(names)
    ]


async def test_a_cycle_ends(server: Server) -> None:
    there, back = a_chain("there", "back")
    back["outputs"] = there["inputs"]
    await tell(server.tenant, there, back)

    assert arrows(await lineage(server, "dataset:postgres://db:t0")) == {
        ("t0", "there"),
        ("there", "t1"),
        ("t1", "back"),
        ("back", "t0"),
    }


async def test_a_dataset_that_no_job_uses_stands_alone(server: Server) -> None:
    event = an_event()
    del event["run"], event["job"], event["inputs"], event["outputs"], event["eventType"]
    await tell(server.tenant, event | {"dataset": a_dataset("t")})

    graph = await lineage(server, "dataset:postgres://db:5432:t")

    assert [node["id"] for node in graph["graph"]] == ["dataset:postgres://db:t"]


async def test_a_run_stands_for_its_job(server: Server) -> None:
    run = a_run_id()
    await tell(server.tenant, an_event(run=run, outputs=[a_dataset("t")]))

    assert await lineage(server, f"run:{run}") == await lineage(server, "job:tests:orders")


async def test_edges_that_a_job_gave_up_a_month_ago_are_gone(server: Server) -> None:
    old, new = a_dataset("old"), a_dataset("new")
    await tell(server.tenant, an_event(time=at(0), inputs=[old], outputs=[a_dataset("t")]))
    await tell(server.tenant, an_event(time=at(29 * DAY_S), inputs=[new], outputs=[a_dataset("t")]))
    assert ("old", "orders") in arrows(await lineage(server, "job:tests:orders"))

    await tell(server.tenant, an_event(time=at(31 * DAY_S), inputs=[new], outputs=[a_dataset("t")]))

    assert arrows(await lineage(server, "job:tests:orders")) == {("new", "orders"), ("orders", "t")}
    assert arrows(await lineage(server, "dataset:postgres://db:old")) == set()


async def test_a_dropped_dataset_bridges_nothing(server: Server) -> None:
    await tell(server.tenant, *a_chain("a", "b"))
    dropped = a_dataset("t1", facets={"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")})
    await tell(server.tenant, an_event(job="drop", time=at(60), outputs=[dropped]))

    assert arrows(await lineage(server, "job:tests:a")) == {("t0", "a")}


@pytest.mark.parametrize(
    ("namespace", "name", "node_id"),
    [
        ("postgres://db:5432", "shop.t", "dataset:postgres://db:5432:shop.t"),
        ("postgres://db:6000", "shop.t", "dataset:postgres://db:6000:shop.t"),
        ("a:b", "c", "dataset:a:b:c"),
        ("a", "b:c:d", "dataset:a:b:c:d"),
        ("s3://lake", "x/date=2026-01-01", "dataset:s3a://lake:x"),
    ],
)
async def test_a_node_is_cut_where_something_exists(server: Server, namespace: str, name: str, node_id: str) -> None:
    await tell(server.tenant, an_event(job="some:job", namespace="my:jobs", outputs=[a_dataset(name, namespace)]))

    by_dataset = await lineage(server, node_id)
    by_job = await lineage(server, "job:my:jobs:some:job")

    assert by_dataset == by_job
    assert len(by_dataset["graph"]) == 2


async def test_of_two_ways_to_cut_the_longer_namespace_wins(server: Server) -> None:
    await tell(server.tenant, an_event(job="x", outputs=[a_dataset("b:c", "a"), a_dataset("c", "a:b")]))

    graph = await ask(server.client, schemas.ColumnGraph, "/column-lineage", nodeId="dataset:a:b:c")
    assert graph["graph"] == []
    await tell(server.tenant, an_event(job="y", outputs=[a_dataset("c", "a:b", facets=with_schema("column"))]))
    graph = await ask(server.client, schemas.ColumnGraph, "/column-lineage", nodeId="dataset:a:b:c")
    assert [node["data"]["namespace"] for node in graph["graph"]] == ["a:b"]


async def test_a_node_is_found_under_the_name_that_a_rule_of_the_organisation_changes(server: Server) -> None:
    rule = {"pattern": "mysql://{host}/{table}", "canonical": "postgres://dwh/{table}"}
    assert (await server.client.post("/api/v1/aliases", json=rule)).is_success
    written = a_dataset("shop.orders", "mysql://replica-7:3306", facets=with_schema("total"))
    await tell(server.tenant, an_event(job="load", outputs=[written]))

    for host in ("replica-7:3306", "replica-8"):
        graph = await lineage(server, f"dataset:mysql://{host}:shop.orders")
        assert {node["id"] for node in graph["graph"]} == {"dataset:postgres://dwh:shop.orders", "job:tests:load"}
        field = await column_lineage(server, f"datasetField:mysql://{host}:shop.orders:total")
        assert [node["id"] for node in field["graph"]] == ["datasetField:postgres://dwh:shop.orders:total"]


async def test_a_node_is_cut_by_the_patterns_of_the_organisation(server: Server) -> None:
    pattern = {"regex": "batch-[0-9]+", "kind": "time", "enabled": True}
    assert (await server.client.put("/api/v1/name-patterns/batch", json=pattern)).is_success
    await tell(server.tenant, an_event(job="load", outputs=[a_dataset("orders/batch-17", "s3://lake")]))

    graph = await lineage(server, "dataset:s3://lake:orders/batch-99")

    assert {node["id"] for node in graph["graph"]} == {"dataset:s3://lake:orders", "job:tests:load"}


async def test_a_graph_that_is_too_large_says_so(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    await tell(server.tenant, *a_chain("a", "b", "c"))
    monkeypatch.setattr(jobs, "MAX_NODES", 5)

    graph = await lineage(server, "job:tests:a")

    assert graph["truncated"] is True
    assert {node["data"]["name"] for node in graph["graph"]} == {"a", "b", "t0", "t1", "t2"}


async def test_columns_of_a_field_up_and_down(food: Server) -> None:
    field = f"datasetField:{FOOD}:public.orders_7_days:menu_id"

    up = await column_lineage(food, field)
    both = await column_lineage(food, field, withDownstream="true")

    sources = {"datasetField:public.menus:id", "datasetField:public.categories:menu_id"}
    asked = "datasetField:public.orders_7_days:menu_id"
    assert ids(up) == {asked, *sources}
    assert ids(both) == {asked, *sources, "datasetField:public.delivery_7_days:menu_id"}
    node = next(node for node in both["graph"] if node["id"] == field)
    assert (node["type"], node["data"]["fieldType"]) == ("DATASET_FIELD", "INTEGER")
    assert [source["dataset"] for source in node["data"]["inputFields"]] == ["public.categories", "public.menus"]
    # Marquez's clients find the other end of either kind of edge in its destination.
    assert {edge["origin"] for side in ("inEdges", "outEdges") for edge in node[side]} == {field}
    assert {edge["destination"] for edge in node["inEdges"]} == {
        f"datasetField:{FOOD}:public.menus:id",
        f"datasetField:{FOOD}:public.categories:menu_id",
    }
    assert [edge["destination"] for edge in node["outEdges"]] == [f"datasetField:{FOOD}:public.delivery_7_days:menu_id"]


async def test_columns_of_a_dataset_and_of_what_a_job_writes(food: Server) -> None:
    of_dataset = await column_lineage(food, f"dataset:{FOOD}:public.orders_7_days", depth=1)
    of_job = await column_lineage(food, f"job:{FOOD}:etl_orders_7_days", depth=1)

    assert of_dataset == of_job
    own = {node["data"]["field"] for node in of_dataset["graph"] if node["data"]["dataset"] == "public.orders_7_days"}
    assert own == {"order_id", "placed_on", "discount_id", "restaurant_id", "menu_id", "menu_item_id", "category_id"}
    assert len(of_dataset["graph"]) == len(own) + 10


async def test_depth_of_columns(food: Server) -> None:
    field = f"datasetField:{FOOD}:public.delivery_7_days:menu_id"

    found = [ids(await column_lineage(food, field, depth=depth)) for depth in range(3)]

    assert [len(there) for there in found] == [1, 2, 4]


async def test_too_many_columns_say_so(food: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_NODES", 8)

    graph = await column_lineage(food, f"dataset:{FOOD}:public.orders_7_days")

    assert (len(graph["graph"]), graph["truncated"]) == (8, True)


@pytest.mark.parametrize(("most", "shown", "truncated"), [(1, 2, True), (2, 3, False)])
async def test_too_many_column_edges_say_so(
    food: Server, monkeypatch: pytest.MonkeyPatch, most: int, shown: int, truncated: bool
) -> None:
    monkeypatch.setattr(columns, "_MAX_EDGES", most)

    graph = await column_lineage(food, f"datasetField:{FOOD}:public.orders_7_days:menu_id")

    assert (len(graph["graph"]), graph["truncated"]) == (shown, truncated)


async def test_column_edges_that_a_job_no_longer_tells_are_gone(server: Server) -> None:
    """The job still writes the table, and has not said for a month where its columns come from."""
    lineage = {"c": {"inputFields": [{"namespace": "postgres://db", "name": "s", "field": "c"}]}}
    told = with_schema("c") | {"columnLineage": a_facet(fields=lineage)}

    async def run(seconds: float, facets: Json) -> tuple[int, list[Json] | None]:
        output = a_dataset("t", facets=facets)
        await tell(server.tenant, an_event(time=at(seconds), inputs=[a_dataset("s")], outputs=[output]))
        graph = await column_lineage(server, "dataset:postgres://db:t")
        dataset = await ask(server.client, schemas.DatasetOut, at_dataset("postgres://db", "t"))
        return len(graph["graph"]), dataset["columnLineage"]

    nodes, known = await run(0, told)
    assert (nodes, [column["name"] for column in known or ()]) == (2, ["c"])
    assert await run(31 * DAY_S, with_schema("c")) == (1, None)


async def test_column_edges_that_a_job_gave_up_are_gone(server: Server) -> None:
    def a_run(seconds: float, output: str, source: str) -> Json:
        lineage = {"c": {"inputFields": [{"namespace": "postgres://db", "name": source, "field": "c"}]}}
        facets = with_schema("c") | {"columnLineage": a_facet(fields=lineage)}
        return an_event(time=at(seconds), inputs=[a_dataset(source)], outputs=[a_dataset(output, facets=facets)])

    await tell(server.tenant, a_run(0, "t", "s"))
    before = await column_lineage(server, "dataset:postgres://db:t")
    await tell(server.tenant, a_run(31 * DAY_S, "other", "s"))
    after = await column_lineage(server, "dataset:postgres://db:t")

    assert [len(graph["graph"]) for graph in (before, after)] == [2, 1]


@pytest.mark.parametrize("path", ["/lineage", "/column-lineage"])
@pytest.mark.parametrize(
    "node_id",
    [f"dataset:{FOOD}:public.unknown", f"job:{FOOD}:unknown", "run:00000000-0000-0000-0000-000000000009"],
)
async def test_what_does_not_exist_is_not_found(food: Server, path: str, node_id: str) -> None:
    assert (await refused(food.client, path, nodeId=node_id))["status"] == 404


async def test_an_unknown_field_is_not_found(food: Server) -> None:
    problem = await refused(food.client, "/column-lineage", nodeId=f"datasetField:{FOOD}:public.orders:nothing")

    assert problem["status"] == 404


async def test_an_unknown_dataset_names_the_nearest(food: Server) -> None:
    problem = await refused(food.client, "/lineage", nodeId=f"dataset:{FOOD}:public.order")

    assert f"{FOOD}/public.orders" in problem["hint"]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "query.nodeId"),
        ({"nodeId": ""}, "query.nodeId"),
        ({"nodeId": "public.orders"}, "query.nodeId"),
        ({"nodeId": "table:food_delivery:public.orders"}, "query.nodeId"),
        ({"nodeId": "dataset:food_delivery"}, "query.nodeId"),
        ({"nodeId": "run:yesterday"}, "query.nodeId"),
        ({"nodeId": "dataset:a:b#4d3b8069-69b6-4708-ade0-3275112c9f04"}, "query.nodeId"),
        ({"nodeId": "dataset:" + "x" * 10_000}, "query.nodeId"),
        ({"nodeId": "dataset:a:b", "depth": "-1"}, "query.depth"),
        ({"nodeId": "dataset:a:b", "depth": "101"}, "query.depth"),
        ({"nodeId": "dataset:a:b", "depth": "9" * 50}, "query.depth"),
    ],
)
@pytest.mark.parametrize("path", ["/lineage", "/column-lineage"])
async def test_a_wrong_parameter_is_named(food: Server, path: str, params: dict[str, str], field: str) -> None:
    problem = await refused(food.client, path, **params)

    assert (problem["status"], [error["path"] for error in problem["errors"]]) == (422, [field])


async def test_a_field_is_no_node_of_the_graph_of_jobs(food: Server) -> None:
    problem = await refused(food.client, "/lineage", nodeId=f"datasetField:{FOOD}:public.orders:id")

    assert problem["status"] == 422
