"""The difference between any two versions of a schema, what of it breaks readers, and who they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from tests.conftest import Cluster
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.ingest import a_server
from tests.support.schemas import CUSTOMERS, EVENTS, ask, customers, difference, history, schema, seen
from tests.support.server import Server, Tenant

UNKNOWN = "0194f2b0-0000-7000-8000-000000000404"


@pytest.fixture(scope="module")
async def shared(cluster: Cluster) -> AsyncIterator[Server]:
    async with a_server(cluster) as server:
        yield server


@pytest.fixture
async def tenant(shared: Server) -> Tenant:
    """An organisation of the test's own."""
    return await shared.add_tenant(f"Org {a_run_id()}")


async def test_the_difference_of_two_versions_of_customers(tenant: Tenant) -> None:
    await tenant.send_ok(*(customers(*event) for event in EVENTS))
    found = await difference(tenant, dataset=CUSTOMERS, **{"from": "v2", "to": "v5"})

    assert (found["from"]["version"], found["to"]["version"]) == (2, 5)
    told = {field["name"]: (field["change"], field["since_version"]) for field in found["fields"]}
    assert told["customer_id"] == ("unchanged", None)
    assert told["email"] == ("type", 4)
    assert told["legacy_id"] == ("removed", 3)
    assert told["loyalty_tier"] == ("added", 5)
    assert [field["name"] for field in found["fields"]][:3] == ["customer_id", "email", "legacy_id"]
    assert (found["added"], found["removed"], found["type_changed"]) == (["loyalty_tier"], ["legacy_id"], ["email"])
    assert (found["nullability_changed"], found["moved"], found["breaking"]) == ([], [], True)
    assert found["breaking_changes"] == [
        {"column": "legacy_id", "change": "removed", "description": "removed"},
    ]
    assert found["summary"] == "+loyalty_tier, -legacy_id, email: VARCHAR→STRING"


async def test_a_difference_over_several_versions_leads_from_one_to_the_other(tenant: Tenant) -> None:
    versions = [["a", "b", "c"], ["b", ("a", "int"), "c", "d"], [("a", "int", False), "d", "c"], ["d", "e"]]
    await tenant.send_ok(*(seen(second, *columns) for second, columns in enumerate(versions)))
    stored = [item["fields"] for item in (await history(tenant))["items"]][::-1]
    for older in range(1, 5):
        for newer in range(1, 5):
            found = await difference(tenant, **{"from": older, "to": newer})
            for side, fields in (("before", stored[older - 1]), ("after", stored[newer - 1])):
                there = [field for field in found["fields"] if field[side]]
                there.sort(key=lambda field: field[side]["position"])
                assert [(f["name"], f[side]["type"], f[side]["nullable"]) for f in there] == [
                    (f["name"], f["type"], f["nullable"]) for f in fields
                ]


async def test_every_kind_of_change_is_told_apart(tenant: Tenant) -> None:
    before = [("a", "int"), ("b", "int"), ("c", "int", False), ("d", "int"), ("e", "int"), ("f", "int")]
    after = [("b", "string"), ("c", "int"), ("d", "int", False), ("f", "int"), ("e", "int"), ("g", "int")]
    await tenant.send_ok(seen(1, *before), seen(2, *after))
    found = await difference(tenant)
    assert (found["added"], found["removed"], found["type_changed"]) == (["g"], ["a"], ["b"])
    assert found["nullability_changed"] == ["c", "d"]
    assert len(found["moved"]) == 1
    assert {*found["moved"]} < {"e", "f"}
    assert [(item["column"], item["change"]) for item in found["breaking_changes"]] == [
        ("a", "removed"),
        ("b", "type"),
        ("d", "nullability"),
    ]
    by_name = {field["name"]: field for field in found["fields"]}
    assert by_name["c"] == {
        "name": "c",
        "change": "nullability",
        "before": {"type": "int", "nullable": False, "position": 3},
        "after": {"type": "int", "nullable": True, "position": 2},
        "breaking": False,
        "since_version": 2,
    }
    assert (by_name["a"]["after"], by_name["g"]["before"]) == (None, None)


async def test_a_difference_backwards_undoes_what_happened(tenant: Tenant) -> None:
    await tenant.send_ok(seen(1, "a"), seen(2, "a", "b"), seen(3, "a", "b", "c"))
    found = await difference(tenant, **{"from": "current", "to": "first"})
    assert (found["from"]["version"], found["to"]["version"], found["removed"]) == (3, 1, ["b", "c"])
    assert {field["name"]: field["since_version"] for field in found["fields"]} == {"a": None, "b": 2, "c": 3}


