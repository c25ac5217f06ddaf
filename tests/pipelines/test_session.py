"""Sessions that somebody has opened before: they are used, and left running."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.pipelines.spark.preflight import application
from headgate.pipelines.spark.session import remote_of
from tests.unit.pipelines.samples import plan_of, with_nodes

URL = "sc://127.0.0.1:1/;token=abc;session_id=00112233-4455-6677-8899-aabbccddeeff"
NODES = "- {name: a, read: {connection: bronze, path: a}}"


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session of Spark Connect; its server is asked nothing, and so there is none."""
    remote = pytest.importorskip("pyspark.sql.connect.session").SparkSession
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    session = remote.builder.remote(URL).create()
    yield session
    session.release_session_on_close = False
    session.stop()


def test_session_of_this_machine_that_was_there_is_left_running(spark: SparkSession, tmp_path: Path) -> None:
    with application(plan_of(tmp_path, with_nodes(NODES)), None, {}) as found:
        assert found.sparkContext is spark.sparkContext

    assert spark.range(3).count() == 3


def test_session_of_spark_connect_that_was_there_is_used_by_any_thread_and_left_running(
    connected: SparkSession, tmp_path: Path
) -> None:
    found: list[SparkSession] = []

    def used() -> None:
        with application(plan_of(tmp_path, with_nodes(NODES)), None, {}) as session:
            found.append(session)

    thread = threading.Thread(target=used)
    thread.start()
    thread.join()

    assert found == [connected]
    assert not connected.is_stopped  # type: ignore[attr-defined]


def test_server_of_a_session_is_known_without_the_environment(connected: SparkSession) -> None:
    assert remote_of(connected) == "sc://127.0.0.1:1/;token=abc"
