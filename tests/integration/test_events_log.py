"""The raw log over HTTP: what came is given back byte for byte, found by time, producer, outcome, run and job."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from headgate.openlineage.packing import pack
from headgate.server.events import store
from tests.conftest import Cluster
from tests.support.asgi import an_exchange
from tests.support.events import PRODUCER, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.ingest import a_server
from tests.support.server import Server, Tenant

EVENTS = "/api/v1/events"
REFUSED = "/api/v1/events/refused"
DBT = "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/integration/dbt"


@pytest.fixture(scope="module")
async def shared(cluster: Cluster) -> AsyncIterator[Server]:
    async with a_server(cluster) as server:
        yield server


@pytest.fixture
async def tenant(shared: Server) -> Tenant:
    """An organisation of the test's own on a server that all of them share."""
    return await shared.add_tenant(f"Log {a_run_id()}")


async def listed(tenant: Tenant, path: str = EVENTS, **params: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await page(tenant, path, **params))["items"]
    return items


async def page(tenant: Tenant, path: str = EVENTS, **params: Any) -> dict[str, Any]:
    response = await tenant.client.get(path, params=params)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def from_producer(producer: str, **event: Any) -> dict[str, Any]:
    return an_event(**event) | {"producer": producer}


def jobs_of(items: list[dict[str, Any]]) -> list[str]:
    return [item["job"]["name"] for item in items]


def odd_event(run: str) -> bytes:
    """Valid JSON that no decoder would write back as it is: spaces, repeated keys, escapes, a number beyond floats."""
    return (
        '\n {"eventType" :"START",  "eventTime": "2026-03-01T10:00:00.000000000Z","producer":"https://example.org/odd",'
        f'"schemaURL":"https://example.org/s.json", "run": {{"runId": "{run.upper()}"}},\t'
        '"job": {"namespace": "t\\u00e9sts", "name": "o\\/dd"}, "inputs": [], "inputs": [],'
        '"extra": [1e400, 1.0, 1E2, -0, 123456789012345678901234567890, "\\ud83d\\ude00 é"] }\r\n'
    ).encode()


async def test_an_event_is_listed_with_all_that_is_known_of_it(tenant: Tenant) -> None:
    event = from_producer(DBT, event_type="COMPLETE", job="load", namespace="shop", time=at(5))
    await tenant.send_ok(event)

    [item] = await listed(tenant)

    assert {name: item[name] for name in ("kind", "event_type", "event_time", "run_id", "producer")} == {
        "kind": "run",
        "event_type": "COMPLETE",
        "event_time": "2026-03-01T10:00:05Z",
        "run_id": event["run"]["runId"],
        "producer": DBT,
    }
    assert (item["producer_name"], item["outcome"], item["reason"], item["marks"]) == ("dbt", "accepted", None, [])
    assert (item["job"]["namespace"], item["job"]["name"]) == ("shop", "load")
    assert item["event"] == event
    assert datetime.now(UTC) - datetime.fromisoformat(item["received_at"]) < timedelta(minutes=1)
    assert set(item) == {
        *("id", "received_at", "event_time", "kind", "event_type", "run_id", "job", "producer", "producer_name"),
        *("outcome", "reason", "marks", "size", "event"),
    }


async def test_events_come_back_byte_for_byte(tenant: Tenant) -> None:
    raws = [odd_event(a_run_id()) for _ in range(3)]
    for raw in raws:
        assert (await tenant.send(raw)).status_code == 201

    answer = await tenant.client.get(EVENTS)
    ids = [item["id"] for item in json.loads(answer.content.replace(b"1e400", b"1"))["items"]]

    assert all(answer.content.count(raw) == 1 for raw in raws)
    for event_id, raw in zip(ids, reversed(raws), strict=True):
        alone = await tenant.client.get(f"{EVENTS}/{event_id}/raw")
        assert (alone.content, alone.headers["content-type"]) == (raw, "application/json")
        assert raw in (await tenant.client.get(f"{EVENTS}/{event_id}")).content


