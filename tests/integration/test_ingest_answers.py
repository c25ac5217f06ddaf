"""What the six ingest routes answer: statuses and shapes, field by field."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.conftest import Cluster
from tests.support.events import PRODUCER, SCHEMA_URL, Json, a_dataset, a_run_id, an_event, at
from tests.support.ingest import (
    BATCH,
    EVENTS,
    METADATA,
    SCHEMA,
    SINGLE,
    SINK,
    a_server,
    assert_problem,
    body_for,
    every_route,
    post,
)
from tests.support.server import Server, Tenant

every_array_route = pytest.mark.parametrize("route", [BATCH, EVENTS])


@pytest.fixture(scope="module")
async def server(cluster: Cluster) -> AsyncIterator[Server]:
    """One server for all of these: every event is about a run of its own."""
    async with a_server(cluster) as server:
        yield server


@pytest.fixture(scope="module")
async def tenant(server: Server) -> Tenant:
    return server.tenant


def is_now(text: str) -> bool:
    return text.endswith("Z") and abs(datetime.fromisoformat(text) - datetime.now(UTC)) < timedelta(minutes=1)


async def test_a_single_event_is_201_and_again_200(tenant: Tenant) -> None:
    event = an_event()
    first = await post(tenant, SINGLE, event, x_correlation_id="abc-1")
    again = await post(tenant, SINGLE, event, x_correlation_id="abc-2")

    run = event["run"]["runId"]
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.headers["content-type"] == "application/json"
    assert first.json() == {"status": "stored", "kind": "run", "run_id": run, "correlation_id": "abc-1"}
    assert again.json() == {"status": "duplicate", "kind": "run", "run_id": run, "correlation_id": "abc-2"}


BASE = {"eventTime": at(), "producer": PRODUCER, "schemaURL": SCHEMA_URL}
KINDS = pytest.mark.parametrize(
    ("kind", "sink_type", "parts"),
    [
        ("run", "RUN_EVENT", {"run": {"runId": "6e1c0a52-8c1c-4a39-9d51-1f0a9c3b7d10"}}),
        ("dataset", "DATASET_EVENT", {"dataset": a_dataset("t")}),
        ("job", "JOB_EVENT", {"job": {"namespace": "n", "name": "j"}}),
    ],
    ids=["run", "dataset", "job"],
)


def kind_event(parts: Json) -> Json:
    job = {"job": {"namespace": "n", "name": a_run_id()}} if "run" in parts else {}
    return BASE | job | parts | ({"run": {"runId": a_run_id()}} if "run" in parts else {})


@KINDS
async def test_every_kind_of_event_is_answered_alike(tenant: Tenant, kind: str, sink_type: str, parts: Json) -> None:
    event = kind_event(parts | {"eventTime": at(1)})
    run = event.get("run", {}).get("runId")
    single = await post(tenant, SINGLE, event)
    assert (single.status_code, single.json()["kind"], single.json()["run_id"]) == (201, kind, run)


@KINDS
async def test_the_sink_answers_in_its_own_shape(tenant: Tenant, kind: str, sink_type: str, parts: Json) -> None:
    event = kind_event(parts | {"eventTime": at(2)})
    first, again = await post(tenant, SINK, event), await post(tenant, SINK, event)

    tenant_id = (await tenant.client.get("/api/v1/organization")).json()["tenant_id"]
    said = {"eventType": sink_type, "runId": event.get("run", {}).get("runId"), "tenantId": tenant_id}
    assert (first.status_code, first.json()) == (201, {"status": "accepted", **said})
    assert (again.status_code, again.json()) == (200, {"status": "duplicate", **said})


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"[]", "fields.invalid"),
        (b'"text"', "fields.invalid"),
        (b"{}", "fields.invalid"),
        (json.dumps(an_event() | {"eventTime": "soon"}).encode(), "fields.invalid"),
        (json.dumps({**BASE, "thing": {}}).encode(), "fields.invalid"),
        (b"{", "body.unparsable"),
        (b"\xff", "body.unparsable"),
    ],
    ids=["array", "text", "empty", "bad time", "no kind", "cut off", "not UTF-8"],
)
async def test_the_sink_says_400_where_others_say_422(tenant: Tenant, body: bytes, code: str) -> None:
    problem = assert_problem(await post(tenant, SINK, body), 400, code, SINK)
    assert bool(problem["errors"]) == (code == "fields.invalid")
    assert (await post(tenant, SINGLE, body)).status_code == (422 if code == "fields.invalid" else 400)


async def test_the_sink_says_400_for_a_refused_state(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event("COMPLETE", run=run, time=at(1)))
    late = an_event("FAIL", run=run, time=at(2))
    assert_problem(await post(tenant, SINK, late), 400, "run.state", SINK)
    assert_problem(await post(tenant, SINGLE, late), 422, "run.state", SINGLE)


async def test_wrong_fields_are_all_listed_in_a_problem(tenant: Tenant) -> None:
    event = an_event("DONE", run="7") | {"producer": ""}
    problem = assert_problem(await post(tenant, SINGLE, event), 422, "fields.invalid", SINGLE)
    assert {error["path"]: error["value"] for error in problem["errors"]} == {
        "producer": "",
        "eventType": "DONE",
        "run.runId": "7",
    }
    assert all(set(error) == {"path", "message", "value"} for error in problem["errors"])
    assert problem["hint"]


async def test_a_batch_that_is_stored_says_so(tenant: Tenant) -> None:
    events = [an_event() for _ in range(3)]
    await tenant.send_ok(events[1])
    response = await post(tenant, BATCH, json.dumps(events).encode(), x_correlation_id="batch-1")

    answer = response.json()
    assert is_now(answer.pop("timestamp"))
    assert (response.status_code, answer) == (
        200,
        {
            "status": "success",
            "summary": {
                "received": 3,
                "successful": 3,
                "failed": 0,
                "retriable": 0,
                "non_retriable": 0,
                "duplicates": 0,
            },
            "failed_events": [],
            "correlation_id": "batch-1",
        },
    )
    again = (await post(tenant, BATCH, events)).json()
    assert (again["status"], again["summary"]["duplicates"], again["summary"]["successful"]) == ("success", 3, 3)


async def test_a_batch_that_is_partly_refused_is_207_and_names_places_in_the_request(tenant: Tenant) -> None:
    good = [an_event(time=at(9)), an_event(time=at(1))]
    events = [good[0], an_event("DONE", time=at(5)), {"nonsense": 1}, good[1], 7]
    response = await post(tenant, BATCH, events)

    answer = response.json()
    assert (response.status_code, answer["status"]) == (207, "partial_success")
    assert answer["summary"] == {
        "received": 5,
        "successful": 2,
        "failed": 3,
        "retriable": 0,
        "non_retriable": 3,
        "duplicates": 0,
    }
    assert [(failed["index"], failed["retriable"]) for failed in answer["failed_events"]] == [
        (1, False),
        (2, False),
        (4, False),
    ]
    assert answer["failed_events"][0]["reason"].startswith("eventType: must be one of")
    for event in good:
        assert (await tenant.run(event["run"]["runId"]))["state"] == "COMPLETE"


async def test_a_batch_that_is_all_refused_is_422_in_the_same_shape(tenant: Tenant) -> None:
    response = await post(tenant, BATCH, [{}, an_event("DONE")])
    answer = response.json()
    assert (response.status_code, answer["status"]) == (422, "error")
    assert response.headers["content-type"] == "application/json"
    assert (answer["summary"]["failed"], answer["summary"]["successful"]) == (2, 0)
    assert [failed["index"] for failed in answer["failed_events"]] == [0, 1]


async def test_a_state_refused_in_a_batch_keeps_its_place(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event("COMPLETE", run=run, time=at(5)))
    events = [an_event(time=at(50)), an_event("FAIL", run=run, time=at(9)), an_event(time=at(0))]
    answer = (await post(tenant, BATCH, events)).json()
    assert [failed["index"] for failed in answer["failed_events"]] == [1]
    assert run in answer["failed_events"][0]["reason"]


async def test_the_events_route_answers_one_result_an_event(tenant: Tenant) -> None:
    known = an_event(time=at(30))
    await post(tenant, EVENTS, [known])
    events = [an_event(time=at(9)), known, an_event("DONE"), an_event(time=at(1))]
    response = await post(tenant, EVENTS, json.dumps(events).encode(), x_correlation_id="e-1")

    answer = response.json()
    assert is_now(answer.pop("timestamp"))
    error = answer["results"][2].pop("error")
    assert (response.status_code, answer) == (
        207,
        {
            "correlation_id": "e-1",
            "stored": 2,
            "duplicates": 1,
            "failed": 1,
            "results": [
                {"index": 0, "status": 200, "message": "stored"},
                {"index": 1, "status": 200, "message": "duplicate"},
                {"index": 2, "status": 422},
                {"index": 3, "status": 200, "message": "stored"},
            ],
        },
    )
    assert "eventType" in error


@pytest.mark.parametrize(("events", "status"), [([an_event()], 200), ([{}], 422)], ids=["good", "bad"])
async def test_the_events_route_shares_the_batch_statuses(tenant: Tenant, events: list[Json], status: int) -> None:
    response = await post(tenant, EVENTS, events)
    assert response.status_code == status
    assert set(response.json()) == {"correlation_id", "timestamp", "stored", "duplicates", "failed", "results"}


async def test_a_duplicate_in_an_array_says_so(tenant: Tenant) -> None:
    raw = json.dumps(an_event()).encode()
    body = b"[" + raw + b", " + raw + b"]"
    first, again = (await post(tenant, EVENTS, body)).json(), (await post(tenant, EVENTS, body)).json()
    assert [result["message"] for result in first["results"]] == ["stored", "duplicate"]
    assert (first["stored"], first["duplicates"], again["stored"], again["duplicates"]) == (1, 1, 0, 2)


@every_array_route
async def test_an_empty_array_is_a_success_of_nothing(tenant: Tenant, route: str) -> None:
    response = await post(tenant, route, b"[]")
    answer = response.json()
    assert response.status_code == 200
    assert (answer.get("results", []), answer.get("failed_events", [])) == ([], [])


@every_array_route
@pytest.mark.parametrize(
    "body", [b"{}", b"5", b"null", json.dumps(an_event()).encode()], ids=["{}", "5", "null", "one"]
)
async def test_what_is_no_array_is_a_problem(tenant: Tenant, route: str, body: bytes) -> None:
    problem = assert_problem(await post(tenant, route, body), 422, "fields.invalid", route)
    assert problem["errors"][0]["path"] == "$"


@pytest.mark.parametrize("route", [METADATA, SCHEMA])
async def test_a_simple_form_is_always_202(tenant: Tenant, route: str) -> None:
    body = body_for(route) | {"timestamp": at(3)}
    for _ in range(2):
        response = await post(tenant, route, body)
        answer = response.json()
        assert response.status_code == 202
        assert set(answer) == {"status", "job_id", "message", "datasets_processed", "edges_created"}
        assert (answer["status"], answer["job_id"]) == ("accepted", body["job_id"])
    counts = (answer["datasets_processed"], answer["edges_created"])
    assert counts == ((2, 1) if route == METADATA else (1, 0))


@pytest.mark.parametrize("route", [METADATA, SCHEMA])
async def test_a_simple_form_without_its_fields_is_422(tenant: Tenant, route: str) -> None:
    problem = assert_problem(await post(tenant, route, {"status": 5}), 422, "fields.invalid", route)
    assert "job_id" in {error["path"] for error in problem["errors"]}


@every_route
@pytest.mark.parametrize("body", [b"", b"{", b"[1,", b"nope", b"{'a': 1}", b"\xff\xfe"], ids=str)
async def test_what_does_not_parse_is_400(tenant: Tenant, route: str, body: bytes) -> None:
    problem = assert_problem(await post(tenant, route, body), 400, "body.unparsable", route)
    assert problem["hint"]


@every_route
async def test_without_credentials_nothing_is_taken(server: Server, route: str) -> None:
    async with server.anonymous() as client:
        response = await client.post(route, json=body_for(route))
    assert_problem(response, 401, "auth.unauthenticated", route)
    assert response.headers["www-authenticate"].startswith("Bearer")


@every_route
async def test_a_key_without_the_ingest_scope_is_403(server: Server, tenant: Tenant, route: str) -> None:
    async with server.anonymous() as client:
        session = (
            await client.post("/api/v1/auth/login", json={"email": tenant.email, "password": tenant.password})
        ).json()
        bearer = {"authorization": f"Bearer {session['token']}"}
        made = await client.post("/api/v1/auth/api-keys", json={"name": "r", "scopes": ["read"]}, headers=bearer)
        key = made.json()["key"]
        client.cookies.clear()
        response = await client.post(route, json=body_for(route), headers={"authorization": f"Bearer {key}"})
    assert_problem(response, 403, "auth.forbidden", route)


@every_route
@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip"])
async def test_another_encoding_is_415(tenant: Tenant, route: str, encoding: str) -> None:
    response = await post(tenant, route, body_for(route), content_encoding=encoding)
    assert_problem(response, 415, "body.wrong_encoding", route)


async def test_another_charset_is_415(tenant: Tenant) -> None:
    response = await post(tenant, SINGLE, an_event(), content_type="application/json; charset=latin-1")
    assert_problem(response, 415, "body.wrong_encoding", SINGLE)


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json; charset=UTF-8", 'application/json;charset="utf-8"'], ids=str
)
async def test_the_clients_spellings_of_json_are_taken(tenant: Tenant, content_type: str) -> None:
    assert (await post(tenant, SINGLE, an_event(), content_type=content_type)).status_code == 201