async def test_versions_go_by_number_id_word_and_time(tenant: Tenant) -> None:
    await tenant.send_ok(seen(10, "a"), seen(20, "a", "b"), seen(30, "a", "b", "c"))
    ids = {item["version"]: item["id"] for item in (await history(tenant))["items"]}
    said = {
        1: ["1", "v1", "V1", "first", ids[1], at(10), at(19)],
        2: ["2", "v2", "previous", ids[2], at(20), at(25)],
        3: ["3", "v3", "current", ids[3], at(30), "2099-01-01T00:00:00+01:00"],
    }
    for version, texts in said.items():
        for text in texts:
            found = await difference(tenant, **{"from": "first", "to": text})
            assert (found["from"]["version"], found["to"]["version"]) == (1, version), text
    old_style = await difference(tenant, from_version=ids[1], to_version=ids[2])
    assert (old_style["from"]["version"], old_style["to"]["version"]) == (1, 2)


async def test_without_versions_the_last_change_is_meant(tenant: Tenant) -> None:
    await tenant.send_ok(seen(1, "a"), seen(2, "a", "b"), seen(3, "a", "b", "c"))
    assert [(await difference(tenant))[side]["version"] for side in ("from", "to")] == [2, 3]
    assert (await difference(tenant, to=2))["from"]["version"] == 1
    assert (await difference(tenant, to=2, **{"from": "previous"}))["from"]["version"] == 1


async def test_before_the_first_version_there_was_nothing(tenant: Tenant) -> None:
    await tenant.send_ok(seen(1, "a", "b"))
    found = await difference(tenant)
    assert (found["from"], found["to"]["version"], found["added"], found["breaking"]) == (None, 1, ["a", "b"], False)
    assert found["summary"] == "Initial schema (2 columns)"
    same = await difference(tenant, **{"from": 1, "to": 1})
    assert {field["change"] for field in same["fields"]} == {"unchanged"}
    assert (same["summary"], same["moved"]) == ("nothing changed", [])


async def test_a_version_says_the_same_as_its_difference_from_the_one_before(tenant: Tenant) -> None:
    await tenant.send_ok(seen(1, "id", "name", "email"), seen(2, "email", "id", "name", "tier"))
    found = await difference(tenant)
    assert (found["added"], found["moved"], found["breaking"]) == (["tier"], ["email"], False)
    assert found["summary"] == found["to"]["summary"] == "+tier, columns reordered"
    assert (found["to"]["change_type"], found["to"]["description"]) == (
        "MIXED",
        "added 'tier'; columns in another order",
    )


@pytest.mark.parametrize("version", ["4", "v0", "0", "999999999999999999", UNKNOWN])
@pytest.mark.parametrize("side", ["from", "to", "from_version", "to_version"])
async def test_an_unknown_version_is_answered_with_the_known_ones(tenant: Tenant, side: str, version: str) -> None:
    await tenant.send_ok(seen(1, "a"), seen(2, "a", "b"), seen(3, "a", "b", "c"))
    response = await ask(tenant, "/diff", **{side: version})
    assert response.status_code == 404
    assert "v1 to v3" in response.json()["hint"]
    assert response.json()["context"]["known"] == ["v3", "v2", "v1"]


async def test_a_previous_version_of_the_only_one_is_unknown(tenant: Tenant) -> None:
    await tenant.send_ok(seen(1, "a"))
    response = await ask(tenant, "/diff", to="previous")
    assert (response.status_code, response.json()["hint"]) == (404, "it has v1 only; see /schema/history")


@pytest.mark.parametrize("version", ["latest", "-1", "v", "1.5", "2026-03-01", "z" * 36, "9" * 64, "\ud83d\ude00"])
@pytest.mark.parametrize("side", ["from", "to", "from_version", "to_version"])
async def test_what_is_no_version_is_refused_by_name(tenant: Tenant, side: str, version: str) -> None:
    await tenant.send_ok(seen(1, "a"))
    response = await ask(tenant, "/diff", **{side: version.encode("utf-16", "surrogatepass").decode("utf-16")})
    assert response.status_code == 422
    assert [error["path"] for error in response.json()["errors"]] == [f"query.{side}"]


def column_facet(fields: dict[str, list[tuple[str, str]]], dataset: Sequence[str] = ()) -> Json:
    """Which columns of `t` go into which columns, each with a subtype; and those that the whole dataset hangs on."""

    def source(name: str, type_: str, subtype: str) -> Json:
        step = {"type": type_, "subtype": subtype, "description": "", "masking": False}
        return {"namespace": "postgres://db:5432", "name": "t", "field": name, "transformations": [step]}

    return {
        "columnLineage": a_facet(
            fields={
                target: {"inputFields": [source(name, "DIRECT", subtype) for name, subtype in sources]}
                for target, sources in fields.items()
            },
            dataset=[source(name, "INDIRECT", "FILTER") for name in dataset],
        )
    }


