"""Bringing a staged batch to its target.

A node's writer is asked five times, in this order:

1. `check(schema)` before the first job: columns, types, jars; what a dead run has left half done is ended.
2. `stage_format()`, `stage_partitions()`, `stage_options()`: how the pass is to write its rows, so that those of a
   folder need no second write.
3. `prepare(batch)` once it is decided that rows are published: all that costs Spark jobs, and nothing of the target
   is touched. Rows of the lots that are set apart have to be written by then: staged files may move.
4. `publish(run_id, record, quarantine)`: folders by renames in one journal entry together with the quarantine, which
   are done file by file where a store has no folders; tables and databases by one commit of their own, after the
   quarantine. A run that is done again, whether or not the first try came this far, publishes its rows once: what
   replaces rows is done again, what adds them is not if it is there already.

If the batch is not published, `prepare` and `publish` are not called.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headgate.pipelines.config.connection import (
    CatalogConnection,
    ConnectionConfig,
    FolderConnection,
    JdbcConnection,
    KafkaConnection,
)
from headgate.pipelines.files import Files
from headgate.pipelines.places import Kind
from headgate.pipelines.plan import Node
from headgate.pipelines.publish import STATE, state_folder
from headgate.pipelines.spark.session import is_connect
from headgate.pipelines.spark.write.base import Batch, Published, Writer, write_config
from headgate.pipelines.spark.write.folder import FolderWriter
from headgate.pipelines.spark.write.jdbc import JdbcWriter
from headgate.pipelines.spark.write.kafka import KafkaWriter
from headgate.pipelines.spark.write.lake import LakePathWriter
from headgate.pipelines.spark.write.table import TableWriter

__all__ = ["Batch", "Published", "Writer", "staging_root", "writer"]


def writer(spark: SparkSession, node: Node, connection: ConnectionConfig, files: Files) -> Writer:
    """The writer of a node's target; `files` is the file system of `staging_root`."""
    if isinstance(connection, CatalogConnection):
        return TableWriter(spark, node, files)
    if isinstance(connection, JdbcConnection):
        return JdbcWriter(spark, node, files, connection)
    if isinstance(connection, KafkaConnection):
        return KafkaWriter(spark, node, files, connection)
    assert isinstance(connection, FolderConnection)
    if write_config(node).format in ("delta", "iceberg"):
        return LakePathWriter(spark, node, files)
    return FolderWriter(spark, node, files)


def staging_root(spark: SparkSession, node: Node, project: Path) -> str:
    """Where a node stages: beside a folder that it writes, else where the session keeps its own tables."""
    for each in (node.target, node.quarantine):
        if each is not None and each.kind is Kind.folder:
            return state_folder(each.location)
    if is_connect(spark) or not str(spark.sparkContext.master).startswith("local"):
        return f"{spark.conf.get('spark.sql.warehouse.dir')}/{STATE}"
    return str(project / STATE)
