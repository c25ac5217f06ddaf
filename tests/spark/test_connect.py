"""Spark Connect: the agent is on the server, and what a client without a JVM does is seen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate.client import HeadgateClient
from tests.support.live import Live
from tests.support.ports import a_free_port, is_open
from tests.support.spark_jobs import DEFAULTS, Finished, environment, finish, pyspark_home, spark_minor
from tests.support.up import wait_until
from tests.support.watching import short

pytestmark = pytest.mark.skipif(spark_minor() < (4, 0), reason="pyspark 3.5 has no Spark Connect server in it")

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
CLIENT = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.range(10).selectExpr("id", "id * 2 AS twice").write.parquet(sys.argv[2])
spark.read.parquet(sys.argv[2]).groupBy().sum("twice").write.parquet(sys.argv[3])
print(spark.range(4).count())
spark.stop()
"""
ATTACHING = """
import sys
import headgate.spark
from headgate.errors import ConfigError
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
try:
    headgate.spark.attach(spark, "http://127.0.0.1:1")
except ConfigError as error:
    print(error.message)
spark.stop()
"""


def test_writes_of_a_remote_client_are_seen(tmp_path: Path, watching_server: Live) -> None:
    with a_connect_server(tmp_path, watching_server, namespace="stand-alone") as port:
        done = client(tmp_path, CLIENT, port)
        attaching = client(tmp_path, ATTACHING, port)
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
    assert attaching.stdout.startswith("this session is a Spark Connect client"), attaching.stderr
    assert seen(watching_server, "stand-alone") == [([], ["numbers"]), (["numbers"], ["total"])]


def test_session_that_starts_its_own_connect_server_is_seen(tmp_path: Path, watching_server: Live) -> None:
    (tmp_path / "client.py").write_text(CLIENT)
    to = {"HEADGATE_URL": watching_server.url, "HEADGATE_API_KEY": watching_server.api_key}
    command = [sys.executable, "-m", "headgate.cli.main", "spark", "run", "--namespace", "own-server", "client.py"]
    arguments = ["local[2]", str(tmp_path / "numbers"), str(tmp_path / "total")]
    done = finish([*command, *arguments], cwd=tmp_path, env=environment(to), timeout_s=180)
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
    assert seen(watching_server, "own-server") == [([], ["numbers"]), (["numbers"], ["total"])]


@contextmanager
def a_connect_server(folder: Path, server: Live, *, namespace: str) -> Iterator[int]:
    """A stand-alone Spark Connect server with the agent, started as an administrator would; its port."""
    port = a_free_port()
    conf = DEFAULTS | {"spark.connect.grpc.binding.port": str(port)}
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    own = {"SPARK_HOME": str(pyspark_home()), "HEADGATE_API_KEY": server.api_key, "HEADGATE_NAMESPACE": namespace}
    command = [sys.executable, "-m", "headgate.cli.main", "spark", "submit", "--url", server.url]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--", *options, "--class", SERVER],
            cwd=folder,
            env=environment(own),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_until(lambda: is_open(port, process), 120, "the Spark Connect server")
        yield port
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def client(folder: Path, source: str, port: int) -> Finished:
    """A script on the server at a port, in a process that has no JVM."""
    arguments = [f"sc://127.0.0.1:{port}", str(folder / "numbers"), str(folder / "total")]
    return finish([sys.executable, "-c", source, *arguments], cwd=folder, env=environment(), timeout_s=120)


def seen(server: Live, namespace: str) -> list[tuple[list[str], list[str]]]:
    """Inputs and outputs of each write in a namespace, the earliest first."""
    with HeadgateClient(server.url, server.api_key) as client:
        runs = client.runs(limit=1000).items
        details: list[dict[str, Any]] = [
            client.run(run["run_id"]) for run in runs if run["job"]["namespace"] == namespace
        ]
    details.sort(key=lambda run: str(run["started_at"]))
    return [(names(run["inputs"]), names(run["outputs"])) for run in details if run["outputs"]]


def names(datasets: list[dict[str, Any]]) -> list[str]:
    return [short(dataset) for dataset in datasets]
