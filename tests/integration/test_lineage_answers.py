"""What the lineage of a dataset is answered with: who is in it, how far, what is left out, and bad questions."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import asyncpg
import pytest

from headgate.server.lineage.schemas import LineageOut, NeighbourhoodOut
from tests.support.events import a_dataset, a_facet, an_event
from tests.support.lineage import NS, a_flow, dataset_id, depths, edges, flows, get, lineage
from tests.support.server import Server


async def test_downstream_has_the_root_and_all_that_is_made_of_it(server: Server) -> None:
    await flows(server.tenant, "raw > orders", "orders > daily, weekly", "daily > report", "other > report")
    answer = await lineage(server.tenant, "orders", "downstream")
    assert depths(answer) == {"orders": 0, "daily": 1, "weekly": 1, "report": 2}
    assert edges(answer) == {"orders>daily", "orders>weekly", "daily>report"}
    assert (answer["truncated"], answer["hidden"]) == (False, 0)
    assert answer["nodes"][0]["id"] == answer["root"]


async def test_upstream_has_all_that_it_is_made_of(server: Server) -> None:
    await flows(server.tenant, "raw > orders", "orders > daily", "daily > report", "rates > report", "daily > else")
    answer = await lineage(server.tenant, "report", "upstream")
    assert depths(answer) == {"report": 0, "daily": 1, "rates": 1, "orders": 2, "raw": 3}
    assert edges(answer) == {"raw>orders", "orders>daily", "daily>report", "rates>report"}


async def test_lineage_goes_both_ways_and_nowhere_else(server: Server) -> None:
    await flows(server.tenant, "raw > orders", "raw > sibling", "orders > daily", "rates > daily", "raw > daily")
    answer = await lineage(server.tenant, "orders")
    assert depths(answer) == {"orders": 0, "raw": 1, "daily": 1}
    assert edges(answer) == {"raw>orders", "orders>daily", "raw>daily"}
    assert (answer["truncated"], answer["hidden"]) == (False, 0)


async def test_an_answer_has_just_the_fields_it_promises(server: Server) -> None:
    await flows(server.tenant, "raw > orders")
    answer = await lineage(server.tenant, "orders")
    assert LineageOut.model_validate(answer).model_dump(mode="json") == answer
    ids = {node["name"]: node["id"] for node in answer["nodes"]}
    (raw,) = [node for node in answer["nodes"] if node["name"] == "raw"]
    assert raw == {
        "id": ids["raw"], "namespace": NS, "name": "raw", "urn": f"{NS}/raw", "display_name": raw["display_name"],
        "type": "table", "depth": 1, "external": True,
    }  # fmt: skip
    (edge,) = answer["edges"]
    assert (edge["source"], edge["target"], edge["columns"]) == (ids["raw"], ids["orders"], None)
    assert (edge["job"]["namespace"], edge["job"]["name"]) == ("tests", "raw>orders")
    assert (edge["last_seen_at"], edge["completed"]) == ("2026-03-01T10:00:00Z", True)


async def test_each_job_between_two_datasets_has_its_edge(server: Server) -> None:
    await server.tenant.send_ok(a_flow("a > b", job="one"), a_flow("a > b", job="two"))
    answer = await lineage(server.tenant, "a", "downstream")
    assert sorted(edge["job"]["name"] for edge in answer["edges"]) == ["one", "two"]


async def test_a_diamond_has_its_end_once_at_the_least_depth(server: Server) -> None:
    await flows(server.tenant, "a > b", "a > c", "b > d", "c > x", "x > d", "d > e")
    answer = await lineage(server.tenant, "a", "downstream")
    assert depths(answer) == {"a": 0, "b": 1, "c": 1, "d": 2, "x": 2, "e": 3}
    assert edges(answer) == {"a>b", "a>c", "b>d", "c>x", "x>d", "d>e"}


async def test_a_cycle_ends(server: Server) -> None:
    await flows(server.tenant, "a > b", "b > c", "c > a", "c > d")
    answer = await lineage(server.tenant, "a", "downstream")
    assert depths(answer) == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert edges(answer) == {"a>b", "b>c", "c>a", "c>d"}
    both = await lineage(server.tenant, "a")
    assert depths(both) == {"a": 0, "b": 1, "c": 1, "d": 3}


async def test_what_lies_beyond_the_depth_is_counted_once(server: Server) -> None:
    await flows(server.tenant, "a > b, c", "b > d, e", "c > d", "d > f")
    answer = await lineage(server.tenant, "a", "downstream", depth=1)
    assert depths(answer) == {"a": 0, "b": 1, "c": 1}
    assert (answer["truncated"], answer["hidden"]) == (True, 2)


async def test_what_the_limit_leaves_out_is_counted(server: Server) -> None:
    await flows(server.tenant, "a > " + ",".join(f"t{number}" for number in range(8)))
    answer = await lineage(server.tenant, "a", "downstream", limit=4)
    assert (len(answer["nodes"]), len(answer["edges"])) == (4, 3)
    assert (answer["truncated"], answer["hidden"]) == (True, 5)


async def test_a_limit_on_both_ways_keeps_the_nearest(server: Server) -> None:
    await flows(server.tenant, "u3 > u2", "u2 > u1", "u1 > a", "a > d1", "d1 > d2", "d2 > d3")
    answer = await lineage(server.tenant, "a", limit=5)
    assert depths(answer) == {"a": 0, "u1": 1, "d1": 1, "u2": 2, "d2": 2}
    assert answer["hidden"] == 2


async def test_the_seeds_clients_may_say_max_depth(server: Server) -> None:
    await flows(server.tenant, "a > b", "b > c")
    assert depths(await lineage(server.tenant, "a", "downstream", max_depth=1)) == {"a": 0, "b": 1}
    assert depths(await lineage(server.tenant, "a", "downstream", max_depth=1, depth=2)) == {"a": 0, "b": 1, "c": 2}


async def test_columns_are_told_where_they_are_asked_for(server: Server) -> None:
    step = {"type": "DIRECT", "subtype": "AGGREGATION", "description": "sum(amount)"}
    source = {"namespace": "postgres://db:5432", "name": "raw"}
    facet = a_facet(
        fields={"total": {"inputFields": [source | {"field": "amount", "transformations": [step]}]}},
        dataset=[source | {"field": "day", "transformations": [{"type": "INDIRECT", "subtype": "FILTER"}]}],
    )
    out = a_dataset("out", facets={"columnLineage": facet})
    await server.tenant.send_ok(an_event(inputs=[a_dataset("raw"), a_dataset("plain")], outputs=[out]))
    answer = await lineage(server.tenant, "out", "upstream", columns=True)
    assert LineageOut.model_validate(answer).model_dump(mode="json") == answer
    names = {node["id"]: node["name"] for node in answer["nodes"]}
    columns = {names[edge["source"]]: edge["columns"] for edge in answer["edges"]}
    assert columns == {
        "plain": [],
        "raw": [
            {
                "source": "day", "target": None, "label": "FILTER", "expression": None,
                "kinds": [{"type": "INDIRECT", "subtype": "FILTER"}],
            },
            {
                "source": "amount", "target": "total", "label": "AGGREGATE", "expression": "sum(amount)",
                "kinds": [{"type": "DIRECT", "subtype": "AGGREGATION"}],
            },
        ],
    }  # fmt: skip


async def test_what_only_failed_runs_have_shown_is_shown_and_marked(server: Server) -> None:
    await server.tenant.send_ok(a_flow("a > b", event_type="FAIL"))
    answer = await lineage(server.tenant, "b", "upstream")
    assert edges(answer) == {"a>b"}
    assert [node["external"] for node in answer["nodes"]] == [False, True]
    assert [edge["completed"] for edge in answer["edges"]] == [False]


async def test_test_runs_make_no_edges_and_no_producer(server: Server) -> None:
    tests = {"jobType": a_facet(processingType="BATCH", integration="DBT", jobType="TEST")}
    await server.tenant.send_ok(a_flow("a > audit", job_facets=tests), a_flow("audit > c"))
    answer = await lineage(server.tenant, "audit")
    assert depths(answer) == {"audit": 0, "c": 1}
    assert [node["external"] for node in answer["nodes"]] == [True, False]


async def test_merged_datasets_are_one(server: Server) -> None:
    await flows(server.tenant, "a > old", "new > c")
    one, other = await dataset_id(server.tenant, "old"), await dataset_id(server.tenant, "new")
    merged = await server.client.post("/api/v1/dataset-merges", json={"one": one, "other": other})
    assert merged.is_success
    answer = await lineage(server.tenant, other)
    assert (answer["root"], len(answer["nodes"])) == (one, 3)


@pytest.mark.parametrize("name", ["dir/part 1/ü.parquet", "a b", "100%", "x:y", "schema.table", "列/Ω"])
async def test_names_of_all_kinds_can_be_asked_for(server: Server, name: str) -> None:
    await server.tenant.send_ok(an_event(inputs=[a_dataset(name, "s3://lake")], outputs=[a_dataset("out")]))
    answer = await lineage(server.tenant, f"s3://lake/{name}", "downstream")
    assert depths(answer) == {name: 0, "out": 1}
    assert depths(await lineage(server.tenant, answer["root"], "downstream")) == {name: 0, "out": 1}


async def test_the_graph_counts_what_is_hidden_next_to_each_dataset(server: Server) -> None:
    await flows(server.tenant, "z > a", "a > b, s1, s2", "q > b", "b > c", "c > d, e")
    response = await get(server.tenant, "lineage", root="b", up=1, down=1)
    answer: dict[str, Any] = response.json()
    assert NeighbourhoodOut.model_validate(answer).model_dump(mode="json") == answer
    assert depths(answer) == {"b": 0, "a": 1, "q": 1, "c": 1}
    hidden = {node["name"]: (node["hidden_up"], node["hidden_down"]) for node in answer["nodes"]}
    assert hidden == {"a": (1, 2), "b": (0, 0), "q": (0, 0), "c": (0, 2)}
    assert edges(answer) == {"a>b", "q>b", "b>c"}
    assert (answer["truncated"], answer["hidden"]) == (True, 5)


async def test_a_graph_may_go_one_way_only(server: Server) -> None:
    await flows(server.tenant, "a > b", "b > c", "c > d")
    answer = (await get(server.tenant, "lineage", root="b", up=0, down=2)).json()
    assert depths(answer) == {"b": 0, "c": 1, "d": 2}
    assert {node["name"]: node["hidden_up"] for node in answer["nodes"]} == {"b": 1, "c": 0, "d": 0}


async def test_a_wide_dataset_keeps_all_edges_of_what_is_shown(server: Server) -> None:
    names = [f"s{number:03}" for number in range(150)]
    await server.tenant.send_ok(an_event(inputs=[a_dataset(name) for name in names], outputs=[a_dataset("wide")]))
    answer = await lineage(server.tenant, "wide", "upstream")
    assert (len(answer["nodes"]), len(answer["edges"]), answer["hidden"]) == (151, 150, 0)
    cut = await lineage(server.tenant, "wide", "upstream", limit=131)
    assert (len(cut["nodes"]), len(cut["edges"]), cut["hidden"]) == (131, 130, 20)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"depth": 0}, "depth"),
        ({"depth": 21}, "depth"),
        ({"depth": "ten"}, "depth"),
        ({"max_depth": 99}, "max_depth"),
        ({"limit": 0}, "limit"),
        ({"limit": 10_001}, "limit"),
        ({"limit": 10**30}, "limit"),
        ({"columns": "perhaps"}, "columns"),
        ({"as_of": "yesterday"}, "as_of"),
        ({"as_of": "2026-01-01T00:00:00"}, "as_of"),
        ({"as_of": "9999-12-31T23:59:59-14:00"}, "as_of"),
    ],
)
async def test_a_wrong_parameter_is_named(server: Server, query: dict[str, Any], field: str) -> None:
    await flows(server.tenant, "a > b")
    for direction in ("upstream", "downstream", "lineage"):
        response = await get(server.tenant, f"datasets/a/{direction}", **query)
        assert response.status_code == 422
        assert [error["path"] for error in response.json()["errors"]] == [f"query.{field}"]


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("lineage", {}, "root"),
        ("lineage", {"root": "a", "job": "b"}, "job"),
        ("lineage", {"root": "a", "up": -1}, "up"),
        ("lineage", {"root": "a", "down": 21}, "down"),
        ("lineage", {"root": "x" * 4001}, "root"),
        ("lineage", {"root": "a", "rollup": "perhaps"}, "rollup"),
        ("lineage/paths", {"to": "a"}, "from"),
        ("lineage/paths", {"from": "a", "to": ""}, "to"),
        ("lineage/paths", {"from": "a", "to": "b", "limit": 101}, "limit"),
        ("lineage/map", {"limit": 0}, "limit"),
        ("lineage/map", {"limit": 1_000_001}, "limit"),
    ],
)
async def test_wrong_questions_about_the_graph_are_refused(
    server: Server, path: str, query: dict[str, Any], field: str
) -> None:
    await flows(server.tenant, "a > b")
    response = await get(server.tenant, path, **query)
    assert response.status_code == 422
    assert [error["path"] for error in response.json()["errors"]] == [f"query.{field}"]


async def test_an_unknown_dataset_is_not_found_and_near_names_are_told(server: Server) -> None:
    await flows(server.tenant, "orders > b")
    for path in ("datasets/ordres/upstream", "lineage?root=ordres", "lineage/paths?from=b&to=ordres"):
        response = await server.client.get(f"/api/v1/{path}")
        assert response.status_code == 404
        assert response.json()["context"]["nearest"] == [f"{NS}/orders"]


async def test_an_ambiguous_name_is_a_conflict(server: Server) -> None:
    await server.tenant.send_ok(an_event(outputs=[a_dataset("same"), a_dataset("same", "s3://lake")]))
    response = await get(server.tenant, "datasets/same/lineage")
    assert response.status_code == 409
    assert len(response.json()["context"]["candidates"]) == 2


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "x" * 3999, "\udcff", "%", "..", "' OR 1=1 --"])
async def test_nothing_that_is_asked_breaks_the_server(server: Server, text: str) -> None:
    quoted = quote(text.encode("utf-8", "surrogateescape"), safe="")
    for path in (
        f"datasets/{quoted}/lineage", f"lineage?root={quoted}", f"lineage?job={quoted}",
        f"lineage/paths?from={quoted}&to={quoted}",
    ):  # fmt: skip
        response = await server.client.get(f"/api/v1/{path}")
        assert response.status_code in (404, 422), (path, response.text)


async def test_another_organisations_datasets_are_unknown(server: Server, db: asyncpg.Connection) -> None:
    await flows(server.tenant, "a > b")
    other = await server.add_tenant("Second")
    await flows(other, "a > c")
    mine = await dataset_id(server.tenant, "a")
    unknown = "00000000-0000-4000-8000-000000000000"
    for path in ("datasets/{}/lineage", "lineage?root={}", "lineage/paths?from={}&to=c"):
        answers = [await other.client.get(f"/api/v1/{path.format(id_)}") for id_ in (mine, unknown)]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].json()["detail"].replace(mine, unknown) == answers[1].json()["detail"]
    assert depths(await lineage(other, "a", "downstream")) == {"a": 0, "c": 1}


async def test_reading_needs_its_scope(server: Server) -> None:
    async with server.anonymous() as client:
        for path in ("datasets/a/lineage", "lineage?root=a", "lineage/paths?from=a&to=b", "lineage/map"):
            assert (await client.get(f"/api/v1/{path}")).status_code == 401
