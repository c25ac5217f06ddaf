"""`headgate quarantine` where it needs no Spark: what is listed, discarded, and refused."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headgate.cli.main import run
from tests.unit.pipelines.samples import saved, with_nodes
from tests.unit.pipelines.test_batches import put

NODES = """
    - name: orders
      read: {connection: bronze, path: orders}
      validation:
        quarantine: {connection: silver, path: bad, retention_days: 2}
        tests: [{type: not_null, columns: [id], on_fail: quarantine}]
      write: {connection: silver, path: orders}
    - name: items
      read: {connection: bronze, path: items}
      validation:
        quarantine: {connection: silver, path: bad}
        tests: [{type: not_null, columns: [id], on_fail: quarantine}]
      write: {connection: silver, path: items}
    - {name: plain, read: {connection: bronze, path: x}, write: {connection: silver, path: x}}
"""
NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    saved(tmp_path, with_nodes(NODES))
    silver = tmp_path / "data" / "silver"
    put(silver, "0f8fad5b-d9cb-469f-a165-70867728950e", "daily.orders", at=NOW - timedelta(days=3))
    put(silver, "7c9e6679-7425-40de-944b-e07fc1f90ae7", "daily.items", at=NOW - timedelta(days=1))


def test_batches_are_listed_the_newest_first_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quarantine", "list"]) == 0

    told = capsys.readouterr()
    items, orders = NOW - timedelta(days=1), NOW - timedelta(days=3)
    assert told.out.splitlines() == [
        "daily.items in silver/bad",
        f"  7c9e6679  {items:%Y-%m-%d %H:%M}  1 row  open, until {items + timedelta(days=90):%Y-%m-%d}",
        "            ids 1",
        "",
        "daily.orders in silver/bad",
        f"  0f8fad5b  {orders:%Y-%m-%d %H:%M}  1 row  expired",
        "            ids 1",
        "",
    ]
    assert told.err == ""


def test_the_batches_of_one_node_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quarantine", "list", "--node", "orders", "--json"]) == 0

    (batch,) = json.loads(capsys.readouterr().out)
    assert (batch["node"], batch["rows"], batch["state"]) == ("daily.orders", 1, "expired")
    assert batch["location"].endswith("/data/silver/bad/_source_batch_id=0f8fad5b-d9cb-469f-a165-70867728950e")


def test_a_local_quarantine_is_listed_and_emptied_without_spark(tmp_path: Path) -> None:
    program = """
        import sys
        sys.modules["pyspark"] = None
        from headgate.cli.main import run
        assert run(["quarantine", "list"]) == 0
        assert run(["quarantine", "discard", "pipeline.yaml", "items", "--batch", "7c9", "--yes", "--no-server"]) == 0
    """
    lines = "\n".join(line.strip() for line in program.splitlines())
    ended = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=120, check=False)

    assert ended.returncode == 0, ended.stderr
    assert "batch 7c9e6679-7425-40de-944b-e07fc1f90ae7 of daily.items is discarded" in ended.stdout
    assert [path.name for path in (tmp_path / "data/silver/bad").iterdir()] == [
        "_source_batch_id=0f8fad5b-d9cb-469f-a165-70867728950e"
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["discard", "pipeline.yaml", "orders", "--batch", "0f8"], "rows that are discarded do not come back"),
        (["discard", "pipeline.yaml", "orders", "--batch", "zzz", "--yes"], "there is no batch 'zzz' of daily.orders"),
        (["show", "pipeline.yaml", "ordres"], "did you mean 'orders'?"),
        (["show", "pipeline.yaml", "plain"], "node 'plain' has no quarantine"),
        (["show", "pipeline.yaml", "orders", "--output", "rows.xls"], "is none of the formats"),
        (["replay", "pipeline.yaml", "orders", "--rows", "rows.xls"], "is none of the formats"),
        (["list", "--pipeline", "dayly"], "did you mean 'daily'?"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["quarantine", *arguments]) == 2

    assert said in capsys.readouterr().err


def test_nothing_in_quarantine_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").rename(tmp_path / "elsewhere")

    assert run(["quarantine", "list"]) == 0
    assert capsys.readouterr().out == ""
