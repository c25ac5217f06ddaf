"""Conformance over HTTP: each defect that a producer can have, sent for real, is found and told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conftest import Cluster
from tests.support.events import PRODUCER, Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.ingest import a_server
from tests.support.server import Server, Tenant

CONFORMANCE = "/api/v1/conformance"
SPARK = "https://github.com/OpenLineage/OpenLineage/tree/{}/integration/spark"


@pytest.fixture(scope="module")
async def shared(cluster: Cluster) -> AsyncIterator[Server]:
    async with a_server(cluster) as server:
        yield server


@pytest.fixture
async def tenant(shared: Server) -> Tenant:
    return await shared.add_tenant(f"Judged {a_run_id()}")


async def report(tenant: Tenant, **params: Any) -> list[Json]:
    response = await tenant.client.get(CONFORMANCE, params=params)
    assert response.status_code == 200, response.text
    items: list[Json] = response.json()["items"]
    return items


async def the_producer(tenant: Tenant) -> Json:
    [found] = await report(tenant)
    return found


def codes(producer: Json) -> list[str]:
    """What was found, but for the late arrival that the builders' times amount to."""
    return [finding["code"] for finding in producer["findings"] if finding["code"] != "late_events"]


def now(seconds: float = 0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def a_whole_run(tenant: Tenant, **parts: Any) -> None:
    run = a_run_id()
    await tenant.send_ok(
        an_event("START", run=run, time=now(-2), **parts), an_event("COMPLETE", run=run, time=now(-1), **parts)
    )


async def test_a_good_producer_has_the_best_grade(tenant: Tenant) -> None:
    await a_whole_run(tenant, outputs=[a_dataset("t", facets=with_schema("id"))])

    producer = await the_producer(tenant)

    assert (producer["name"], producer["version"], producer["grade"]) == ("headgate-tests", "1.0", "A")
    assert producer["findings"] == []
    assert (producer["events"], producer["accepted"], producer["refused"]) == (2, 2, [])
    assert producer["spec_versions"] == ["2-0-2"]
    assert producer["runs"] == {"examined": 1, "missing_start": 0, "unfinished": 0, "active_after_end": 0}
    assert producer["clock"]["ahead"] == 0
    assert producer["lenient"] == {"events": 0, "kinds": []}
    assert producer["first_seen_at"] <= producer["last_seen_at"]


async def test_invalid_facets_are_counted_by_name_with_an_example(tenant: Tenant) -> None:
    await a_whole_run(tenant)
    wrong = {"schema": a_facet(fields="none")}
    await a_whole_run(tenant, outputs=[a_dataset("a", facets=wrong), a_dataset("b", facets=wrong)])
    await a_whole_run(tenant, run_facets={"parent": a_facet(run={"runId": "7"})})

    producer = await the_producer(tenant)

    assert {facet["facet"]: facet["events"] for facet in producer["invalid_facets"]} == {"schema": 2, "parent": 2}
    assert codes(producer) == ["invalid_facet:parent", "invalid_facet:schema"]
    assert producer["grade"] == "D"
    [example] = [finding["event_id"] for finding in producer["findings"] if finding["code"] == "invalid_facet:schema"]
    event = (await tenant.client.get(f"/api/v1/events/{example}")).json()
    assert event["event"]["outputs"][0]["facets"]["schema"]["fields"] == "none"
    assert event["marks"] == ["invalid:schema"]


async def test_numbers_beyond_the_database_make_their_facet_invalid(tenant: Tenant) -> None:
    await a_whole_run(tenant, outputs=[a_dataset("t", outputFacets={"outputStatistics": a_facet(rowCount=2**70)})])
    assert codes(await the_producer(tenant)) == ["invalid_facet:outputStatistics"]


async def test_runs_without_start_are_counted(tenant: Tenant) -> None:
    await tenant.send_ok(an_event("COMPLETE"), an_event("RUNNING", time=now()))
    await a_whole_run(tenant)

    producer = await the_producer(tenant)

    assert (producer["runs"]["examined"], producer["runs"]["missing_start"]) == (3, 2)
    assert codes(producer) == ["missing_start"]
    assert producer["grade"] == "B"


async def test_a_start_that_comes_late_is_not_missing(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event("COMPLETE", run=run, time=now(-1)), an_event("START", run=run, time=now(-2)))
    assert codes(await the_producer(tenant)) == []


async def test_runs_that_never_end_are_counted_after_a_day(tenant: Tenant) -> None:
    day = 24 * 3600
    await tenant.send_ok(
        an_event("START", time=now(-day - 60)),
        an_event("START", time=now(-day + 600)),
        an_event(
            "START",
            time=now(-2 * day),
            job="stream",
            job_facets={"jobType": a_facet(processingType="STREAMING", integration="SPARK")},
        ),
    )

    producer = await the_producer(tenant)

    assert producer["runs"]["unfinished"] == 1
    assert codes(producer) == ["unfinished_runs"]


async def test_runs_that_are_active_after_their_end_are_counted(tenant: Tenant) -> None:
    """Such an event is accepted while the end is not known yet."""
    run = a_run_id()
    await tenant.send_ok(
        an_event("START", run=run, time=now(-9)),
        an_event("RUNNING", run=run, time=now(-1)),
        an_event("COMPLETE", run=run, time=now(-5)),
    )
    assert codes(await the_producer(tenant)) == ["active_after_end"]


async def test_clocks_that_are_ahead_are_measured(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event("START", run=run, time=now(2)), an_event("COMPLETE", run=run, time=now(3600)))

    producer = await the_producer(tenant)

    assert producer["clock"]["ahead"] == 1
    assert producer["clock"]["max_ahead_s"] == pytest.approx(3600, abs=30)
    assert codes(producer) == ["clock_ahead"]
    assert "by up to 59 minutes" in producer["findings"][0]["message"]


async def test_late_events_are_told_and_do_not_spoil_the_grade(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event("START", run=run, time=at()), an_event("COMPLETE", run=run, time=at(1)))

    producer = await the_producer(tenant)

    assert [finding["code"] for finding in producer["findings"]] == ["late_events"]
    assert (producer["clock"]["late"], producer["grade"]) == (2, "A")


async def test_refusals_are_counted_by_reason(tenant: Tenant) -> None:
    run = a_run_id()
    await a_whole_run(tenant)
    await tenant.send_ok(an_event("START", run=run, time=now(-9)), an_event("COMPLETE", run=run, time=now(-5)))
    await tenant.send(an_event("FAIL", run=run, time=now(-4)))
    await tenant.send(an_event("DONE"))
    await tenant.send(an_event(run="7"))

    producer = await the_producer(tenant)

    assert producer["refused"] == [
        {"reason": "fields.invalid", "events": 2},
        {"reason": "run.ended_otherwise", "events": 1},
    ]
    assert codes(producer) == ["refused:fields.invalid", "refused:run.ended_otherwise"]
    assert (producer["events"], producer["accepted"]) == (7, 4)


async def test_what_names_no_producer_is_told_of_as_unknown(tenant: Tenant) -> None:
    await tenant.send(b"[")
    producer = await the_producer(tenant)
    assert (producer["name"], producer["version"], codes(producer)) == ("unknown", None, ["refused:body.unparsable"])


async def test_leniency_is_counted_by_kind(tenant: Tenant) -> None:
    settings = {"settings": {"validation": "lenient"}}
    assert (await tenant.client.patch("/api/v1/organization", json=settings)).status_code == 200
    run = a_run_id()
    zoneless = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=5)
    without_url = an_event("COMPLETE", run=run, time=now(-1), run_facets={"x": {"bare": 1}})
    del without_url["schemaURL"]
    await tenant.send_ok(an_event("START", run=run, time=zoneless.isoformat()), without_url)

    producer = await the_producer(tenant)

    assert producer["lenient"]["events"] == 2
    assert {kind["kind"]: kind["events"] for kind in producer["lenient"]["kinds"]} == {
        "no_time_zone": 1,
        "no_schema_url": 1,
        "bare_facet": 1,
    }
    assert set(codes(producer)) == {"lenient:no_time_zone", "lenient:no_schema_url", "lenient:bare_facet"}
    assert producer["grade"] == "B"


