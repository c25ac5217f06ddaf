"""What a change would hit: tables, pipelines and owners downstream of a column, a dataset or a run."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import asyncpg
import pytest

from headgate.server.columns import schemas
from tests.support.columns import a_source, a_step, ask, made_of
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.server import Server

UNKNOWN = "0194f2b0-0000-7000-8000-000000000404"


def owned_by(*names: str) -> Json:
    return {"ownership": a_facet(owners=[{"name": name, "type": "OWNER"} for name in names])}


def dropped(name: str) -> Json:
    return a_dataset(name, facets={"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")})


async def impact(server: Server, dataset: str, **params: Any) -> Json:
    answer = await ask(server.tenant, f"datasets/{dataset}/impact", **params)
    schemas.DatasetImpactOut.model_validate(answer)
    return answer


async def column_impact(server: Server, dataset: str, column: str, **params: Any) -> Json:
    answer = await ask(server.tenant, f"datasets/{dataset}/columns/{quote(column)}/impact", **params)
    schemas.ColumnImpactOut.model_validate(answer)
    return answer


def names(answer: Json) -> list[str]:
    return [table["name"] for table in answer["tables"]]


def by_name(answer: Json) -> dict[str, Json]:
    return {table["name"]: table for table in answer["tables"]}


async def medallion(server: Server) -> None:
    """Customers go from bronze through silver to gold; events of customers are made of another table's columns."""
    raw = a_dataset("bronze.customers_raw", facets=with_schema("id", "mail"))
    await server.tenant.send_ok(
        an_event(job="bronze_pipeline.ingest_customers", outputs=[raw]),
        a_step(
            "silver_pipeline.dedupe_customers",
            ["bronze.customers_raw"],
            "silver.dim_customers",
            made_of(id=["bronze.customers_raw.id"]),
        ),
        a_step(
            "silver_pipeline.process_events",
            ["bronze.customers_raw", "bronze.events_raw"],
            "silver.customer_events",
            made_of(event_id=["bronze.events_raw.id"]),
        ),
        a_step(
            "gold_pipeline.build_360",
            ["silver.dim_customers"],
            "gold.customer_360",
            made_of(customer=["silver.dim_customers.id"])
            | {"documentation": a_facet(description="production dashboard")},
        ),
        a_step(
            "gold_pipeline.churn_model",
            ["silver.dim_customers"],
            "gold.churn_features",
            made_of(customer=["silver.dim_customers.id"]),
        ),
    )


async def test_a_schema_change_hits_what_column_lineage_leads_to(server: Server) -> None:
    await medallion(server)

    answer = await impact(server, "bronze.customers_raw", if_schema_changes=True)

    assert names(answer) == ["silver.dim_customers", "gold.churn_features", "gold.customer_360"]
    assert answer["pipelines"] == ["gold_pipeline", "silver_pipeline"]
    assert answer["totals"] == {"tables": 3, "pipelines": 2, "owners": 0, "direct": 1, "columns": 3}
    assert answer["criticality"] == "HIGH"
    assert (answer["dataset"]["name"], answer["column"], answer["if_schema_changes"]) == (
        "bronze.customers_raw",
        None,
        True,
    )
    assert {(table["certainty"], table["reads_column"]) for table in answer["tables"]} == {("column", True)}
    customers, _, board = answer["tables"]
    assert (customers["depth"], customers["pipelines"], customers["read_by"]) == (
        1,
        ["silver_pipeline"],
        ["gold_pipeline"],
    )
    assert [job["name"] for job in customers["jobs"]] == ["silver_pipeline.dedupe_customers"]
    assert (board["description"], board["columns"], board["depth"]) == ("production dashboard", ["customer"], 2)
    assert (answer["truncated"], answer["hidden"]) == (False, 0)


