"""What ingest makes of events: datasets and their names, and lineage job by job."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from headgate.server.db.pool import Database
from headgate.settings import Settings
from tests.conftest import Cluster
from tests.support.events import PRODUCER, SCHEMA_URL, Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.ingest import BATCH, an_observed_server, post
from tests.support.server import Server, Tenant, running_server
from tests.support.stored import Stored, eventually, moment

PATH = a_dataset("gold/orders", "s3://lake")
TABLE = a_dataset("shop.orders", "hive://meta")


@pytest.fixture(scope="module")
async def observed(cluster: Cluster) -> AsyncIterator[tuple[Server, Stored]]:
    async with an_observed_server(cluster) as observed:
        yield observed


@pytest.fixture
async def tenant(observed: tuple[Server, Stored]) -> Tenant:
    """An organisation of the test's own."""
    return await observed[0].add_tenant(f"Org {a_run_id()}")


@pytest.fixture
async def stored(observed: tuple[Server, Stored], tenant: Tenant) -> Stored:
    return Stored(observed[1].db, tenant.organization_id)


def symlinked(dataset: Json, *others: Json, kind: str = "TABLE") -> Json:
    identifiers = [{"namespace": other["namespace"], "name": other["name"], "type": kind} for other in others]
    return dataset | {"facets": {"symlinks": a_facet(identifiers=identifiers)}}


def a_job_event(**parts: Any) -> Json:
    event = an_event(**parts)
    return {name: part for name, part in event.items() if name not in ("run", "eventType")}