async def test_versions_of_one_producer_are_gathered(tenant: Tenant) -> None:
    for version in ("1.53.0", "1.54.0", "1.54.0"):
        engine = {"processing_engine": a_facet(name="spark", version="3.5", openlineageAdapterVersion=version)}
        event = an_event("START", time=now(-1), run_facets=engine) | {"producer": SPARK.format(version)}
        await tenant.send_ok(event | {"schemaURL": "https://openlineage.io/spec/1-0-5/OpenLineage.json"})

    producer = await the_producer(tenant)

    assert (producer["name"], producer["version"], producer["events"]) == ("spark", "1.54.0", 3)
    assert [(version["version"], version["events"]) for version in producer["versions"]] == [
        ("1.54.0", 2),
        ("1.53.0", 1),
    ]
    assert producer["versions"][0]["producer"] == SPARK.format("1.54.0")
    assert (producer["client_versions"], producer["spec_versions"]) == (["1.53.0", "1.54.0"], ["1-0-5"])
    assert producer["sampled"] == 3
    assert codes(producer) == ["several_versions"]


async def test_producers_are_judged_apart(tenant: Tenant) -> None:
    await a_whole_run(tenant)
    await tenant.send_ok(an_event("COMPLETE", time=now(-1)) | {"producer": SPARK.format("1.0")})

    found = {producer["name"]: (producer["grade"], codes(producer)) for producer in await report(tenant)}

    assert found == {"headgate-tests": ("A", []), "spark": ("B", ["missing_start"])}


