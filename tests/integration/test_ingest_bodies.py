"""Bodies as they travel: gzip in every form, limits, and large events."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator

import pytest

from headgate.openlineage.packing import unpack
from tests.conftest import Cluster
from tests.support.events import a_facet, a_run_id, an_event
from tests.support.ingest import (
    BATCH,
    SINGLE,
    a_server,
    assert_problem,
    body_for,
    every_route,
    post,
)
from tests.support.server import Server, Tenant


@pytest.fixture(scope="module")
async def server(cluster: Cluster) -> AsyncIterator[Server]:
    """One server for all of these: every event is about a run of its own."""
    async with a_server(cluster) as server:
        yield server


@pytest.fixture(scope="module")
async def tenant(server: Server) -> Tenant:
    return server.tenant


async def in_chunks(body: bytes, size: int = 100) -> AsyncIterator[bytes]:
    for begin in range(0, len(body), size):
        yield body[begin : begin + size]


@every_route
@pytest.mark.parametrize("chunked", [False, True], ids=["with length", "chunked"])
async def test_gzip_is_taken_with_and_without_a_length(tenant: Tenant, route: str, chunked: bool) -> None:
    packed = gzip.compress(json.dumps(body_for(route)).encode(), 3)
    response = await tenant.client.post(
        route, content=in_chunks(packed, 7) if chunked else packed, headers={"content-encoding": "gzip"}
    )
    assert ("content-length" in response.request.headers) is not chunked
    assert response.status_code in (200, 201, 202), response.text


@pytest.mark.parametrize("size", [1, 10, 100_000], ids=lambda size: f"chunks of {size}")
async def test_gzip_of_several_members_is_one_body(tenant: Tenant, size: int) -> None:
    raw = json.dumps(an_event()).encode()
    packed = b"".join(gzip.compress(raw[begin : begin + 50]) for begin in range(0, len(raw), 50)) + b"\x00" * 20
    response = await tenant.client.post(SINGLE, content=in_chunks(packed, size), headers={"content-encoding": "gzip"})
    assert response.status_code == 201, response.text


@pytest.mark.parametrize("packed", [b"", b"{}", gzip.compress(b"{}")[:-4]], ids=["empty", "plain", "cut off"])
async def test_broken_gzip_is_400(tenant: Tenant, packed: bytes) -> None:
    response = await post(tenant, SINGLE, packed, content_encoding="gzip")
    assert_problem(response, 400, "body.unparsable", SINGLE)


async def test_the_same_event_packed_and_plain_is_one_event(tenant: Tenant) -> None:
    raw = json.dumps(an_event()).encode()
    assert (await post(tenant, SINGLE, gzip.compress(raw), content_encoding="gzip")).status_code == 201
    assert (await post(tenant, SINGLE, raw)).status_code == 200


@pytest.mark.parametrize("size", [160_000, 10_000_000], ids=["160 KB", "10 MB"])
@pytest.mark.parametrize("route", [SINGLE, BATCH])
async def test_large_events_are_stored_byte_by_byte(tenant: Tenant, server: Server, route: str, size: int) -> None:
    run = a_run_id()
    plan = "node \\ü " * (size // 10)
    raw = json.dumps(an_event(run=run, run_facets={"spark.logicalPlan": a_facet(plan=plan)})).encode()
    assert len(raw) > size

    response = await post(tenant, route, raw if route == SINGLE else b"[" + raw + b"]")

    assert response.status_code == (201 if route == SINGLE else 200), response.text[:300]
    async with server.database.tenant(tenant.organization_id) as conn:
        stored = await conn.fetchval("SELECT raw FROM lineage_events WHERE run_id = $1::uuid", run)
    assert unpack(stored) == raw


@pytest.fixture(scope="module")
async def small(cluster: Cluster) -> AsyncIterator[Tenant]:
    """A server with small limits."""
    async with a_server(cluster, max_body_bytes=10_000, max_unpacked_bytes=20_000) as server:
        yield server.tenant


def padded(size: int) -> bytes:
    return json.dumps(an_event(run_facets={"x": a_facet(text="x" * size)})).encode()


@every_route
@pytest.mark.parametrize("chunked", [False, True], ids=["with length", "chunked"])
async def test_a_body_over_the_limit_is_413(small: Tenant, route: str, chunked: bool) -> None:
    body = padded(10_000)
    response = await small.client.post(route, content=in_chunks(body) if chunked else body)
    problem = assert_problem(response, 413, "body.too_large", route)
    assert "10000" in problem["detail"]


@every_route
async def test_a_body_that_unpacks_to_more_than_the_limit_is_413(small: Tenant, route: str) -> None:
    packed = gzip.compress(b" " * 1_000_000)
    assert len(packed) < 10_000
    problem = assert_problem(await post(small, route, packed, content_encoding="gzip"), 413, "body.too_large", route)
    assert "20000" in problem["detail"]


async def test_members_of_gzip_share_one_limit(small: Tenant) -> None:
    packed = b"".join(gzip.compress(b" " * 9_000) for _ in range(3))
    assert (await post(small, SINGLE, packed, content_encoding="gzip")).status_code == 413


async def test_a_body_within_the_limits_is_stored(small: Tenant) -> None:
    assert (await post(small, SINGLE, padded(9_000))).status_code == 201
    assert (await post(small, SINGLE, gzip.compress(padded(19_000)), content_encoding="gzip")).status_code == 201
