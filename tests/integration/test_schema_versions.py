"""Schema versions: one open at a time, a new one for every change, in the order of events and not of arrival."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise, permutations
from typing import Any

import pytest

from headgate.domain.schema import Field, schema_hash
from tests.conftest import Cluster
from tests.support.events import PRODUCER, SCHEMA_URL, Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.ingest import BATCH, SCHEMA, an_observed_server, post
from tests.support.server import Server, Tenant
from tests.support.stored import Stored, moment


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


def seen(second: float, *columns: Any, role: str = "outputs", job: str = "writer", **event: Any) -> Json:
    """An event that shows the schema of table `t`."""
    return an_event(job=job, time=at(second), **{role: [a_dataset("t", facets=with_schema(*columns))]}, **event)


async def history(stored: Stored) -> list[tuple[str, float, float | None]]:
    """Columns, begin and end of each version, in order."""
    versions = await stored.versions("t")
    assert [version["version"] for version in versions] == list(range(1, len(versions) + 1))
    assert sum(version["valid_to"] is None for version in versions) == min(1, len(versions))
    for one, other in pairwise(versions):
        assert one["valid_to"] == other["valid_from"]
        assert one["schema_hash"] != other["schema_hash"]
    if versions:
        assert (await stored.dataset("t"))["schema_hash"] == versions[-1]["schema_hash"]

    def second(at: Any) -> float | None:
        return None if at is None else (at - moment(0)).total_seconds()

    return [("".join(v["columns"]), second(v["valid_from"]) or 0, second(v["valid_to"])) for v in versions]


async def test_a_first_schema_is_the_first_version(tenant: Tenant, stored: Stored) -> None:
    event = seen(1, ("id", "int", False), ("name", "string"))
    await tenant.send_ok(event)
    (version,) = await stored.versions("t")
    assert (version["change_type"], version["breaking"], version["valid_from"]) == ("INITIAL", False, moment(1))
    assert version["schema_hash"] == schema_hash([Field("id", "int", False), Field("name", "string")])
    assert (str(version["run_id"]), version["job_id"]) == (
        event["run"]["runId"],
        (await stored.run(event["run"]["runId"]))["job_id"],
    )
    assert [row["payload"] for row in await stored.follow_ups()] == [{}]


async def test_an_unchanged_schema_makes_no_version(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(*(seen(second, "a", "b") for second in range(5)))
    assert await history(stored) == [("ab", 0, None)]


CHANGES: list[tuple[str, tuple[Any, ...], tuple[Any, ...], tuple[str, bool], dict[str, list[str]]]] = [
    ("added", ("a",), ("a", "b"), ("ADDED_COLUMN", False), {"columns_added": ["b"]}),
    ("dropped", ("a", "b"), ("a",), ("DROPPED_COLUMN", True), {"columns_removed": ["b"]}),
    ("retyped", (("a", "int"),), (("a", "string"),), ("TYPE_CHANGE", True), {"columns_type_changed": ["a"]}),
    ("widened", (("a", "int"),), (("a", "long"),), ("TYPE_CHANGE", False), {"columns_type_changed": ["a"]}),
    ("tightened", (("a", "int", True),), (("a", "int", False),), ("NULLABILITY", True), {}),
    ("loosened", (("a", "int", False),), (("a", "int", True),), ("NULLABILITY", False), {}),
    ("reordered", ("a", "b"), ("b", "a"), ("REORDERED", False), {}),
    ("added before", ("a", "b"), ("c", "a", "b"), ("ADDED_COLUMN", False), {"columns_added": ["c"]}),
    ("added and reordered", ("a", "b"), ("b", "a", "c"), ("MIXED", False), {"columns_added": ["c"]}),
    ("mixed", ("a", "b"), ("b", "c"), ("MIXED", True), {"columns_added": ["c"], "columns_removed": ["a"]}),
]


@pytest.mark.parametrize(("old", "new", "kind", "columns"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
async def test_a_change_opens_a_version_that_says_what_changed(
    tenant: Tenant,
    stored: Stored,
    old: tuple[Any, ...],
    new: tuple[Any, ...],
    kind: tuple[str, bool],
    columns: dict[str, list[str]],
) -> None:
    changing = seen(5, *new)
    await tenant.send_ok(seen(1, *old), changing)

    first, second = await stored.versions("t")
    assert (first["valid_to"], second["valid_from"], second["valid_to"]) == (moment(5), moment(5), None)
    assert (second["change_type"], second["breaking"]) == kind
    for name in ("columns_added", "columns_removed", "columns_type_changed"):
        assert second[name] == columns.get(name, []), name
    assert second["description"]
    (follow_up,) = [row for row in await stored.follow_ups("DETECT", "RUN") if row["payload"]]
    assert follow_up["resource_id"] == changing["run"]["runId"]
    assert follow_up["payload"] == {"schema_version": str(second["id"]), "dataset_id": str(second["dataset_id"])}


async def test_a_return_to_an_older_schema_is_a_new_version(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(seen(1, "a"), seen(2, "a", "b"), seen(3, "a"), seen(4, "a", "b"))
    assert await history(stored) == [("a", 1, 2), ("ab", 2, 3), ("a", 3, 4), ("ab", 4, None)]


async def test_a_return_is_seen_also_when_the_server_knows_the_job_well(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(*(seen(second, "a") for second in (1, 2, 3)))
    await tenant.send_ok(seen(4, "a", "b", job="other"), seen(5, "a"))
    assert await history(stored) == [("a", 1, 4), ("ab", 4, 5), ("a", 5, None)]


HIVE, POSTGRES = [("a", "int"), ("b", "string"), ("c", "double")], [("a", "INTEGER"), ("b", "varchar"), ("c", "float8")]


async def test_jobs_that_call_the_same_types_by_other_names_make_no_versions(tenant: Tenant, stored: Stored) -> None:
    for second in range(4):
        await tenant.send_ok(seen(2 * second, *HIVE), seen(2 * second + 1, *POSTGRES, job="other"))
    assert await history(stored) == [("abc", 0, None)]
    assert [row["payload"] for row in await stored.follow_ups("DETECT", "RUN") if row["payload"]] == []


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_another_jobs_names_of_types_find_their_place_whatever_arrives_when(
    tenant: Tenant, stored: Stored, order: tuple[int, ...]
) -> None:
    events = [seen(1, *HIVE), seen(2, *POSTGRES, job="other"), seen(3, *HIVE, ("d", "int"))]
    await tenant.send_ok(*(events[place] for place in order))
    assert await history(stored) == [("abc", 1, 3), ("abcd", 3, None)]


async def test_a_job_that_calls_its_types_by_other_names_has_changed_them_and_nobody_is_told(
    tenant: Tenant, stored: Stored
) -> None:
    await tenant.send_ok(seen(1, ("a", "VARCHAR")), seen(2, ("a", "varchar")), seen(3, ("a", "STRING")))
    assert await history(stored) == [("a", 1, 3), ("a", 3, None)]
    version = (await stored.versions("t"))[-1]
    assert (version["change_type"], version["breaking"]) == ("TYPE_CHANGE", False)
    assert [row["payload"] for row in await stored.follow_ups("DETECT", "RUN") if row["payload"]] == []


async def test_comments_are_no_change(tenant: Tenant, stored: Stored) -> None:
    def commented(second: float, text: str) -> Json:
        fields = [{"name": "a", "type": "int", "description": text}]
        return an_event(time=at(second), outputs=[a_dataset("t", facets={"schema": a_facet(fields=fields)})])

    await tenant.send_ok(commented(1, "one"), commented(2, "two"))
    assert await history(stored) == [("a", 1, None)]


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_versions_stand_in_the_order_of_events(tenant: Tenant, stored: Stored, order: tuple[int, ...]) -> None:
    events = [seen(1, "a"), seen(5, "b"), seen(9, "c")]
    await tenant.send_ok(*(events[place] for place in order))
    assert await history(stored) == [("a", 1, 5), ("b", 5, 9), ("c", 9, None)]
    changes = [version["change_type"] for version in await stored.versions("t")]
    assert changes == ["INITIAL", "MIXED", "MIXED"]


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
async def test_the_newest_sighting_is_the_current_schema(
    tenant: Tenant, stored: Stored, order: tuple[int, ...]
) -> None:
    events = [seen(1, "a"), seen(4, "b"), seen(6, "a"), seen(9, "a")]
    await tenant.send_ok(*(events[place] for place in order))
    versions = await history(stored)
    assert versions[-1][0] == "a"
    assert "b" in {columns for columns, _, _ in versions}


async def test_a_late_sighting_of_the_next_version_moves_its_beginning(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(seen(1, "a"), seen(9, "b"), seen(12, "c"), seen(5, "b"))
    assert await history(stored) == [("a", 1, 5), ("b", 5, 12), ("c", 12, None)]


async def test_a_late_sighting_of_the_version_before_tells_nothing_new(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(seen(1, "a"), seen(9, "b"), seen(5, "a"))
    assert await history(stored) == [("a", 1, 9), ("b", 9, None)]


async def test_a_late_sighting_describes_its_neighbours_anew(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(seen(1, "a"), seen(9, "a", "b", "c"), seen(5, "a", "b"))
    first, second, third = await stored.versions("t")
    assert (first["columns_added"], second["columns_added"], third["columns_added"]) == ([], ["b"], ["c"])


@pytest.mark.parametrize("known", [["b"], ["a", "b"], ["c"]], ids=str)
async def test_late_sightings_of_one_batch_find_their_places(tenant: Tenant, stored: Stored, known: list[str]) -> None:
    await tenant.send_ok(seen(10, *known))
    batch = [seen(3, "b"), seen(5, "c"), seen(7, "a")]
    assert (await post(tenant, BATCH, batch)).status_code == 200

    assert await history(stored) == [("b", 3, 5), ("c", 5, 7), ("a", 7, 10), ("".join(known), 10, None)]


async def test_changes_within_one_batch_are_all_versions(tenant: Tenant, stored: Stored) -> None:
    batch = [seen(3, "c"), seen(1, "a"), seen(2, "b"), seen(4, "a")]
    assert (await post(tenant, BATCH, batch)).status_code == 200
    assert await history(stored) == [("a", 1, 2), ("b", 2, 3), ("c", 3, 4), ("a", 4, None)]


async def test_a_reader_that_prunes_columns_changes_nothing(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(
        seen(1, ("a", "int", False), ("b", "int")),
        seen(2, ("b", "int"), role="inputs", job="reader"),
        seen(3, ("a", "int", True), role="inputs", job="other reader"),
    )
    assert await history(stored) == [("ab", 1, None)]


async def test_readers_alone_show_what_they_read(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(seen(1, "a", "b", role="inputs", job="one"), seen(2, "b", role="inputs", job="two"))
    assert await history(stored) == [("ab", 1, None)]


async def test_a_writer_has_the_last_word_over_readers(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(
        seen(1, "a", role="inputs", job="reader"),
        seen(2, "a", "b"),
        seen(3, "a", "b", "c", role="inputs", job="reader"),
    )
    assert await history(stored) == [("a", 1, 2), ("ab", 2, None)]


async def test_readers_of_one_batch_do_not_overrule_the_writer(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(seen(1, "a"))
    readings = [seen(second, "a", name, role="inputs", job="reader") for second, name in ((2, "b"), (3, "c"), (4, "b"))]
    assert (await post(tenant, BATCH, readings)).status_code == 200
    assert await history(stored) == [("a", 1, None)]


async def test_a_start_may_show_the_schema(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    await tenant.send_ok(seen(1, "a", event_type="START", run=run), seen(2, "a", "b", run=run))
    assert await history(stored) == [("a", 1, 2), ("ab", 2, None)]


async def test_dataset_events_make_versions_too(tenant: Tenant, stored: Stored) -> None:
    def described(second: float, *columns: str) -> Json:
        dataset = a_dataset("t", facets=with_schema(*columns))
        return {"eventTime": at(second), "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset}

    await tenant.send_ok(described(1, "a"), described(2, "b"), described(3, "b"), described(4, "a"))
    assert await history(stored) == [("a", 1, 2), ("b", 2, 4), ("a", 4, None)]
    assert {(version["run_id"], version["job_id"]) for version in await stored.versions("t")} == {(None, None)}


async def test_an_empty_schema_is_no_change(tenant: Tenant, stored: Stored) -> None:
    empty = an_event(job="writer", time=at(2), outputs=[a_dataset("t", facets={"schema": a_facet(fields=[])})])
    await tenant.send_ok(seen(1, "a"), empty)
    assert await history(stored) == [("a", 1, None)]


async def test_nested_fields_are_columns_with_dotted_names(tenant: Tenant, stored: Stored) -> None:
    fields = [{"name": "at", "type": "struct", "fields": [{"name": "city", "type": "string"}]}]
    await tenant.send_ok(an_event(outputs=[a_dataset("t", facets={"schema": a_facet(fields=fields)})]))
    (version,) = await stored.versions("t")
    assert version["columns"] == ["at", "at.city"]
    assert json.loads(version["fields"])[1]["type"] == "string"


async def test_a_clients_own_hash_is_only_noted(tenant: Tenant, stored: Stored) -> None:
    fields = [{"name": "a", "data_type": "int"}]
    body = {"job_id": "j", "schemas": [{"dataset_name": "t", "fields": fields, "version_hash": "theirs"}]}
    assert (await post(tenant, SCHEMA, body)).status_code == 202
    (version,) = await stored.versions("t")
    assert (version["client_hash"], version["schema_hash"]) == ("theirs", schema_hash([Field("a", "int")]))


async def test_the_view_of_current_schemas_shows_one_a_dataset(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(seen(1, "a"), seen(2, "b"))
    async with stored.db.transaction():
        await stored.db.execute("SELECT set_config('headgate.organization_id', $1, true)", str(tenant.organization_id))
        rows = await stored.db.fetch("SELECT name, version, fields FROM current_schemas")
    assert [(row["name"], row["version"], json.loads(row["fields"])[0]["name"]) for row in rows] == [("t", 2, "b")]


async def test_concurrent_changes_leave_one_line_of_time(tenant: Tenant, stored: Stored) -> None:
    names = "abcdefgh"
    events = [seen(second, names[second % 8], job=f"job {second % 3}") for second in range(24)]
    responses = await asyncio.gather(*(tenant.send(event) for event in events))
    assert {response.status_code for response in responses} == {201}
    versions = await history(stored)
    assert versions[-1][0] == names[23 % 8]
