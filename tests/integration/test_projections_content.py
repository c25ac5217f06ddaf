"""What ingest makes of the content of datasets: columns, facets and the life cycle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import permutations
from typing import Any

import pytest

from tests.conftest import Cluster
from tests.support.events import PRODUCER, SCHEMA_URL, Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.ingest import BATCH, an_observed_server, post
from tests.support.server import Server, Tenant
from tests.support.stored import Stored, eventually, moment

NS = "postgres://db:5432"
SRC = {"namespace": NS, "name": "src"}


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


def traced(second: float, event_type: str = "COMPLETE", job: str = "orders", **columns: str) -> Json:
    """An event whose output's columns each come from one column of `src`."""
    step = [{"type": "DIRECT", "subtype": "IDENTITY"}]
    fields = {
        target: {"inputFields": [{"namespace": NS, "name": "src", "field": source, "transformations": step}]}
        for target, source in columns.items()
    }
    output = a_dataset("out", facets={"columnLineage": a_facet(fields=fields)})
    return an_event(event_type, job=job, time=at(second), inputs=[a_dataset("src")], outputs=[output])


async def current(stored: Stored) -> set[tuple[str, str]]:
    return {(row["source_column"], row["target_column"]) for row in await stored.columns() if row["is_current"]}


async def span_of(stored: Stored, source: str, target: str) -> tuple[Any, Any]:
    rows = [r for r in await stored.columns() if (r["source_column"], r["target_column"]) == (source, target)]
    return rows[0]["first_seen_at"], rows[0]["last_seen_at"]


async def test_column_lineage_is_stored_with_kinds_and_expression(tenant: Tenant, stored: Stored) -> None:
    steps = [
        {"type": "DIRECT", "subtype": "AGGREGATION", "description": "sum(amount)", "masking": True},
        {"type": "INDIRECT", "subtype": "GROUP_BY"},
    ]
    facet = a_facet(
        fields={"total": {"inputFields": [SRC | {"field": "amount", "transformations": steps}]}},
        dataset=[SRC | {"field": "country", "transformations": [{"type": "INDIRECT", "subtype": "FILTER"}]}],
    )
    await tenant.send_ok(an_event(outputs=[a_dataset("out", facets={"columnLineage": facet})]))

    whole, total = sorted(await stored.columns(), key=lambda row: row["target_column"])
    assert (total["source"], total["source_column"], total["target"]) == ("src", "amount", "out")
    assert [(kind["type"], kind["subtype"], kind["masking"]) for kind in total["kinds"]] == [
        ("DIRECT", "AGGREGATION", True),
        ("INDIRECT", "GROUP_BY", False),
    ]
    assert total["expression"] == "sum(amount)"
    assert (whole["source_column"], whole["target_column"]) == ("country", "")


async def test_the_legacy_form_is_stored_alike(tenant: Tenant, stored: Stored) -> None:
    field = {
        "inputFields": [{"namespace": NS, "name": "src", "field": "email"}],
        "transformationType": "MASKED",
        "transformationDescription": "hash(email)",
    }
    facet = a_facet(fields={"email": field})
    await tenant.send_ok(an_event(outputs=[a_dataset("out", facets={"columnLineage": facet})]))
    (edge,) = await stored.columns()
    assert (edge["kinds"][0]["masking"], edge["expression"]) == (True, "hash(email)")


async def test_a_source_that_is_no_input_becomes_a_dataset(tenant: Tenant, stored: Stored) -> None:
    field = {"inputFields": [{"namespace": "s3a://lake", "name": "raw/dt=2026-03-01", "field": "a"}]}
    await tenant.send_ok(an_event(outputs=[a_dataset("out", facets={"columnLineage": a_facet(fields={"b": field})})]))
    assert ("s3://lake", "raw") in await stored.dataset_names()
    assert await stored.edges() == []


