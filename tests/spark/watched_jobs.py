"""Jobs in a process of their own, and what the server then knows of each thing they did."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from headgate.client import HeadgateClient
from tests.support.live import Live
from tests.support.spark_jobs import run_job
from tests.support.watching import Seen

START = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print("application=" + spark.sparkContext.applicationId)
"""


def watch_job(
    source: str,
    server: Live,
    client: HeadgateClient,
    *,
    jars: Sequence[Path] = (),
    conf: Mapping[str, str] | None = None,
    spark: str | None = None,
) -> list[Seen]:
    """Run the lines after a session was made as `spark`, and return its actions in order."""
    given = dict(conf or {})
    if jars:
        given["spark.jars"] = ",".join(map(str, jars))
    done = run_job(
        START + textwrap.dedent(source) + "\nspark.stop()\n",
        conf=given,
        url=server.url,
        api_key=server.api_key,
        spark=spark,
        timeout_s=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    application = next(line for line in done.stdout.splitlines() if line.startswith("application="))
    runs = client.runs(application_id=application.removeprefix("application="), limit=1000).items
    actions = [run for run in runs if run["parent_run_id"] is not None]
    actions.sort(key=lambda run: (run["started_at"], run["run_id"]))
    return [Seen(client, run["run_id"]) for run in actions]


def writing(seen: Sequence[Seen], name: str) -> list[Seen]:
    """The actions that have an output of this short name."""
    return [each for each in seen if name in each.outputs]


def verbs(seen: Sequence[Seen]) -> list[str]:
    """What the jobs are called between the application's name and the target's."""
    return [each.job.split(".")[1] for each in seen]