def a_dataset_event(dataset: Json, second: float = 0) -> Json:
    return {"eventTime": at(second), "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset}


async def test_spellings_of_one_place_are_one_dataset(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(
        an_event(inputs=[a_dataset("db.t", "postgresql://HOST:5432"), a_dataset("gold/orders", "s3a://lake")]),
        an_event(inputs=[a_dataset("db.t", "postgres://host"), a_dataset("/gold/orders/dt=2026-03-01/", "s3n://lake")]),
    )
    assert await stored.dataset_names() == {("postgres://host", "db.t"), ("s3://lake", "gold/orders")}


async def test_two_ports_are_two_databases(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(an_event(inputs=[a_dataset("t", "postgres://db:5432"), a_dataset("t", "postgres://db:5433")]))
    assert await stored.dataset_names() == {("postgres://db", "t"), ("postgres://db:5433", "t")}


async def test_a_dataset_knows_its_display_name_type_and_first_sight(tenant: Tenant, stored: Stored) -> None:
    kind = {"datasetType": a_facet(datasetType="VIEW")}
    await tenant.send_ok(
        an_event(inputs=[a_dataset("gold/orders/dt=2026-03-01", "s3://lake")], time=at(5)),
        an_event(inputs=[a_dataset("shop.v", facets=kind)], time=at(6)),
    )
    orders, view = await stored.dataset("gold/orders"), await stored.dataset("shop.v")
    assert (orders["display_name"], orders["type"], orders["first_seen_at"]) == ("lake:orders", "s3", moment(5))
    assert view["type"] == "view"


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [("TABLE", "VIEW", "view"), ("VIEW", None, "view"), ("VIEW", "TABLE", "view"), ("VIEW", "MODEL", "model")],
    ids=["stronger", "not mentioned", "weaker", "changed"],
)
async def test_a_type_is_kept_until_another_is_told(
    tenant: Tenant, stored: Stored, first: str, second: str | None, kept: str
) -> None:
    for step, kind in enumerate((first, second)):
        facets = {"datasetType": a_facet(datasetType=kind)} if kind else {"x": a_facet()}
        await tenant.send_ok(an_event(outputs=[a_dataset("shop.t", facets=facets)], time=at(step)))
    assert (await stored.dataset("shop.t"))["type"] == kept


async def test_what_a_path_suggests_does_not_overrule_what_was_told(tenant: Tenant, stored: Stored) -> None:
    told, silent = {"datasetType": a_facet(datasetType="ICEBERG")}, {"x": a_facet()}
    await tenant.send_ok(
        an_event(job="a", outputs=[PATH | {"facets": told}], time=at(0)),
        an_event(job="b", outputs=[PATH | {"facets": silent}], time=at(1)),
    )
    assert (await stored.dataset(PATH["name"]))["type"] == "iceberg"


async def test_a_table_symlink_is_an_alias_of_its_dataset(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(an_event(outputs=[symlinked(PATH, TABLE)]), an_event(inputs=[TABLE], outputs=[a_dataset("x")]))
    assert await stored.dataset_names() == {("s3://lake", "gold/orders"), ("postgres://db", "x")}
    aliases = await stored.rows("SELECT name, source FROM dataset_aliases WHERE organization_id = $1 ORDER BY name")
    assert [(row["name"], row["source"]) for row in aliases] == [
        ("gold/orders", "primary"),
        ("shop.orders", "symlink"),
        ("x", "primary"),
    ]
    assert await stored.edge_pairs() == {("gold/orders", "x")}


async def test_a_location_symlink_is_no_alias(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(an_event(outputs=[symlinked(TABLE, PATH, kind="LOCATION")]))
    assert await stored.rows("SELECT 1 FROM dataset_aliases WHERE organization_id = $1 AND source = 'symlink'") == []


@pytest.mark.parametrize("older", ["path", "table"])
async def test_a_symlink_joins_two_datasets_that_exist_into_the_older(
    tenant: Tenant, stored: Stored, older: str
) -> None:
    first, second = (PATH, TABLE) if older == "path" else (TABLE, PATH)
    await tenant.send_ok(
        an_event(job="a", inputs=[a_dataset("raw")], outputs=[first], time=at(0)),
        an_event(job="b", inputs=[second], outputs=[a_dataset("report")], time=at(1)),
    )
    survivor = (await stored.dataset(first["name"]))["id"]
    await tenant.send_ok(an_event(job="a", inputs=[a_dataset("raw")], outputs=[symlinked(PATH, TABLE)], time=at(2)))

    assert (await stored.dataset(PATH["name"]))["id"] == (await stored.dataset(TABLE["name"]))["id"] == survivor
    assert await stored.edge_pairs() == {("raw", first["name"]), (first["name"], "report")}
    (merge,) = await stored.rows("SELECT survivor_id, reason FROM dataset_merges WHERE organization_id = $1")
    assert (merge["survivor_id"], merge["reason"]) == (survivor, "symlink")
    # Either name leads to the same dataset from now on.
    await tenant.send_ok(an_event(job="c", inputs=[second], outputs=[a_dataset("later")], time=at(3)))
    assert (first["name"], "later") in await stored.edge_pairs("c")


async def test_every_input_feeds_every_output_of_its_job(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(
        an_event(job="one", inputs=[a_dataset("a"), a_dataset("b")], outputs=[a_dataset("x"), a_dataset("y")]),
        an_event(job="two", inputs=[a_dataset("a")], outputs=[a_dataset("x")]),
    )
    assert await stored.edge_pairs("one") == {("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")}
    assert await stored.edge_pairs("two") == {("a", "x")}


async def test_a_dataset_does_not_feed_itself(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(an_event(inputs=[a_dataset("a"), a_dataset("x")], outputs=[a_dataset("x")]))
    assert await stored.edge_pairs() == {("a", "x")}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
async def test_edges_add_up_over_the_events_of_a_run(tenant: Tenant, stored: Stored, order: tuple[int, ...]) -> None:
    run = a_run_id()
    events = [
        an_event("START", run=run, time=at(0), inputs=[a_dataset("a")]),
        an_event("RUNNING", run=run, time=at(1), inputs=[a_dataset("b")]),
        an_event("COMPLETE", run=run, time=at(2), outputs=[a_dataset("x")]),
    ]
    await tenant.send_ok(*(events[place] for place in order))
    assert await stored.edge_pairs() == {("a", "x"), ("b", "x")}


async def test_edges_add_up_within_one_batch(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    batch = [
        an_event("COMPLETE", run=run, time=at(2), outputs=[a_dataset("x")]),
        an_event("START", run=run, time=at(0), inputs=[a_dataset("a")]),
    ]
    assert (await post(tenant, BATCH, batch)).status_code == 200
    assert await stored.edge_pairs() == {("a", "x")}


async def test_runs_of_one_job_that_differ_all_count(tenant: Tenant, stored: Stored) -> None:
    for name in ("a", "b", "a"):
        await tenant.send_ok(an_event(inputs=[a_dataset(name)], outputs=[a_dataset("x")]))
    assert await stored.edge_pairs() == {("a", "x"), ("b", "x")}


async def the_edge(stored: Stored) -> dict[str, Any]:
    (edge,) = await stored.edges()
    return edge


def io(second: float, event_type: str = "COMPLETE", **parts: Any) -> Json:
    return an_event(event_type, time=at(second), inputs=[a_dataset("a")], outputs=[a_dataset("x")], **parts)


@pytest.mark.parametrize("seconds", [(10, 20, 30, 40), (40, 30, 20, 10), (20, 40, 10, 30)], ids=str)
async def test_an_edge_knows_when_it_was_first_and_last_seen(
    tenant: Tenant, stored: Stored, seconds: tuple[float, ...]
) -> None:
    runs = {second: a_run_id() for second in seconds}
    await tenant.send_ok(*(io(second, run=runs[second]) for second in seconds))

    edge = await eventually(
        lambda: the_edge(stored), lambda e: (e["first_seen_at"], e["last_seen_at"]) == (moment(10), moment(40))
    )
    assert (edge["first_seen_at"], edge["last_seen_at"], edge["last_completed_at"]) == (
        moment(10),
        moment(40),
        moment(40),
    )
    assert str(edge["last_run_id"]) == runs[40]


async def test_what_is_still_to_be_touched_is_written_when_the_server_stops(
    cluster: Cluster, settings: Settings, database: Database, db: asyncpg.Connection
) -> None:
    async with running_server(settings, database) as server:
        await server.tenant.send_ok(*(io(second) for second in (1, 2, 3, 4)))
    assert (await the_edge(Stored(db, server.tenant.organization_id)))["last_seen_at"] == moment(4)


@pytest.mark.parametrize("state", ["FAIL", "ABORT", "START", "RUNNING"])
async def test_an_edge_of_a_run_that_did_not_complete_is_marked(tenant: Tenant, stored: Stored, state: str) -> None:
    await tenant.send_ok(io(1, state))
    edge = await the_edge(stored)
    assert (edge["last_seen_at"], edge["last_completed_at"]) == (moment(1), None)
    await tenant.send_ok(io(2, "COMPLETE"))
    edge = await eventually(lambda: the_edge(stored), lambda e: e["last_completed_at"] is not None)
    assert edge["last_completed_at"] == moment(2)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "end first"])
async def test_an_edge_told_at_the_start_is_completed_by_a_bare_end(
    tenant: Tenant, stored: Stored, order: tuple[int, int]
) -> None:
    run = a_run_id()
    events = [io(1, "START", run=run), an_event("COMPLETE", run=run, time=at(5))]
    await tenant.send_ok(*(events[place] for place in order))
    edge = await eventually(lambda: the_edge(stored), lambda e: e["last_completed_at"] is not None)
    assert edge["last_completed_at"] == moment(5)


async def test_a_bare_end_that_is_no_completion_completes_nothing(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    await tenant.send_ok(io(1, "START", run=run), an_event("FAIL", run=run, time=at(5)))
    assert (await the_edge(stored))["last_completed_at"] is None


@pytest.mark.parametrize(
    "facets",
    [
        {"run_facets": {"test": a_facet(tests=[{"name": "t", "status": "pass"}])}},
        {"job_facets": {"jobType": a_facet(processingType="BATCH", integration="DBT", jobType="TEST")}},
    ],
    ids=["test facet", "job type"],
)
async def test_a_test_run_is_no_producer_of_its_audit_table(tenant: Tenant, stored: Stored, facets: Json) -> None:
    run = a_run_id()
    await tenant.send_ok(io(0, "START", run=run, **facets), io(1, "COMPLETE", run=run))

    assert await stored.edges() == []
    uses = await stored.rows("SELECT role FROM job_datasets WHERE organization_id = $1")
    assert [use["role"] for use in uses] == ["input"]
    assert (await tenant.run(run))["is_test"] is True


async def test_a_run_that_writes_and_also_asserts_is_a_producer(tenant: Tenant, stored: Stored) -> None:
    facet = {"dataQualityAssertions": a_facet(assertions=[{"assertion": "not_null", "success": True}])}
    await tenant.send_ok(an_event(inputs=[a_dataset("a", inputFacets=facet)], outputs=[a_dataset("x")]))
    assert await stored.edge_pairs() == {("a", "x")}
    assert len(await stored.tests()) == 1


async def test_a_job_event_tells_lineage_without_a_run(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(a_job_event(job="designed", inputs=[a_dataset("a")], outputs=[a_dataset("x")], time=at(3)))
    edge = await the_edge(stored)
    assert (edge["job"], edge["last_run_id"], edge["last_completed_at"]) == ("designed", None, moment(3))
    assert await stored.count("job_runs") == 0


async def test_a_dataset_event_describes_a_dataset_without_a_job(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(a_dataset_event(a_dataset("t", facets=with_schema("a"))))
    assert [version["columns"] for version in await stored.versions("t")] == [["a"]]
    assert (await stored.count("jobs"), await stored.count("job_runs")) == (0, 0)


async def test_edges_that_are_spelled_out_are_the_only_ones(tenant: Tenant, stored: Stored) -> None:
    entry = {"namespace": "postgres://db:5432", "name": "x", "type": "DATASET",
             "inputs": [{"namespace": "postgres://db:5432", "name": "a", "type": "DATASET"}]}  # fmt: skip
    run = a_run_id()
    sides: Json = {"inputs": [a_dataset("a"), a_dataset("b")], "outputs": [a_dataset("x"), a_dataset("y")]}
    await tenant.send_ok(
        an_event("START", run=run),
        an_event(run=run, job_facets={"lineage": a_facet(entries=[entry])}, time=at(1), **sides),
    )
    assert await stored.edge_pairs() == {("a", "x")}
    found = await tenant.run(run)
    assert [d["name"] for d in found["inputs"] + found["outputs"]] == ["a", "b", "x", "y"]


async def test_a_bare_end_does_not_add_to_edges_that_were_spelled_out(tenant: Tenant, stored: Stored) -> None:
    entry = {"namespace": "postgres://db:5432", "name": "x", "type": "DATASET",
             "inputs": [{"namespace": "postgres://db:5432", "name": "a", "type": "DATASET"}]}  # fmt: skip
    run = a_run_id()
    sides: Json = {"inputs": [a_dataset("a"), a_dataset("b")], "outputs": [a_dataset("x"), a_dataset("y")]}
    spelled = an_event("START", run=run, job_facets={"lineage": a_facet(entries=[entry])}, **sides)
    await tenant.send_ok(spelled, an_event("COMPLETE", run=run, time=at(1)))
    edge = await eventually(lambda: the_edge(stored), lambda e: e["last_completed_at"] is not None)
    assert (edge["source"], edge["target"], edge["last_completed_at"]) == ("a", "x", moment(1))


async def test_what_a_job_says_of_itself_is_kept(tenant: Tenant, stored: Stored) -> None:
    job_type = a_facet(processingType="BATCH", integration="SPARK", jobType="JOB")
    await tenant.send_ok(
        an_event(job_facets={"jobType": job_type, "sql": a_facet(query="select 1")}, time=at(0)),
        an_event(job_facets={"sql": a_facet(query="select 2")}, time=at(2)),
        an_event(job_facets={"sql": a_facet(query="select 0"), "documentation": a_facet(description="d")}, time=at(1)),
    )
    (job,) = await stored.rows("SELECT * FROM jobs WHERE organization_id = $1")
    facets = json.loads(job["facets"])
    assert (job["job_type"], job["processing_type"], job["integration"]) == ("JOB", "BATCH", "SPARK")
    assert facets["sql"]["query"] == "select 2"
    assert set(facets) == {"jobType", "sql", "documentation"}


async def test_a_job_facet_that_is_deleted_goes(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(
        an_event(job_facets={"sql": a_facet(query="select 1"), "x": a_facet()}, time=at(0)),
        an_event(job_facets={"sql": a_facet() | {"_deleted": True}}, time=at(1)),
    )
    (job,) = await stored.rows("SELECT facets FROM jobs WHERE organization_id = $1")
    assert set(json.loads(job["facets"])) == {"x"}


async def test_facts_of_one_organisation_are_not_another_ones(
    observed: tuple[Server, Stored], tenant: Tenant, stored: Stored
) -> None:
    other = await observed[0].add_tenant(f"Other {a_run_id()}")
    event = io(1)
    await tenant.send_ok(event)
    await other.send_ok(event)
    assert len(await stored.edges()) == 1
    assert len(await Stored(stored.db, other.organization_id).edges()) == 1
