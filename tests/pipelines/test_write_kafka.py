"""What is handed to Kafka's sink. No broker: only the rows and the options are looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.errors import ConfigError
from headgate.pipelines.spark.write.kafka import KafkaWriter, to_send
from tests.pipelines.writing import Target

HEAD = "  bus: {type: kafka, bootstrap_servers: 'k1:9092', options: {kafka.security.protocol: SSL}}\n"


def test_rows_that_are_messages_go_as_they_are(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'k' AS key, 'v' AS value, array(named_struct('key', 'h', 'value', X'01')) AS headers")

    assert to_send(frame).columns == ["key", "value", "headers"]


@pytest.mark.parametrize(
    "query",
    ["SELECT 1 AS id, 'v' AS value", "SELECT 5 AS value", "SELECT 'k' AS key", "SELECT 1 AS key, 'v' AS value"],
    ids=["other columns", "value is a number", "no value", "key is a number"],
)
def test_other_rows_go_whole_as_json(spark: SparkSession, query: str) -> None:
    frame = spark.sql(query)
    (row,) = to_send(frame).collect()

    assert to_send(frame).columns == ["value"]
    assert json.loads(row["value"]) == frame.first().asDict()  # type: ignore[union-attr]


def test_a_staged_batch_becomes_messages_with_the_options_of_connection_and_block(
    spark: SparkSession, tmp_path: Path
) -> None:
    block = "connection: bus, topic: orders, options: {kafka.acks: all, includeHeaders: true}"
    target = Target(spark, tmp_path, block, head=HEAD)
    into = target.writer()
    assert isinstance(into, KafkaWriter)
    into.prepare(target.stage(spark.sql("SELECT 1 AS id, 'a.b' AS `x.y`"), "run", into))

    assert into._frame is not None
    assert [json.loads(row["value"]) for row in into._frame.collect()] == [{"id": 1, "x.y": "a.b"}]
    assert into.options() == {
        "kafka.bootstrap.servers": "k1:9092",
        "kafka.security.protocol": "SSL",
        "kafka.acks": "all",
        "includeHeaders": "true",
        "topic": "orders",
    }


def test_a_session_without_the_connector_is_told_before_the_pass(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: bus, topic: orders", head=HEAD)
    with pytest.raises(ConfigError, match="this session has no kafka") as refused:
        target.writer().check(spark.createDataFrame([], "id INT").schema)
    assert "spark-sql-kafka" in str(refused.value.hint)
