"""The commands that need no Spark: what they print of a file, how they word what is wrong, and how they end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from headgate.cli import planned
from headgate.cli.main import app
from tests.support.asking import Ask, Output, asking
from tests.unit.pipelines.samples import HEAD, plan_of, saved, with_nodes

COMMANDS = ["init", "validate", "plan", "graph", "run", "story"]
FILE = with_nodes("""
    - name: orders
      read: {connection: bronze, path: orders, format: csv}
      validation:
        tests:
          - {type: not_null, columns: [id], on_fail: quarantine}
          - {name: positive, type: range, column: amount, min: 0}
        quarantine: {connection: silver, path: bad_orders}
      gate:
        require_pass_rate: 0.9
        on_fail: write_valid_only
        thresholds: [{test: positive, min_pass_rate: 0.99}]
        row_count: {min: 10, max: 1000000, change_threshold: 0.5}
      write: {connection: silver, path: orders, mode: append}
    - {name: totals, read: {connection: silver, path: orders}, write: {connection: silver, path: totals}}
    - {name: rest, depends_on: totals}
""")
BROKEN = with_nodes("""
    - name: orders
      read: {connection: bronze, path: orders}
      validation:
        tests:
          - {type: rang, column: amount, min: 0}
      write: {connection: silver, path: orders, mode: overwrte}
