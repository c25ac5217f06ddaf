"""Nothing that a client sends makes the server fail: broken bodies, wrong types, and bodies found by property tests."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.server.db.pool import Database
from headgate.settings import Settings
from tests.conftest import Cluster
from tests.support import broken
from tests.support.broken import ARRAYS, BATCH, METADATA, ROUTES, SCHEMA, SINGLE, SINK, Broken, Path
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.full_event import (
    a_full_dataset_event,
    a_full_event,
    a_full_job_event,
    a_full_metadata,
    a_full_schema,
)
from tests.support.server import Server, running_server

by_route = pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.rpartition("/")[2])
by_case = pytest.mark.parametrize(
    "case", [*broken.unparsable(), *broken.badly_packed()], ids=lambda case: case.id
)
bounded = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
async def server(cluster: Cluster) -> AsyncIterator[Server]:
    """One server for all of these: it has to survive every one of them."""
    name = await cluster.create()
    database = Database(cluster.app_dsn(name), max_size=8)
    unlimited = Settings(rate_global=None, rate_key=None, rate_anonymous=None, _env_file=None)
    async with running_server(unlimited, database) as server:
        yield server
    await database.close()
    await cluster.drop(name)


@pytest.fixture(autouse=True)
async def _stays_well(server: Server, caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """After each test the server takes a valid event, and has logged nothing that somebody would have to look at."""
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert (await server.tenant.send(an_event())).status_code == 201


async def post(server: Server, route: str, body: bytes, headers: dict[str, str] | None = None) -> httpx.Response:
    sent = [("content-type", "application/json"), *(headers or {}).items()]
    raw = dict((name, value.encode("latin-1")) for name, value in sent)
    return await server.client.post(route, content=body, headers=raw)


def assert_refused(response: httpx.Response, *statuses: int) -> None:
    """A refusal that says why, in the shape of its route."""
    assert response.status_code in statuses, (response.status_code, response.text[:500])
    answer = response.json()
    if response.headers["content-type"] == "application/json":
        assert_array_shape(answer)
        return
    assert response.headers["content-type"] == "application/problem+json"
    assert answer["status"] == response.status_code
    assert answer["correlation_id"] == response.headers["x-correlation-id"]
    assert answer["detail"]
    assert answer["code"] != "internal"


def assert_array_shape(answer: Json) -> None:
    if "summary" in answer:
        summary = answer["summary"]
        assert summary["received"] == summary["successful"] + summary["failed"]
        assert summary["failed"] == len(answer["failed_events"]) == summary["retriable"] + summary["non_retriable"]
        assert all(failed["reason"] for failed in answer["failed_events"])
    else:
        assert len(answer["results"]) == answer["stored"] + answer["duplicates"] + answer["failed"]
        assert [result["index"] for result in answer["results"]] == list(range(len(answer["results"])))
        assert not [result for result in answer["results"] if result["status"] >= 500]


@by_route
@by_case
async def test_a_broken_body_is_refused_with_a_reason(server: Server, route: str, case: Broken) -> None:
    is_packed = case.headers or case.id.startswith("gzip") or len(case.body) > broken.MIB
    body = case.body if is_packed else broken.body_for(route, case.body)
    if route in ARRAYS and case.id in {"empty", "whitespace"}:
        body = case.body

    began = time.monotonic()
    response = await post(server, route, body, case.headers)

    assert_refused(response, case.status)
    assert time.monotonic() - began < 5