async def test_without_a_change_of_schema_everything_downstream_counts(server: Server) -> None:
    await medallion(server)

    answer = await impact(server, "bronze.customers_raw")

    assert names(answer) == [
        "silver.customer_events",
        "silver.dim_customers",
        "gold.churn_features",
        "gold.customer_360",
    ]
    assert answer["totals"] == {"tables": 4, "pipelines": 2, "owners": 0, "direct": 2, "columns": 0}
    assert {(table["certainty"], table["reads_column"]) for table in answer["tables"]} == {("table", None)}


async def test_a_column_without_a_change_of_schema_tells_who_reads_it(server: Server) -> None:
    await medallion(server)

    answer = await impact(server, "bronze.customers_raw", column="id")

    assert {name: table["reads_column"] for name, table in by_name(answer).items()} == {
        "silver.customer_events": False,
        "silver.dim_customers": True,
        "gold.churn_features": True,
        "gold.customer_360": True,
    }
    assert by_name(answer)["silver.customer_events"]["certainty"] == "column"
    assert answer["totals"]["columns"] == 3


async def test_a_column_that_nothing_is_made_of_hits_nothing(server: Server) -> None:
    await medallion(server)

    answer = await impact(server, "bronze.customers_raw", column="mail", if_schema_changes=True)

    assert (answer["tables"], answer["pipelines"], answer["criticality"]) == ([], [], "LOW")


async def test_tables_without_column_lineage_count_as_hit_and_say_so(server: Server) -> None:
    await server.tenant.send_ok(
        a_step("known", ["raw"], "clean", made_of(x=["raw.a"], y=["raw.b"])),
        a_step("dark", ["clean"], "shadow"),
        a_step("after", ["shadow"], "late", made_of(z=["shadow.s"])),
        a_step("aside", ["raw"], "other"),
    )

    answer = await impact(server, "raw", column="a", if_schema_changes=True)

    assert {name: (table["certainty"], table["columns"]) for name, table in by_name(answer).items()} == {
        "clean": ("column", ["x"]),
        "other": ("table", []),
        "shadow": ("table", []),
        "late": ("table", ["z"]),
    }
    assert {name: table["depth"] for name, table in by_name(answer).items()} == {
        "clean": 1,
        "other": 1,
        "shadow": 2,
        "late": 3,
    }


async def test_a_job_that_no_longer_sends_column_lineage_rules_nothing_out(server: Server) -> None:
    day = 24 * 3600
    await server.tenant.send_ok(
        a_step("load", ["raw"], "clean", made_of(x=["raw.a"]), time=at(0)),
        an_event(job="reader", inputs=[a_dataset("raw", facets=with_schema("a", "b"))]),
    )
    assert names(await impact(server, "raw", column="b", if_schema_changes=True)) == []

    await server.tenant.send_ok(a_step("load", ["raw"], "clean", time=at(31 * day)))

    [table] = (await impact(server, "raw", column="b", if_schema_changes=True))["tables"]
    assert (table["name"], table["certainty"], table["reads_column"]) == ("clean", "table", None)


async def test_a_table_that_a_column_merely_filters_is_hit(server: Server) -> None:
    influence = a_source("raw.country", ("INDIRECT", "FILTER"))
    await server.tenant.send_ok(
        a_step("filter", ["raw"], "clean", made_of(whole=[influence], x=["raw.a"])),
        a_step("report", ["clean"], "board", made_of(figure=["clean.x"])),
    )

    answer = await impact(server, "raw", column="country", if_schema_changes=True)

    assert [(table["name"], table["certainty"], table["columns"]) for table in answer["tables"]] == [
        ("clean", "column", []),
    ]


