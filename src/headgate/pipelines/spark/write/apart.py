"""Quarantines that are tables: of Delta by path or name, of Iceberg, or any other of a catalog.

Rows of all runs are in one table, partitioned by the run that set them apart; a run replaces its own partition in one
commit, so that one that is done again leaves its batch once. A writer is asked in this order:

1. `check(schema)` before the first job, with the columns of the batch.
2. `stage(rows)` before files of the pass move: the rows are written down, and nothing of the table is touched.
3. `publish()` before the target, which has a commit of its own: should that one fail, the rows are in quarantine under
   this run's id, and a retry replaces them. Asked without rows in staging, it takes away what an earlier try of the
   same run has left.

Folders of plain files are not for this: theirs are renames, which go with those of the target.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.errors import ConfigError
from headgate.pipelines.config.connection import CatalogConnection, ConnectionConfig, FolderConnection
from headgate.pipelines.config.quarantine import QuarantineConfig
from headgate.pipelines.config.write import WriteConfig, WriteMode
from headgate.pipelines.files import Files
from headgate.pipelines.places import Address, Kind
from headgate.pipelines.plan import Node
from headgate.pipelines.publish import BATCH
from headgate.pipelines.record import NodeRecord
from headgate.pipelines.spark.spelling import quoted
from headgate.pipelines.spark.write import Batch, writer
from headgate.pipelines.spark.write.base import literal
from headgate.pipelines.spark.write.lake import DeltaTable
from headgate.pipelines.spark.write.table import provider, table_name

NODE = "_original_node"
REJECTED = "_rejected_at"


def is_table(config: QuarantineConfig) -> bool:
    """Whether a quarantine is one of these."""
    return config.is_table


@dataclass
class TableQuarantine:
    """The quarantine table of a node; `files` is the file system of `staging`, a folder for this node alone."""

    spark: SparkSession
    node: Node
    connection: ConnectionConfig
    files: Files
    staging: str
    run_id: str
    now: datetime

    def __post_init__(self) -> None:
        if not isinstance(self.connection, FolderConnection | CatalogConnection):
            raise ConfigError(
                f"validation.quarantine: {self._address} is neither a folder nor a table of a catalog",
                hint="name a connection of type local, hdfs, s3, gcs, azure, hadoop or catalog",
            )
        self._writer = writer(self.spark, _as_target(self.node), self.connection, self.files)
        self._staged: Batch | None = None

    def check(self, schema: T.StructType) -> None:
        try:
            self._writer.check(_as_kept(schema, _config(self.node)))
        except ConfigError as error:
            raise ConfigError(
                f"validation.quarantine: {error}",
                hint=f"{error.hint}; or name a table that is not there yet: it is made with what it needs",
            ) from None

    def stage(self, rows: DataFrame) -> None:
        folder = f"{self.staging}/apart"
        marked = rows.withColumn(BATCH, F.lit(self.run_id))
        marked.write.mode("overwrite").parquet(folder)
        count = self.spark.read.schema(marked.schema).parquet(folder).count()
        staging = f"{self.staging}/apart_out"
        self._staged = Batch([folder], "parquet", marked.schema, count, staging, self.run_id, self.now)

    def publish(self) -> tuple[str, ...]:
        if self._staged is None:
            self.discard([self.run_id])
            return ()
        self._writer.prepare(self._staged)
        record = NodeRecord(self.node.pipeline.pipeline, self.node.config.name, self.run_id)
        return self._writer.publish(self.run_id, record, None).notes

    def rows(self) -> DataFrame | None:
        """What is there of this node, of all runs; None if nothing ever was."""
        if not self._exists():
            return None
        found = self.spark.table(self._name)
        return found.where(F.col(NODE) == self.node.config.name) if NODE in self._partitions else found

    def discard(self, batch_ids: Collection[str]) -> None:
        """Delete batches of this node."""
        found = self.rows()
        if found is None:
            return
        there = found.where(F.col(BATCH).isin(list(batch_ids))).select(BATCH).distinct().collect()
        for row in there:
            self._delete(row[BATCH])

    def delete_expired(self) -> list[str]:
        """Delete the batches whose time is over, where rows tell when they were set apart; answers which."""
        found, days = self.rows(), _config(self.node).retention_days
        if found is None or days is None or REJECTED not in found.columns:
            return []
        newest = found.groupBy(BATCH).agg(F.max(REJECTED).alias(REJECTED))
        limit = F.lit((self.now - timedelta(days=days)).isoformat()).cast("timestamp")
        gone = sorted(row[BATCH] for row in newest.where(F.col(REJECTED) < limit).collect())
        for batch_id in gone:
            self._delete(batch_id)
        return gone

    def _delete(self, batch_id: str) -> None:
        values = {BATCH: batch_id, NODE: self.node.config.name}
        pairs = [f"{quoted(name)} = {literal(values[name])}" for name in self._partitions]
        if self._kind() in ("delta", "iceberg"):
            self.spark.sql(f"DELETE FROM {self._name} WHERE {' AND '.join(pairs)}").collect()
        else:
            self.spark.sql(f"ALTER TABLE {self._name} DROP IF EXISTS PARTITION ({', '.join(pairs)})")

    def _exists(self) -> bool:
        if self._address.kind is Kind.folder:
            return DeltaTable(self.spark, self._address, self._name).exists()
        return self.spark.catalog.tableExists(self._name)

    def _kind(self) -> str | None:
        return "delta" if self._address.kind is Kind.folder else provider(self.spark, self._name)

    @property
    def _name(self) -> str:
        location = self._address.location
        return f"delta.{quoted(location)}" if self._address.kind is Kind.folder else table_name(location)

    @property
    def _address(self) -> Address:
        assert self.node.quarantine is not None
        return self.node.quarantine

    @property
    def _partitions(self) -> list[str]:
        return partitions(_config(self.node))


def partitions(config: QuarantineConfig) -> list[str]:
    """With the node's name beside the rows, several nodes can share a table and replace their own batches only."""
    return [BATCH, NODE] if config.add_columns.original_node else [BATCH]


def _as_kept(schema: T.StructType, config: QuarantineConfig) -> T.StructType:
    """The batch's columns, and those that are written beside them."""
    wanted = config.add_columns
    added = {
        "_rejection_reason": wanted.rejection_reason and T.StringType(),
        REJECTED: wanted.rejected_at and T.TimestampType(),
        "_failed_tests": wanted.failed_tests and T.ArrayType(T.StringType()),
        NODE: wanted.original_node and T.StringType(),
        BATCH: T.StringType(),
    }
    fields = [T.StructField(name, kind) for name, kind in added.items() if kind and name not in schema.names]
    return T.StructType([*schema.fields, *fields])


def _config(node: Node) -> QuarantineConfig:
    config = node.config.validation.quarantine
    assert config is not None
    return config


def _as_target(node: Node) -> Node:
    """The node as if its quarantine were all that it writes: its batch is a partition that is overwritten."""
    config = _config(node)
    write = WriteConfig(
        connection=config.connection,
        path=config.path,
        table=config.table,
        # What nobody said is up to the table or its catalog.
        format=config.format if "format" in config.model_fields_set else None,
        mode=WriteMode.overwrite_partitions,
        partition_by=partitions(config),
    )
    return replace(
        node, config=node.config.model_copy(update={"write": write}), target=node.quarantine, quarantine=None
    )
