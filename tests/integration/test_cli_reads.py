"""The commands that ask, against a real server that knows the shop, in a terminal of 80 columns."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from tests.conftest import Cluster
from tests.support.asking import Ask, asking_server
from tests.support.events import a_dataset, a_facet, an_event
from tests.support.live import Live
from tests.support.shop import REVENUE, SILVER, STAGING, shop_server

RUN = "66ea8898-86cc-5d6d-b488-cb2a8abbeab4"
EVERY = [
    ["lineage", "upstream", REVENUE],
    ["lineage", "downstream", SILVER],
    ["lineage", "impact", SILVER],
    ["schema", "show", STAGING],
    ["schema", "history", STAGING],
    ["schema", "diff", STAGING],
    ["datasets", "list"],
    ["datasets", "show", REVENUE],
    ["jobs", "list"],
    ["jobs", "show", "shop_daily"],
    ["runs", "list"],
    ["runs", "show", RUN],
    ["runs", "stages", RUN],
    ["search", "revenue"],
    ["aliases", "list"],
    ["aliases", "preview", "postgres://a/{t}", "postgres://b/{t}"],
    ["aliases", "suggest"],
]


@pytest.fixture(scope="module")
async def shop(cluster: Cluster) -> AsyncIterator[Live]:
    async with shop_server(cluster) as live:
        yield live


@pytest.fixture
def ask(shop: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    return asking_server(shop, monkeypatch, capsys)


@pytest.mark.parametrize("arguments", EVERY, ids=" ".join)
def test_every_question_is_answered_in_text_and_in_json(ask: Ask, arguments: list[str]) -> None:
    text, machine = ask(*arguments), ask(*arguments, "--json")

    assert (text.code, machine.code) == (0, 0), text.err + machine.err
    assert text.out or text.err
    assert isinstance(json.loads(machine.out), dict)
    assert machine.err == ""


@pytest.mark.parametrize("arguments", EVERY, ids=" ".join)
def test_tables_and_trees_fit_80_columns(ask: Ask, arguments: list[str]) -> None:
    lines = ask(*arguments).out.splitlines()

    if arguments[0] not in ("datasets", "jobs", "runs") or arguments[1] != "show":
        assert [line for line in lines if len(line) > 80] == []


def test_upstream_is_a_tree_that_ends_outside(ask: Ask) -> None:
    shown = ask("lineage", "upstream", REVENUE, "--depth", "5").out.splitlines()

    assert shown[0] == "shop.marts.daily_revenue"
    assert shown[1] == "└── shop.staging.orders (shop.publish_orders)"
    assert any("[external] shop.public.customers" in line for line in shown)


def test_depth_is_kept_and_said(ask: Ask) -> None:
    answer = ask("lineage", "upstream", REVENUE, "--depth", "1")

    assert len(answer.out.splitlines()) == 2
    assert "--depth shows more" in answer.err


def test_columns_are_shown_with_what_happens_to_them(ask: Ask) -> None:
    shown = ask("lineage", "upstream", REVENUE, "--depth", "1", "--columns").out

    assert "amount → revenue  AGGREGATE" in shown


def test_impact_names_tables_and_counts_pipelines(ask: Ask) -> None:
    shown = ask("lineage", "impact", SILVER, "--if-schema-changes").out

    assert shown.startswith(f"⚠  A schema change to {SILVER} would affect:\n")
    assert "  - shop.staging.orders" in shown
    assert "Total: 3 downstream tables in 1 pipeline; criticality CRITICAL\n" in shown


def test_impact_of_a_column_names_only_what_reads_it(ask: Ask) -> None:
    of_country = ask("lineage", "impact", STAGING, "--column", "country").out
    of_amount = ask("lineage", "impact", STAGING, "--column", "amount").out

    assert "daily_revenue (shop_daily): country, day, orders, revenue" in of_country
    assert "customer_value" not in of_country
    assert "daily_revenue (shop_daily): revenue" in of_amount
    assert "customer_value (shop_daily): lifetime_value" in of_amount


def test_impact_of_a_column_that_nothing_reads_says_so(ask: Ask) -> None:
    shown = ask("lineage", "impact", STAGING, "--column", "order_id").out

    assert shown.split() == f"A change of order_id in {STAGING} would affect nothing that is known.".split()


def test_a_name_that_is_nearly_right_is_suggested(ask: Ask) -> None:
    answer = ask("datasets", "show", "shop.marts.daily_revenu")

    assert answer.code == 2
    assert answer.out == ""
    assert "error[not_found]: no dataset 'shop.marts.daily_revenu'" in answer.err
    assert "daily_revenue" in answer.err


def test_a_name_of_several_lists_them(ask: Ask) -> None:
    answer = ask("datasets", "show", "shop-lake:orders")

    assert answer.code == 2
    assert "s3://shop-lake/silver/orders" in answer.err


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["lineage", "upstream", REVENUE, "--as-of", "yesterday"], "--as-of"),
        (["schema", "show", REVENUE, "--at", "noon"], "--at"),
        (["datasets", "list", "--sort", "beauty"], "--sort"),
        (["runs", "list", "--state", "HAPPY"], "--state"),
    ],
    ids=["as-of", "at", "sort", "state"],
)
def test_a_wrong_value_is_a_user_error_that_names_the_field(ask: Ask, arguments: list[str], field: str) -> None:
    answer = ask(*arguments)

    assert answer.code == 2
    assert field in answer.err


def test_a_rule_is_looked_at_added_listed_and_taken_back(ask: Ask) -> None:
    rule = ("postgres://other.example/{t}", "postgres://warehouse.shop.example/{t}")
    assert ask("aliases", "preview", *rule).code == 0
    added = json.loads(ask("aliases", "add", *rule, "--json").out)["rule"]["id"]

    assert added in ask("aliases", "list", "--json").out
    assert ask("aliases", "undo", added).out.startswith("removed the rule")
    assert added not in ask("aliases", "list", "--json").out


def test_the_latest_events_come_last(ask: Ask) -> None:
    lines = ask("events", "tail", "--limit", "3").out.splitlines()

    assert len(lines) == 3
    assert "shop_daily" in lines[-1]
    assert "FAIL" in lines[-1]


def test_events_for_machines_are_one_a_line_and_whole(ask: Ask) -> None:
    lines = ask("events", "tail", "--limit", "2", "--json").out.splitlines()

    assert [json.loads(line)["event"]["job"]["name"] for line in lines] == ["shop_marts", "shop_daily"]


async def test_stages_of_a_run_are_a_table(shop: Live, ask: Ask) -> None:
    stage = {"stage_id": 3, "num_tasks": 8, "failed_tasks": 1, "duration_ms": 1500, "shuffle_write_bytes": 2048}
    event = an_event(run_facets={"headgate_stages": a_facet(stages=[stage | {"executor_cpu_time_ns": 2_000_000_000}])})
    await shop.replay(json.dumps(event).encode())

    shown = ask("runs", "stages", event["run"]["runId"])

    heading, _, line = shown.out.splitlines()[:3]
    assert heading.split() == ["stage", "tasks", "took", "CPU", "read", "fetched", "shuffled", "wrote", "spilled"]
    assert line.split() == ["3", "8", "(1", "failed)", "1.5", "s", "2.0", "s", "2.0", "KiB"]


async def test_a_run_that_failed_did_not_write_and_shows_what_failed_below_it(shop: Live, ask: Ask) -> None:
    application = an_event("FAIL", job="nightly", outputs=[a_dataset("half")])
    above = {"run": {"runId": application["run"]["runId"]}, "job": {"namespace": "tests", "name": "nightly"}}
    action = an_event("FAIL", job="nightly.write", run_facets={"parent": a_facet(**above)})
    await shop.replay(json.dumps(application).encode(), json.dumps(action).encode())

    shown = " ".join(ask("runs", "show", application["run"]["runId"]).out.split())

    assert "was to write half" in shown
    assert "below 1 FAIL" in shown
    assert "failed below nightly.write" in shown


async def test_suggestions_say_how_sure_they_are_and_why_the_surest_first(shop: Live, ask: Ask) -> None:
    tests = {"dataQualityAssertions": a_facet(assertions=[{"assertion": "unique", "success": True}])}
    events = [
        *(an_event(outputs=[a_dataset(f"{schema}.clue")]) for schema in ("attic", "cellar")),
        an_event(inputs=[a_dataset("hall.clue", inputFacets=tests)]),
        an_event(outputs=[a_dataset("shop.Sales.Deed")]),
        an_event(inputs=[a_dataset("shop.sales.deed", inputFacets=tests)]),
    ]
    for response in await shop.replay(*(json.dumps(event).encode() for event in events)):
        assert response.status_code == 201, response.text

    shown = ask("aliases", "suggest").out

    sure = (
        "high    postgres://db/shop.sales.deed\n"
        "     →  postgres://db/shop.Sales.Deed\n"
        "        1 tested dataset: both are named 'shop.sales.deed' but for case, unlike\n"
        "        any other written dataset\n"
    )
    unsure = "        1 tested dataset: both names end in 'clue', like another written dataset\n"
    assert 0 <= shown.find(sure) < shown.find("low     postgres://db/hall.clue\n") < shown.find(unsure)
    assert max(map(len, shown.splitlines())) <= 80