async def test_pipelines_are_named_after_what_started_the_jobs(server: Server) -> None:
    def started_by(job: str, root: str | None = None) -> Json:
        parent = {"run": {"runId": a_run_id()}, "job": {"namespace": "airflow", "name": job}}
        if root:
            parent["root"] = {"run": {"runId": a_run_id()}, "job": {"namespace": "airflow", "name": root}}
        return {"parent": a_facet(**parent)}

    await server.tenant.send_ok(
        a_step("spark.insert", ["raw"], "one", run_facets=started_by("nightly.load", "nightly")),
        a_step("spark.merge", ["raw"], "two", run_facets=started_by("hourly.load")),
        a_step("by_hand", ["raw"], "three"),
    )

    answer = await impact(server, "raw")

    assert {name: table["pipelines"] for name, table in by_name(answer).items()} == {
        "one": ["nightly"],
        "two": ["hourly.load"],
        "three": ["by_hand"],
    }
    assert answer["totals"]["pipelines"] == 3


async def test_owners_are_those_of_the_table_and_of_the_jobs_that_make_it(server: Server) -> None:
    await server.tenant.send_ok(
        a_step("load", ["raw"], "clean", owned_by("team:data", "ann"), job_facets=owned_by("team:load", "ann")),
        a_step("report", ["clean"], "board", owned_by("team:data")),
    )

    answer = await impact(server, "raw")

    assert by_name(answer)["clean"]["owners"] == ["team:data", "ann", "team:load"]
    assert answer["owners"] == ["ann", "team:data", "team:load"]
    assert answer["totals"]["owners"] == 3


async def test_what_people_wrote_stands_for_what_facets_say(server: Server, db: asyncpg.Connection) -> None:
    facets = owned_by("team:old") | {"documentation": a_facet(description="as sent")}
    await server.tenant.send_ok(a_step("load", ["raw"], "clean", facets))
    await db.execute(
        "INSERT INTO dataset_notes (organization_id, dataset_id, description, owners) "
        "SELECT organization_id, id, 'as written', '{bob}' FROM datasets WHERE name = 'clean'"
    )
    await db.execute(
        "INSERT INTO dataset_tags (organization_id, dataset_id, tag, source) "
        "SELECT organization_id, id, 'gold', 'user' FROM datasets WHERE name = 'clean'"
    )

    [table] = (await impact(server, "raw"))["tables"]

    assert (table["owners"], table["description"], table["tags"]) == (["bob"], "as written", ["gold"])


async def test_only_jobs_on_the_way_are_named(server: Server) -> None:
    await server.tenant.send_ok(
        a_step("etl.load", ["raw"], "clean"),
        a_step("other.load", ["elsewhere"], "clean"),
    )

    answer = await impact(server, "raw")

    assert [job["name"] for job in answer["tables"][0]["jobs"]] == ["etl.load"]
    assert answer["pipelines"] == ["etl"]


async def test_a_cycle_does_not_hit_where_it_started(server: Server) -> None:
    await server.tenant.send_ok(
        a_step("forth", ["a"], "b", made_of(x=["a.x"])),
        a_step("back", ["b"], "a", made_of(x=["b.x"])),
    )

    for params in ({}, {"if_schema_changes": True}, {"column": "x"}):
        assert names(await impact(server, "a", **params)) == ["b"]


async def test_column_lineage_may_name_sources_that_are_no_inputs(server: Server) -> None:
    await server.tenant.send_ok(
        a_step("etl.load", [], "clean", made_of(x=["raw.a"])),
        an_event(job="reader", inputs=[a_dataset("raw")]),
    )

    answer = await impact(server, "raw", if_schema_changes=True)

    assert [(table["name"], table["pipelines"]) for table in answer["tables"]] == [("clean", ["etl"])]


async def a_line(server: Server, tables: int) -> None:
    for number in range(tables):
        await server.tenant.send_ok(
            a_step(f"job{number}", [f"t{number}"], f"t{number + 1}", made_of(x=[f"t{number}.x"])),
        )


