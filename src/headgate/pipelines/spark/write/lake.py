"""Delta and Iceberg: each write is one commit of the table's own, which bears the run's id and is done once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.errors import ConfigError
from headgate.pipelines.config.write import WriteConfig, WriteMode
from headgate.pipelines.files import Files
from headgate.pipelines.places import Address
from headgate.pipelines.plan import Node
from headgate.pipelines.publish import Steps
from headgate.pipelines.record import NodeRecord
from headgate.pipelines.spark.spelling import quoted, spark_options
from headgate.pipelines.spark.write import keyed
from headgate.pipelines.spark.write.align import aligned, fit
from headgate.pipelines.spark.write.base import (
    ADDS,
    ONCE,
    Batch,
    Published,
    StagedAsParquet,
    check_columns,
    check_format,
    check_partitions,
    end_leftovers,
    literal,
    publish_apart,
    target_of,
    write_config,
)

# The property of an Iceberg snapshot that says whose it is.
_COMMIT = "headgate-commit"
# How many of the last commits are looked through for one of this run: a try is not done again long after.
_LAST_COMMITS = 100


@dataclass(frozen=True)
class Commit:
    """One write: the rows, how they meet those there, and the name by which the table knows it again."""

    frame: DataFrame
    mode: WriteMode
    config: WriteConfig
    id: str
    is_new: bool


class Lake(Protocol):
    """A table format with commits."""

    @property
    def marks_merges(self) -> bool:
        """Whether a MERGE can bear the run's id; what is added by one that cannot is worked out before."""
        ...

    def exists(self) -> bool: ...

    def read(self) -> DataFrame: ...

    def partitions(self) -> list[str]:
        """Columns that the table is partitioned by."""
        ...

    def has(self, commit_id: str) -> bool:
        """Whether this was committed before."""
        ...

    def commit(self, commit: Commit) -> None: ...

    def figures(self, commit_id: str) -> Mapping[str, int]:
        """Files, bytes and rows that a commit has added, as far as the format tells."""
        ...


class LakeWriter(StagedAsParquet):
    """Writes a table that has commits."""

    def __init__(self, spark: SparkSession, node: Node, files: Files, lake: Lake) -> None:
        self._spark, self._node, self._files, self._lake = spark, node, files, lake
        self._config, self._target = write_config(node), target_of(node)
        self._frame: DataFrame | None = None
        self._mode, self._rows = self._config.mode, 0
        self._notes: tuple[str, ...] = ()

    def check(self, schema: T.StructType) -> None:
        end_leftovers(self._spark, self._node)
        check_columns(schema, self._config, keyed.added_columns(self._config))
        if self._config.mode is WriteMode.scd2:
            keyed.check_history(schema, self._config)
        if self._config.mode is WriteMode.overwrite or not self._lake.exists():
            return
        fit(keyed.target_schema(schema, self._config), self._lake.read().schema, self._target.label)
        # A table knows its partitions itself; what the block says of them has to be so.
        if self._config.partition_by:
            check_partitions(self._config, self._lake.partitions(), self._target.label)

    def prepare(self, batch: Batch) -> None:
        self._mode, self._rows, self._notes = self._config.mode, batch.rows, ()
        self._frame = batch.frame(self._spark, self._files)
        if self._mode is WriteMode.scd2 or (self._mode is WriteMode.append_once and not self._lake.marks_merges):
            self._merge(batch)
        elif self._mode is not WriteMode.overwrite and self._lake.exists():
            self._frame = aligned(self._frame, fit(batch.schema, self._lake.read().schema, self._target.label).schema)
        if self._mode is WriteMode.upsert:
            keyed.check_repeats(batch.frame(self._spark, self._files), self._config.keys)

    def publish(self, run_id: str, record: NodeRecord, quarantine: Steps | None) -> Published:
        notes = publish_apart(self._spark, self._node, run_id, quarantine)
        commit_id = f"headgate:{self._node.job_name}:{run_id}"
        is_new = not self._lake.exists()
        if not is_new and self._config.mode in ADDS and self._lake.has(commit_id):
            return Published(None, None, self._rows, (*notes, ONCE))
        if self._frame is None:
            return Published(0, 0, 0, (*self._notes, *notes))
        self._lake.commit(Commit(self._frame, self._mode, self._config, commit_id, is_new))
        return self._published(commit_id, notes)

    def _published(self, commit_id: str, notes: tuple[str, ...]) -> Published:
        found, rows, told = self._lake.figures(commit_id), self._rows, self._notes
        if self._mode is WriteMode.append_once and "rows" in found:
            rows, told = found["rows"], (*told, *keyed.left_out(self._rows - found["rows"]))
        return Published(found.get("files"), found.get("bytes"), rows, (*told, *notes))

    def _merge(self, batch: Batch) -> None:
        existing = self._lake.read() if self._lake.exists() else None
        assert self._frame is not None
        merged = keyed.merge(
            self._spark,
            self._config,
            self._frame,
            existing,
            rows=batch.rows,
            now=batch.now,
            staging=batch.staging,
            label=self._target.label,
        )
        self._mode = WriteMode.overwrite if merged.is_whole else WriteMode.append
        self._rows, self._notes = merged.rows, merged.notes
        if merged.is_nothing:
            self._frame = None
            return
        merged.frame.write.mode("overwrite").parquet(f"{batch.staging}/merged")
        self._frame = self._spark.read.schema(merged.frame.schema).parquet(f"{batch.staging}/merged")


