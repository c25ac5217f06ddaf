"""Column lineage of a dataset: edges, columns, what is missing and why; and whose it is."""

from __future__ import annotations

from uuid import UUID

import asyncpg
import pytest

from headgate.server.columns import schemas
from tests.support.columns import NS, a_source, a_write, ask, depths, edges_of, ends, made_of, walk
from tests.support.events import Json, a_dataset, a_facet, an_event, at, with_schema
from tests.support.server import Server


@pytest.mark.parametrize(
    ("kinds", "expression", "label"),
    [
        ([("DIRECT", "IDENTITY")], None, "DIRECT"),
        ([("DIRECT", "TRANSFORMATION")], "a + 1", "EXPRESSION"),
        ([("DIRECT", "AGGREGATION")], "sum(a)", "AGGREGATE"),
        ([("INDIRECT", "JOIN")], None, "JOIN"),
        ([("INDIRECT", "FILTER")], None, "FILTER"),
        ([("INDIRECT", "CONDITIONAL")], None, "CASE"),
        ([("DIRECT", "TRANSFORMATION")], "CASE WHEN a > 0 THEN 1 END", "CASE"),
        ([("DIRECT", "IDENTITY"), ("INDIRECT", "JOIN")], None, "DIRECT"),
    ],
)
async def test_an_edge_says_how_a_column_was_made(
    server: Server, kinds: list[tuple[str, str]], expression: str | None, label: str
) -> None:
    source = a_source("raw.a", *kinds, description=expression)
    await server.tenant.send_ok(a_write("clean", made_of(x=[source]), job="etl", time=at(7)))

    answer = await edges_of(server.tenant, "clean")

    [edge] = answer["edges"]
    assert ends([edge]) == [("raw.a", "clean.x")]
    assert edge["kinds"] == [{"type": type_, "subtype": subtype} for type_, subtype in kinds]
    assert (edge["label"], edge["expression"]) == (label, expression)
    assert (edge["job"]["namespace"], edge["job"]["name"], edge["last_seen_at"]) == ("tests", "etl", at(7))


@pytest.mark.parametrize(
    ("spoken", "kind", "label"),
    [
        ("IDENTITY", {"type": "DIRECT", "subtype": "IDENTITY"}, "DIRECT"),
        ("MASKED", {"type": "DIRECT", "subtype": "TRANSFORMATION"}, "EXPRESSION"),
    ],
)
async def test_the_older_form_of_the_facet_is_understood(server: Server, spoken: str, kind: Json, label: str) -> None:
    field = {
        "inputFields": [{"namespace": NS, "name": "raw", "field": "a"}],
        "transformationType": spoken,
        "transformationDescription": "as it is",
    }
    await server.tenant.send_ok(a_write("clean", {"columnLineage": a_facet(fields={"x": field})}))

    [edge] = (await edges_of(server.tenant, "clean"))["edges"]

    assert (edge["kinds"], edge["label"], edge["expression"]) == ([kind], label, "as it is")


async def test_a_type_that_is_none_is_shown_as_the_way_a_value_was_made(server: Server) -> None:
    await server.tenant.send_ok(a_write("clean", made_of(x=[a_source("raw.a", ("hashed", None))])))

    [edge] = (await edges_of(server.tenant, "clean"))["edges"]

    assert edge["kinds"] == [{"type": "DIRECT", "subtype": "HASHED"}]


async def test_edges_into_a_dataset_come_before_those_out_of_it(server: Server) -> None:
    await server.tenant.send_ok(
        a_write("clean", made_of(x=["raw.a", "raw.b"], y=["raw.b"])),
        a_write("report", made_of(total=["clean.x"])),
        a_write("elsewhere", made_of(z=["raw.a"])),
    )

    answer = await edges_of(server.tenant, "clean")

    assert ends(answer["edges"]) == [
        ("raw.a", "clean.x"),
        ("raw.b", "clean.x"),
        ("raw.b", "clean.y"),
        ("clean.x", "report.total"),
    ]
    assert (answer["dataset"]["name"], answer["truncated"], answer["reason"]) == ("clean", False, None)


