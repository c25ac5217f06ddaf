"""An organisation that asks for leniency: what it accepts more, what it marks, and that others stay strict."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.conftest import Cluster
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.ingest import BATCH, EVENTS, SINGLE, SINK, an_observed_server, assert_problem, post
from tests.support.server import Server, Tenant
from tests.support.stored import Stored, moment

LENIENT = {"validation": "lenient"}


@pytest.fixture(scope="module")
async def observed(cluster: Cluster) -> AsyncIterator[tuple[Server, Stored]]:
    async with an_observed_server(cluster) as observed:
        yield observed


@pytest.fixture
async def strict(observed: tuple[Server, Stored]) -> Tenant:
    return await observed[0].add_tenant(f"Strict {a_run_id()}")


@pytest.fixture
async def lenient(observed: tuple[Server, Stored]) -> Tenant:
    tenant = await observed[0].add_tenant(f"Lenient {a_run_id()}")
    await set_up(tenant, LENIENT)
    return tenant


@pytest.fixture
async def stored(observed: tuple[Server, Stored], lenient: Tenant) -> Stored:
    return Stored(observed[1].db, lenient.organization_id)


async def set_up(tenant: Tenant, settings: Json) -> None:
    response = await tenant.client.patch("/api/v1/organization", json={"settings": settings})
    assert response.status_code == 200, response.text


def loose_events() -> list[Any]:
    bare = {"nothing": {"but": "this"}}
    without_url = an_event()
    del without_url["schemaURL"]
    return [
        pytest.param(without_url, "no_schema_url", id="no schemaURL"),
        pytest.param(an_event(time="2026-03-01T10:00:00.25"), "no_time_zone", id="no time zone"),
        pytest.param(an_event(run_facets=bare), "bare_facet", id="bare run facet"),
        pytest.param(an_event(outputs=[a_dataset("t", facets=bare)]), "bare_facet", id="bare dataset facet"),
        pytest.param(an_event(job_facets={"sql": None}), "loose_part", id="null facet"),
    ]


@pytest.mark.parametrize(("event", "kind"), loose_events())
async def test_a_loose_event_is_accepted_marked_and_refused_elsewhere(
    lenient: Tenant, strict: Tenant, stored: Stored, event: Json, kind: str
) -> None:
    assert (await lenient.send(event)).status_code == 201
    assert [row["marks"] for row in await stored.log()] == [["lenient", f"lenient:{kind}"]]
    assert_problem(await strict.send(event), 422, "fields.invalid", SINGLE)


async def test_an_event_in_order_is_not_marked(lenient: Tenant, stored: Stored) -> None:
    await lenient.send_ok(an_event(run_facets={"x": a_facet()}))
    assert [(row["marks"], row["outcome"]) for row in await stored.log()] == [([], "accepted")]


async def test_a_time_without_zone_is_utc(lenient: Tenant, stored: Stored) -> None:
    event = an_event(time="2026-03-01T10:00:07")
    await lenient.send_ok(event)
    assert (await stored.run(event["run"]["runId"]))["started_at"] == moment(7)


async def test_bare_facets_are_projected_like_others(lenient: Tenant, stored: Stored) -> None:
    schema = {"schema": {"fields": [{"name": "id", "type": "int"}]}}
    statistics = {"outputStatistics": {"rowCount": 7}}
    await lenient.send_ok(an_event(outputs=[a_dataset("t", facets=schema, outputFacets=statistics)]))
    assert [version["columns"] for version in await stored.versions("t")] == [["id"]]
    assert [row["row_count"] for row in await stored.metrics()] == [7]


@pytest.mark.parametrize("route", [BATCH, EVENTS])
async def test_leniency_holds_for_arrays(lenient: Tenant, stored: Stored, route: str) -> None:
    response = await post(lenient, route, [an_event(time="2026-03-01T10:00:00"), an_event("DONE"), an_event()])
    assert response.status_code == 207
    assert [row["marks"] for row in await stored.log()] == [["lenient", "lenient:no_time_zone"], []]


async def test_leniency_holds_for_the_sink(lenient: Tenant) -> None:
    assert (await post(lenient, SINK, an_event(time="2026-03-01T10:00:00"))).status_code == 201


@pytest.mark.parametrize(
    ("path", "event"),
    [
        ("run.runId", an_event(run="7")),
        ("eventType", an_event("DONE")),
        ("producer", an_event() | {"producer": "me"}),
        ("job.name", an_event(job="")),
        ("run.facets.x", an_event(run_facets={"x": "text"})),
        ("schemaURL", an_event() | {"schemaURL": "nothing"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_leniency_has_its_limits(lenient: Tenant, path: str, event: Json) -> None:
    problem = assert_problem(await lenient.send(event), 422, "fields.invalid", SINGLE)
    assert [error["path"] for error in problem["errors"]] == [path]


async def test_a_refused_state_of_a_loose_event_is_logged_as_refused(lenient: Tenant, stored: Stored) -> None:
    run = a_run_id()
    await lenient.send_ok(an_event("COMPLETE", run=run, time="2026-03-01T10:00:01"))
    assert (await lenient.send(an_event("FAIL", run=run, time="2026-03-01T10:00:02"))).status_code == 422
    assert [(row["outcome"], row["reason"]) for row in await stored.log()] == [
        ("accepted", None),
        ("refused", "run.ended_otherwise"),
    ]


async def test_an_organisation_may_require_the_event_type(strict: Tenant) -> None:
    assert (await strict.send(an_event(None))).status_code == 201
    await set_up(strict, {"require_event_type": True})
    problem = assert_problem(await strict.send(an_event(None)), 422, "fields.invalid", SINGLE)
    assert [error["path"] for error in problem["errors"]] == ["eventType"]
    assert (await strict.send(an_event("OTHER"))).status_code == 201


async def test_a_change_of_settings_counts_from_the_next_event(lenient: Tenant) -> None:
    assert (await lenient.send(an_event(time="2026-03-01T10:00:00"))).status_code == 201
    await set_up(lenient, {"validation": "strict"})
    assert (await lenient.send(an_event(time="2026-03-01T10:00:01"))).status_code == 422
    await set_up(lenient, LENIENT)
    assert (await lenient.send(an_event(time="2026-03-01T10:00:02"))).status_code == 201


async def test_a_loose_event_without_type_or_time_zone_is_one_of_its_run(lenient: Tenant) -> None:
    run = a_run_id()
    await lenient.send_ok(
        an_event("START", run=run, time="2026-03-01T10:00:00"), an_event("COMPLETE", run=run, time=at(5))
    )
    found = await lenient.run(run)
    assert (found["state"], found["duration_ms"]) == ("COMPLETE", 5000)
