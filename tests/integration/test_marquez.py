"""The read routes of Marquez's API in its shapes: namespaces, datasets, sources and tags."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from headgate.server.marquez import schemas
from tests.conftest import Cluster
from tests.support.events import a_dataset, a_facet, an_event, at, with_schema
from tests.support.ingest import a_server
from tests.support.marquez import (
    API,
    DATABASE,
    FIRST,
    JOBS,
    KNOWN_AS,
    LAKE,
    RAW,
    SECOND,
    ask,
    at_dataset,
    at_path,
    refused,
    tell,
    the_story,
)
from tests.support.server import Server


@pytest.fixture(scope="module")
async def shop(cluster: Cluster) -> AsyncIterator[Server]:
    """A server that was told the story once; tests only read it."""
    async with a_server(cluster) as server:
        await tell(server.tenant, *the_story())
        yield server


async def test_an_event_is_stored_once_and_its_repetition_accepted(server: Server) -> None:
    event = an_event(namespace=JOBS)

    answers = [await server.tenant.send(event, f"{API}/lineage") for _ in range(2)]

    assert [answer.status_code for answer in answers] == [201, 200]
    assert (await ask(server.client, schemas.JobList, "/jobs"))["totalCount"] == 1


async def test_namespaces_are_those_of_jobs_and_datasets(shop: Server) -> None:
    found = await ask(shop.client, schemas.NamespaceList, "/namespaces")

    assert [item["name"] for item in found["namespaces"]] == ["kafka://k", KNOWN_AS, LAKE, JOBS]
    assert found["totalCount"] == 4
    assert found["namespaces"][3] == {
        "name": JOBS,
        "createdAt": at(0),
        "updatedAt": at(200),
        "ownerName": "anonymous",
        "description": None,
        "isHidden": False,
    }


async def test_an_empty_organisation_has_empty_lists(server: Server) -> None:
    assert await ask(server.client, schemas.NamespaceList, "/namespaces") == {"namespaces": [], "totalCount": 0}
    assert await ask(server.client, schemas.SourceList, "/sources") == {"sources": [], "totalCount": 0}
    assert await ask(server.client, schemas.JobList, "/jobs") == {"jobs": [], "totalCount": 0}
    assert await ask(server.client, schemas.TagList, "/tags") == {"tags": [], "totalCount": 0}


@pytest.mark.parametrize("spelling", [DATABASE, KNOWN_AS, "postgresql://DB", "jdbc:postgresql://db:5432"])
async def test_a_namespace_is_found_by_any_spelling(shop: Server, spelling: str) -> None:
    assert (await ask(shop.client, schemas.NamespaceOut, at_path("namespaces", spelling)))["name"] == KNOWN_AS
    listed = await ask(shop.client, schemas.DatasetList, at_path("namespaces", spelling, "datasets"))
    assert [item["name"] for item in listed["datasets"]] == [RAW]


async def test_a_job_namespace_that_looks_like_a_database_does_not_hide_the_database(server: Server) -> None:
    await tell(server.tenant, an_event(namespace=DATABASE, outputs=[a_dataset("t", DATABASE)]))

    datasets = await ask(server.client, schemas.DatasetList, at_path("namespaces", DATABASE, "datasets"))
    jobs = await ask(server.client, schemas.JobList, at_path("namespaces", DATABASE, "jobs"))

    assert [item["name"] for item in datasets["datasets"]] == ["t"]
    assert [item["name"] for item in jobs["jobs"]] == ["orders"]


@pytest.mark.parametrize("kind", ["datasets", "jobs"])
async def test_a_known_namespace_without_any_has_an_empty_list(shop: Server, kind: str) -> None:
    namespace, shape = (JOBS, schemas.DatasetList) if kind == "datasets" else (LAKE, schemas.JobList)

    assert await ask(shop.client, shape, at_path("namespaces", namespace, kind)) == {kind: [], "totalCount": 0}


async def test_a_dataset_has_what_its_facets_say(shop: Server) -> None:
    found = await ask(shop.client, schemas.DatasetOut, at_dataset(LAKE, "orders"))

    assert {name: found[name] for name in ("id", "type", "physicalName", "sourceName", "namespace", "deleted")} == {
        "id": {"namespace": LAKE, "name": "orders"},
        "type": "DB_TABLE",
        "physicalName": "orders",
        "sourceName": LAKE,
        "namespace": LAKE,
        "deleted": False,
    }
    assert found["fields"] == [
        {"name": "id", "type": "int", "tags": [], "description": None},
        {"name": "total", "type": "double", "tags": ["pii:yes"], "description": None},
    ]
    assert (found["tags"], found["description"]) == (["gold"], "Orders by day")
    assert (found["createdAt"], found["lastModifiedAt"], found["updatedAt"]) == (at(10), at(110), at(300))
    assert set(found["facets"]) == {"schema", "documentation", "columnLineage", "symlinks", "tags"}
    assert found["columnLineage"] == [
        {
            "name": "total",
            "inputFields": [
                {
                    "namespace": KNOWN_AS,
                    "dataset": RAW,
                    "field": "amount",
                    "transformationDescription": "sum(amount)",
                    "transformationType": "AGGREGATION",
                }
            ],
        }
    ]


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("s3a://lake", "orders"), ("s3n://lake/", "/orders/date=2026-04-05"), ("hive://WAREHOUSE", "shop.orders")],
)
async def test_a_dataset_is_found_by_any_name_that_a_producer_gave_it(shop: Server, namespace: str, name: str) -> None:
    found = await ask(shop.client, schemas.DatasetOut, at_dataset(namespace, name))

    assert found["id"] == {"namespace": LAKE, "name": "orders"}


async def test_a_topic_is_a_stream_and_has_no_schema(shop: Server) -> None:
    found = await ask(shop.client, schemas.DatasetOut, at_dataset("kafka://k", "orders"))

    assert (found["type"], found["fields"], found["columnLineage"], found["lastModifiedAt"]) == (
        "STREAM",
        [],
        None,
        None,
    )


async def test_a_dropped_dataset_is_marked(server: Server) -> None:
    dropped = a_dataset("t", facets={"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")})
    await tell(server.tenant, an_event(time=at(0), outputs=[dropped]))

    before = await ask(server.client, schemas.DatasetOut, at_dataset(KNOWN_AS, "t"))
    await tell(server.tenant, an_event(time=at(9), outputs=[a_dataset("t")]))
    after = await ask(server.client, schemas.DatasetOut, at_dataset(KNOWN_AS, "t"))

    assert (before["deleted"], before["lastLifecycleState"]) == (True, "DROP")
    assert after["deleted"] is False


async def test_what_people_say_of_a_dataset_is_shown_with_what_facets_say(
    server: Server, db: asyncpg.Connection
) -> None:
    facets = with_schema("id") | {"documentation": a_facet(description="From the facet")}
    await tell(server.tenant, an_event(outputs=[a_dataset("t", facets=facets)]))
    await db.execute(
        "INSERT INTO dataset_notes (organization_id, dataset_id, description) "
        "SELECT d.organization_id, d.id, 'Better' FROM datasets d"
    )
    await db.execute(
        "INSERT INTO dataset_tags (organization_id, dataset_id, column_name, tag, source) "
        "SELECT d.organization_id, d.id, c.name, 'mine', 'user' FROM datasets d, (VALUES (''), ('id')) AS c (name)"
    )

    found = await ask(server.client, schemas.DatasetOut, at_dataset(KNOWN_AS, "t"))

    assert (found["description"], found["tags"], found["fields"][0]["tags"]) == ("Better", ["mine"], ["mine"])


async def test_versions_of_a_dataset_are_those_of_its_schema(shop: Server) -> None:
    found = await ask(shop.client, schemas.DatasetVersionList, at_dataset(LAKE, "orders", "versions"))

    newest, oldest = found["versions"]
    assert found["totalCount"] == 2
    assert [[field["name"] for field in version["fields"]] for version in (newest, oldest)] == [["id", "total"], ["id"]]
    assert [version["createdByRun"]["id"] for version in (newest, oldest)] == [SECOND, FIRST]
    assert (newest["createdAt"], oldest["createdAt"]) == (at(110), at(10))
    dataset = await ask(shop.client, schemas.DatasetOut, at_dataset(LAKE, "orders"))
    assert dataset["currentVersion"] == newest["version"]
    path = at_dataset(LAKE, "orders", "versions", oldest["version"])
    assert await ask(shop.client, schemas.DatasetVersionOut, path) == oldest


async def test_a_dataset_without_a_schema_has_one_version(shop: Server) -> None:
    found = await ask(shop.client, schemas.DatasetVersionList, at_dataset("kafka://k", "orders", "versions"))

    assert (found["totalCount"], found["versions"][0]["fields"]) == (1, [])
    path = at_dataset("kafka://k", "orders", "versions", found["versions"][0]["version"])
    assert await ask(shop.client, schemas.DatasetVersionOut, path) == found["versions"][0]


async def test_sources_are_the_namespaces_of_datasets(shop: Server) -> None:
    found = await ask(shop.client, schemas.SourceList, "/sources")

    assert [(source["name"], source["type"]) for source in found["sources"]] == [
        ("kafka://k", "KAFKA"),
        (KNOWN_AS, "POSTGRES"),
        (LAKE, "S3"),
    ]
    one = await ask(shop.client, schemas.SourceOut, at_path("sources", DATABASE))
    assert one["connectionUrl"] == KNOWN_AS
    assert (await refused(shop.client, at_path("sources", JOBS)))["status"] == 404


async def test_tags_are_those_of_datasets_and_columns(shop: Server) -> None:
    found = await ask(shop.client, schemas.TagList, "/tags")
    second = await ask(shop.client, schemas.TagList, "/tags", limit=1, offset=1)

    assert [tag["name"] for tag in found["tags"]] == ["gold", "pii:yes"]
    assert (second["tags"], second["totalCount"]) == ([{"name": "pii:yes", "description": None}], 2)
