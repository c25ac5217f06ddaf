"""`headgate run` with real Spark: what it publishes, prints and returns, and how it goes on after a failure."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from headgate.cli.main import run
from headgate.pipelines.home import Home
from tests.conftest import Cluster
from tests.support.live import Live, live_server
from tests.support.sessions import plain_session
from tests.unit.pipelines.samples import saved, with_nodes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

ORDERS = "id,amount\n1,10\n2,20\n3,\n4,40\n"
CHAIN = """
    - name: orders
      read: {{connection: bronze, path: orders.csv, format: csv}}
      transform: {{steps: ["{sql}"]}}
      validation:
        tests: [{{type: not_null, columns: [{column}], on_fail: {on_fail}}}]
        quarantine: {{connection: silver, path: bad_orders}}
      gate: {{require_pass_rate: {rate}}}
      write: {{connection: silver, path: orders}}
    - name: totals
      depends_on: orders
      transform: {{steps: ["SELECT count(*) AS orders, sum({summed}) AS total FROM orders"]}}
      validation: {{tests: [{{type: range, column: total, min: 0}}]}}
      write: {{connection: silver, path: totals}}
    - {{name: alone, read: {{connection: bronze, path: orders.csv, format: csv}},
        write: {{connection: silver, path: alone}}}}
