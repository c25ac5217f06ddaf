"""Walks over columns: how far they go, what they leave out, and why they find nothing."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.support.columns import NS, a_source, a_step, a_write, ask, depths, edges_of, ends, made_of, walk
from tests.support.events import Json, a_dataset, a_facet, an_event, at, with_schema
from tests.support.server import Server


async def a_chain(server: Server) -> None:
    """raw.a and raw.b make clean.x; clean.x makes report.total and filters all of audit."""
    influence = a_source("clean.x", ("INDIRECT", "FILTER"))
    await server.tenant.send_ok(
        a_write("clean", made_of(x=["raw.a", "raw.b"])),
        a_write("report", made_of(total=["clean.x"])),
        a_write("audit", made_of(whole=[influence], id=["raw.b"])),
        a_write("board", made_of(figure=["report.total"])),
    )


async def test_upstream_follows_columns_to_their_origin(server: Server) -> None:
    await a_chain(server)

    answer = await walk(server, "report.total", "upstream")

    assert (answer["root"]["name"], answer["root"]["column"]) == ("report", "total")
    assert depths(answer) == {"report.total": 0, "clean.x": 1, "raw.a": 2, "raw.b": 2}
    assert ends(answer["edges"]) == [("raw.a", "clean.x"), ("raw.b", "clean.x"), ("clean.x", "report.total")]
    assert (answer["truncated"], answer["hidden"], answer["reason"]) == (False, 0, None)
    assert answer["nodes"][0]["urn"] == "postgres://db/report"


async def test_downstream_shows_influence_on_a_whole_dataset_and_does_not_follow_it(server: Server) -> None:
    await a_chain(server)
    await server.tenant.send_ok(a_write("copy", made_of(id=["audit.id"])))

    answer = await walk(server, "clean.x", "downstream")

    assert depths(answer) == {"clean.x": 0, "audit.*": 1, "report.total": 1, "board.figure": 2}
    assert ("clean.x", "audit.*") in ends(answer["edges"])


async def test_upstream_shows_what_influences_the_whole_dataset_and_does_not_follow_it(server: Server) -> None:
    await a_chain(server)

    answer = await walk(server, "audit.id", "upstream")

    assert depths(answer) == {"audit.id": 0, "audit.*": 0, "clean.x": 1, "raw.b": 1}
    assert ends(answer["edges"]) == [("clean.x", "audit.*"), ("raw.b", "audit.id"), ("raw.b", "clean.x")]


async def test_a_column_that_is_both_an_influence_and_a_source_is_followed(server: Server) -> None:
    influence = a_source("clean.x", ("INDIRECT", "JOIN"))
    await server.tenant.send_ok(
        a_write("clean", made_of(x=["raw.a"])),
        a_write("middle", made_of(m=["clean.x"])),
        a_write("last", made_of(whole=[influence], z=["middle.m"])),
    )

    assert depths(await walk(server, "last.z", "upstream")) == {
        "last.z": 0,
        "last.*": 0,
        "clean.x": 1,
        "middle.m": 1,
        "raw.a": 3,
    }


async def test_lineage_goes_both_ways(server: Server) -> None:
    await a_chain(server)

    answer = await walk(server, "clean.x", "lineage")

    assert depths(answer) == {
        "clean.x": 0,
        "audit.*": 1,
        "raw.a": 1,
        "raw.b": 1,
        "report.total": 1,
        "board.figure": 2,
    }
    assert answer["reasons"] == {"upstream": None, "downstream": None}


async def test_a_cycle_ends_and_keeps_least_depths(server: Server) -> None:
    await server.tenant.send_ok(
        a_write("a", made_of(x=["c.x"])),
        a_write("b", made_of(x=["a.x"])),
        a_write("c", made_of(x=["b.x", "a.x", "c.x"])),
    )

    down = await walk(server, "a.x", "downstream")
    both = await walk(server, "a.x", "lineage")

    assert depths(down) == depths(both) == {"a.x": 0, "b.x": 1, "c.x": 1}
    assert ("c.x", "c.x") in ends(down["edges"])


async def test_depth_bounds_a_walk_and_what_is_left_out_is_counted(server: Server) -> None:
    await a_chain(server)

    near = await walk(server, "clean.x", "downstream", depth=1)
    far = await walk(server, "clean.x", "downstream", max_depth=2)

    assert depths(near) == {"clean.x": 0, "audit.*": 1, "report.total": 1}
    assert (near["truncated"], near["hidden"]) == (True, 1)
    assert (far["truncated"], far["hidden"], len(far["nodes"])) == (False, 0, 4)


async def test_limit_bounds_a_walk_and_what_is_left_out_is_counted(server: Server) -> None:
    targets = {f"c{number}": ["raw.a"] for number in range(9)}
    await server.tenant.send_ok(a_write("clean", made_of(**targets)))

    answer = await walk(server, "raw.a", "downstream", limit=4)

    assert (len(answer["nodes"]), len(answer["edges"])) == (4, 3)
    assert (answer["truncated"], answer["hidden"]) == (True, 6)


async def test_edges_of_a_walk_are_bounded_too(server: Server) -> None:
    names = [f"c{number}" for number in range(101)]
    await server.tenant.send_ok(
        a_write("clean", made_of(**{name: [f"raw.{source}" for source in names] for name in names})),
        a_write("report", made_of(total=[f"clean.{name}" for name in names])),
    )

    answer = await walk(server, "report.total", "upstream")

    assert (len(answer["nodes"]), len(answer["edges"])) == (203, 10_000)
    assert (answer["truncated"], answer["hidden"]) == (True, 0)


@pytest.mark.parametrize(
    "column",
    ['a"b', "a/b", "a.b.c", "Größe in €", "列", "100%", "with space", "?x=1#y", "..", "a\\b", "'; DROP TABLE x; --"],
)
async def test_columns_may_have_any_name(server: Server, column: str) -> None:
    await server.tenant.send_ok(a_write("clean", made_of(**{column: [a_source("raw.x") | {"field": column}]})))

    # A client may resolve dots in a path by itself, so they are encoded, too.
    name = quote(column, safe="").replace(".", "%2E")
    answer = await ask(server.tenant, f"datasets/clean/columns/{name}/upstream")

    assert (answer["root"]["column"], [node["column"] for node in answer["nodes"]]) == (column, [column, column])


async def test_nothing_upstream_says_why(server: Server) -> None:
    await server.tenant.send_ok(
        an_event(job="plain", outputs=[a_dataset("dark", facets=with_schema("x"))]),
        a_write("clean", with_schema("x", "made_up") | made_of(x=["raw.a"])),
        a_write("report", made_of(total=["clean.old", "dark.x"])),
    )

    async def code(column: str) -> str:
        reason: Json = (await walk(server, column, "upstream"))["reason"]
        return reason["code"]

    assert await code("raw.a") == "no_producer"
    assert await code("dark.x") == "producer_sends_none"
    assert await code("clean.made_up") == "no_source_named"
    assert await code("clean.old") == "not_in_schema"


async def test_nothing_downstream_says_why(server: Server) -> None:
    await server.tenant.send_ok(
        an_event(job="silent", inputs=[a_dataset("quiet", facets=with_schema("q"))], outputs=[a_dataset("copy")]),
        a_write("clean", with_schema("x") | made_of(x=["raw.a"])),
        an_event(job="make_clean", time=at(1), inputs=[a_dataset("raw", facets=with_schema("a", "b"))]),
    )

    async def code(column: str) -> str:
        answer = await walk(server, column, "downstream")
        assert answer["reasons"] == {"upstream": None, "downstream": answer["reason"]}
        code: str = answer["reason"]["code"]
        return code

    assert await code("clean.x") == "no_reader"
    assert await code("quiet.q") == "reader_sends_none"
    assert await code("raw.b") == "not_read"


async def test_lineage_says_why_for_each_direction(server: Server) -> None:
    await server.tenant.send_ok(a_write("clean", made_of(x=["raw.a"])))

    answer = await walk(server, "raw.a", "lineage")

    assert answer["reason"] is None
    assert answer["reasons"]["upstream"]["code"] == "no_producer"
    assert answer["reasons"]["downstream"] is None


DROPPED = a_dataset("mid", facets={"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")})
RENAMED = a_dataset(
    "other",
    facets={
        "lifecycleStateChange": a_facet(
            lifecycleStateChange="RENAME", previousIdentifier={"name": "mid", "namespace": NS}
        )
    },
)


async def without_middle(server: Server, leaving: Json) -> None:
    """src.a made mid.a, and that end.a, until mid left."""
    await server.tenant.send_ok(
        an_event(job="load", outputs=[a_dataset("src", facets=with_schema("a", "b"))]),
        a_write("mid", with_schema("a") | made_of(a=["src.a"])),
        a_write("end", with_schema("a", "b") | made_of(a=["mid.a"])),
        an_event(job="ddl", time=at(10), outputs=[leaving]),
    )


@pytest.mark.parametrize(("leaving", "fate"), [(DROPPED, "dropped"), (RENAMED, "renamed")], ids=["dropped", "renamed"])
async def test_a_source_that_is_gone_is_named_as_the_reason(server: Server, leaving: Json, fate: str) -> None:
    await without_middle(server, leaving)

    walked = await walk(server, "end.a", "upstream")
    told = await edges_of(server.tenant, "end")

    message = f"what 'a' came from is gone: 'mid' was {fate}"
    assert walked["reason"] == {"code": "source_gone", "message": message}
    assert told["reason"] == {"code": "source_gone", "message": f"what the columns came from is gone: 'mid' was {fate}"}
    assert {item["column"]: item["reason"] for item in told["missing"]} == {"a": "source_gone", "b": "no_source_named"}


async def test_a_target_that_is_gone_is_named_as_the_reason(server: Server) -> None:
    await without_middle(server, DROPPED)

    walked = await walk(server, "src.a", "downstream")
    hit = await ask(server.tenant, "datasets/src/columns/a/impact")
    unread = await walk(server, "src.b", "downstream")

    assert walked["reason"] == {"code": "target_gone", "message": "what was made of 'a' is gone: 'mid' was dropped"}
    assert hit["reason"] == walked["reason"]
    assert unread["reason"]["code"] == "not_read"


async def test_a_dataset_that_is_gone_is_its_own_reason(server: Server) -> None:
    await without_middle(server, DROPPED)

    reasons = (await walk(server, "mid.a", "lineage"))["reasons"]

    assert {reason["code"] for reason in reasons.values()} == {"dataset_gone"}
    assert reasons["upstream"]["message"] == "this dataset is gone, and its lineage with it: 'mid' was dropped"


async def test_what_comes_back_is_no_longer_a_reason(server: Server) -> None:
    await without_middle(server, DROPPED)
    await server.tenant.send_ok(a_write("mid", made_of(a=["src.b"]), time=at(20)))

    assert (await walk(server, "src.a", "downstream"))["reason"]["code"] == "not_read"
    assert depths(await walk(server, "end.a", "upstream")) == {"end.a": 0, "mid.a": 1, "src.b": 2}


async def test_a_walk_down_names_jobs_that_may_read_what_it_passes(server: Server) -> None:
    await a_chain(server)
    await server.tenant.send_ok(
        a_step("dump", ["clean"], "copy"),
        a_step("publish", ["report"], "page"),
        an_event(job="watch", inputs=[a_dataset("clean")]),
    )

    down = await walk(server, "clean.x", "downstream")
    near = await walk(server, "clean.x", "downstream", depth=1)

    told = [(job["name"], [dataset["name"] for dataset in job["writes"]]) for job in down["possible_readers"]]
    assert told == [("dump", ["copy"]), ("publish", ["page"]), ("watch", [])]
    assert [job["name"] for job in near["possible_readers"]] == ["dump", "watch"]
    assert (await walk(server, "clean.x", "lineage"))["possible_readers"] == down["possible_readers"]
    assert (await walk(server, "clean.x", "upstream"))["possible_readers"] == []


@pytest.mark.parametrize("direction", ["upstream", "downstream", "lineage", "impact"])
async def test_an_unknown_column_is_not_found_and_the_nearest_are_named(server: Server, direction: str) -> None:
    facets = with_schema("customer_id", "amount") | made_of(amount=["raw.a"])
    await server.tenant.send_ok(a_write("clean", facets))

    problem = await ask(server.tenant, f"datasets/clean/columns/Customer_Id2/{direction}", status=404)

    assert problem["detail"] == "no column 'Customer_Id2' in 'postgres://db/clean'"
    assert problem["hint"] == "did you mean 'customer_id'?"
    assert problem["context"] == {"nearest": ["customer_id"]}


async def test_a_column_like_no_other_is_not_found_either(server: Server) -> None:
    await server.tenant.send_ok(an_event(outputs=[a_dataset("clean", facets=with_schema("x"))]))

    problem = await ask(server.tenant, "datasets/clean/columns/zzzzzz/upstream", status=404)

    assert problem["context"] == {"nearest": []}
