"""dbt with the official wrapper on a project of our own, in both of its modes, and events that it really sent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.conftest import Cluster
from tests.support import produced
from tests.support.golden import golden
from tests.support.live import Live, live_server

SHOP = Path(__file__).parents[1] / "support" / "dbt_shop"
DUCKDB = "duckdb://shop.duckdb"
TASK = UUID("01a1e0aa-0000-7000-8000-000000000001")
DAG = UUID("01a1e0aa-0000-7000-8000-000000000002")


def dbt(live: Live, project: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """One command of the wrapper, as a user would type it in the project's folder."""
    programs = Path(sys.executable).parent
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OPENLINEAGE_", "DBT_"))}
    environment = inherited | {
        "PATH": f"{programs}{os.pathsep}{inherited['PATH']}",
        "HOME": str(project),
        "NO_PROXY": "127.0.0.1",
        "DO_NOT_TRACK": "1",
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "OPENLINEAGE_URL": live.url,
        "OPENLINEAGE_API_KEY": live.api_key,
        "OPENLINEAGE_NAMESPACE": "dbt-shop",
    }
    command = [str(programs / "dbt-ol"), *arguments]
    return subprocess.run(
        command, cwd=project, env=environment | more, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.fixture(scope="module")
async def artifacts(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """The wrapper's default: events once dbt has ended, from its artifacts."""
    project = tmp_path_factory.mktemp("artifacts") / "shop"
    shutil.copytree(SHOP, project)
    async with live_server(cluster) as live:
        for command, code in (("seed", 0), ("run", 0), ("test", 1)):
            ended = dbt(live, project, command)
            assert ended.returncode == code, ended.stdout + ended.stderr
        yield live


@pytest.fixture(scope="module")
async def logs(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """Events while dbt runs, from its log; started by a task of somebody's DAG."""
    project = tmp_path_factory.mktemp("logs") / "shop"
    shutil.copytree(SHOP, project)
    async with live_server(cluster) as live:
        ended = dbt(
            live,
            project,
            "build",
            "--consume-structured-logs",
            OPENLINEAGE_PARENT_ID=f"airflow/nightly.dbt/{TASK}",
            OPENLINEAGE_ROOT_PARENT_ID=f"airflow/nightly/{DAG}",
        )
        assert ended.returncode == 1, ended.stdout + ended.stderr
        yield live


@pytest.fixture(scope="module")
async def replayed(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        await live.replay(*golden("dbt"))
        yield live


def urn(table: str) -> str:
    return f"{DUCKDB}/shop.{table}"


STAGING_TO_MARTS = {
    (urn("main.stg_customers"), urn("main.customer_totals")),
    (urn("main.stg_orders"), urn("main.customer_totals")),
    (urn("main.stg_orders"), urn("main.daily_orders")),
}
SEEDS_TO_STAGING = {
    (urn("main_raw.raw_customers"), urn("main.stg_customers")),
    (urn("main_raw.raw_orders"), urn("main.stg_orders")),
}
SCHEMAS = {
    "shop.main.stg_customers": [("INITIAL", "customer_id integer, email varchar, country varchar")],
    "shop.main.stg_orders": [("INITIAL", "order_id integer, customer_id integer, amount double, placed_on date")],
    "shop.main.customer_totals": [("INITIAL", "customer_id integer, country varchar, orders bigint, total double")],
    "shop.main.daily_orders": [("INITIAL", "placed_on date, orders bigint")],
}
# Dataset, test, column, status, severity, expected, actual.
RESULTS = [
    ("customer_totals", "no_negative_total", None, "failed", "error", "0", "1"),
    ("customer_totals", "not_null_customer_totals_country", "country", "failed", "error", "0", "1"),
    ("customer_totals", "not_null_customer_totals_customer_id", "customer_id", "passed", "error", "0", "0"),
    ("daily_orders", "unique_daily_orders_placed_on", "placed_on", "passed", "error", "0", "0"),
    ("stg_customers", "not_null_stg_customers_customer_id", "customer_id", "passed", "error", "0", "0"),
    ("stg_customers", "unique_stg_customers_customer_id", "customer_id", "passed", "error", "0", "0"),
    ("stg_orders", "not_null_stg_orders_customer_id", "customer_id", "passed", "error", "0", "0"),
    ("stg_orders", "not_null_stg_orders_order_id", "order_id", "passed", "error", "0", "0"),
    ("stg_orders", "unique_stg_orders_customer_id", "customer_id", "failed", "warn", "0", "1"),
    ("stg_orders", "unique_stg_orders_order_id", "order_id", "passed", "error", "0", "0"),
]


@pytest.fixture(scope="module", params=["artifacts", "logs"])
def live(request: pytest.FixtureRequest) -> Live:
    """Either mode: what both must agree on."""
    found: Live = request.getfixturevalue(request.param)
    return found


@pytest.mark.slow
async def test_every_event_of_dbt_is_accepted(live: Live) -> None:
    assert set(live.statuses) == {201}
    assert await produced.event_count(live.db) == len(live.statuses)
    assert await produced.refusals(live.db) == []


@pytest.mark.slow
async def test_documented_columns_are_the_schema_of_each_model(live: Live) -> None:
    assert await produced.schemas(live.db) == SCHEMAS


@pytest.mark.slow
async def test_results_of_every_test_with_two_not_null_of_one_table_apart(
    live: Live, request: pytest.FixtureRequest
) -> None:
    found = await produced.test_results(live.db)
    expected = list(RESULTS)
    if request.node.callspec.params["live"] == "artifacts":
        # Here dbt tells of a singular test in two runs: as an assertion on the table that it reads, and under its
        # full id in the facet of a run of its own. From logs both come in one event, and are one result.
        expected.append(("customer_totals", "test.shop.no_negative_total", None, "failed", "error", "0", "1"))
    assert sorted(((dataset.removeprefix("shop.main."), *rest) for dataset, *rest, _ in found), key=str) == sorted(
        expected, key=str
    )


@pytest.mark.slow
async def test_runs_that_test_are_no_producers_even_with_an_audit_table(live: Live) -> None:
    tests = {run.job for run in await produced.runs(live.db) if run.is_test}
    assert tests == {run.job for run in await produced.runs(live.db) if run.job_type == "TEST"}
    written = {name for _, name in await produced.producers(live.db)}
    assert {f"shop.main.{model}" for model in ("stg_customers", "stg_orders", "customer_totals")} <= written
    assert not [name for name in written if "audit" in name]
    assert not tests & {job for *_, job in await produced.edges(live.db)}


@pytest.mark.slow
async def test_from_artifacts_each_command_is_a_run_with_its_nodes_below(artifacts: Live) -> None:
    runs = await produced.runs(artifacts.db)
    seed, run, test = (found.run_id for found in runs if found.job == "dbt-run-shop")
    model, check = "shop.main.shop.{}".format, "shop.main.shop.{}.test".format
    assert {(found.job, found.state, found.parent_run_id, found.root_run_id) for found in runs} == {
        ("dbt-run-shop", "COMPLETE", None, None),
        ("dbt-run-shop", "FAIL", None, None),
        *((model(name), "COMPLETE", run, run) for name in ("stg_customers", "stg_orders")),
        *((model(name), "COMPLETE", run, run) for name in ("customer_totals", "daily_orders")),
        *((check(name), "COMPLETE", test, test) for name in ("stg_customers", "stg_orders", "daily_orders")),
        (check("customer_totals"), "FAIL", test, test),
        ("test.shop.no_negative_total", "FAIL", test, test),
    }
    states = {found.run_id: found.state for found in runs}
    assert (states[seed], states[run], states[test]) == ("COMPLETE", "COMPLETE", "FAIL")


@pytest.mark.slow
async def test_from_artifacts_marts_follow_from_staging(artifacts: Live) -> None:
    # Seeds are no inputs in this mode; that they are read shows in the columns alone.
    found = await produced.edges(artifacts.db)
    assert {(source, target) for source, target, _ in found} == STAGING_TO_MARTS
    assert {job for *_, job in found} == {"shop.main.shop.customer_totals", "shop.main.shop.daily_orders"}


@pytest.mark.slow
async def test_from_artifacts_every_column_has_its_source(artifacts: Live) -> None:
    customers, orders = urn("main_raw.raw_customers"), urn("main_raw.raw_orders")
    stg_customers, stg_orders = urn("main.stg_customers"), urn("main.stg_orders")
    totals, daily = urn("main.customer_totals"), urn("main.daily_orders")
    pairs = [
        (f"{customers}#id", f"{stg_customers}#customer_id"),
        (f"{customers}#email", f"{stg_customers}#email"),
        (f"{customers}#country", f"{stg_customers}#country"),
        (f"{orders}#id", f"{stg_orders}#order_id"),
        (f"{orders}#customer", f"{stg_orders}#customer_id"),
        (f"{orders}#amount", f"{stg_orders}#amount"),
        (f"{orders}#placed_on", f"{stg_orders}#placed_on"),
        (f"{stg_customers}#customer_id", f"{totals}#customer_id"),
        (f"{stg_customers}#country", f"{totals}#country"),
        (f"{stg_orders}#order_id", f"{totals}#orders"),
        (f"{stg_orders}#amount", f"{totals}#total"),
        (f"{stg_orders}#order_id", f"{daily}#orders"),
        (f"{stg_orders}#placed_on", f"{daily}#placed_on"),
    ]
    # dbt names no transformation, so all that is known is that the value comes from there.
    assert await produced.column_edges(artifacts.db) == {(source, target, "DIRECT") for source, target in pairs}


@pytest.mark.slow
async def test_from_logs_lineage_begins_at_the_seeds(logs: Live) -> None:
    found = await produced.edges(logs.db)
    assert {(source, target) for source, target, _ in found} == STAGING_TO_MARTS | SEEDS_TO_STAGING
    assert {("seed.shop.raw_orders", "shop.main_raw.raw_orders")} <= await produced.producers(logs.db)


@pytest.mark.slow
async def test_from_logs_the_chain_goes_from_the_dag_down_to_each_statement(logs: Live) -> None:
    runs = await produced.runs(logs.db)
    command = next(run for run in runs if run.job == "dbt-run-shop")
    nodes = {run.job: run.run_id for run in runs if run.job_type in {"SEED", "MODEL", "TEST"}}
    assert (command.parent_run_id, command.parent_job) == (TASK, "nightly.dbt")
    assert {(run.root_run_id, run.root_job) for run in runs} == {(DAG, "nightly")}
    assert len(nodes) == 2 + 4 + 10
    assert {run.parent_run_id for run in runs if run.job in nodes} == {command.run_id}
    statements = [run for run in runs if run.job_type == "SQL"]
    assert {run.parent_job for run in statements} == set(nodes)
    assert all(run.parent_run_id == nodes[run.job.rpartition(".sql.")[0]] for run in statements)


@pytest.mark.slow
async def test_from_logs_failed_runs_say_why(logs: Live) -> None:
    runs = await produced.runs(logs.db)
    failed = {run.job.removeprefix("test.shop.").partition(".")[0]: run.error for run in runs if run.state == "FAIL"}
    assert failed.pop("dbt-run-shop", "").startswith("Command `dbt build` failed")
    assert failed == dict.fromkeys(
        ("no_negative_total", "not_null_customer_totals_country"), "Got 1 result, configured to fail if != 0"
    )
    assert {run.state for run in runs} == {"COMPLETE", "FAIL"}


async def test_golden_events_are_accepted(replayed: Live) -> None:
    assert replayed.statuses == [201] * 22
    assert await produced.refusals(replayed.db) == []


async def test_golden_runs_have_their_types_states_and_parents(replayed: Live) -> None:
    command = "dbt-run-shop"
    found = [(run.job, run.job_type, run.state, run.parent_job) for run in await produced.runs(replayed.db)]
    assert found == [
        (command, "JOB", "COMPLETE", None),
        (command, "JOB", "COMPLETE", None),
        ("shop.main.shop.stg_customers", "MODEL", "COMPLETE", command),
        ("shop.main.shop.stg_orders", "MODEL", "COMPLETE", command),
        ("shop.main.shop.orders", "MODEL", "COMPLETE", command),
        ("shop.main.shop.customers", "MODEL", "COMPLETE", command),
        (command, "JOB", "FAIL", None),
        ("shop.main.shop.customers.test", "TEST", "COMPLETE", command),
        ("shop.main.shop.stg_customers.test", "TEST", "FAIL", command),
        ("test.shop.no_negative_amount", "TEST", "FAIL", command),
        ("shop.main.shop.stg_orders.test", "TEST", "FAIL", command),
    ]


async def test_golden_lineage_of_tables_and_columns(replayed: Live) -> None:
    customers, orders = urn("main.customers"), urn("main.orders")
    stg_customers, stg_orders = urn("main.stg_customers"), urn("main.stg_orders")
    assert await produced.edges(replayed.db) == {
        (stg_customers, customers, "shop.main.shop.customers"),
        (stg_orders, customers, "shop.main.shop.customers"),
        (stg_orders, orders, "shop.main.shop.orders"),
    }
    columns = await produced.column_edges(replayed.db)
    assert len(columns) == 11
    assert {edge for edge in columns if edge[1].startswith(f"{customers}#")} == {
        (f"{stg_customers}#customer_id", f"{customers}#customer_id", "DIRECT"),
        (f"{stg_customers}#name", f"{customers}#name", "DIRECT"),
        (f"{stg_orders}#order_id", f"{customers}#n_orders", "DIRECT"),
        (f"{stg_orders}#amount", f"{customers}#total", "DIRECT"),
    }


async def test_golden_schemas_without_types(replayed: Live) -> None:
    assert await produced.schemas(replayed.db) == {
        "shop.main.customers": [("INITIAL", "customer_id")],
        "shop.main.stg_customers": [("INITIAL", "customer_id, email")],
        "shop.main.stg_orders": [("INITIAL", "order_id, customer_id, status")],
    }


async def test_golden_test_results(replayed: Live) -> None:
    found = await produced.test_results(replayed.db)
    assert [(dataset.removeprefix("shop.main."), *rest) for dataset, *rest, _ in found] == [
        ("customers", "unique_customers_customer_id", "customer_id", "passed", "error", "0", "0"),
        ("stg_customers", "not_null_stg_customers_customer_id", "customer_id", "passed", "error", "0", "0"),
        ("stg_customers", "not_null_stg_customers_email", "email", "failed", "error", "0", "1"),
        ("stg_customers", "unique_stg_customers_customer_id", "customer_id", "passed", "error", "0", "0"),
        ("stg_orders", "accepted_values_stg_orders_status__paid", "status", "failed", "warn", "0", "1"),
        ("stg_orders", "no_negative_amount", None, "failed", "error", "0", "1"),
        (
            "stg_orders",
            "relationships_stg_orders_customer_id__customer_id__ref_stg_customers_",
            "customer_id",
            "failed",
            "error",
            "0",
            "1",
        ),
        ("stg_orders", "test.shop.no_negative_amount", None, "failed", "error", "0", "1"),
        ("stg_orders", "unique_stg_orders_order_id", "order_id", "passed", "error", "0", "0"),
    ]