class LakePathWriter(LakeWriter):
    """Writes a Delta table that is known by its folder."""

    def __init__(self, spark: SparkSession, node: Node, files: Files) -> None:
        target, config = target_of(node), write_config(node)
        if config.format == "iceberg":
            raise ConfigError(
                f"{target}: Iceberg tables are written by their name in a catalog and not by a path",
                hint="add a connection of type catalog, and say table instead of path",
            )
        super().__init__(spark, node, files, DeltaTable(spark, target, f"delta.{quoted(target.location)}"))

    def check(self, schema: T.StructType) -> None:
        check_format(self._spark, "delta")
        super().check(schema)


@dataclass(frozen=True)
class DeltaTable:
    """A Delta table, by path or by name."""

    spark: SparkSession
    target: Address
    name: str
    marks_merges = True

    def exists(self) -> bool:
        if not self._is_path:
            return self.spark.catalog.tableExists(self.name)
        try:
            return bool(self.spark.sql(f"DESCRIBE DETAIL {self.name}").first())
        except PySparkException as error:
            if any(
                word in str(error)
                for word in ("DELTA_TABLE_NOT_FOUND", "DELTA_MISSING", "PATH_NOT_FOUND", "not a Delta")
            ):
                return False
            raise

    def read(self) -> DataFrame:
        return self.spark.table(self.name)

    def partitions(self) -> list[str]:
        row = self.spark.sql(f"DESCRIBE DETAIL {self.name}").first()
        return [] if row is None else list(row["partitionColumns"])

    def has(self, commit_id: str) -> bool:
        # Delta itself leaves out a write whose id it has; here it is only asked whether to tell.
        return self._metrics(commit_id) is not None

    def _metrics(self, commit_id: str) -> dict[str, str] | None:
        history = self.spark.sql(f"DESCRIBE HISTORY {self.name} LIMIT {_LAST_COMMITS}")
        row = history.where(F.col("userMetadata") == commit_id).orderBy(F.col("version").desc()).first()
        return None if row is None else dict(row["operationMetrics"] or {})

    def commit(self, commit: Commit) -> None:
        if commit.mode in (WriteMode.upsert, WriteMode.append_once) and not commit.is_new:
            self._merge(commit)
            return
        options = self._options(commit)
        if commit.mode is WriteMode.overwrite_partitions and not commit.is_new and not self._is_path:
            # To save a table over one that is there is to replace all of it.
            commit.frame.writeTo(self.name).options(**options).overwritePartitions()
            return
        writer = commit.frame.write.format("delta").mode("append" if commit.mode in ADDS else "overwrite")
        writer = writer.options(**options).partitionBy(*commit.config.partition_by)
        if self._is_path:
            writer.save(self.target.location)
        else:
            writer.saveAsTable(self.name)

    @property
    def _is_path(self) -> bool:
        return self.name.startswith("delta.")

    def _options(self, commit: Commit) -> dict[str, str]:
        options = {"userMetadata": commit.id}
        if commit.mode in ADDS:
            options |= {"txnAppId": commit.id, "txnVersion": "1"}
        if commit.mode is WriteMode.overwrite_partitions and not commit.is_new:
            options |= {"partitionOverwriteMode": "dynamic"}
        options |= {"overwriteSchema" if commit.mode is WriteMode.overwrite else "mergeSchema": "true"}
        return options | spark_options(commit.config.options)

    def _merge(self, commit: Commit) -> None:
        settings = {
            "spark.databricks.delta.schema.autoMerge.enabled": "true",
            "spark.databricks.delta.write.txnAppId": commit.id,
            "spark.databricks.delta.write.txnVersion": "1",
            "spark.databricks.delta.commitInfo.userMetadata": commit.id,
        }
        with conf(self.spark, settings):
            self.spark.sql(merge_statement(commit, self.name)).collect()

    def figures(self, commit_id: str) -> Mapping[str, int]:
        found = self._metrics(commit_id) or {}
        names = {
            "files": ("numFiles", "numTargetFilesAdded"),
            "bytes": ("numOutputBytes", "numTargetBytesAdded"),
            "rows": ("numTargetRowsInserted", "numOutputRows"),
        }
        return {key: int(found[name]) for key, known in names.items() for name in reversed(known) if name in found}


