"""Marquez's search and log of events, paging, what bad input gets, and what another organisation sees."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from headgate.server.db.pool import Connection, Database
from headgate.server.deps import Reading
from headgate.server.marquez import schemas
from headgate.server.marquez.finding import events
from headgate.server.marquez.requests import Window
from tests.conftest import Cluster
from tests.support.events import Json, a_dataset, an_event, at
from tests.support.ingest import a_server
from tests.support.marquez import API, ask, at_dataset, at_job, at_path, refused, tell
from tests.support.server import Server

RUN = str(uuid.UUID(int=7))
NAMESPACE = "postgres://db"


def the_events() -> list[Json]:
    """Three jobs, a minute apart, of which each writes a table."""
    return [
        an_event(run=RUN, job="load_orders", time=at(0), outputs=[a_dataset("orders")]),
        an_event(job="load_Customers", time=at(60), outputs=[a_dataset("customers")]),
        an_event(job="report", namespace="other", time=at(120), outputs=[a_dataset("orders_7_days", "s3://lake")]),
    ]


@pytest.fixture(scope="module")
async def shop(cluster: Cluster) -> AsyncIterator[Server]:
    """A server that was told everything once; tests only read it."""
    async with a_server(cluster) as server:
        await tell(server.tenant, *the_events())
        yield server


async def found(server: Server, q: str, **params: Any) -> list[str]:
    answer = await ask(server.client, schemas.SearchResults, "/search", q=q, **params)
    assert answer["totalCount"] == len(answer["results"])
    return [result["name"] for result in answer["results"]]


@pytest.mark.parametrize(
    ("q", "names"),
    [
        ("orders", ["load_orders", "orders", "orders_7_days"]),
        ("CUST", ["customers", "load_Customers"]),
        ("load%s", ["load_Customers", "load_orders"]),
        ("orders_7", ["orders_7_days"]),
        ("nothing like it", []),
        ("\\", []),
        ("x" * 500, []),
    ],
)
async def test_search_finds_any_part_of_a_name_in_any_case(shop: Server, q: str, names: list[str]) -> None:
    assert await found(shop, q) == names


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ({"filter": "JOB"}, ["load_orders"]),
        ({"filter": "dataset"}, ["orders", "orders_7_days"]),
        ({"namespace": "tests"}, ["load_orders"]),
        ({"namespace": "postgresql://db:5432"}, ["orders"]),
        ({"namespace": "nowhere"}, []),
        ({"sort": "NAME"}, ["load_orders", "orders", "orders_7_days"]),
        ({"sort": "UPDATE_AT"}, ["orders_7_days", "load_orders", "orders"]),
        ({"sort": "updated_at", "after": at(60)}, ["orders_7_days"]),
        ({"before": at(60)}, ["load_orders", "orders"]),
        ({"after": "2026-03-01", "before": "2026-03-02"}, ["load_orders", "orders", "orders_7_days"]),
        ({"after": "2026-03-02"}, []),
    ],
)
async def test_search_filters_and_sorts(shop: Server, params: dict[str, str], names: list[str]) -> None:
    assert await found(shop, "orders", **params) == names


async def test_a_result_leads_to_its_node(shop: Server) -> None:
    answer = await ask(shop.client, schemas.SearchResults, "/search", q="orders", limit=2)

    assert answer["totalCount"] == 3
    assert answer["results"] == [
        {
            "type": "JOB",
            "name": "load_orders",
            "updatedAt": at(0),
            "namespace": "tests",
            "nodeId": "job:tests:load_orders",
        },
        {
            "type": "DATASET",
            "name": "orders",
            "updatedAt": at(0),
            "namespace": NAMESPACE,
            "nodeId": f"dataset:{NAMESPACE}:orders",
        },
    ]
    for result in answer["results"]:
        assert (await ask(shop.client, schemas.Graph, "/lineage", nodeId=result["nodeId"]))["graph"]


async def jobs_of(server: Server, path: str = "/events/lineage", **params: Any) -> list[str]:
    """Names of the jobs of the events that are listed."""
    answer = await ask(server.client, schemas.EventList, path, **params)
    return [event["job"]["name"] for event in answer["events"]]


@pytest.mark.parametrize(
    ("params", "jobs"),
    [
        ({}, ["report", "load_Customers", "load_orders"]),
        ({"before": "", "after": ""}, ["report", "load_Customers", "load_orders"]),
        ({"sortDirection": "asc"}, ["load_orders", "load_Customers", "report"]),
        ({"sortDirection": "DESC", "limit": 1, "offset": 1}, ["load_Customers"]),
        ({"limit": 0}, []),
        ({"after": at(60)}, ["report", "load_Customers"]),
        ({"before": at(60)}, ["load_orders"]),
        ({"after": at(1), "before": at(61)}, ["load_Customers"]),
        ({"after": "2026-03-02"}, []),
    ],
)
async def test_events_are_listed_by_time(shop: Server, params: dict[str, Any], jobs: list[str]) -> None:
    assert await jobs_of(shop, **params) == jobs


async def test_events_are_listed_under_the_path_that_clients_know(shop: Server) -> None:
    assert await jobs_of(shop, "/events", limit=2) == ["report", "load_Customers"]


async def test_events_are_listed_by_the_namespace_of_their_job(shop: Server) -> None:
    listed = await ask(shop.client, schemas.EventList, "/events/tests", limit=1)

    assert (listed["events"][0]["job"]["name"], listed["totalCount"]) == ("load_Customers", 2)
    assert await jobs_of(shop, "/events/tests", sortDirection="asc") == ["load_orders", "load_Customers"]
    assert await jobs_of(shop, "/events/other", after=at(0)) == ["report"]
    assert await jobs_of(shop, at_path("events", NAMESPACE)) == []


async def test_events_are_counted_within_the_time_asked_for(shop: Server) -> None:
    counts = [
        (await ask(shop.client, schemas.EventList, "/events/lineage", limit=1, **params))["totalCount"]
        for params in ({}, {"after": at(60)}, {"before": at(0)})
    ]

    assert counts == [3, 2, 0]


async def test_events_come_back_byte_for_byte(server: Server) -> None:
    raw = b'{ "one":1e2,' + json.dumps(an_event(job="caf\u00e9")).encode()[1:]
    await tell(server.tenant, raw)

    response = await server.client.get(f"{API}/events/lineage")

    assert response.content == b'{"totalCount":1,"events":[' + raw + b"]}"


class CountedReads(Reading):
    """Knows how many connections are held."""

    def __init__(self, database: Database, organization_id: UUID) -> None:
        self._database = database
        self._organization_id = organization_id
        self.held = 0

    @property
    def organization_id(self) -> UUID:
        return self._organization_id

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Connection]:
        async with self._database.tenant(self._organization_id) as conn:
            self.held += 1
            yield conn
            self.held -= 1


@pytest.mark.parametrize("direction", list(events.Direction))
async def test_a_client_that_reads_slowly_holds_no_connection(
    server: Server, database: Database, monkeypatch: pytest.MonkeyPatch, direction: events.Direction
) -> None:
    monkeypatch.setattr(events, "_PIECE_BYTES", 1)
    await tell(server.tenant, *the_events())
    reads = CountedReads(database, server.tenant.organization_id)

    pieces, held = [], set()
    async for piece in events.EventLog(reads).body(events.Wanted.of(None, None), direction, Window(10, 0), 3):
        pieces.append(piece)
        held.add(reads.held)

    jobs = [event["job"]["name"] for event in json.loads(b"".join(pieces))["events"]]
    received = ["load_orders", "load_Customers", "report"]
    assert jobs == (received if direction is events.Direction.asc else received[::-1])
    assert held == {0}


async def test_an_event_that_was_refused_is_not_listed(server: Server) -> None:
    await tell(server.tenant, an_event("COMPLETE", run=RUN, time=at(0)))
    late = await server.tenant.send(an_event("FAIL", run=RUN, time=at(9)), f"{API}/lineage")

    assert late.status_code == 422
    assert (await ask(server.client, schemas.EventList, "/events/lineage"))["totalCount"] == 1


async def test_pages_of_every_list_join_up(shop: Server) -> None:
    lists = {
        "/namespaces": ("namespaces", schemas.NamespaceList),
        "/sources": ("sources", schemas.SourceList),
        "/jobs": ("jobs", schemas.JobList),
        at_path("namespaces", "tests", "jobs"): ("jobs", schemas.JobList),
        at_path("namespaces", NAMESPACE, "datasets"): ("datasets", schemas.DatasetList),
    }
    for path, (name, shape) in lists.items():
        whole = await ask(shop.client, shape, path)
        assert len(whole[name]) > 1
        pages = [
            await ask(shop.client, shape, path, limit=1, offset=offset) for offset in range(whole["totalCount"] + 1)
        ]
        assert [item for page in pages for item in page[name]] == whole[name]
        assert await ask(shop.client, shape, path, limit=0) == {name: [], "totalCount": whole["totalCount"]}
        assert (await ask(shop.client, shape, path, limit=1000, offset=100_000))[name] == []


LISTS = ["/namespaces", "/jobs", "/tags", "/sources", "/events/lineage", "/events", "/events/tests"]


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": "-1"}, "query.limit"),
        ({"limit": "1001"}, "query.limit"),
        ({"limit": "many"}, "query.limit"),
        ({"offset": "-1"}, "query.offset"),
        ({"offset": "100001"}, "query.offset"),
        ({"offset": "9" * 100}, "query.offset"),
    ],
)
async def test_a_page_that_cannot_be_is_refused(shop: Server, path: str, params: dict[str, str], field: str) -> None:
    problem = await refused(shop.client, path, **params)

    assert (problem["status"], [error["path"] for error in problem["errors"]]) == (422, [field])


async def test_an_offset_that_is_too_far_says_what_to_do(shop: Server) -> None:
    problem = await refused(shop.client, "/jobs", offset=100_001)

    assert "larger than 100,000" in problem["detail"]
    assert "cursors" in problem["hint"]


@pytest.mark.parametrize(
    ("path", "params", "field"),
    [
        ("/search", {}, "query.q"),
        ("/search", {"q": ""}, "query.q"),
        ("/search", {"q": "x" * 501}, "query.q"),
        ("/search", {"q": "x", "filter": "TABLE"}, "query.filter"),
        ("/search", {"q": "x", "sort": "SIZE"}, "query.sort"),
        ("/search", {"q": "x", "after": "yesterday"}, "query.after"),
        ("/events/lineage", {"before": "2026-13-01"}, "query.before"),
        ("/events/lineage", {"after": "9" * 40}, "query.after"),
        ("/events/lineage", {"sortDirection": "sideways"}, "query.sortDirection"),
        ("/jobs/runs/yesterday", {}, "path.run"),
        (f"/jobs/runs/{RUN}/facets", {}, "query.type"),
        (f"/jobs/runs/{RUN}/facets", {"type": "dataset"}, "query.type"),
        (at_dataset(NAMESPACE, "orders", "versions", "v1"), {}, "path.version"),
        (at_path("namespaces", "x" * 5000), {}, "path.namespace"),
        ("/search", {"q": "a\0b"}, "url"),
    ],
)
async def test_a_wrong_parameter_is_named(shop: Server, path: str, params: dict[str, str], field: str) -> None:
    problem = await refused(shop.client, path, **params)

    assert (problem["status"], [error["path"] for error in problem["errors"]]) == (422, [field])


def everything_by_name() -> list[tuple[str, dict[str, str]]]:
    """Each route that names something, asked for what the first organisation has."""
    dataset, job = at_dataset(NAMESPACE, "orders"), at_job("tests", "load_orders")
    return [
        (at_path("namespaces", "tests"), {}),
        (at_path("sources", NAMESPACE), {}),
        (at_path("events", "tests"), {}),
        (at_path("namespaces", NAMESPACE, "datasets"), {}),
        (at_path("namespaces", "tests", "jobs"), {}),
        (dataset, {}),
        (f"{dataset}/versions", {}),
        (f"{dataset}/versions/{RUN}", {}),
        (job, {}),
        (f"{job}/versions", {}),
        (f"{job}/versions/{RUN}", {}),
        (f"{job}/runs", {}),
        (f"/jobs/runs/{RUN}", {}),
        (f"/jobs/runs/{RUN}/facets", {"type": "run"}),
        ("/lineage", {"nodeId": f"dataset:{NAMESPACE}:orders"}),
        ("/lineage", {"nodeId": "job:tests:load_orders"}),
        ("/lineage", {"nodeId": f"run:{RUN}"}),
        ("/column-lineage", {"nodeId": f"dataset:{NAMESPACE}:orders"}),
    ]


async def test_another_organisation_sees_nothing_of_it(server: Server) -> None:
    await tell(server.tenant, *the_events())
    other = await server.add_tenant("Second")

    for path, params in everything_by_name():
        problem = await refused(other.client, path, **params)
        assert (path, problem["status"]) == (path, 404)
    for path, name, shape in (
        ("/namespaces", "namespaces", schemas.NamespaceList),
        ("/sources", "sources", schemas.SourceList),
        ("/jobs", "jobs", schemas.JobList),
        ("/tags", "tags", schemas.TagList),
        ("/events/lineage", "events", schemas.EventList),
    ):
        assert await ask(other.client, shape, path) == {name: [], "totalCount": 0}
    assert (await ask(other.client, schemas.SearchResults, "/search", q="orders"))["results"] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", at_path("namespaces", "mine")),
        ("PUT", at_dataset("mine", "t")),
        ("DELETE", at_job("mine", "j")),
        ("POST", at_job("mine", "j", "runs")),
        ("DELETE", f"{API}/lineage"),
    ],
)
async def test_what_writes_in_marquez_is_refused_by_its_method(shop: Server, method: str, path: str) -> None:
    response = await shop.client.request(method, path, json={"ownerName": "me"})

    assert response.status_code == 405
    assert "GET" in response.headers["allow"]


async def test_a_trailing_slash_leads_to_the_route(shop: Server) -> None:
    params = {"nodeId": "job:tests:load_orders"}

    response = await shop.client.get(f"{API}/lineage/", params=params, follow_redirects=True)

    assert response.json() == await ask(shop.client, schemas.Graph, "/lineage", **params)