async def test_the_newest_column_lineage_is_current_and_the_rest_is_history(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(traced(1, a="x", b="y"), traced(5, a="x", b="z"))
    assert await current(stored) == {("x", "a"), ("z", "b")}
    assert await span_of(stored, "x", "a") == (moment(1), moment(5))
    assert await span_of(stored, "y", "b") == (moment(1), moment(1))
    assert await span_of(stored, "z", "b") == (moment(5), moment(5))


async def test_late_column_lineage_is_history_at_once(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(traced(5, a="new"), traced(1, a="old"))
    assert await current(stored) == {("new", "a")}
    assert await span_of(stored, "old", "a") == (moment(1), moment(1))


async def test_a_return_to_older_column_lineage_makes_it_current_again(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(traced(1, a="x"), traced(2, a="y"), traced(3, a="x"))
    assert await current(stored) == {("x", "a")}
    assert await span_of(stored, "x", "a") == (moment(1), moment(3))


async def test_column_lineage_that_repeats_moves_when_it_was_last_seen(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(*(traced(second, a="x") for second in (1, 2, 3, 4, 5)))
    found = await eventually(lambda: span_of(stored, "x", "a"), lambda span: span[1] == moment(5))
    assert found == (moment(1), moment(5))


async def test_replaced_column_lineage_keeps_when_it_was_really_last_seen(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(*(traced(second, a="x") for second in (1, 2, 3, 4)), traced(9, a="y"))
    found = await eventually(lambda: span_of(stored, "x", "a"), lambda span: span[1] == moment(4))
    assert found == (moment(1), moment(4))


async def test_known_column_lineage_that_is_newer_stays_current(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(*(traced(second, a="x") for second in (1, 2, 3, 9)), traced(5, a="y"))
    assert await current(stored) == {("x", "a")}


async def test_each_job_has_its_own_column_lineage(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(traced(1, job="one", a="x"), traced(2, job="two", a="y"))
    assert await current(stored) == {("x", "a"), ("y", "a")}


async def test_column_lineage_of_one_batch_ends_with_the_newest(tenant: Tenant, stored: Stored) -> None:
    batch = [traced(3, a="three"), traced(1, a="one"), traced(2, a="two")]
    assert (await post(tenant, BATCH, batch)).status_code == 200
    assert await current(stored) == {("three", "a")}
    assert len(await stored.columns()) == 3


def documented(second: float, text: str | None, job: str = "orders", role: str = "outputs") -> Json:
    facet = a_facet(description=text) if text is not None else a_facet() | {"_deleted": True}
    return an_event(job=job, time=at(second), **{role: [a_dataset("t", facets={"documentation": facet})]})


async def documentation(stored: Stored) -> str | None:
    facet = await stored.facet("t", "documentation")
    return None if facet is None else facet["description"]


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_the_latest_body_of_a_facet_is_kept(tenant: Tenant, stored: Stored, order: tuple[int, ...]) -> None:
    texts = ["one", "two", "three"]
    await tenant.send_ok(*(documented(place, texts[place]) for place in order))
    assert await documentation(stored) == "three"


async def test_facets_of_different_names_add_up(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(
        an_event(time=at(0), outputs=[a_dataset("t", facets={"ownership": a_facet(owners=[])})]),
        an_event(time=at(1), inputs=[a_dataset("t", facets={"vendor_thing": a_facet(x={"deep": [1]})})]),
    )
    assert await stored.facet("t", "ownership") is not None
    assert (await stored.facet("t", "vendor_thing") or {})["x"] == {"deep": [1]}


async def test_a_facet_that_is_deleted_goes(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(documented(0, "one"), documented(1, None))
    assert await documentation(stored) is None


async def test_a_late_deletion_does_not_remove_what_came_after_it(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(documented(5, "five"), documented(1, None))
    assert await documentation(stored) == "five"


async def test_a_facet_may_return_after_its_deletion(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(documented(0, "one"), documented(1, None), documented(2, "one"))
    assert await documentation(stored) == "one"


async def test_a_facet_and_its_deletion_in_one_batch(tenant: Tenant, stored: Stored) -> None:
    await post(tenant, BATCH, [documented(1, None), documented(0, "one")])
    assert await documentation(stored) is None


async def test_of_two_jobs_the_one_that_spoke_last_is_heard(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(documented(0, "one", "a"), documented(1, "two", "b"), documented(2, "three", "a"))
    assert await documentation(stored) == "three"


def living(second: float, change: str | None, job: str = "writer", event_type: str = "COMPLETE") -> Json:
    facets = {"lifecycleStateChange": a_facet(lifecycleStateChange=change)} if change else {"x": a_facet()}
    return an_event(event_type, job=job, time=at(second), outputs=[a_dataset("t", facets=facets)])


async def is_gone(stored: Stored) -> bool:
    """Whether the dataset was dropped and not written since."""
    (row,) = await stored.rows(
        """SELECT d.dropped_at IS NOT NULL AND NOT EXISTS (
                    SELECT FROM job_datasets h
                     WHERE h.organization_id = $1 AND h.dataset_id = d.id AND h.role = 'output'
                       AND h.last_seen_at > d.dropped_at) AS gone
             FROM datasets d WHERE d.organization_id = $1 AND d.name = 't'"""
    )
    return bool(row["gone"])


async def becomes(stored: Stored, gone: bool) -> bool:
    """Whether it is so in the end: when a known dataset was last written is noted a little later."""
    return await eventually(lambda: is_gone(stored), lambda found: found is gone) is gone


async def test_a_dropped_dataset_is_gone(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(living(1, "CREATE"))
    assert not await is_gone(stored)
    await tenant.send_ok(living(2, "DROP"))
    assert await is_gone(stored)
    assert (await stored.dataset("t"))["dropped_at"] == moment(2)


async def test_a_start_that_announces_a_drop_does_not_drop(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(living(1, "CREATE"), living(2, "DROP", event_type="START"))
    assert not await is_gone(stored)


@pytest.mark.parametrize("repeats", [0, 1, 2, 3])
async def test_a_job_that_writes_as_ever_brings_a_dropped_dataset_back(
    tenant: Tenant, stored: Stored, repeats: int
) -> None:
    """However well the server knows what the job writes, and however often it is dropped."""
    await tenant.send_ok(*(living(second, None) for second in range(repeats)))
    for second in (10, 20, 30, 40):
        await tenant.send_ok(living(second, "DROP", "cleaner"))
        assert await becomes(stored, True)
        await tenant.send_ok(living(second + 1, None))
        assert await becomes(stored, False)


async def test_a_late_write_does_not_bring_a_dropped_dataset_back(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(living(5, "DROP", "cleaner"), living(2, None), living(3, None), living(4, None))
    await asyncio.sleep(0.3)
    assert await is_gone(stored)


async def test_a_late_drop_does_not_end_what_was_written_since(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(living(5, None), living(2, "DROP", "cleaner"))
    assert await becomes(stored, False)


async def test_a_late_drop_does_not_move_the_drop_back(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(living(5, "DROP", "cleaner"), living(2, "DROP", "cleaner"))
    assert (await stored.dataset("t"))["dropped_at"] == moment(5)


async def test_writing_without_a_word_brings_a_dropped_dataset_back(tenant: Tenant, stored: Stored) -> None:
    silent = an_event(job="silent", time=at(9), outputs=[a_dataset("t")])
    await tenant.send_ok(living(1, None), living(2, "DROP", "cleaner"), silent)
    assert await becomes(stored, False)


async def test_reading_does_not_bring_a_dropped_dataset_back(tenant: Tenant, stored: Stored) -> None:
    reader = an_event(job="reader", time=at(9), inputs=[a_dataset("t", facets={"x": a_facet()})])
    await tenant.send_ok(living(1, None), living(2, "DROP", "cleaner"), reader)
    assert await is_gone(stored)


async def test_a_drop_and_a_write_in_one_batch_leave_what_came_last(tenant: Tenant, stored: Stored) -> None:
    await post(tenant, BATCH, [living(3, None), living(2, "DROP", "cleaner")])
    assert await becomes(stored, False)
    await post(tenant, BATCH, [living(5, "DROP", "cleaner"), living(4, None)])
    assert await becomes(stored, True)


async def test_a_rename_keeps_the_previous_name_in_its_facet(tenant: Tenant, stored: Stored) -> None:
    facet = a_facet(lifecycleStateChange="RENAME", previousIdentifier={"namespace": NS, "name": "old"})
    await tenant.send_ok(an_event(outputs=[a_dataset("t", facets={"lifecycleStateChange": facet})]))
    assert (await stored.facet("t", "lifecycleStateChange") or {})["previousIdentifier"]["name"] == "old"


async def test_a_facet_that_is_too_large_to_index_stays_in_the_log(tenant: Tenant, stored: Stored) -> None:
    event = an_event(outputs=[a_dataset("t", facets={"big": a_facet(text="x" * 2_000_000), "small": a_facet()})])
    await tenant.send_ok(event)
    assert await stored.facet("t", "big") is None
    assert await stored.facet("t", "small") is not None


async def test_a_dataset_event_may_delete_a_facet(tenant: Tenant, stored: Stored) -> None:
    gone = {"documentation": a_facet() | {"_deleted": True}}
    event = {"eventTime": at(9), "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": a_dataset("t", facets=gone)}
    await tenant.send_ok(documented(0, "one"), event)
    assert await documentation(stored) is None
