"""Runs elsewhere than in this process: on Spark Connect, and on a cluster with processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import a_free_port, is_open
from tests.support.spark_jobs import Finished, environment, finish, pyspark_home, spark_minor
from tests.support.up import HEADGATE, wait_until

pytestmark = pytest.mark.slow

CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
PROJECT = """
project: shop
connections:
  lake: {type: local, base_path: data}
spark:
  conf: {spark.sql.shuffle.partitions: 2}
pipelines:
- pipeline: daily
  nodes:
  - name: orders
    read: {connection: lake, path: raw, format: json, columns: "id INT, k INT, day STRING, code STRING"}
    transform: {steps: ["SELECT *, id * 2 AS twice FROM df"]}
    validation:
      tests:
      - {type: not_null, column: k, on_fail: quarantine}
      - {type: unique, column: k, on_fail: quarantine}
      - {type: row_count, min: 1}
      - {type: custom_sql, condition: "CAST(code AS INT) > 0", allow_null: false, on_fail: warn}
      quarantine: {connection: lake, path: bad}
      profile: true
    gate: {require_pass_rate: 0.5}
    write: {connection: lake, path: orders, partition_by: day}
  - name: days
    depends_on: orders
    transform: {steps: ["SELECT day, count(*) AS n FROM orders GROUP BY day"]}
    write: {connection: lake, path: days}
"""
ROWS = [{"id": n, "k": n, "day": f"0{n % 2}", "code": "1"} for n in range(1, 9)]
ROWS += [{"id": 9, "k": None, "day": "00", "code": "1"}, {"id": 10, "k": 1, "day": "01", "code": "x"}]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(PROJECT.lstrip(), encoding="utf-8")
    raw = tmp_path / "data" / "raw"
    raw.mkdir(parents=True)
    (raw / "rows.json").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8")
    return tmp_path


@pytest.mark.skipif(spark_minor() < (4, 0), reason="pyspark 3.5 has no Spark Connect server in it")
def test_project_runs_on_spark_connect_by_its_master_and_by_the_environment(project: Path) -> None:
    port = a_free_port()
    remote = f"sc://127.0.0.1:{port}"
    command = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    command += ["--conf", f"spark.connect.grpc.binding.port={port}", "--class", CONNECT]
    with running(project, "connect", *command) as process:
        wait_until(lambda: is_open(port, process), 180, "the Spark Connect server")
        assert_published(project, run(project, "--master", remote))
        assert_published(project, run(project, SPARK_REMOTE=remote))


def test_project_runs_on_a_cluster(project: Path) -> None:
    port = a_free_port()
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        master = [MASTER, "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        process = stack.enter_context(running(project, "master", *master))
        wait_until(lambda: is_open(port, process), 180, "the master")
        worker = ["--host", "127.0.0.1", "-c", "2", "-m", "1g", "--webui-port", "0", "-d", str(project / "work"), url]
        stack.enter_context(running(project, "worker", WORKER, *worker))
        log = project / "worker.log"
        wait_until(lambda: "Successfully registered with master" in log.read_text(), 180, "the worker")
        done = run(project, "--master", url)
    assert_published(project, done)
    assert list((project / "work").glob("app-*/*/stdout")), "the worker has run nothing"


def run(folder: Path, *options: str, **env: str) -> Finished:
    command = [*HEADGATE, "run", "shop.yaml", "--no-server", "--json", *options]
    return finish(command, cwd=folder, env=environment({"SPARK_LOCAL_IP": "127.0.0.1", **env}), timeout_s=400)


def assert_published(folder: Path, done: Finished) -> None:
    assert done.returncode == 0, done.stderr + done.stdout
    nodes: dict[str, dict[str, Any]] = {
        each["name"]: each for each in json.loads(done.stdout.splitlines()[-1])["nodes"]
    }
    orders, days = nodes["orders"], nodes["days"]
    assert (orders["rows_in"], orders["rows_valid"], orders["rows_quarantined"]) == (10, 7, 3)
    assert (orders["rows_published"], orders["gate"]["pass_rate"], orders["profile"]["k"]["nulls"]) == (7, 0.7, 1)
    assert {test["name"]: test["failed"] for test in orders["tests"]} == {
        "not_null": 1,
        "unique": 2,
        "row_count": 0,
        "custom_sql": 1,
    }
    assert days["rows_published"] == 2
    assert [field["type"] for field in days["schema"]] == ["string", "bigint"]
    assert sorted(each.name for each in (folder / "data" / "orders").glob("day=*")) == ["day=00", "day=01"]
    assert list((folder / "data" / "bad").glob("_source_batch_id=*/*.parquet"))
    assert list((folder / "data" / "days").glob("*.parquet"))


@contextmanager
def running(folder: Path, name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Spark's own, started as its scripts do it."""
    own = {"SPARK_HOME": str(pyspark_home()), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(pyspark_home() / "bin" / "spark-class"), *command],
            cwd=folder,
            env=environment(own),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