async def test_influence_on_a_whole_dataset_has_no_target_column(server: Server) -> None:
    influence = a_source("raw.country", ("INDIRECT", "FILTER"))
    await server.tenant.send_ok(a_write("clean", made_of(whole=[influence], x=["raw.a"])))

    answer = await edges_of(server.tenant, "clean")

    by_source = {edge["source"]["column"]: edge for edge in answer["edges"]}
    assert by_source["country"]["target"]["column"] is None
    assert by_source["country"]["label"] == "FILTER"
    assert by_source["a"]["target"]["column"] == "x"


async def test_what_a_job_no_longer_sends_is_gone(server: Server) -> None:
    await server.tenant.send_ok(
        a_write("clean", made_of(x=["raw.a"]), time=at(0)),
        a_write("clean", made_of(x=["raw.b"]), time=at(60)),
    )

    assert ends((await edges_of(server.tenant, "clean"))["edges"]) == [("raw.b", "clean.x")]


async def test_edges_of_a_dropped_dataset_are_gone_until_it_is_written_again(server: Server) -> None:
    dropped = {"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")}
    await server.tenant.send_ok(
        a_write("clean", made_of(x=["raw.a"]), time=at(0)),
        a_write("report", made_of(total=["clean.x"]), time=at(1)),
        an_event(job="ddl", time=at(10), outputs=[a_dataset("clean", facets=dropped)]),
    )
    assert (await edges_of(server.tenant, "report"))["edges"] == []

    await server.tenant.send_ok(a_write("clean", made_of(x=["raw.a"]), time=at(20)))

    assert ends((await edges_of(server.tenant, "report"))["edges"]) == [("clean.x", "report.total")]


async def test_what_a_renamed_dataset_was_made_of_is_what_the_new_one_is_made_of(server: Server) -> None:
    previous = {"name": "draft", "namespace": NS}
    renamed = {"lifecycleStateChange": a_facet(lifecycleStateChange="RENAME", previousIdentifier=previous)}
    await server.tenant.send_ok(
        a_write("draft", made_of(x=["raw.a"]), time=at(0)),
        an_event(job="ddl", time=at(10), outputs=[a_dataset("final", facets=renamed)]),
    )

    assert (await edges_of(server.tenant, "draft"))["edges"] == []
    assert ends((await edges_of(server.tenant, "final"))["edges"]) == [("raw.a", "final.x")]
    assert depths(await walk(server, "raw.a", "downstream")) == {"raw.a": 0, "final.x": 1}


async def test_columns_of_merged_datasets_are_one_datasets(server: Server) -> None:
    await server.tenant.send_ok(
        a_write("old_orders", made_of(x=["raw.a"])),
        a_write("report", made_of(total=["orders.x"])),
    )
    one, other = [(await edges_of(server.tenant, name))["dataset"]["id"] for name in ("old_orders", "orders")]
    merge = await server.client.post("/api/v1/dataset-merges", json={"one": one, "other": other})
    assert merge.status_code == 201

    answer = await walk(server, "report.total", "upstream")

    assert depths(answer) == {"report.total": 0, "old_orders.x": 1, "raw.a": 2}


async def test_an_edge_that_its_job_has_not_shown_for_a_month_is_gone(server: Server) -> None:
    day = 24 * 3600
    plain = an_event(job="make_clean", time=at(29 * day), inputs=[a_dataset("raw")], outputs=[a_dataset("other")])
    await server.tenant.send_ok(a_write("clean", made_of(x=["raw.a"]), time=at(0)), plain)
    assert ends((await edges_of(server.tenant, "clean"))["edges"]) == [("raw.a", "clean.x")]

    await server.tenant.send_ok(an_event(job="make_clean", time=at(31 * day), outputs=[a_dataset("other")]))

    assert (await edges_of(server.tenant, "clean"))["edges"] == []