async def test_the_size_is_that_of_the_bytes(tenant: Tenant) -> None:
    raw = odd_event(a_run_id())
    large = json.dumps(an_event(run_facets={"x": a_facet(text="é" * 200_000)}), ensure_ascii=False).encode()
    for body in (raw, large):
        assert (await tenant.send(body)).status_code == 201

    items = await listed(tenant, raw=False)

    assert [item["size"] for item in items] == [len(large), len(raw)]
    assert [item["event"] for item in items] == [None, None]


async def test_dataset_and_job_events_are_in_the_log(tenant: Tenant) -> None:
    base = {"eventTime": at(), "producer": PRODUCER, "schemaURL": "https://example.org/s.json"}
    await tenant.send_ok(base | {"dataset": a_dataset("t")}, base | {"job": {"namespace": "n", "name": "j"}})

    items = await listed(tenant)

    assert [(item["kind"], item["event_type"], item["run_id"]) for item in items] == [
        ("job", None, None),
        ("dataset", None, None),
    ]
    assert items[1]["job"] is None
    assert [item["kind"] for item in await listed(tenant, kind="dataset")] == ["dataset"]


async def test_pages_follow_each_other_without_a_gap_or_a_repeat(tenant: Tenant) -> None:
    await tenant.send_ok(*(an_event(job=f"job-{number}") for number in range(7)))

    seen, cursor = [], None
    while True:
        found = await page(tenant, limit=3, **({} if cursor is None else {"cursor": cursor}))
        seen.append(jobs_of(found["items"]))
        cursor = found["next_cursor"]
        if cursor is None:
            break

    assert seen == [["job-6", "job-5", "job-4"], ["job-3", "job-2", "job-1"], ["job-0"]]


async def test_a_full_last_page_has_no_cursor(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(), an_event())
    assert (await page(tenant, limit=2))["next_cursor"] is None


async def test_an_empty_log_is_an_empty_page(tenant: Tenant) -> None:
    assert await page(tenant) == {"items": [], "next_cursor": None}
    assert await page(tenant, producer="dbt") == {"items": [], "next_cursor": None}
    assert await page(tenant, outcome="refused", **{"from": at()}) == {"items": [], "next_cursor": None}


async def test_a_page_of_large_events_is_whole(tenant: Tenant) -> None:
    """Several times what is read from the database in one piece."""
    noise = [base64.b64encode(bytes(byte ^ place for byte in range(256)) * 3000).decode() for place in range(5)]
    for place, text in enumerate(noise):
        await tenant.send_ok(an_event(job=f"job-{place}", run_facets={"x": a_facet(text=text)}))

    items = await listed(tenant)

    assert jobs_of(items) == [f"job-{place}" for place in reversed(range(5))]
    assert [item["event"]["run"]["facets"]["x"]["text"] for item in items] == noise[::-1]


async def test_events_are_found_by_producer_by_url_and_by_name(tenant: Tenant) -> None:
    await tenant.send_ok(
        from_producer(DBT, job="a"), an_event(job="b"), from_producer(DBT.replace("1.54.0", "1.53.0"), job="c")
    )

    assert jobs_of(await listed(tenant, producer=DBT)) == ["a"]
    assert jobs_of(await listed(tenant, producer="dbt")) == ["c", "a"]
    assert jobs_of(await listed(tenant, producer="headgate-tests")) == ["b"]
    assert await listed(tenant, producer="nobody") == []


async def test_a_producer_of_any_length_is_counted_and_found(tenant: Tenant) -> None:
    long = "https://example.org/" + "x" * 5000
    await tenant.send_ok(from_producer(long + "/a", job="a"), from_producer(long + "/b", job="b"))

    batch = [from_producer(long + "/c", job="c"), from_producer(long + "/d", job="d")]
    assert (await tenant.client.post("/api/v1/lineage/batch", json=batch)).status_code == 200

    assert len(await listed(tenant)) == 4
    assert len(await listed(tenant, producer=long[:3000])) == 4


