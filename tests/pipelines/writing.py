"""A node that only writes: its batch is staged as the pass would stage it, then checked, prepared and published."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.pipelines.batches import batch_steps
from headgate.pipelines.files import Files, LocalFiles
from headgate.pipelines.load import load
from headgate.pipelines.plan import Node, make_plan
from headgate.pipelines.publish import Steps, batch_prefix, gather, previous_folder, state_folder
from headgate.pipelines.record import NodeRecord
from headgate.pipelines.spark.write import Batch, Published, Writer, staging_root, writer
from headgate.pipelines.spark.write.apart import TableQuarantine

LOT = "_headgate_lot"
HEAD = "project: shop\nconnections:\n  lake: {type: local, base_path: data}\n"
# Little is done often enough to be worth a better compiler.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.master": "local[1]",
}
_numbers = itertools.count(1)


class Target:
    """A node's write block, as text, and what a run does with it."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        write: str,
        *,
        head: str = "",
        quarantine: str = "connection: lake, path: bad_orders",
        files: Files | None = None,
        now: datetime | None = None,
    ) -> None:
        self.spark, self.folder = spark, folder
        self.files = files or LocalFiles()
        self.now = now
        file = folder / "pipeline.yaml"
        nodes = [
            "  - name: orders",
            "    read: {connection: lake, path: raw}",
            "    validation:",
            f"      quarantine: {{{quarantine}}}",
            "      tests: [{type: not_null, columns: [id], on_fail: quarantine}]",
            f"    write: {{{write}}}",
        ]
        lines = ["pipelines:", "- pipeline: daily", "  nodes:", *nodes]
        file.write_text(HEAD + head + "\n".join(lines), encoding="utf-8")
        loaded = load(file)
        (self.node,) = make_plan(loaded).nodes
        assert self.node.config.write is not None
        self.connections = loaded.project.connections
        self.connection = self.connections[self.node.config.write.connection]

    @property
    def location(self) -> Path:
        assert self.node.target is not None
        return Path(self.node.target.location)

    def writer(self) -> Writer:
        return writer(self.spark, self.node, self.connection, self.files)

    def stage(self, frame: DataFrame, run_id: str, into: Writer) -> Batch:
        """As the pass does it: one folder a lot, here by turns."""
        folder = f"{staging_root(self.spark, self.node, self.folder)}/staging/{run_id}/{self.node.job_name}"
        lots = frame.withColumn(LOT, F.when(F.monotonically_increasing_id() % 2 == 0, "clean").otherwise("warned"))
        writer = lots.coalesce(1).write.mode("overwrite").format(into.stage_format()).options(**into.stage_options())
        writer.partitionBy(LOT, *into.stage_partitions()).save(f"{folder}/pass")
        folders = [f"{folder}/pass/{LOT}={lot}" for lot in ("clean", "warned")]
        now = self.now or datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=next(_numbers))
        return Batch(folders, into.stage_format(), frame.schema, frame.count(), f"{folder}/out", run_id, now)

    def prepared(self, frame: DataFrame, run_id: str) -> Writer:
        into = self.writer()
        into.check(frame.schema)
        into.prepare(self.stage(frame, run_id, into))
        return into

    def write(self, frame: DataFrame, run_id: str | None = None, quarantine: Steps | None = None) -> Published:
        run_id = run_id or f"run-{next(_numbers)}"
        return self.prepared(frame, run_id).publish(run_id, record(self.node, run_id), quarantine)

    def apart(self, run_id: str) -> TableQuarantine:
        config, now = self.node.config.validation.quarantine, datetime(2026, 1, 1, tzinfo=UTC)
        assert config is not None
        staging = f"{staging_root(self.spark, self.node, self.folder)}/staging/{run_id}/{self.node.job_name}"
        connection = self.connections[config.connection]
        return TableQuarantine(self.spark, self.node, connection, self.files, staging, run_id, now)

    def set_apart(self, frame: DataFrame | None, run_id: str) -> list[tuple[Any, ...]]:
        """Bring rows to the quarantine table, or none; answers what is in it then, by batch."""
        quarantine = self.apart(run_id)
        if frame is not None:
            quarantine.check(frame.schema)
            quarantine.stage(frame)
        assert quarantine.publish() == ()
        found = quarantine.rows()
        return [] if found is None else rows(found, "_source_batch_id", "id")

    def rows(self, *columns: str, format: str = "parquet", **options: str) -> list[tuple[Any, ...]]:  # noqa: A002
        return rows(self.spark.read.format(format).options(**options).load(str(self.location)), *columns)


def record(node: Node, run_id: str) -> NodeRecord:
    return NodeRecord(node.pipeline.pipeline, node.config.name, run_id)


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """All rows in some order that does not change."""
    chosen = frame.select(*columns) if columns else frame
    return sorted((tuple(row) for row in chosen.collect()), key=repr)


def rejected(target: Target, frame: DataFrame, run_id: str) -> Steps:
    """Steps that bring a batch to quarantine."""
    assert target.node.quarantine is not None
    location, job = target.node.quarantine.location, target.node.job_name
    staging = f"{state_folder(location)}/staging/{run_id}/apart"
    target.files.delete(staging)
    frame.coalesce(1).write.parquet(f"{staging}/written")
    gather(target.files, [f"{staging}/written"], f"{staging}/batch", prefix=batch_prefix(run_id, job))
    previous = f"{previous_folder(location, run_id, job)}/quarantine"
    return batch_steps(target.files, f"{staging}/batch", location, run_id, job, previous)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, byte for byte."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in _files(folder)}


def _files(folder: Path) -> Iterable[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