async def test_a_long_answer_is_cut_and_says_so(server: Server) -> None:
    columns = {f"c{number}": [f"raw.c{number}"] for number in range(5)}
    await server.tenant.send_ok(a_write("clean", made_of(**columns)))

    cut = await edges_of(server.tenant, "clean", limit=3)
    whole = await edges_of(server.tenant, "clean", limit=5)

    assert (len(cut["edges"]), cut["truncated"]) == (3, True)
    assert (len(whole["edges"]), whole["truncated"]) == (5, False)
    assert cut["edges"] == whole["edges"][:3]


async def test_each_column_without_a_source_says_why(server: Server) -> None:
    facets = with_schema("x", "loaded_at") | made_of(x=["raw.a"])
    await server.tenant.send_ok(
        a_write("clean", facets, job="etl"),
        a_write("report", made_of(total=["clean.old_name"])),
    )

    answer = await edges_of(server.tenant, "clean")

    assert {item["column"]: item["reason"] for item in answer["missing"]} == {
        "loaded_at": "no_source_named",
        "old_name": "not_in_schema",
    }
    assert "'etl'" in answer["missing"][0]["message"]
    assert "'loaded_at'" in answer["missing"][0]["message"]


async def test_columns_of_an_external_dataset_have_no_producer(server: Server) -> None:
    await server.tenant.send_ok(an_event(inputs=[a_dataset("raw", facets=with_schema("a", "b"))]))

    answer = await edges_of(server.tenant, "raw")

    assert [(item["column"], item["reason"]) for item in answer["missing"]] == [
        ("a", "no_producer"),
        ("b", "no_producer"),
    ]
    assert answer["reason"]["code"] == "no_producer"


async def test_jobs_that_send_no_column_lineage_are_named(server: Server) -> None:
    for job in ("first", "second"):
        await server.tenant.send_ok(an_event(job=job, outputs=[a_dataset("clean", facets=with_schema("x"))]))

    answer = await edges_of(server.tenant, "clean")

    assert [item["reason"] for item in answer["missing"]] == ["producer_sends_none"]
    assert answer["missing"][0]["message"] == "'first', 'second' write this dataset and send no column lineage"
    assert answer["reason"] == {"code": "producer_sends_none", "message": answer["missing"][0]["message"]}


async def test_a_nested_column_has_the_sources_of_its_record_and_the_other_way_round(server: Server) -> None:
    nested = {
        "schema": a_facet(
            fields=[
                {"name": name, "type": "struct", "fields": [{"name": "b", "type": "int"}, {"name": "c", "type": "int"}]}
                for name in ("record", "parts")
            ]
        )
    }
    await server.tenant.send_ok(
        a_write("clean", nested | made_of(**{"record": ["raw.a"], "parts.b": ["raw.b"]})),
    )

    assert [item["column"] for item in (await edges_of(server.tenant, "clean"))["missing"]] == ["parts.c"]


async def test_columns_are_listed_with_what_leads_to_and_from_them(server: Server) -> None:
    schema = {
        "schema": a_facet(
            fields=[
                {"name": "x", "type": "bigint", "nullable": False, "description": "the key"},
                {"name": "y", "type": "string"},
            ]
        )
    }
    await server.tenant.send_ok(
        a_write("clean", schema | made_of(x=["raw.a", "raw.b"])),
        a_write("report", made_of(total=["clean.x", "clean.gone"])),
    )

    answer = await ask(server.tenant, "datasets/clean/columns")

    schemas.ColumnsOut.model_validate(answer)
    key, other, gone = answer["items"]
    assert key == {
        "name": "x",
        "position": 1,
        "type": "bigint",
        "nullable": False,
        "description": "the key",
        "in_schema": True,
        "upstream": 2,
        "downstream": 1,
        "tags": [],
    }
    assert (other["name"], other["nullable"], other["upstream"], other["downstream"]) == ("y", True, 0, 0)
    assert (gone["name"], gone["in_schema"], gone["type"], gone["downstream"]) == ("gone", False, None, 1)