""")


@pytest.fixture(autouse=True)
def _somewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("HEADGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    return asking(capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns(command: str) -> None:
    result = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app, [command, "--help"])

    assert result.exit_code == 0
    assert max(len(line) for line in result.output.splitlines()) <= 80


def test_a_file_without_a_problem_is_valid(ask: Ask, tmp_path: Path) -> None:
    saved(tmp_path, FILE)

    assert ask("validate") == (0, "pipeline.yaml is valid: shop: 3 nodes in 1 pipeline\n", "")
    assert json.loads(ask("validate", "pipeline.yaml", "--json").out)["valid"] is True


def test_every_problem_of_a_file_is_a_line_with_its_place_and_the_way_out(ask: Ask, tmp_path: Path) -> None:
    file = saved(tmp_path, BROKEN)

    told = ask("validate", str(file))

    places = [line for line in told.out.splitlines() if line.startswith(f"{file}:")]
    assert told.code == 2
    assert len(places) == 2
    assert f"{file}:12:" in places[0]
    assert "hint: did you mean 'range'?" in told.out
    assert "hint: did you mean 'overwrite'?" in told.out
    assert told.err == "2 problems\n"


def test_problems_as_json_hold_place_message_and_hint(ask: Ask, tmp_path: Path) -> None:
    told = ask("validate", str(saved(tmp_path, BROKEN)), "--json")

    answer = json.loads(told.out)
    assert told.code == 2
    assert answer["valid"] is False
    assert [set(each) for each in answer["problems"]] == [{"place", "message", "hint"}] * 2


def test_what_only_a_plan_finds_is_a_problem_of_the_file_too(ask: Ask, tmp_path: Path) -> None:
    saved(tmp_path, with_nodes("- {name: a, read: {connection: brnze, path: x}}"))

    told = ask("validate")

    assert told.code == 2
    assert "there is no connection 'brnze'" in told.out


def test_variables_and_environments_are_taken_from_the_command(ask: Ask, tmp_path: Path) -> None:
    environments = 'environments: {prod: {connections: {silver: {type: local, base_path: "${ROOT}"}}}}\n'
    saved(tmp_path, with_nodes("- {name: a, read: {connection: silver, path: x}}\n", head=HEAD + environments))

    unset = ask("validate", "--env", "prod")
    given = ask("validate", "--env", "prod", "--var", "ROOT=/lake")

    assert unset.code == 2
    assert "${ROOT} is not set" in unset.out
    assert given.code == 0
    assert "(prod)" in given.out


@pytest.mark.parametrize("given", ["ROOT", "=x", " =x"])
def test_a_variable_without_a_name_or_a_value_is_refused(ask: Ask, tmp_path: Path, given: str) -> None:
    saved(tmp_path, FILE)

    told = ask("plan", "--var", given)

    assert told.code == 2
    assert f"--var {given!r} is not NAME=VALUE" in told.err


def test_the_schema_that_is_printed_is_the_published_one_and_fits_the_file(ask: Ask) -> None:
    told = ask("validate", "--schema")

    assert told.out == (Path(__file__).parents[3] / "docs" / "pipeline.schema.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator.check_schema(json.loads(told.out))


def test_a_file_that_is_missing_is_named(ask: Ask) -> None:
    told = ask("plan", "nowhere.yaml")

    assert told.code == 2
    assert "nowhere.yaml" in told.err


def test_a_plan_tells_the_order_and_what_each_node_does(ask: Ask, tmp_path: Path) -> None:
    saved(tmp_path, FILE)

    told = ask("plan")

    lines = told.out.splitlines()
    assert told.code == 0
    assert lines[0] == "shop: 3 nodes in 1 pipeline"
    assert [line for line in lines if line[:3].strip().isdigit()] == [
        "  1. daily.orders",
        "  2. daily.totals",
        "  3. daily.rest",
    ]
    assert "     reads      bronze/orders (csv)" in lines
    assert "     tests      not_null, positive (1 quarantine, 1 fail)" in lines
    assert "     quarantine silver/bad_orders" in lines
    assert "     writes     silver/orders, append" in lines
    assert "     after      daily.orders" in lines
    assert "     writes     nothing; other nodes live on it" in lines
    assert max(map(len, lines)) <= 80


def test_a_plan_says_what_a_gate_asks_for(ask: Ask, tmp_path: Path) -> None:
    saved(tmp_path, FILE)

    said = " ".join(ask("plan", "--node", "orders").out.split())

    asked = "0.9 of the rows, positive 0.99, at least 10 rows, at most 1,000,000 rows, change up to 0.5"
    assert f"gate {asked}, else write_valid_only" in said


def test_a_plan_may_be_of_a_part(ask: Ask, tmp_path: Path) -> None:
    saved(tmp_path, FILE)

    assert _planned(ask("plan", "--from", "totals", "--json")) == ["daily.totals", "daily.rest"]
    assert _planned(ask("plan", "--node", "orders", "--json")) == ["daily.orders"]
    assert _planned(ask("plan", "--pipeline", "daily", "--json")) == ["daily.orders", "daily.totals", "daily.rest"]
    assert "did you mean 'orders'?" in ask("plan", "--node", "order").err


def _planned(told: Output) -> list[str]:
    return [node["name"] for node in json.loads(told.out)["nodes"]]


def test_a_plan_as_json_holds_all_that_is_shown(ask: Ask, tmp_path: Path) -> None:
    saved(tmp_path, FILE)

    orders: dict[str, Any] = json.loads(ask("plan", "--json").out)["nodes"][0]

    assert orders["reads"] == ["bronze/orders"]
    assert orders["writes"] == "silver/orders"
    assert orders["mode"] == "append"
    assert orders["quarantine"] == "silver/bad_orders"
    assert orders["tests"][1] == {"name": "positive", "type": "range", "on_fail": "fail"}
    assert orders["gate"]["row_count"]["change_threshold"] == 0.5


def test_a_graph_is_a_tree_from_what_comes_from_elsewhere(ask: Ask, tmp_path: Path) -> None:
    saved(tmp_path, FILE)

    assert ask("graph").out.splitlines() == [
        "shop",
        "└── [external] bronze/orders",
        "    └── daily.orders → silver/orders",
        "        └── daily.totals → silver/totals",
        "            └── daily.rest",
    ]


def test_what_a_part_of_the_graph_reads_of_the_rest_comes_from_elsewhere(ask: Ask, tmp_path: Path) -> None:
    saved(tmp_path, FILE)

    assert ask("graph", "--node", "totals").out.splitlines()[1] == "└── [external] silver/orders"


def test_a_graph_for_other_tools_escapes_what_they_would_misread(ask: Ask, tmp_path: Path) -> None:
    saved(tmp_path, with_nodes("""- {name: a, read: {connection: bronze, path: 'the "raw" ones'}}"""))

    assert 'n0[("bronze/the #quot;raw#quot; ones")]' in ask("graph", "--format", "mermaid").out
    assert "    n0 --> n1\n" in ask("graph", "--format", "mermaid").out
    assert r'[label="bronze/the \"raw\" ones", shape=cylinder]' in ask("graph", "--format", "dot").out
    answer = json.loads(ask("graph", "--json").out)
    assert answer["edges"] == [{"source": 'dataset:bronze/the "raw" ones', "target": "daily.a"}]
    assert answer == json.loads(ask("graph", "--format", "json").out)


@pytest.mark.parametrize(
    ("unknown", "said"),
    [
        ([], "the steps and tests fit the columns; nothing was written"),
        (
            ["totals", "rest"],
            "the steps and tests of 1 of 3 nodes fit the columns; nothing was written\n"
            "not checked, since their columns are known when they run: daily.totals, daily.rest",
        ),
    ],
)
def test_nodes_whose_columns_only_a_run_knows_are_named(tmp_path: Path, unknown: list[str], said: str) -> None:
    made = plan_of(tmp_path, FILE)
    columns = {node.key: None if node.config.name in unknown else () for node in made.nodes}

    assert planned.checked(made, columns) == said


def test_a_run_of_a_broken_file_tells_all_problems_and_ends_with_json(ask: Ask, tmp_path: Path) -> None:
    saved(tmp_path, BROKEN)

    told = ask("run", "--json")

    answer = json.loads(told.out)
    assert told.code == 2
    assert told.out.count("\n") == 1
    assert (answer["status"], answer["nodes"], len(answer["problems"])) == ("failed", [], 2)
    assert "error[config.invalid]: 2 problems" in told.err
    assert "did you mean 'range'?" in told.err


def test_without_pyspark_a_run_says_how_to_get_it(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, FILE)
    monkeypatch.setitem(sys.modules, "pyspark", None)

    told = ask("run", "--json")

    assert told.code == 2
    assert "error[config.invalid]: pyspark is not installed" in told.err
    assert "pip install pyspark" in told.err
    assert json.loads(told.out)["error"].startswith("pyspark is not installed")
    assert ask("validate").code == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["run", "pipeline.yaml", "abc"], "'abc' is one argument too many", id="run without resume"),
        pytest.param(["run", "--resume", "--node", "orders"], "leave out --pipeline, --node and --from", id="mixed"),
        pytest.param(["run", "--resume"], "no run of ", id="nothing to resume"),
        pytest.param(["run", "pipeline.yaml", "--resume", "abc"], "there is no run 'abc'", id="unknown run"),
        pytest.param(["run", "--parallel", "0"], "error[usage]", id="no node at once"),
        pytest.param(["graph", "--format", "png"], "error[usage]", id="unknown format"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(ask: Ask, tmp_path: Path, arguments: list[str], expected: str) -> None:
    saved(tmp_path, FILE)

    told = ask(*arguments)

    assert told.code == 2
    assert expected in told.err
