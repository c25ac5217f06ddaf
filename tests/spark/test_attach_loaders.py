"""The agent in a running session whose thread has a class loader that takes no jars."""

from __future__ import annotations

from tests.support.bad_servers import bad_server, taking
from tests.support.spark_jobs import run_job

JOB = """
    import sys
    import headgate.spark
    from headgate.errors import ConfigError
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    thread = spark._jvm.java.lang.Thread.currentThread()
    thread.setContextClassLoader(spark._jvm.java.lang.ClassLoader.getSystemClassLoader())
    attached = headgate.spark.attach(spark, sys.argv[1])
    spark.range(3).write.parquet("during")
    headgate.spark.attach(spark, sys.argv[1])
    print(attached.flush())
    attached.detach()
    del spark._jsparkSession
    try:
        headgate.spark.attach(spark, sys.argv[1])
    except ConfigError as error:
        print(error.message)
"""


def test_the_jar_goes_where_those_of_add_jar_go_and_a_spark_without_that_place_is_told() -> None:
    with bad_server(taking) as server:
        done = run_job(JOB, watch=False, args=[server.url])
        assert done.returncode == 0, done.stderr
        ends = [event for event in server.events if event["eventType"] == "COMPLETE"]
    assert done.stdout.splitlines() == ["True", "the agent was not attached: this Spark takes no jar while it runs"]
    assert [output["name"].split("/")[-1] for end in ends for output in end["outputs"]] == ["during"]