async def test_what_people_say_of_a_column_is_listed_with_it(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[a_dataset("clean", facets=with_schema("mail", "id"))]))
    for source in ("user", "facet"):
        await db.execute(
            "INSERT INTO dataset_tags (organization_id, dataset_id, column_name, tag, source) "
            "SELECT organization_id, id, 'mail', 'pii', $1 FROM datasets",
            source,
        )
    await db.execute(
        "INSERT INTO dataset_notes (organization_id, dataset_id, column_name, description) "
        "SELECT organization_id, id, 'mail', 'where bills go' FROM datasets"
    )

    mail, key = (await ask(server.tenant, "datasets/clean/columns"))["items"]

    assert (mail["tags"], mail["description"]) == (["pii"], "where bills go")
    assert (key["tags"], key["description"]) == ([], None)


PATHS = ["column-lineage", "columns", *(f"columns/x/{way}" for way in ("upstream", "downstream", "lineage", "impact"))]


@pytest.mark.parametrize("path", PATHS)
async def test_another_organisations_columns_are_as_unknown_as_none(server: Server, path: str) -> None:
    await server.tenant.send_ok(a_write("clean", with_schema("x") | made_of(x=["raw.a"])))
    dataset = (await edges_of(server.tenant, "clean"))["dataset"]["id"]
    second = await server.add_tenant("Second")

    theirs = await ask(second, f"datasets/{dataset}/{path}", status=404)
    nobodys = await ask(second, f"datasets/{UUID(int=7)}/{path}", status=404)

    assert theirs["detail"] == f"no dataset '{dataset}'"
    assert theirs.keys() == nobodys.keys()
    assert theirs["hint"] == nobodys["hint"]


async def test_the_same_names_in_two_organisations_do_not_meet(server: Server) -> None:
    second = await server.add_tenant("Second")
    await server.tenant.send_ok(a_write("clean", made_of(x=["raw.a"])))
    await second.send_ok(a_write("report", made_of(total=["clean.x"])))

    assert depths(await walk(server, "clean.x", "downstream")) == {"clean.x": 0}
    assert ends((await edges_of(second, "clean"))["edges"]) == [("clean.x", "report.total")]


@pytest.mark.parametrize(
    ("path", "params", "field"),
    [
        ("column-lineage", {"limit": 0}, "query.limit"),
        ("column-lineage", {"limit": 10_001}, "query.limit"),
        ("columns/x/upstream", {"depth": 0}, "query.depth"),
        ("columns/x/upstream", {"depth": 21}, "query.depth"),
        ("columns/x/downstream", {"max_depth": 21}, "query.max_depth"),
        ("columns/x/lineage", {"depth": "deep"}, "query.depth"),
        ("columns/x/impact", {"limit": "99999999999999999999999"}, "query.limit"),
        (f"columns/{'x' * 1001}/upstream", {}, "path.column"),
    ],
)
async def test_wrong_parameters_are_named(server: Server, path: str, params: Json, field: str) -> None:
    problem = await ask(server.tenant, f"datasets/clean/{path}", status=422, **params)

    assert [error["path"] for error in problem["errors"]] == [field]


@pytest.mark.parametrize("column", ["%FF%FE", "%ED%A0%80", "x" * 1000])
async def test_what_is_no_name_of_a_column_is_not_found(server: Server, column: str) -> None:
    await server.tenant.send_ok(an_event(outputs=[a_dataset("clean", facets=with_schema("x"))]))

    response = await server.client.get(f"/api/v1/datasets/clean/columns/{column}/upstream")

    assert response.status_code == 404
