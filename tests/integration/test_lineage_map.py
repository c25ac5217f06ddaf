"""The whole graph as columns, and the ways between two datasets."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from headgate.errors import Unavailable
from headgate.server.lineage import map as lineage_map
from headgate.server.lineage.schemas import MapOut, PathsOut
from tests.support.events import Json, a_dataset, a_facet, an_event, at
from tests.support.lineage import DAY, NS, a_change, a_flow, changed, flows, get
from tests.support.server import Server, Tenant


async def the_map(tenant: Tenant, **query: Any) -> Json:
    response = await get(tenant, "lineage/map", **query)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    assert MapOut.model_validate(answer).model_dump(mode="json") == answer
    columns = (answer[name] for name in ("names", "namespace", "type", "ranks", "status"))
    assert all(len(column) == len(answer["ids"]) for column in columns)
    return answer


def named_edges(answer: Json) -> set[str]:
    names = answer["names"]
    return {f"{names[source]}>{names[target]}" for source, target in answer["edges"]}


async def test_a_map_of_nothing_is_empty(server: Server) -> None:
    answer = await the_map(server.tenant)
    assert (answer["total"], answer["truncated"], answer["ids"], answer["edges"]) == (0, False, [], [])


async def test_a_map_has_every_dataset_and_each_edge_once(server: Server) -> None:
    await flows(server.tenant, "a > b", "b > c", "a > c")
    await server.tenant.send_ok(
        a_flow("b > c", job="other"),
        an_event(job="load", inputs=[a_dataset("x y", "s3://lake")], outputs=[a_dataset("a")]),
    )
    answer = await the_map(server.tenant)
    assert answer["names"] == ["a", "b", "c", "x y"]
    assert [answer["namespaces"][place] for place in answer["namespace"]] == [NS, NS, NS, "s3://lake"]
    assert [answer["types"][place] for place in answer["type"]] == ["table", "table", "table", "s3"]
    assert named_edges(answer) == {"a>b", "b>c", "a>c", "x y>a"}
    assert len(answer["edges"]) == 4
    assert answer["ranks"] == [1, 2, 3, 0]
    assert answer["status"] == ["ok", "ok", "ok", "unknown"]


async def test_a_map_of_some_datasets_says_so(server: Server) -> None:
    await flows(server.tenant, "a > b", "b > c")
    answer = await the_map(server.tenant, limit=2)
    assert (answer["total"], answer["truncated"], answer["names"]) == (3, True, ["a", "b"])
    assert named_edges(answer) == {"a>b"}


async def test_what_is_gone_is_not_on_the_map(server: Server) -> None:
    await flows(server.tenant, "a > old", "b > c", "d > e")
    await server.tenant.send_ok(
        a_change(changed("new", "RENAME", "old"), second=10),
        a_change(changed("b", "DROP"), second=10),
        a_flow("f > e", job="d>e", second=31 * DAY),
    )
    answer = await the_map(server.tenant)
    assert answer["names"] == ["a", "c", "d", "e", "f", "new"]
    assert named_edges(answer) == {"a>new", "f>e"}


async def test_a_cycle_has_ranks(server: Server) -> None:
    await flows(server.tenant, "in > a", "a > b", "b > c", "c > a")
    answer = await the_map(server.tenant)
    assert dict(zip(answer["names"], answer["ranks"], strict=True)) == {"in": 0, "a": 1, "b": 2, "c": 3}


async def test_the_map_tells_how_each_dataset_is(server: Server, db: asyncpg.Connection) -> None:
    await flows(server.tenant, "a > good, late", "a > broken", "a > tested")
    checks = [{"assertion": "not_null", "column": "id", "success": False}]
    result = a_dataset("tested", inputFacets={"dataQualityAssertions": a_facet(assertions=checks)})
    await server.tenant.send_ok(
        a_flow("a > broken", second=60, event_type="FAIL"), an_event(job="tests", time=at(60), inputs=[result])
    )
    await db.execute(
        "INSERT INTO freshness_sla (organization_id, dataset_id, sla_hours) "
        "SELECT organization_id, id, 1 FROM datasets WHERE name = 'late'"
    )
    answer = await the_map(server.tenant)
    assert dict(zip(answer["names"], answer["status"], strict=True)) == {
        "a": "unknown", "good": "ok", "late": "stale", "broken": "failing", "tested": "failing",
    }  # fmt: skip


async def test_a_map_is_the_callers_own(server: Server) -> None:
    await flows(server.tenant, "a > b")
    other = await server.add_tenant("Second")
    await flows(other, "c > d")
    assert (await the_map(other))["names"] == ["c", "d"]


async def test_a_large_map_comes_in_parts(server: Server, monkeypatch: Any) -> None:
    monkeypatch.setattr(lineage_map, "CHUNK", 3)
    await flows(server.tenant, "root > " + ", ".join(f"t{number:02}" for number in range(10)))
    answer = await the_map(server.tenant)
    assert answer["names"] == ["root", *(f"t{number:02}" for number in range(10))]
    assert len(answer["edges"]) == 10


async def test_a_client_that_leaves_before_the_first_byte_takes_no_connection_along(server: Server) -> None:
    await flows(server.tenant, "a > b")

    async def receive() -> Json:
        return {"type": "http.disconnect"}

    async def send(_: Json) -> None:
        await asyncio.Event().wait()

    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "GET",
        "scheme": "http", "path": "/api/v1/lineage/map", "raw_path": b"/api/v1/lineage/map", "root_path": "",
        "query_string": b"", "headers": [(b"authorization", f"Bearer {server.tenant.api_key}".encode())],
        "client": ("127.0.0.1", 1), "server": ("headgate.test", 80),
    }  # fmt: skip
    async with asyncio.timeout(30):
        for _ in range(server.database.max_size):
            await server.app(dict(scope), receive, send)
        assert (await the_map(server.tenant))["names"] == ["a", "b"]


async def test_a_map_that_cannot_be_begun_is_a_problem(server: Server, monkeypatch: Any) -> None:
    async def count(_: lineage_map.MapStore) -> int:
        raise Unavailable("the database does not answer")

    monkeypatch.setattr(lineage_map.MapStore, "count", count)
    response = await get(server.tenant, "lineage/map")

    assert (response.status_code, response.json()["detail"]) == (503, "the database does not answer")


async def test_paths_have_their_nodes_and_jobs(server: Server) -> None:
    await flows(server.tenant, "a > b", "b > d", "a > d", "a > x", "y > d")
    await server.tenant.send_ok(a_flow("b > d", job="again", second=5))
    answer = (await get(server.tenant, "lineage/paths", from_="a", to="d")).json()
    assert PathsOut.model_validate(answer).model_dump(mode="json", by_alias=True) == answer
    shown = [[node["name"] for node in path["nodes"]] for path in answer["paths"]]
    assert (shown, answer["truncated"]) == ([["a", "d"], ["a", "b", "d"]], False)
    longer = answer["paths"][1]
    assert (longer["length"], [node["depth"] for node in longer["nodes"]]) == (2, [0, 1, 2])
    assert [[job["name"] for job in edge["jobs"]] for edge in longer["edges"]] == [["a>b"], ["again", "b>d"]]
    assert [edge["last_seen_at"] for edge in longer["edges"]] == ["2026-03-01T10:00:00Z", "2026-03-01T10:00:05Z"]


async def test_paths_lead_downstream_only(server: Server) -> None:
    await flows(server.tenant, "a > b")
    answer = (await get(server.tenant, "lineage/paths", from_="b", to="a")).json()
    assert (answer["paths"], answer["truncated"]) == ([], False)


async def test_paths_are_cut_at_their_limit(server: Server) -> None:
    await flows(server.tenant, "a > b, c, d", "b > z", "c > z", "d > z")
    answer = (await get(server.tenant, "lineage/paths", from_="a", to="z", limit=2)).json()
    assert (len(answer["paths"]), answer["truncated"]) == (2, True)


async def test_paths_can_be_asked_for_as_of_a_moment(server: Server) -> None:
    await server.tenant.send_ok(a_flow("a > b", second=0), a_flow("b > c", second=10))
    found = [
        (await get(server.tenant, "lineage/paths", from_="a", to="c", as_of=at(second))).json()["paths"]
        for second in (5, 10)
    ]
    assert [len(paths) for paths in found] == [0, 1]