def reading(job: str, target: str, columns: Json | None = None, second: float = 5) -> Json:
    return an_event(
        job=job,
        time=at(second),
        inputs=[a_dataset("t")],
        outputs=[a_dataset(target, **({"facets": columns} if columns else {}))],
    )


async def test_readers_of_broken_columns_are_named(tenant: Tenant) -> None:
    known = column_facet({"total": [("amount", "AGGREGATION")], "who": [("name", "IDENTITY")]}, dataset=["amount"])
    await tenant.send_ok(
        seen(1, ("amount", "int"), "name", "id"),
        reading("report", "sums", known),
        reading("names", "people", column_facet({"n": [("name", "IDENTITY")]})),
        reading("dump", "copy"),
        seen(9, ("amount", "string"), "name"),
    )
    found = await difference(tenant)

    assert [item["column"] for item in found["breaking_changes"]] == ["amount", "id"]
    assert [
        (reader["column"], reader["dataset"]["name"], reader["target_column"], reader["job"]["name"], reader["label"])
        for reader in found["readers"]
    ] == [("amount", "sums", None, "report", "FILTER"), ("amount", "sums", "total", "report", "AGGREGATE")]
    assert found["readers"][1]["kinds"] == [{"type": "DIRECT", "subtype": "AGGREGATION"}]
    assert [job["name"] for job in found["possible_readers"]] == ["dump"]
    assert found["truncated"] is False


async def test_a_change_that_breaks_nothing_has_no_readers(tenant: Tenant) -> None:
    await tenant.send_ok(seen(1, "a"), reading("report", "sums", column_facet({"x": [("a", "IDENTITY")]})))
    await tenant.send_ok(seen(9, "a", "b"), reading("dump", "copy"))
    found = await difference(tenant)
    assert (found["breaking"], found["readers"], found["possible_readers"]) == (False, [], [])


async def test_whoever_reads_a_structure_reads_what_is_nested_in_it(tenant: Tenant) -> None:
    def nested(second: float, *fields: str) -> Json:
        inner = [{"name": name, "type": "string"} for name in fields]
        facet = {"schema": a_facet(fields=[{"name": "address", "type": "struct", "fields": inner}])}
        return an_event(job="writer", time=at(second), outputs=[a_dataset("t", facets=facet)])

    await tenant.send_ok(
        nested(1, "street", "city"),
        reading("whole", "x", column_facet({"a": [("address", "IDENTITY")]})),
        reading("part", "y", column_facet({"c": [("address.city", "IDENTITY")], "s": [("address.street", "SORT")]})),
        nested(9, "street"),
    )
    readers = (await difference(tenant))["readers"]
    assert [(reader["column"], reader["read_as"], reader["job"]["name"]) for reader in readers] == [
        ("address.city", "address", "whole"),
        ("address.city", "address.city", "part"),
    ]


async def test_readers_that_have_moved_on_are_not_named(tenant: Tenant) -> None:
    month = 40 * 86_400
    uses = column_facet({"x": [("a", "IDENTITY")]})
    dropped = a_dataset("old", facets={"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")})
    await tenant.send_ok(
        seen(1, "a", "b"),
        reading("changed", "one", uses),
        reading("changed", "one", column_facet({"x": [("b", "IDENTITY")]}), second=month),
        reading("stopped", "two", uses),
        reading("gone", "old", uses),
        an_event(job="gone", time=at(6), outputs=[dropped]),
        reading("no longer", "three"),
        an_event(job="no longer", time=at(month), outputs=[a_dataset("three")]),
        seen(month, "b"),
    )
    found = await difference(tenant)
    assert [reader["job"]["name"] for reader in found["readers"]] == ["stopped"]
    assert found["possible_readers"] == []


async def test_a_job_that_tells_columns_of_only_some_outputs_may_read_any(tenant: Tenant) -> None:
    known = column_facet({"x": [("b", "IDENTITY")]})
    await tenant.send_ok(
        seen(1, "a", "b"),
        an_event(
            job="two", time=at(5), inputs=[a_dataset("t")], outputs=[a_dataset("x", facets=known), a_dataset("y")]
        ),
        seen(9, "b"),
    )
    found = await difference(tenant)
    assert (found["readers"], [job["name"] for job in found["possible_readers"]]) == ([], ["two"])


async def test_another_organisations_version_is_unknown(shared: Server, tenant: Tenant) -> None:
    await tenant.send_ok(seen(1, "a"))
    version_id = (await schema(tenant))["id"]
    other = await shared.add_tenant(f"Org {a_run_id()}")
    await other.send_ok(seen(1, "a"), seen(2, "b"))
    assert (await ask(other, "/diff", to=version_id)).status_code == 404
