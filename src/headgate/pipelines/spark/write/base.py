"""What all writers share: the batch they are given, what they answer, and how they are asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.errors import ConfigError
from headgate.pipelines.config.wording import nearest
from headgate.pipelines.config.write import WriteConfig, WriteMode
from headgate.pipelines.files import Files
from headgate.pipelines.journal import Journal
from headgate.pipelines.places import Address, Kind
from headgate.pipelines.plan import Node
from headgate.pipelines.publish import Steps, journal_folder, publish
from headgate.pipelines.record import NodeRecord
from headgate.pipelines.spark.hadoop import files_for
from headgate.pipelines.spark.spelling import nullable, quoted

ONCE = "this run's rows were there already: an earlier try had published them"
# Rows that come twice if such a run is done twice; what other modes do, they can do again.
ADDS = (WriteMode.append, WriteMode.upsert, WriteMode.append_once)
_PACKAGES = {
    "avro": "org.apache.spark:spark-avro_2.13:<version of Spark>",
    "delta": "io.delta:delta-spark_2.13:<version>",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-<version of Spark>_2.13:<version>",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:<version of Spark>",
}


@dataclass(frozen=True)
class Batch:
    """Rows that may go to the target, as they lie in staging; `staging` is a folder for what is made of them."""

    folders: Sequence[str]
    format: str
    schema: T.StructType
    rows: int
    staging: str
    run_id: str
    now: datetime

    def frame(self, spark: SparkSession, files: Files) -> DataFrame:
        """The rows. Each folder is read for itself: together they would be partitions of nothing."""
        schema = nullable(self.schema)
        there = [folder for folder in self.folders if files.exists(folder)]
        frames = [spark.read.format(self.format).schema(schema).load(folder) for folder in there]
        frames = [frame.select(*map(quoted, schema.names)) for frame in frames]
        return reduce(DataFrame.unionByName, frames) if frames else spark.createDataFrame([], schema)


@dataclass(frozen=True)
class Published:
    """What the target got: files and bytes where they are known, rows of the batch, and what is worth telling."""

    files: int | None
    bytes: int | None
    rows: int
    notes: tuple[str, ...] = ()


class Writer(Protocol):
    """Brings rows to one target; see the package for the order in which it is asked."""

    def check(self, schema: T.StructType) -> None: ...

    def stage_format(self) -> str: ...

    def stage_partitions(self) -> list[str]: ...

    def stage_options(self) -> dict[str, str]: ...

    def prepare(self, batch: Batch) -> None: ...

    def publish(self, run_id: str, record: NodeRecord, quarantine: Steps | None) -> Published: ...


class StagedAsParquet:
    """For writers whose target is no folder of files: the pass writes them whatever is read fastest."""

    def stage_format(self) -> str:
        return "parquet"

    def stage_partitions(self) -> list[str]:
        return []

    def stage_options(self) -> dict[str, str]:
        return {}


def write_config(node: Node) -> WriteConfig:
    assert node.config.write is not None
    return node.config.write


def target_of(node: Node) -> Address:
    assert node.target is not None
    return node.target


def literal(text: str) -> str:
    """A text as SQL writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def check_columns(schema: T.StructType, config: WriteConfig, also: Collection[str] = ()) -> None:
    """Keys, partitions and columns of the history have to be there; `also` are those that the writer adds."""
    known = {name.lower(): name for name in (*schema.names, *also)}
    for field, names in (("keys", config.keys), ("partition_by", config.partition_by)):
        for name in names:
            if name.lower() not in known:
                raise _no_column(f"write.{field}", name, known.values())
    if config.partition_by and len(config.partition_by) >= len(schema.names) + len(also):
        raise ConfigError("write.partition_by names all columns, and none is left to be written", hint="leave one out")
    if config.history is not None:
        for name in (*config.history.track, *filter(None, [config.history.effective_at])):
            if name.lower() not in known:
                raise _no_column("write.history", name, known.values())


def check_partitions(config: WriteConfig, found: Sequence[str], label: str) -> None:
    """Rows of a target stay in the partitions that it has; a replaced one gets those of the block."""
    wanted = config.partition_by
    if config.mode is WriteMode.overwrite or [each.lower() for each in found] == [each.lower() for each in wanted]:
        return
    raise ConfigError(
        f"{label} is partitioned by {', '.join(found) or 'nothing'}, and write.partition_by says "
        f"{', '.join(wanted) or 'nothing'}",
        hint="say the same, or replace the target by mode: overwrite",
    )


def _no_column(field: str, name: str, known: Collection[str]) -> ConfigError:
    return ConfigError(
        f"{field}: there is no column {name!r}", hint=nearest(name, known) or f"its columns: {', '.join(known)}"
    )


def check_format(spark: SparkSession, name: str) -> None:
    """Some formats are in jars of their own; without them Spark's error would come after the pass."""
    if name not in _PACKAGES:
        return
    try:
        _ = spark.read.format(name).load("/headgate/is/not/here").schema
    except (PySparkException, Py4JJavaError) as error:
        # What a format that is there says of a path that is not is of no matter.
        if "ailed to find" in str(error) or "DATA_SOURCE_NOT_FOUND" in str(error):
            raise ConfigError(
                f"this session has no {name}", hint=f"add it to spark.packages: {_PACKAGES[name]}"
            ) from None


def end_leftovers(spark: SparkSession, node: Node) -> None:
    """End what dead runs have begun to publish to the folders of a node."""
    folders = [
        each.location for each in (node.target, node.quarantine) if each is not None and each.kind is Kind.folder
    ]
    for journal in {journal_folder(folder) for folder in folders}:
        Journal(files_for(spark, journal), journal).recover()


def publish_apart(spark: SparkSession, node: Node, run_id: str, steps: Steps | None) -> tuple[str, ...]:
    """The quarantine by itself, before a target that it cannot share a publication with.

    Should the target then fail, the rows are in quarantine under this run's id, and a retry replaces them.
    """
    if steps is None or not steps.moves:
        return ()
    assert node.quarantine is not None
    files = files_for(spark, node.quarantine.location)
    note = publish(files, node.quarantine.location, run_id, f"{node.job_name}.quarantine", steps)
    return () if note is None else (note,)


def refuse_mode(config: WriteConfig, kind: str, allowed: Collection[WriteMode]) -> None:
    if config.mode not in allowed:
        raise ConfigError(f"write.mode {config.mode} is not for {kind}", hint=f"they take {', '.join(sorted(allowed))}")


def all_of(columns: Sequence[Any]) -> Any:
    return reduce(lambda one, other: one & other, columns, F.lit(True))