@pytest.mark.parametrize("params", [{}, {"if_schema_changes": True}])
async def test_depth_and_limit_bound_the_answer_and_it_says_so(server: Server, params: Json) -> None:
    await a_line(server, 5)

    whole = await impact(server, "t0", **params)
    near = await impact(server, "t0", depth=2, **params)
    few = await impact(server, "t0", limit=3, **params)

    assert (names(whole), whole["criticality"], whole["truncated"]) == (
        ["t1", "t2", "t3", "t4", "t5"],
        "CRITICAL",
        False,
    )
    assert (names(near), near["truncated"]) == (["t1", "t2"], True)
    assert (names(few), few["truncated"]) == (["t1", "t2", "t3"], True)
    assert near["hidden"] >= 1
    assert few["hidden"] >= 1


async def test_what_is_made_of_a_column_is_told_by_dataset(server: Server) -> None:
    total = a_source("clean.x", ("DIRECT", "AGGREGATION"))
    await server.tenant.send_ok(
        a_step("load", ["raw"], "clean", made_of(x=["raw.a"], y=["raw.a"])),
        a_step("report", ["clean"], "board", made_of(total=[total])),
    )

    answer = await column_impact(server, "raw", "a")

    assert (answer["datasets"], answer["columns"], answer["criticality"]) == (2, 3, "MEDIUM")
    clean, board = answer["items"]
    assert (clean["name"], clean["depth"], clean["labels"]) == ("clean", 1, ["DIRECT"])
    assert [column["column"] for column in clean["columns"]] == ["x", "y"]
    assert board["columns"] == [{"column": "total", "depth": 2, "labels": ["AGGREGATE"]}]
    assert [job["name"] for job in board["jobs"]] == ["report"]
    assert [job["name"] for job in answer["jobs"]] == ["load", "report"]
    assert (answer["truncated"], answer["hidden"], answer["reason"]) == (False, 0, None)


async def test_a_column_that_nothing_is_made_of_has_low_impact_and_says_why(server: Server) -> None:
    await server.tenant.send_ok(a_step("load", ["raw"], "clean", made_of(x=["raw.a"])))

    answer = await column_impact(server, "clean", "x")

    assert (answer["criticality"], answer["datasets"], answer["columns"], answer["items"]) == ("LOW", 0, 0, [])
    assert answer["reason"]["code"] == "no_reader"


@pytest.mark.parametrize(("tables", "grade"), [(1, "LOW"), (2, "MEDIUM"), (3, "HIGH"), (5, "CRITICAL")])
async def test_impact_of_a_column_is_graded(server: Server, tables: int, grade: str) -> None:
    await a_line(server, tables)

    assert (await column_impact(server, "t0", "x"))["criticality"] == grade


async def test_impact_of_a_column_is_bounded(server: Server) -> None:
    await a_line(server, 4)

    answer = await column_impact(server, "t0", "x", max_depth=2)

    assert (answer["datasets"], answer["truncated"], answer["hidden"]) == (2, True, 1)


async def test_what_is_downstream_of_a_run_is_what_is_downstream_of_its_outputs(server: Server) -> None:
    run = a_run_id()
    await server.tenant.send_ok(
        an_event(run=run, job="load", inputs=[a_dataset("raw")], outputs=[a_dataset("one"), a_dataset("two")]),
        a_step("gold.report", ["one"], "board"),
        a_step("gold.copy", ["board"], "archive"),
        a_step("join", ["one", "raw"], "two", time=at(5)),
    )

    answer = await ask(server.tenant, f"runs/{run}/impact")

    schemas.RunImpactOut.model_validate(answer)
    assert answer["run_id"] == run
    assert [output["name"] for output in answer["outputs"]] == ["one", "two"]
    assert [(table["name"], table["depth"]) for table in answer["tables"]] == [("board", 1), ("archive", 2)]
    assert answer["totals"] == {"tables": 2, "pipelines": 1, "owners": 0, "direct": 1, "columns": 0}
    near = await ask(server.tenant, f"runs/{run}/impact", max_depth=1)
    assert (names(near), near["truncated"]) == (["board"], True)