async def test_numbers_no_type_can_hold_do_not_hide_an_event(tenant: Tenant) -> None:
    raw = (
        f'{{"eventType": "START", "eventTime": "{now(-1)}", "producer": "{PRODUCER}", "big": 1e400,'
        '"schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json", "job": {"namespace": "n", "name": "j"},'
        f'"run": {{"runId": "{a_run_id()}"}}}}'
    )
    assert (await tenant.send(raw.encode())).status_code == 201
    assert (await the_producer(tenant))["spec_versions"] == ["2-0-2"]


async def test_nothing_of_other_organisations_is_told(tenant: Tenant, shared: Server) -> None:
    other = await shared.add_tenant(f"Other {a_run_id()}")
    await other.send_ok(an_event("COMPLETE", outputs=[a_dataset("t", facets={"schema": a_facet(fields=1)})]))
    assert await report(tenant) == []


async def test_what_is_older_than_the_window_is_left_out(tenant: Tenant, shared: Server) -> None:
    await tenant.send_ok(an_event())
    async with shared.database.tenant(tenant.organization_id) as conn:
        await conn.execute("UPDATE ingest_hours SET hour = hour - interval '8 days'")
    assert await report(tenant) == []
    assert len(await report(tenant, days=9)) == 1


@pytest.mark.parametrize("days", ["0", "31", "x", "2.5"])
async def test_a_wrong_window_is_named(tenant: Tenant, days: str) -> None:
    response = await tenant.client.get(CONFORMANCE, params={"days": days})
    assert (response.status_code, response.json()["errors"][0]["path"]) == (422, "query.days")


async def test_the_window_is_told(tenant: Tenant) -> None:
    found = (await tenant.client.get(CONFORMANCE)).json()
    assert set(found) == {"days", "since", "runs_since", "items", "truncated", "next_cursor"}
    assert (found["days"], found["truncated"], found["next_cursor"], found["items"]) == (7, False, None, [])
    assert datetime.now(UTC) - datetime.fromisoformat(found["since"]) >= timedelta(days=7)
