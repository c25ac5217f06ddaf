"""Merges as events and people make them: symlinks, requests, and what arrives in between."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg

from tests.support.events import T0, Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.server import Server

MERGES = "/api/v1/dataset-merges"
PATH = a_dataset("orders", "s3://lake")
TABLE = a_dataset("shop.orders", "hive://meta")


async def dataset_id_of(db: asyncpg.Connection, dataset: Json) -> UUID:
    """The dataset that a name leads to."""
    found: UUID = await db.fetchval(
        "SELECT dataset_id FROM dataset_aliases WHERE namespace = $1 AND name = $2",
        dataset["namespace"],
        dataset["name"],
    )
    return found


async def own_id_of(db: asyncpg.Connection, dataset: Json) -> UUID:
    """The dataset that has a name as its own, merged or not."""
    found: UUID = await db.fetchval("SELECT id FROM datasets WHERE name = $1", dataset["name"])
    return found


def symlink_to(dataset: Json) -> Json:
    identifier = {"namespace": dataset["namespace"], "name": dataset["name"], "type": "TABLE"}
    return {"symlinks": a_facet(identifiers=[identifier])}


async def test_symlink_merges_a_path_and_its_table(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(
        an_event(job="load", outputs=[PATH], time=at(0)),
        an_event(job="report", inputs=[TABLE], outputs=[a_dataset("report")], time=at(1)),
    )
    path, table = await own_id_of(db, PATH), await own_id_of(db, TABLE)

    await server.tenant.send_ok(an_event(job="load", outputs=[{**PATH, "facets": symlink_to(TABLE)}], time=at(2)))

    assert await dataset_id_of(db, TABLE) == await dataset_id_of(db, PATH) == path
    edge = await db.fetchrow("SELECT source_id, target_id FROM lineage_edges")
    assert edge["source_id"] == path
    assert await db.fetchval("SELECT merged_into FROM datasets WHERE id = $1", table) == path


async def test_pair_that_people_have_parted_is_not_merged_by_a_symlink_again(
    server: Server, db: asyncpg.Connection
) -> None:
    linked = {**PATH, "facets": symlink_to(TABLE)}
    await server.tenant.send_ok(
        an_event(outputs=[PATH], time=at(0)),
        an_event(inputs=[TABLE], time=at(1)),
        an_event(outputs=[linked], time=at(2)),
    )
    path, table = await own_id_of(db, PATH), await own_id_of(db, TABLE)
    [made] = (await server.client.get(MERGES)).json()["items"]
    await server.client.post(f"{MERGES}/{made['id']}/undo")

    await server.tenant.send_ok(an_event(job="another", outputs=[linked], time=at(3)))
    assert (await dataset_id_of(db, PATH), await dataset_id_of(db, TABLE)) == (path, table)

    response = await server.client.post(MERGES, json={"one": str(path), "other": str(table)})
    assert response.status_code == 201
    assert await dataset_id_of(db, TABLE) == path


async def test_what_came_after_the_merge_stays_with_the_survivor(server: Server, db: asyncpg.Connection) -> None:
    target = a_dataset("report")
    before = an_event(job="old", inputs=[TABLE], outputs=[target], time=at(2))
    await server.tenant.send_ok(
        an_event(job="load", outputs=[{**PATH, "facets": with_schema("a")}], time=at(0)),
        an_event(job="write", outputs=[{**TABLE, "facets": with_schema("a", "b")}], time=at(1)),
        before,
    )
    path, table, report = [await own_id_of(db, dataset) for dataset in (PATH, TABLE, target)]
    made = (await server.client.post(MERGES, json={"one": str(path), "other": str(table)})).json()
    after = a_run_id()
    await server.tenant.send_ok(
        an_event(job="new", run=after, inputs=[TABLE], outputs=[target], time=at(3)),
        an_event(job="load", outputs=[{**TABLE, "facets": with_schema("a", "b", "c")}], time=at(4)),
    )

    response = await server.client.post(f"{MERGES}/{made['id']}/undo")

    assert response.json()["undone_at"] is not None
    edges = await db.fetch(
        "SELECT e.source_id, e.target_id, j.name FROM lineage_edges e JOIN jobs j ON j.id = e.job_id ORDER BY 3"
    )
    assert [tuple(edge) for edge in edges] == [(path, report, "new"), (table, report, "old")]
    inputs = {row["run_id"]: row["input_ids"] for row in await db.fetch("SELECT run_id, input_ids FROM job_runs")}
    assert inputs[UUID(after)] == [path]
    assert inputs[UUID(before["run"]["runId"])] == [table]
    versions = await db.fetch(
        "SELECT dataset_id, version, jsonb_array_length(fields) AS width, valid_to IS NULL AS is_open, description "
        "FROM schema_versions ORDER BY dataset_id = $1 DESC, version",
        path,
    )
    assert [tuple(row) for row in versions] == [
        (path, 1, 1, False, "first schema seen"),
        (path, 2, 3, True, "added 'b', 'c'"),
        (table, 1, 2, True, "first schema seen"),
    ]
    hashes = await db.fetch(
        """SELECT d.schema_hash = v.schema_hash AS fits
             FROM datasets d JOIN schema_versions v ON v.dataset_id = d.id AND v.valid_to IS NULL"""
    )
    assert [row["fits"] for row in hashes] == [True, True]


async def test_use_that_went_on_after_the_merge_is_with_the_survivor_from_then_on(
    server: Server, db: asyncpg.Connection
) -> None:
    await server.tenant.send_ok(
        an_event(job="load", outputs=[PATH], time=at(0)), an_event(job="daily", outputs=[TABLE], time=at(1))
    )
    path, table = await own_id_of(db, PATH), await own_id_of(db, TABLE)
    made = (await server.client.post(MERGES, json={"one": str(path), "other": str(table)})).json()
    await server.tenant.send_ok(an_event(job="daily", outputs=[TABLE], time=at(60)))

    await server.client.post(f"{MERGES}/{made['id']}/undo")

    uses = await db.fetch(
        """SELECT u.dataset_id, u.first_seen_at, u.last_seen_at
             FROM job_datasets u JOIN jobs j ON j.id = u.job_id
            WHERE j.name = 'daily' ORDER BY u.first_seen_at"""
    )
    begin, later = T0 + timedelta(seconds=1), T0 + timedelta(seconds=60)
    assert [tuple(row) for row in uses] == [(table, begin, begin), (path, later, later)]


async def test_events_find_the_parted_dataset_again(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[PATH], time=at(0)), an_event(inputs=[TABLE], time=at(1)))
    path, table = await own_id_of(db, PATH), await own_id_of(db, TABLE)
    made = (await server.client.post(MERGES, json={"one": str(path), "other": str(table)})).json()
    await server.client.post(f"{MERGES}/{made['id']}/undo")

    run = a_run_id()
    await server.tenant.send_ok(an_event(job="after", run=run, inputs=[TABLE], time=at(2)))

    assert await db.fetchval("SELECT input_ids FROM job_runs WHERE run_id = $1", UUID(run)) == [table]


async def test_columns_that_a_reader_leaves_out_are_no_schema_change(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(
        an_event(job="write", outputs=[{**PATH, "facets": with_schema("a", "b")}], time=at(0)),
        an_event(job="read", inputs=[{**TABLE, "facets": with_schema("a")}], time=at(1)),
    )
    path, table = await own_id_of(db, PATH), await own_id_of(db, TABLE)
    await server.client.post(MERGES, json={"one": str(path), "other": str(table)})

    versions = await db.fetch("SELECT dataset_id, jsonb_array_length(fields) FROM schema_versions")
    assert [tuple(row) for row in versions] == [(path, 2)]
    assert await db.fetchval("SELECT schema_by FROM datasets WHERE id = $1", path) == "output"


async def test_merge_is_made_listed_and_undone_over_http(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[PATH], inputs=[TABLE]))
    path, table = await own_id_of(db, PATH), await own_id_of(db, TABLE)
    older, newer = sorted([path, table])  # one event made both

    response = await server.client.post(MERGES, json={"one": str(path), "other": str(table)})

    made = response.json()
    assert response.status_code == 201
    assert (made["kind"], made["reason"], made["rule_id"], made["undone_at"]) == ("merge", "manual", None, None)
    assert (made["survivor_id"], made["merged_id"]) == (str(older), str(newer))
    assert {made["survivor_urn"], made["merged_urn"]} == {"s3://lake/orders", "hive://meta/shop.orders"}
    assert (await server.client.get(MERGES)).json() == {"items": [made], "next_cursor": None}

    again = await server.client.post(MERGES, json={"one": str(path), "other": str(table)})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")

    undone = await server.client.post(f"{MERGES}/{made['id']}/undo")
    assert undone.json() == {**made, "undone_at": undone.json()["undone_at"]}
    twice = await server.client.post(f"{MERGES}/{made['id']}/undo")
    assert (twice.status_code, twice.json()["detail"]) == (409, f"merge {made['id']} was undone already")


async def test_merges_are_listed_newest_first_by_page(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[a_dataset(f"d{number}") for number in range(5)]))
    ids = [row["id"] for row in await db.fetch("SELECT id FROM datasets ORDER BY name")]
    made = [
        (await server.client.post(MERGES, json={"one": str(ids[0]), "other": str(other)})).json()["id"]
        for other in ids[1:]
    ]

    found, cursor = [], None
    while cursor is not None or not found:
        page = (await server.client.get(MERGES, params={"limit": 3, **({"cursor": cursor} if cursor else {})})).json()
        found += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert found == made[::-1]


async def test_unknown_datasets_and_merges_are_not_found(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[PATH]))
    path, nothing = str(await own_id_of(db, PATH)), str(uuid4())

    assert (await server.client.post(MERGES, json={"one": path, "other": nothing})).status_code == 404
    assert (await server.client.post(MERGES, json={"one": path, "other": "x"})).status_code == 422
    assert (await server.client.post(f"{MERGES}/{nothing}/undo")).status_code == 404


async def test_merges_of_one_organisation_are_not_there_for_another(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[PATH], inputs=[TABLE]))
    pair = {"one": str(await own_id_of(db, PATH)), "other": str(await own_id_of(db, TABLE))}
    stranger = (await server.add_tenant("Stranger")).client

    assert (await stranger.post(MERGES, json=pair)).status_code == 404
    made = (await server.client.post(MERGES, json=pair)).json()
    assert (await stranger.get(MERGES)).json()["items"] == []
    assert (await stranger.post(f"{MERGES}/{made['id']}/undo")).status_code == 404


async def test_merge_that_collides_with_another_writer_starts_over(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[PATH], inputs=[TABLE]))
    pair = sorted([await own_id_of(db, PATH), await own_id_of(db, TABLE)])
    await db.execute("SET deadlock_timeout = '1min'")  # so that it is the merge that gives way

    async with db.transaction():
        await db.execute("SELECT FROM job_datasets FOR UPDATE")
        merging = asyncio.create_task(server.client.post(MERGES, json={"one": str(pair[0]), "other": str(pair[1])}))
        await until_someone_waits(db)
        await db.execute("UPDATE datasets SET type = 'view' WHERE id = $1", pair[0])

    response = await merging
    assert response.status_code == 201, response.text
    assert await db.fetchval("SELECT type FROM datasets WHERE id = $1", pair[0]) == "view"


async def until_someone_waits(db: asyncpg.Connection) -> None:
    for _ in range(1000):
        if await db.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nobody waits for a lock")
