"""Tables of a catalog. Plain ones are written from staging by INSERT, which Spark does not undo when it dies half way;
a run that is done again sees by a property of the table whether its rows are in.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 - as everybody calls it

from headgate.errors import ConfigError
from headgate.pipelines.config.write import KEYED, WriteMode
from headgate.pipelines.files import Files
from headgate.pipelines.plan import Node
from headgate.pipelines.publish import Steps
from headgate.pipelines.record import NodeRecord
from headgate.pipelines.spark.hadoop import HadoopFiles
from headgate.pipelines.spark.session import is_connect
from headgate.pipelines.spark.spelling import quoted, spark_options
from headgate.pipelines.spark.write import keyed
from headgate.pipelines.spark.write.align import aligned, fit
from headgate.pipelines.spark.write.base import (
    ADDS,
    ONCE,
    Batch,
    Published,
    StagedAsParquet,
    Writer,
    check_columns,
    check_format,
    check_partitions,
    end_leftovers,
    literal,
    publish_apart,
    target_of,
    write_config,
)
from headgate.pipelines.spark.write.lake import DeltaTable, IcebergTable, LakeWriter, conf

_DYNAMIC = "spark.sql.sources.partitionOverwriteMode"


class TableWriter(StagedAsParquet):
    """Writes a table of whatever format it has: a Delta or Iceberg table by commits, others by INSERT."""

    def __init__(self, spark: SparkSession, node: Node, files: Files) -> None:
        self._spark, self._node, self._files = spark, node, files
        self._writer: Writer | None = None

    def _found(self) -> Writer:
        # Found when it is first needed: the catalog is asked, which may be far away.
        if self._writer is None:
            self._writer = self._choose()
        return self._writer

    def _choose(self) -> Writer:
        target, config = target_of(self._node), write_config(self._node)
        name = table_name(target.location)
        kind = provider(self._spark, name) or config.format or self._default(target.location)
        if config.format is not None and config.format != kind and config.mode is not WriteMode.overwrite:
            raise ConfigError(
                f"{target} is a table of {kind}, and write.format says {config.format}", hint="leave format out"
            )
        if kind in ("delta", "iceberg"):
            check_format(self._spark, kind)
            lake = DeltaTable(self._spark, target, name) if kind == "delta" else IcebergTable(self._spark, name)
            return LakeWriter(self._spark, self._node, self._files, lake)
        return PlainTableWriter(self._spark, self._node, self._files, kind)

    def _default(self, name: str) -> str:
        """What a new table becomes: the format that its catalog is there for."""
        catalog = name.split(".")[0] if name.count(".") > 1 else "spark_catalog"
        made_by = str(self._spark.conf.get(f"spark.sql.catalog.{catalog}", "") or "").lower()
        return next((kind for kind in ("iceberg", "delta") if kind in made_by), "parquet")

    def check(self, schema: T.StructType) -> None:
        self._found().check(schema)

    def prepare(self, batch: Batch) -> None:
        self._found().prepare(batch)

    def publish(self, run_id: str, record: NodeRecord, quarantine: Steps | None) -> Published:
        return self._found().publish(run_id, record, quarantine)


class PlainTableWriter(StagedAsParquet):
    """Writes a table of files."""

    def __init__(self, spark: SparkSession, node: Node, files: Files, kind: str) -> None:
        self._spark, self._node, self._files, self._kind = spark, node, files, kind
        self._config, self._target = write_config(node), target_of(node)
        self._name = table_name(self._target.location)
        self._frame: DataFrame | None = None
        self._mode, self._rows = self._config.mode, 0
        self._notes: tuple[str, ...] = ()

    def check(self, schema: T.StructType) -> None:
        end_leftovers(self._spark, self._node)
        check_columns(schema, self._config, keyed.added_columns(self._config))
        check_format(self._spark, self._kind)
        if self._config.mode is WriteMode.scd2:
            keyed.check_history(schema, self._config)
        self._fitted(schema)

    def _fitted(self, schema: T.StructType) -> T.StructType:
        """The table's columns, which INSERT cannot add to."""
        whole = keyed.target_schema(schema, self._config)
        if self._config.mode is WriteMode.overwrite or not self._exists():
            return whole
        found = fit(whole, self._spark.table(self._name).schema, self._target.label)
        if found.added:
            raise ConfigError(
                f"{self._target} has no column {', '.join(found.added)}",
                hint="add it by ALTER TABLE ... ADD COLUMNS, drop it in transform, or say mode: overwrite",
            )
        # A table knows its partitions itself; what the block says of them has to be so.
        if self._config.partition_by:
            check_partitions(self._config, self._partitions(), self._target.label)
        return found.schema

    def prepare(self, batch: Batch) -> None:
        self._mode, self._rows, self._notes = self._config.mode, batch.rows, ()
        frame: DataFrame | None = batch.frame(self._spark, self._files)
        assert frame is not None
        if self._config.mode in KEYED:
            frame = self._merged(batch, frame)
        self._frame = None if frame is None else aligned(frame, self._fitted(batch.schema))

    def _merged(self, batch: Batch, frame: DataFrame) -> DataFrame | None:
        merged = keyed.merge(
            self._spark,
            self._config,
            frame,
            self._spark.table(self._name) if self._exists() else None,
            rows=batch.rows,
            now=batch.now,
            staging=batch.staging,
            label=self._target.label,
        )
        self._rows, self._notes = merged.rows, merged.notes
        if merged.is_nothing:
            return None
        self._mode = WriteMode.overwrite if merged.is_whole else WriteMode.append
        # A table cannot be overwritten by what is being read from it.
        merged.frame.write.mode("overwrite").parquet(f"{batch.staging}/merged")
        return self._spark.read.schema(merged.frame.schema).parquet(f"{batch.staging}/merged")

    def publish(self, run_id: str, record: NodeRecord, quarantine: Steps | None) -> Published:
        notes = publish_apart(self._spark, self._node, run_id, quarantine)
        if self._config.mode in ADDS and self._exists() and self._last_run() == run_id:
            return Published(None, None, self._rows, (*notes, ONCE))
        if self._frame is None:
            return Published(0, 0, 0, (*self._notes, *notes))
        before = self._inside()
        self._insert(self._frame)
        mark = f"{literal(self._property)} = {literal(run_id)}"
        self._spark.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ({mark})")
        new = self._inside() - before
        return Published(len(new), self._size(new), self._rows, (*self._notes, *notes))

    def _size(self, paths: set[str]) -> int | None:
        if is_connect(self._spark):
            return None
        files = HadoopFiles(self._spark)
        return sum(files.size(unquote(path)) for path in paths)

    @property
    def _property(self) -> str:
        return f"headgate.run.{re.sub(r'[^A-Za-z0-9_.-]', '_', self._node.job_name)}"

    def _last_run(self) -> str | None:
        rows = self._spark.sql(f"SHOW TBLPROPERTIES {self._name}").collect()
        return next((row["value"] for row in rows if row["key"] == self._property), None)

    def _exists(self) -> bool:
        return self._spark.catalog.tableExists(self._name)

    def _inside(self) -> set[str]:
        return set(self._spark.table(self._name).inputFiles()) if self._exists() else set()

    def _insert(self, frame: DataFrame) -> None:
        is_new = not self._exists()
        if is_new or (self._mode is WriteMode.overwrite and not self._has_columns_of(frame)):
            writer = frame.write.mode("overwrite").format(self._kind).options(**spark_options(self._config.options))
            writer.partitionBy(*self._config.partition_by).saveAsTable(self._name)
            return
        # By position: the columns go in the table's own order, partitions last.
        ordered = aligned(frame, self._spark.table(self._name).schema)
        how = "dynamic" if self._mode is WriteMode.overwrite_partitions else "static"
        with conf(self._spark, {_DYNAMIC: how}):
            ordered.write.insertInto(self._name, overwrite=self._mode is not WriteMode.append)

    def _has_columns_of(self, frame: DataFrame) -> bool:
        there = self._spark.table(self._name)
        return _columns(there) == _columns(frame) and self._partitions() == self._config.partition_by

    def _partitions(self) -> list[str]:
        return [each.name for each in self._spark.catalog.listColumns(self._name) if each.isPartition]


def _columns(frame: DataFrame) -> dict[str, str]:
    return {each.name.lower(): each.dataType.simpleString() for each in frame.schema.fields}


def table_name(location: str) -> str:
    """Each part in quotes, since a name may hold anything."""
    return ".".join(part if part.startswith("`") else quoted(part) for part in location.split("."))


def provider(spark: SparkSession, name: str) -> str | None:
    """The format of a table that is there."""
    if not spark.catalog.tableExists(name):
        return None
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    return next((str(row["data_type"]).lower() for row in rows if row["col_name"] == "Provider"), None)
