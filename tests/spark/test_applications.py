"""Whole applications: how they begin and end, and what stands above them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headgate.client import HeadgateClient
from tests.support.live import Live
from tests.support.spark_jobs import Finished, run_job

WRITES = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName(sys.argv[1]).getOrCreate()
spark.range(10).selectExpr("id", "id * 2 AS twice").write.parquet("numbers")
print("written")
"""

FAILS = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName(sys.argv[1]).getOrCreate()
spark.range(10).selectExpr("raise_error('too many lemons')").write.parquet("numbers")
"""

SILENTLY = """
import contextlib, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName(sys.argv[1]).getOrCreate()

def act(wanted, silent):
    spark.sparkContext.setLocalProperty("spark.headgate.action.silent", silent)
    with contextlib.suppress(Exception):
        spark.range(10).selectExpr(f"assert_true(id < {wanted}, 'too many lemons') AS checked").collect()

"""

STOPS = """
import sys, threading, time
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName(sys.argv[1]).getOrCreate()
slow = spark.range(1).selectExpr("java_method('java.lang.Thread', 'sleep', 60000L)")
threading.Thread(target=slow.collect, daemon=True).start()
time.sleep(4)
spark.stop()
"""

LOGGING = """
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.headgate.name = headgate
logger.headgate.level = info
"""


def _run(live: Live, source: str, name: str, **options: Any) -> Finished:
    return run_job(source, args=[name], url=live.url, api_key=live.api_key, **options)


def _runs(live: Live, name: str) -> list[dict[str, Any]]:
    with HeadgateClient(live.url, live.api_key) as client:
        latest_first = client.runs(job_name=name).items
        return [client.run(run["run_id"]) for run in reversed(latest_first)]


def test_an_application_completes_below_the_task_that_started_it(watching_server: Live) -> None:
    task, dag = str(uuid4()), str(uuid4())
    above = {
        "OPENLINEAGE_PARENT_ID": f"airflow/shop.load/{task}",
        "OPENLINEAGE_ROOT_PARENT_ID": f"airflow/shop/{dag}",
    }

    finished = _run(watching_server, WRITES, "below_a_task", env=above)

    application, action = _runs(watching_server, "below_a_task")
    assert (finished.returncode, finished.stdout) == (0, "written\n")
    assert application["state"] == action["state"] == "COMPLETE"
    assert (application["parent_run_id"], application["root_run_id"]) == (task, dag)
    assert [parent["job"]["name"] for parent in action["parents"]] == ["below_a_task", "shop.load", "shop"]
    assert action["root_run_id"] == dag


def test_an_application_whose_last_action_failed_has_failed(watching_server: Live) -> None:
    finished = _run(watching_server, FAILS, "fails_at_the_end")

    application, action = _runs(watching_server, "fails_at_the_end")
    assert finished.returncode == 1
    assert (application["state"], action["state"]) == ("FAIL", "FAIL")
    assert "too many lemons" in application["error_detail"]["message"]


@pytest.mark.parametrize(
    ("actions", "states"),
    [
        ("act(5, 'true')", ["COMPLETE"]),
        # It says nothing of what its user has done before either.
        ("act(5, None); act(10, 'true')", ["FAIL", "FAIL"]),
    ],
)
def test_how_a_silent_action_ends_is_not_how_its_application_ends(
    watching_server: Live, actions: str, states: list[str]
) -> None:
    name = f"silent_{len(states)}"
    _run(watching_server, SILENTLY + actions, name)

    assert [run["state"] for run in _runs(watching_server, name)] == states


def test_what_an_application_leaves_unfinished_does_not_stay_open(watching_server: Live) -> None:
    _run(watching_server, STOPS, "stops_early")

    application, action = _runs(watching_server, "stops_early")
    assert application["ended_at"] is not None
    assert action["state"] in {"ABORT", "FAIL"}


def test_the_end_tells_what_became_of_the_events(watching_server: Live, tmp_path: Path) -> None:
    logging = tmp_path / "log4j2.properties"
    logging.write_text(LOGGING)

    finished = _run(
        watching_server,
        WRITES,
        "counts_its_events",
        conf={"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}"},
    )

    assert "Headgate events: 4 sent, 0 retried, 0 spooled, 0 dropped" in finished.stderr


@pytest.mark.slow
def test_the_older_scala_is_served_too(watching_server: Live) -> None:
    finished = _run(watching_server, WRITES, "on_the_older_scala", spark="3.5")

    application, action = _runs(watching_server, "on_the_older_scala")
    assert finished.returncode == 0
    assert action["facets"]["processing_engine"]["version"].startswith("3.5.")
    assert [output["row_count"] for output in action["outputs"]] == [10]
    assert application["state"] == "COMPLETE"