async def test_events_are_found_by_type_run_and_job(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(
        an_event("START", run=run, job="a"), an_event("COMPLETE", run=run, job="a", time=at(1)), an_event(job="b")
    )
    job_id = (await listed(tenant, event_type="START"))[0]["job"]["id"]

    assert [item["event_type"] for item in await listed(tenant, run=run)] == ["COMPLETE", "START"]
    assert [item["event_type"] for item in await listed(tenant, run=run, event_type="START")] == ["START"]
    assert jobs_of(await listed(tenant, event_type="COMPLETE")) == ["b", "a"]
    assert jobs_of(await listed(tenant, job="tests/b")) == ["b"]
    assert jobs_of(await listed(tenant, job=job_id)) == ["a", "a"]
    assert await listed(tenant, run=a_run_id()) == []


async def test_what_a_runs_state_refuses_is_in_the_log_with_its_reason(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event("COMPLETE", run=run, time=at(1)))
    assert (await tenant.send(an_event("FAIL", run=run, time=at(2)))).status_code == 422

    [refused] = await listed(tenant, outcome="refused")

    assert (refused["event_type"], refused["reason"]) == ("FAIL", "run.ended_otherwise")
    assert [item["event_type"] for item in await listed(tenant, outcome="accepted")] == ["COMPLETE"]


async def test_events_are_found_by_the_time_they_came(tenant: Tenant, shared: Server) -> None:
    """Not by the time that they tell."""
    await came_at(shared, tenant, "a", "2026-05-01T09:59:59.999999Z")
    await came_at(shared, tenant, "b", "2026-05-01T10:00:00Z")
    await came_at(shared, tenant, "c", "2026-05-01T12:30:00Z")
    await came_at(shared, tenant, "d", "2026-06-01T00:00:00Z")

    assert producers_of(await listed(tenant)) == ["d", "c", "b", "a"]
    assert producers_of(await listed(tenant, **{"from": "2026-05-01T10:00:00Z"})) == ["d", "c", "b"]
    assert producers_of(await listed(tenant, to="2026-05-01T10:00:00Z")) == ["a"]
    assert producers_of(
        await listed(tenant, **{"from": "2026-05-01T12:00:00+02:00", "to": "2026-05-01T12:30:00.000001Z"})
    ) == ["c", "b"]
    assert producers_of(await listed(tenant, **{"from": "2026-05-01T12:30:00Z", "to": "2026-05-01T12:30:00Z"})) == []
    assert await listed(tenant, to="2026-01-01T00:00:00Z") == []
    assert await listed(tenant, **{"from": "2999-01-01T00:00:00Z"}) == []


async def came_at(server: Server, tenant: Tenant, producer: str, received_at: str) -> None:
    """An event that came in the past: written as ingest writes it, at another time."""
    async with server.database.tenant(tenant.organization_id) as conn:
        await conn.execute(
            "INSERT INTO lineage_events (organization_id, received_at, kind, event_time, producer, tenant_code, "
            "outcome, raw) VALUES ($1, $2, 'dataset', now(), $3, 't', 'accepted', $4)",
            *(tenant.organization_id, datetime.fromisoformat(received_at), f"urn:{producer}", pack(b"{}")),
        )


def producers_of(items: list[dict[str, Any]]) -> list[str]:
    return [item["producer"].removeprefix("urn:") for item in items]


async def test_a_search_that_takes_long_goes_on_with_the_next_page(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_LOOKED_AT", 4)
    await tenant.send_ok(an_event(job="rare"), *(an_event(job=f"job-{number}") for number in range(9)))

    pages = []
    cursor: dict[str, str] = {}
    for _ in range(10):
        found = await page(tenant, job="tests/rare", **cursor)
        pages.append(jobs_of(found["items"]))
        if found["next_cursor"] is None:
            break
        cursor = {"cursor": found["next_cursor"]}

    assert pages == [[], [], ["rare"]]


async def test_a_search_by_outcome_jumps_to_where_there_is_something(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_LOOKED_AT", 3)
    run = a_run_id()
    await tenant.send_ok(an_event("COMPLETE", run=run, time=at(1)))
    await tenant.send(an_event("FAIL", run=run, time=at(2)))
    await tenant.send_ok(*(an_event() for _ in range(9)))

    found = await page(tenant, outcome="refused")

    assert [item["event_type"] for item in found["items"]] == ["FAIL"]


@pytest.mark.parametrize(
    ("field", "params"),
    [
        ("query.from", {"from": "yesterday"}),
        ("query.from", {"from": "2026-03-01T10:00:00"}),
        ("query.to", {"to": "9" * 100}),
        ("query.to", {"from": "2026-03-02T00:00:00Z", "to": "2026-03-01T00:00:00Z"}),
        ("query.outcome", {"outcome": "lost"}),
        ("query.kind", {"kind": "table"}),
        ("query.event_type", {"event_type": "DONE"}),
        ("query.run", {"run": "7"}),
        ("query.limit", {"limit": "0"}),
        ("query.limit", {"limit": "1001"}),
        ("query.cursor", {"cursor": "x"}),
        ("query.producer", {"producer": ""}),
        ("query.raw", {"raw": "perhaps"}),
    ],
)
async def test_wrong_parameters_are_named(tenant: Tenant, field: str, params: dict[str, str]) -> None:
    response = await tenant.client.get(EVENTS, params=params)
    assert response.status_code == 422, response.text
    assert [error["path"] for error in response.json()["errors"]] == [field]


@pytest.mark.parametrize("path", ["0", "x", "-1", "9" * 30, "1.5"])
async def test_an_id_that_is_none_is_a_wrong_parameter(tenant: Tenant, path: str) -> None:
    response = await tenant.client.get(f"{EVENTS}/{path}")
    assert (response.status_code, response.json()["errors"][0]["path"]) == (422, "path.id")


async def test_events_of_another_organisation_do_not_exist(tenant: Tenant, shared: Server) -> None:
    other = await shared.add_tenant(f"Other {a_run_id()}")
    run = a_run_id()
    await other.send_ok(an_event(run=run, job="theirs"))
    [theirs] = await listed(other)

    unknown = await tenant.client.get(f"{EVENTS}/{2**62}")
    foreign = await tenant.client.get(f"{EVENTS}/{theirs['id']}")

    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.json()["detail"] == f"no event {theirs['id']}"
    assert (await tenant.client.get(f"{EVENTS}/{theirs['id']}/raw")).status_code == 404
    assert await listed(tenant, run=run) == []
    assert (await tenant.client.get(EVENTS, params={"job": theirs["job"]["id"]})).status_code == 404


async def test_the_log_needs_the_scope_read(tenant: Tenant, shared: Server) -> None:
    async with shared.anonymous() as client:
        await client.post("/api/v1/auth/login", json={"email": tenant.email, "password": tenant.password})
        made = await client.post("/api/v1/auth/api-keys", json={"name": "sends", "scopes": ["ingest"]})
        key = made.json()["key"]
        client.cookies.clear()
        for path in (EVENTS, REFUSED, f"{EVENTS}/1", f"{EVENTS}/1/raw"):
            assert (await client.get(path)).status_code == 401
            assert (await client.get(path, headers={"authorization": f"Bearer {key}"})).status_code == 403


async def refuse(tenant: Tenant, body: bytes, route: str = "/api/v1/lineage", **headers: str) -> httpx.Response:
    response = await tenant.client.post(route, content=body, headers={"content-type": "application/json"} | headers)
    assert response.status_code in (400, 413, 415, 422), response.text
    return response


async def test_what_was_refused_is_listed_with_its_body_and_errors(tenant: Tenant) -> None:
    body = b'{ "eventType": "START",  "producer": "https://example.org/dbt/1.2", "eventTime": 7}'
    answer = await refuse(tenant, body, **{"x-correlation-id": "find-me"})

    [item] = await listed(tenant, REFUSED)

    assert (item["code"], item["route"], item["correlation_id"]) == ("fields.invalid", "/api/v1/lineage", "find-me")
    assert (item["body"], item["body_encoding"], item["size"], item["truncated"]) == (
        body.decode(),
        "text",
        len(body),
        False,
    )
    assert item["errors"] == answer.json()["errors"]
    assert item["reason"] == answer.json()["detail"]
    assert (item["producer"], item["producer_name"]) == ("https://example.org/dbt/1.2", "dbt")
    assert await listed(tenant) == []


async def test_a_refused_body_that_is_no_text_comes_in_base64(tenant: Tenant) -> None:
    body = b'{"a": "\xff\xfe"}'
    await refuse(tenant, body)

    [item] = await listed(tenant, REFUSED)

    assert item["body_encoding"] == "base64"
    assert base64.b64decode(item["body"]) == body
    assert (item["producer"], item["producer_name"], item["errors"]) == (None, None, [])


async def test_a_long_refused_body_is_cut_at_a_character(tenant: Tenant) -> None:
    body = json.dumps({"a": "x" + "é" * 50_000}, ensure_ascii=False).encode()
    await refuse(tenant, body)

    [item] = await listed(tenant, REFUSED)

    assert (item["truncated"], item["size"], item["body_encoding"]) == (True, len(body), "text")
    assert body.decode().startswith(item["body"])
    assert len(item["body"].encode()) in (65_535, 65_536)


async def test_refused_events_are_paged_and_found(tenant: Tenant) -> None:
    for number in range(3):
        await refuse(tenant, json.dumps({"producer": f"https://example.org/p{number}", "n": number}).encode())
    await refuse(tenant, b"[", **{"x-correlation-id": "the-last"})

    newest = await page(tenant, REFUSED, limit=2)
    rest = await page(tenant, REFUSED, limit=2, cursor=newest["next_cursor"])

    assert [item["body"] for item in newest["items"]] == ["[", '{"producer": "https://example.org/p2", "n": 2}']
    assert [item["producer_name"] for item in rest["items"]] == ["p1", "p0"]
    assert rest["next_cursor"] is None
    assert [item["body"] for item in await listed(tenant, REFUSED, code="body.unparsable")] == ["["]
    assert [item["body"] for item in await listed(tenant, REFUSED, correlation_id="the-last")] == ["["]
    assert [item["producer_name"] for item in await listed(tenant, REFUSED, producer="p1")] == ["p1"]
    assert {item["body"] for item in await listed(tenant, REFUSED, body=False)} == {None}
    assert await listed(tenant, REFUSED, to=newest["items"][-1]["received_at"], limit=9) == rest["items"]


async def test_refused_events_of_another_organisation_are_not_shown(tenant: Tenant, shared: Server) -> None:
    other = await shared.add_tenant(f"Other {a_run_id()}")
    await refuse(other, b"{}")
    assert await listed(tenant, REFUSED) == []


@pytest.mark.parametrize(
    ("field", "params"),
    [("query.cursor", {"cursor": "AAAA"}), ("query.from", {"from": "now"}), ("query.limit", {"limit": "x"})],
)
async def test_wrong_parameters_of_the_refused_are_named(tenant: Tenant, field: str, params: dict[str, str]) -> None:
    response = await tenant.client.get(REFUSED, params=params)
    assert (response.status_code, response.json()["errors"][0]["path"]) == (422, field)


async def test_strange_texts_find_nothing_and_break_nothing(tenant: Tenant) -> None:
    await tenant.send_ok(an_event())
    for text in ("\ud800", "é" * 3000, "%", "a/b/c/d", "' OR 1=1", "/"):
        encoded = quote(text.encode("utf-8", "surrogatepass"))
        for name, statuses in (("producer", {200}), ("job", {404})):
            response = await tenant.client.get(f"{EVENTS}?{name}={encoded}")
            assert response.status_code in statuses, (name, text, response.text)


async def test_a_page_holds_no_connection_while_it_is_read(tenant: Tenant, shared: Server) -> None:
    """More readers wait in the middle of their page than there are connections."""
    await tenant.send_ok(an_event())
    async with AsyncExitStack() as stack:
        for _ in range(shared.database.max_size + 2):
            reader = an_exchange(shared.app, EVENTS, tenant.api_key, taking=False)
            assert await (await stack.enter_async_context(reader)).begun() == 200
        assert len(await listed(tenant)) == 1