@dataclass(frozen=True)
class IcebergTable:
    """An Iceberg table of a catalog.

    Columns that are new to it are added by a commit before the one with the rows. A MERGE bears no id: that it was
    done is told by a property of the table, which is set right after it.
    """

    spark: SparkSession
    name: str
    marks_merges = False

    def exists(self) -> bool:
        return self.spark.catalog.tableExists(self.name)

    def read(self) -> DataFrame:
        return self.spark.table(self.name)

    def partitions(self) -> list[str]:
        return table_partitions(self.spark, self.name)

    def has(self, commit_id: str) -> bool:
        return self._summary(commit_id) is not None or self._property() == commit_id

    def _summary(self, commit_id: str) -> dict[str, str] | None:
        snapshots = self.spark.table(f"{self.name}.snapshots").where(F.col("summary")[_COMMIT] == commit_id)
        row = snapshots.orderBy(F.col("committed_at").desc()).first()
        return None if row is None else dict(row["summary"])

    def _property(self) -> str | None:
        rows = self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()
        return next((row["value"] for row in rows if row["key"] == _COMMIT), None)

    def commit(self, commit: Commit) -> None:
        if commit.is_new or commit.mode is WriteMode.overwrite:
            self._make(commit)
            return
        self._add_columns(commit.frame.schema)
        if commit.mode is WriteMode.upsert:
            self._merge(commit)
        elif commit.mode is WriteMode.overwrite_partitions:
            self._writer(commit).overwritePartitions()
        else:
            self._writer(commit).append()

    def _writer(self, commit: Commit) -> DataFrameWriterV2:
        writer = commit.frame.writeTo(self.name).option(f"snapshot-property.{_COMMIT}", commit.id)
        return writer.options(**spark_options(commit.config.options))

    def _make(self, commit: Commit) -> None:
        writer = self._writer(commit).using("iceberg")
        columns = [F.col(quoted(name)) for name in commit.config.partition_by]
        (writer.partitionedBy(*columns) if columns else writer).createOrReplace()

    def _merge(self, commit: Commit) -> None:
        self.spark.sql(merge_statement(commit, self.name)).collect()
        self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ('{_COMMIT}' = {literal(commit.id)})")

    def _add_columns(self, schema: T.StructType) -> None:
        there = {name.lower() for name in self.read().columns}
        new = [f"{quoted(f.name)} {f.dataType.simpleString()}" for f in schema.fields if f.name.lower() not in there]
        if new:
            self.spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({', '.join(new)})")

    def figures(self, commit_id: str) -> Mapping[str, int]:
        summary = self._summary(commit_id) or {}
        names = {"files": "added-data-files", "bytes": "added-files-size"}
        return {key: int(summary[name]) for key, name in names.items() if name in summary}


def table_partitions(spark: SparkSession, name: str) -> list[str]:
    """Columns that a table is partitioned by, outermost first; of a transform, the one that it is of."""
    rows = [(str(row[0]), str(row[1])) for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    titles = [text for text, _ in rows]
    if "# Partition Information" in titles:
        listed = titles[titles.index("# Partition Information") + 2 :]
        return listed[: next((n for n, text in enumerate(listed) if not text or text.startswith("#")), len(listed))]
    transforms = [how for text, how in rows if re.fullmatch(r"Part \d+", text)]
    return [re.sub(r"^\w+\(|\)$", "", how).split(",")[-1].strip().strip("`") for how in transforms]


def merge_statement(commit: Commit, table: str) -> str:
    """MERGE by the keys; the batch is a view of the session."""
    view = "_headgate_batch"
    commit.frame.createOrReplaceTempView(view)
    same = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in commit.config.keys)
    matched = "WHEN MATCHED THEN UPDATE SET * " if commit.mode is WriteMode.upsert else ""
    return f"MERGE INTO {table} t USING {view} s ON {same} {matched}WHEN NOT MATCHED THEN INSERT *"


@contextmanager
def conf(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for a while."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, was in before.items():
            if was is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, was)
