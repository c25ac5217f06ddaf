"""The events of a run, read back byte for byte."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.events import a_facet, a_run_id, an_event, at
from tests.support.golden import golden
from tests.support.server import Server, Tenant


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


def odd(run: str) -> bytes:
    """Odd spacing, an odd order of keys, escapes, a number beyond any double, and a key that comes twice."""
    facet = a_facet(text="ANY")
    text = json.dumps(an_event("START", run=run, run_facets={"strange": facet}), indent=3)
    body = '"\\u00e9 é \\/", "n" : 1e400, "zero": -0.0, "zero": 1.10, "deep" :[ [ ],{ } ]'
    return b" \r\n" + text.replace('"ANY"', body).encode() + b"\n\t "


async def events_of(tenant: Tenant, run: str, **params: Any) -> tuple[bytes, dict[str, Any]]:
    response = await tenant.client.get(f"/api/v1/runs/{run}/events", params=params)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    return response.content, json.loads(response.content)


async def test_an_event_comes_back_byte_for_byte(tenant: Tenant) -> None:
    run = a_run_id()
    sent = odd(run)
    assert (await tenant.send(sent)).status_code == 201

    content, answer = await events_of(tenant, run)

    assert b'"event":' + sent + b"}]" in content
    assert content.count(b"1e400") == 1
    (item,) = answer["items"]
    assert list(item) == [
        "id",
        "received_at",
        "event_time",
        "event_type",
        "outcome",
        "reason",
        "producer",
        "marks",
        "event",
    ]
    assert (item["event_type"], item["outcome"], item["reason"], item["marks"]) == ("START", "accepted", None, [])


async def test_events_come_in_the_order_in_which_they_were_received_refused_ones_too(tenant: Tenant) -> None:
    run = a_run_id()
    sent = [
        an_event("COMPLETE", run=run, time=at(5)),
        an_event("START", run=run, time=at(0)),
        an_event("FAIL", run=run, time=at(9)),
    ]
    assert [(await tenant.send(event)).status_code for event in sent] == [201, 201, 422]

    _, answer = await events_of(tenant, run)

    assert [item["event"] for item in answer["items"]] == sent
    assert [item["outcome"] for item in answer["items"]] == ["accepted", "accepted", "refused"]
    assert answer["items"][2]["reason"] is not None


async def test_events_are_paged(tenant: Tenant) -> None:
    run = a_run_id()
    sent = [an_event("RUNNING", run=run, time=at(place)) for place in range(5)]
    await tenant.send_ok(*sent)
    await tenant.send_ok(an_event("RUNNING", time=at(2)))

    found, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        _, answer = await events_of(tenant, run, limit=2, **({"cursor": cursor} if cursor else {}))
        found += [item["event"] for item in answer["items"]]
        cursor, pages = answer["next_cursor"], pages + 1

    assert (found, pages) == (sent, 3)


async def test_more_events_than_are_read_at_once_all_come(tenant: Tenant) -> None:
    run = a_run_id()
    filler = {"big": a_facet(text="".join(chr(33 + (i * i) % 90) for i in range(200_000)))}
    sent = [an_event("RUNNING", run=run, time=at(place), run_facets=filler) for place in range(12)]
    await tenant.send_ok(*sent)

    _, answer = await events_of(tenant, run)

    assert [item["event"] for item in answer["items"]] == sent


async def test_no_connection_is_held_while_a_client_reads_events(server: Server) -> None:
    run, busy, sent = a_run_id(), [], b""
    await server.tenant.send_ok(*(an_event("RUNNING", run=run, time=at(place)) for place in range(3)))
    path = f"/api/v1/runs/{run}/events"
    at_rest = server.database.size - server.database.idle

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal sent
        if message["type"] == "http.response.body":
            busy.append(server.database.size - server.database.idle)
            sent += message.get("body", b"")

    headers = [(b"host", b"headgate.test"), (b"authorization", f"Bearer {server.tenant.api_key}".encode())]
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
    }
    scope |= {"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers}
    scope |= {"client": ("127.0.0.1", 1), "server": ("headgate.test", 80)}
    await server.app(scope, receive, send)

    assert len(json.loads(sent)["items"]) == 3
    assert len(busy) > 3
    # What wrote the events may still have had one when the test began.
    assert max(busy) <= at_rest


async def test_events_of_real_producers_come_back_byte_for_byte(tenant: Tenant) -> None:
    sent = golden("airflow")
    for event in sent:
        await tenant.send(event)
    runs = {json.loads(event)["run"]["runId"] for event in sent}

    contents = b"".join([(await events_of(tenant, run))[0] for run in runs])

    assert all(event in contents for event in sent)


@pytest.mark.parametrize("cursor", ["x", "AAAA", "é"])
async def test_a_wrong_cursor_is_named(tenant: Tenant, cursor: str) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event(run=run))

    response = await tenant.client.get(f"/api/v1/runs/{run}/events", params={"cursor": cursor})

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "query.cursor"
