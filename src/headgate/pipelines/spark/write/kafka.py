"""Topics: rows as the sink wants them, else whole rows as JSON. Each row is sent at least once."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.pipelines.config.connection import KafkaConnection
from headgate.pipelines.config.write import WriteMode
from headgate.pipelines.files import Files
from headgate.pipelines.plan import Node
from headgate.pipelines.publish import Steps
from headgate.pipelines.record import NodeRecord
from headgate.pipelines.spark.read import kafka_options
from headgate.pipelines.spark.spelling import quoted, spark_options
from headgate.pipelines.spark.write.base import (
    Batch,
    Published,
    StagedAsParquet,
    check_format,
    end_leftovers,
    publish_apart,
    refuse_mode,
    target_of,
    write_config,
)

# Columns that Spark's sink knows, and the types it takes for each.
_SINK = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
}


class KafkaWriter(StagedAsParquet):
    """Writes a topic."""

    def __init__(self, spark: SparkSession, node: Node, files: Files, connection: KafkaConnection) -> None:
        self._spark, self._node, self._files, self._connection = spark, node, files, connection
        self._frame: DataFrame | None = None
        self._rows = 0

    def check(self, schema: T.StructType) -> None:
        end_leftovers(self._spark, self._node)
        refuse_mode(write_config(self._node), "topics", {WriteMode.append})
        check_format(self._spark, "kafka")

    def prepare(self, batch: Batch) -> None:
        self._frame, self._rows = to_send(batch.frame(self._spark, self._files)), batch.rows

    def publish(self, run_id: str, record: NodeRecord, quarantine: Steps | None) -> Published:
        notes = publish_apart(self._spark, self._node, run_id, quarantine)
        assert self._frame is not None
        self._frame.write.format("kafka").options(**self.options()).save()
        return Published(None, None, self._rows, notes)

    def options(self) -> dict[str, str]:
        """The connection's options, the block's own, and the topic."""
        mine = spark_options(write_config(self._node).options)
        return kafka_options(self._connection) | mine | {"topic": target_of(self._node).location}


def to_send(frame: DataFrame) -> DataFrame:
    """Rows made of nothing but the sink's own columns as they are; others as one JSON text."""
    kinds = {each.name: each.dataType.simpleString() for each in frame.schema.fields}
    if "value" in kinds and all(kind in _SINK.get(name, ()) for name, kind in kinds.items()):
        return frame
    return frame.select(F.to_json(F.struct(*map(quoted, frame.columns))).alias("value"))