"""


class Output(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def statuses(self) -> dict[str, str]:
        return {node["name"]: node["status"] for node in self.answer["nodes"]}


Ask = Callable[..., Output]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return plain_session(str(tmp_path_factory.mktemp("warehouse")))


@pytest.fixture
def ask(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Ask]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "path", [*sys.path])

    def asked(*arguments: str) -> Output:
        code = run(list(arguments))
        return Output(code, *capsys.readouterr())

    yield asked
    sys.modules.pop("cleaning", None)


def a_chain(folder: Path, **changes: str) -> None:
    words = {"sql": "SELECT * FROM df", "column": "amount", "on_fail": "quarantine", "rate": "0.5", "summed": "amount"}
    saved(folder, with_nodes(CHAIN.format(**words | changes)))
    saved(folder, ORDERS, "data/bronze/orders.csv")


@pytest.mark.parametrize(
    ("example", "counts"),
    [
        ("taxi", {"trips": (61, 57, 4), "zones": (8, 8, 0), "revenue": (42, 42, 0)}),
        ("retail", {"customers": (10, 9, 1), "orders": (20, 17, 3), "revenue": (5, 5, 0)}),
        ("minimal", {"people": (10, 8, 2)}),
    ],
)
def test_a_new_project_runs_as_it_is(ask: Ask, example: str, counts: dict[str, tuple[int, int, int]]) -> None:
    ask("init", ".", "--example", example)

    told = ask("run", "--no-server", "--json")

    nodes = {node["name"]: node for node in told.answer["nodes"]}
    assert told.code == 0
    assert told.answer["status"] == "published"
    assert {
        name: (node["rows_in"], node["rows_valid"], node["rows_quarantined"]) for name, node in nodes.items()
    } == counts
    assert Path(told.answer["story"]).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_last_line_says_all_that_was_decided(ask: Ask, tmp_path: Path) -> None:
    a_chain(tmp_path)

    told = ask("run", "--no-server", "--json")

    orders = next(node for node in told.answer["nodes"] if node["name"] == "orders")
    gate = orders["gate"]
    assert told.out.count("\n") == 1
    assert (gate["passed"], gate["pass_rate"], gate["action"], gate["reasons"]) == (True, 0.75, None, [])
    assert (gate["total_rows"], gate["passed_rows"], gate["failed_rows"]) == (4, 3, 1)
    assert gate["per_test_rates"] == {"not_null": 0.75}
    assert gate["row_count"] == {"current": 4, "previous": None, "change": None}
    assert [(test["name"], test["type"], test["failed"]) for test in orders["tests"]] == [("not_null", "not_null", 1)]
    assert "daily.orders: published, 4 rows, 1 quarantined" in told.err


def test_a_run_ends_with_a_table_the_reasons_and_the_story(ask: Ask, tmp_path: Path) -> None:
    a_chain(tmp_path, rate="0.9")

    told = ask("run", "--no-server")

    lines = told.out.splitlines()
    assert told.code == 3
    assert lines[0].split() == ["node", "status", "rows", "in", "valid", "quarantined", "gate", "time"]
    assert any(line.split()[:2] == ["daily.orders", "stopped"] and "75 % abort" in line for line in lines)
    assert any(line.split() == ["daily.totals", "skipped"] for line in lines)
    assert any(line.startswith("daily.orders: 3 of 4 rows pass") for line in lines)
    assert any(line.startswith("story: ") for line in lines)
    assert "headgate run pipeline.yaml --resume" in told.err
    assert max(len(line) for line in lines if "/" not in line) <= 80


def test_a_stopped_run_publishes_nothing_of_the_node_and_goes_on_from_there_after_a_repair(
    ask: Ask, spark: SparkSession, tmp_path: Path
) -> None:
    a_chain(tmp_path, rate="0.9")
    stopped = ask("run", "--no-server", "--parallel", "1", "--json")
    has_target = Path("data/silver/orders").exists()
    a_chain(tmp_path, rate="0.5")

    resumed = ask("run", "pipeline.yaml", "--resume", "--no-server", "--json")

    assert stopped.code == 3
    assert stopped.statuses["orders"] == "stopped"
    assert stopped.statuses["totals"] == "skipped"
    assert not has_target
    assert resumed.code == 0
    assert set(resumed.statuses.values()) == {"published"}
    assert spark.read.parquet(str(tmp_path / "data/silver/orders")).count() == 3
    assert resumed.answer["run_id"] != stopped.answer["run_id"]


def test_what_was_published_before_a_failure_is_not_done_again(ask: Ask, tmp_path: Path) -> None:
    a_chain(tmp_path, summed="amount / (id - id)")
    failed = ask("run", "--no-server", "--json")
    a_chain(tmp_path)

    resumed = ask("run", "pipeline.yaml", "--resume", failed.answer["run_id"], "--no-server", "--json")

    assert failed.code == 1
    assert failed.statuses == {"orders": "published", "alone": "published", "totals": "failed"}
    error = next(node["error"] for node in failed.answer["nodes"] if node["name"] == "totals")
    assert "DIVIDE_BY_ZERO" in error
    assert resumed.code == 0
    assert node_ids(failed, "orders", "alone") == node_ids(resumed, "orders", "alone")
    assert "daily.orders: started" not in resumed.err
    assert "daily.totals: published" in resumed.err


def node_ids(told: Output, *names: str) -> dict[str, str]:
    return {node["name"]: node["run_id"] for node in told.answer["nodes"] if node["name"] in names}


def test_what_does_not_fit_the_columns_is_told_at_once_and_before_anything_is_written(ask: Ask, tmp_path: Path) -> None:
    a_chain(tmp_path, column="amuont", summed="amont")

    told = ask("run", "--no-server", "--json")

    messages = [problem["message"] for problem in told.answer["problems"]]
    assert told.code == 2
    assert any("test 'not_null': there is no column 'amuont'" in message for message in messages)
    assert any("node 'totals'" in message and "amont" in message for message in messages)
    assert not Path("data/silver").exists()
    assert list(Home(tmp_path / ".headgate").runs.iterdir()) == []


def test_a_source_that_is_missing_is_told_where_it_is_named(ask: Ask, tmp_path: Path) -> None:
    a_chain(tmp_path)
    Path("data/bronze/orders.csv").unlink()

    told = ask("run", "--no-server")

    assert told.code == 2
    assert "pipeline.yaml:9:" in told.err
    assert "PATH_NOT_FOUND" in told.err


def test_a_dry_run_checks_the_columns_and_writes_nothing(ask: Ask, tmp_path: Path) -> None:
    a_chain(tmp_path)

    dry = ask("run", "--dry-run")
    planned = ask("plan", "--columns", "--json")

    assert dry.code == 0
    assert "     columns    orders bigint, total bigint" in dry.out.splitlines()
    assert "nothing was written" in dry.err
    assert not Path("data/silver").exists()
    assert planned.answer["nodes"][0]["columns"] is not None


def test_a_dry_run_ends_with_one_line_of_json(ask: Ask, tmp_path: Path) -> None:
    a_chain(tmp_path)

    told = ask("run", "--dry-run", "--json")

    assert told.code == 0
    assert told.out.count("\n") == 1
    assert (told.answer["run_id"], told.answer["status"]) == (None, "skipped")
    assert [node["node"] for node in told.answer["nodes"]] == ["orders", "alone", "totals"]
    assert told.answer["nodes"][-1]["columns"][0] == {"name": "orders", "type": "bigint", "nullable": False}


def test_what_functions_make_of_rows_to_come_is_left_to_the_run(ask: Ask, tmp_path: Path) -> None:
    saved(tmp_path, "def spread(df):\n    return df.groupBy().pivot('id').count()\n", "cleaning.py")
    nodes = """
        - {name: orders, read: {connection: bronze, path: orders.csv, format: csv},
           write: {connection: silver, path: orders}}
        - name: wide
          depends_on: orders
          transform: {steps: [{function: "cleaning:spread"}]}
          validation: {tests: [{type: not_null, columns: ["1"]}]}
          write: {connection: silver, path: wide}
    """
    saved(tmp_path, with_nodes(nodes))
    saved(tmp_path, ORDERS, "data/bronze/orders.csv")

    planned = ask("plan", "--columns")
    told = ask("run", "--no-server", "--json")

    assert planned.code == 0
    assert "     columns    known when it runs" in planned.out.splitlines()
    assert "1 of 2 nodes fit the columns" in planned.err
    assert "known when they run: daily.wide" in planned.err
    assert told.statuses == {"orders": "published", "wide": "published"}


def test_what_only_a_node_finds_wrong_with_the_file_is_not_tried_again(ask: Ask, tmp_path: Path) -> None:
    nodes = """
        - {name: orders, read: {connection: bronze, path: orders.csv, format: csv}, retry: {attempts: 3, delay: 1s},
           write: {connection: silver, path: orders, mode: upsert, keys: amount}}
    """
    saved(tmp_path, with_nodes(nodes))
    saved(tmp_path, ORDERS + "5,40\n", "data/bronze/orders.csv")

    told = ask("run", "--no-server", "--json")

    (node,) = told.answer["nodes"]
    assert told.code == 2
    assert (node["status"], node["attempt"], node["is_config_error"]) == ("failed", 1, True)
    assert "share 1 values of write.keys amount" in node["error"]


def test_one_node_runs_over_what_others_have_published(ask: Ask, tmp_path: Path) -> None:
    a_chain(tmp_path)
    too_early = ask("run", "--node", "totals", "--no-server")
    ask("run", "--node", "orders", "--no-server")

    told = ask("run", "--node", "totals", "--no-server", "--json")

    assert too_early.code == 2
    assert "node 'totals'" in too_early.err
    assert told.code == 0
    assert told.statuses == {"totals": "published"}


@pytest.fixture(scope="module")
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as found:
        yield found


def test_a_server_that_is_named_hears_of_the_run_and_tells_its_story(
    ask: Ask, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_URL", live.url)
    monkeypatch.setenv("HEADGATE_API_KEY", live.api_key)
    a_chain(tmp_path)
    told = ask("run", "--json")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    story = ask("story", told.answer["run_id"])

    assert told.code == 0
    assert story.code == 0
    assert "daily" in Path(story.out.strip()).read_text(encoding="utf-8")


def test_the_gate_compares_with_the_run_before_that_the_server_knows(
    ask: Ask, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_URL", live.url)
    monkeypatch.setenv("HEADGATE_API_KEY", live.api_key)
    nodes = """
        - {name: grows, read: {connection: bronze, path: orders.csv, format: csv},
           gate: {row_count: {change_threshold: 0.2}}, write: {connection: silver, path: orders}}
    """
    saved(tmp_path, with_nodes(nodes))
    saved(tmp_path, ORDERS, "data/bronze/orders.csv")
    ask("run", "--json")
    saved(tmp_path, ORDERS + "5,50\n6,60\n", "data/bronze/orders.csv")

    told = ask("run", "--json")

    counted = told.answer["nodes"][0]["gate"]["row_count"]
    assert told.code == 3
    assert counted == {"current": 6, "previous": 4, "change": 0.5}