async def test_a_run_without_outputs_hits_nothing(server: Server) -> None:
    run = a_run_id()
    await server.tenant.send_ok(an_event(run=run, inputs=[a_dataset("raw")]))

    answer = await ask(server.tenant, f"runs/{run}/impact")

    assert (answer["outputs"], answer["tables"], answer["criticality"]) == ([], [], "LOW")


async def test_a_run_that_nobody_or_somebody_else_has_is_not_found(server: Server) -> None:
    run, nobodys = a_run_id(), a_run_id()
    await server.tenant.send_ok(an_event(run=run, outputs=[a_dataset("one")]))
    second = await server.add_tenant("Second")

    for asked, tenant in ((run, second), (nobodys, second), (nobodys, server.tenant)):
        assert (await ask(tenant, f"runs/{asked}/impact", status=404))["detail"] == f"no run '{asked}'"


async def test_another_organisations_dataset_is_not_found(server: Server) -> None:
    await medallion(server)
    dataset = (await impact(server, "bronze.customers_raw"))["dataset"]["id"]
    second = await server.add_tenant("Second")

    assert (await ask(second, f"datasets/{dataset}/impact", status=404))["detail"] == f"no dataset '{dataset}'"


async def test_an_unknown_column_is_not_found(server: Server) -> None:
    await medallion(server)

    problem = await ask(server.tenant, "datasets/bronze.customers_raw/impact", status=404, column="mial")

    assert problem["context"] == {"nearest": ["mail"]}


@pytest.mark.parametrize(
    ("path", "params", "field"),
    [
        ("datasets/x/impact", {"depth": 0}, "query.depth"),
        ("datasets/x/impact", {"depth": 21}, "query.depth"),
        ("datasets/x/impact", {"limit": 0}, "query.limit"),
        ("datasets/x/impact", {"if_schema_changes": "perhaps"}, "query.if_schema_changes"),
        ("datasets/x/impact", {"column": ""}, "query.column"),
        (f"runs/{UNKNOWN}/impact", {"max_depth": 21}, "query.max_depth"),
        (f"runs/{UNKNOWN}/impact", {"max_depth": 0}, "query.max_depth"),
        ("runs/no-uuid/impact", {}, "path.run"),
    ],
)
async def test_wrong_parameters_are_named(server: Server, path: str, params: Json, field: str) -> None:
    problem = await ask(server.tenant, path, status=422, **params)

    assert [error["path"] for error in problem["errors"]] == [field]


async def test_jobs_that_may_read_a_column_are_named_and_do_not_raise_the_grade(server: Server) -> None:
    told = made_of(x=["out.total"])
    await server.tenant.send_ok(
        a_step("known", ["out"], "clean", told),
        a_step("dark", ["out"], "shadow"),
        an_event(job="both", inputs=[a_dataset("out")], outputs=[a_dataset("one", facets=told), a_dataset("two")]),
        a_step("gone", ["out"], "old"),
        an_event(job="ddl", time=at(10), outputs=[dropped("old")]),
        a_step("elsewhere", ["raw"], "other"),
    )

    answer = await column_impact(server, "out", "total")

    assert [item["name"] for item in answer["items"]] == ["clean", "one"]
    assert (answer["criticality"], answer["datasets"], answer["reason"]) == ("MEDIUM", 2, None)
    assert [(job["name"], [dataset["name"] for dataset in job["writes"]]) for job in answer["possible_readers"]] == [
        ("both", ["two"]),
        ("dark", ["shadow"]),
    ]
    assert answer["truncated"] is False


async def test_more_possible_readers_than_are_shown_are_said_to_be_cut(server: Server) -> None:
    copies = [a_dataset(f"copy{number:04}") for number in range(1001)]
    await server.tenant.send_ok(
        a_step("known", ["out"], "clean", made_of(x=["out.total"])),
        an_event(job="dump", inputs=[a_dataset("out")], outputs=copies),
    )

    answer = await column_impact(server, "out", "total")

    [job] = answer["possible_readers"]
    assert (len(job["writes"]), answer["truncated"], answer["hidden"]) == (1000, True, 0)
