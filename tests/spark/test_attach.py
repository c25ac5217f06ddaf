"""The agent in a session that already runs, as in a notebook."""

from __future__ import annotations

from headgate.client import HeadgateClient
from tests.support.live import Live
from tests.support.spark_jobs import run_job
from tests.support.watching import short


def test_attached_session_is_watched_from_then_on_until_it_is_detached(watching_server: Live) -> None:
    done = run_job(
        """
        import sys
        import headgate.spark
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.getOrCreate()
        spark.range(3).write.parquet("before")
        attached = headgate.spark.attach(spark, sys.argv[1], sys.argv[2], namespace="notebook")
        spark.range(3).write.parquet("during")
        again = headgate.spark.attach(spark, sys.argv[1], sys.argv[2])
        spark.read.parquet("during").write.parquet("still")
        print(attached.flush(), again.flush(timeout_s=5))
        attached.detach()
        spark.range(3).write.parquet("after")
        print(spark.sparkContext.applicationId)
        print(sys.argv[2] in spark.sparkContext.getConf().toDebugString())
        """,
        watch=False,
        args=[watching_server.url, watching_server.api_key],
    )
    assert done.returncode == 0, done.stderr
    flushed, application, is_key_shown = done.stdout.splitlines()
    assert flushed == "True True"
    assert is_key_shown == "False"
    with HeadgateClient(watching_server.url, watching_server.api_key) as client:
        runs = client.runs(application_id=application, limit=100).items
        outputs = [short(output) for run in runs for output in client.run(run["run_id"])["outputs"]]
    assert sorted(outputs) == ["during", "still"]
    assert {run["job"]["namespace"] for run in runs} == {"notebook"}


def test_attaching_to_nowhere_is_refused_and_the_session_goes_on() -> None:
    done = run_job(
        """
        import headgate.spark
        from headgate.errors import ConfigError
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.getOrCreate()
        try:
            headgate.spark.attach(spark)
        except ConfigError as error:
            print(error.message)
        print(spark.range(3).count())
        """,
        watch=False,
    )
    refusal, count = done.stdout.splitlines()
    assert refusal == "the agent was not attached: it is switched off, or no server is named"
    assert count == "3"
