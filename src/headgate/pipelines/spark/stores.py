"""Where the batches of a node are kept, folders of files or a table: what is in them, and how one is replaced.

What stays of a batch is staged first, and then brought to it: of a folder by renames, which can be one publication with
those of the target; of a table by a commit of its own.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import msgspec
from msgspec import structs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from headgate.errors import HeadgateError
from headgate.pipelines.batches import (
    Batch,
    BatchNote,
    Pending,
    batch_steps,
    batches,
    delete_batch,
    drop_hollow,
    write_pending,
)
from headgate.pipelines.config.connection import ConnectionConfig
from headgate.pipelines.config.quarantine import QuarantineConfig
from headgate.pipelines.files import Files
from headgate.pipelines.places import Kind
from headgate.pipelines.plan import Node, Plan
from headgate.pipelines.publish import BATCH, Steps, previous_folder
from headgate.pipelines.spark.hadoop import files_for
from headgate.pipelines.spark.held import rows_of, with_ids
from headgate.pipelines.spark.quarantine import FolderQuarantine
from headgate.pipelines.spark.rejections import METADATA
from headgate.pipelines.spark.write import staging_root
from headgate.pipelines.spark.write.apart import TableQuarantine, is_table
from headgate.pipelines.spark.write.table import table_name

_LONG_AGO = datetime.fromtimestamp(0, UTC)


class Store(Protocol):
    """The quarantine of one node."""

    def batches(self) -> list[Batch]:
        """The oldest first."""
        ...

    def rows(self, batch: Batch) -> DataFrame:
        """All columns, and an id for each row."""
        ...

    def drop(self, batch: Batch, run_id: str) -> str | None: ...

    def pending(self, batch: Batch) -> Pending | None: ...

    def begin(self, batch: Batch, pending: Pending) -> None:
        """Write down what is going on."""
        ...

    def stage(self, rest: DataFrame, note: BatchNote, run_id: str, now: datetime) -> str:
        """Write what is to stay of a batch; answers where."""
        ...

    def steps(self, batch: Batch, rest: str | None, run_id: str, now: datetime) -> Steps | None:
        """Renames that bring what is staged to the batch, or take it away; None where it is not done by renames."""
        ...

    def settle(self, batch: Batch, rest: str | None, run_id: str, now: datetime) -> tuple[str, ...]:
        """Bring what is staged to the batch, or take it away, by itself; what was going on is over then."""
        ...

    def tidy(self, batch: Batch) -> None:
        """Take away what a batch leaves that is no more."""
        ...


def store_of(spark: SparkSession, plan: Plan, node: Node, disk: Files | None = None) -> Store:
    """The store of a node's quarantine; `disk` stands in for the file system that it would have."""
    config = node.config.validation.quarantine
    assert config is not None
    if not is_table(config):
        return FolderStore(spark, node, disk)
    root = staging_root(spark, node, plan.loaded.folder)
    connection = plan.loaded.project.connections[config.connection]
    return TableStore(spark, node, connection, disk or files_for(spark, root), root)


@dataclass
class FolderStore:
    """A folder for each run."""

    spark: SparkSession
    node: Node
    disk: Files | None = None

    @property
    def location(self) -> str:
        assert self.node.quarantine is not None
        return self.node.quarantine.location

    @property
    def files(self) -> Files:
        return self.disk or files_for(self.spark, self.location)

    def batches(self) -> list[Batch]:
        return batches(self.files, self.location, self.node.job_name)

    def rows(self, batch: Batch) -> DataFrame:
        return rows_of(self.spark, self.files, batch)

    def drop(self, batch: Batch, run_id: str) -> str | None:
        return delete_batch(self.files, self.location, batch, run_id)

    def pending(self, batch: Batch) -> Pending | None:
        return batch.pending(self.files)

    def begin(self, batch: Batch, pending: Pending) -> None:
        write_pending(self.files, batch, pending)

    def stage(self, rest: DataFrame, note: BatchNote, run_id: str, now: datetime) -> str:
        quarantine = self._quarantine(run_id, now)
        quarantine.stage_rows(rest, note)
        folder = f"{quarantine.folder}/batch"
        _check_whole(self.rows(Batch(folder, note)), note)
        return folder

    def steps(self, batch: Batch, rest: str | None, run_id: str, now: datetime) -> Steps:
        previous = f"{previous_folder(self.location, run_id, self.node.job_name)}/quarantine"
        steps = batch_steps(self.files, rest, self.location, batch.note.batch_id, self.node.job_name, previous)
        steps.trash += [self._quarantine(run_id, now).folder] if rest is not None else []
        return steps

    def settle(self, batch: Batch, rest: str | None, run_id: str, now: datetime) -> tuple[str, ...]:
        note = self._quarantine(run_id, now).publish(self.steps(batch, rest, run_id, now))
        self.tidy(batch)
        return () if note is None else (note,)

    def tidy(self, batch: Batch) -> None:
        drop_hollow(self.files, batch.folder)

    def _quarantine(self, run_id: str, now: datetime) -> FolderQuarantine:
        return FolderQuarantine(self.spark, self.node, run_id, now, self.disk)


@dataclass
class TableStore:
    """A table with a partition for each run; what a table cannot say of a batch is in notes beside the staging."""

    spark: SparkSession
    node: Node
    connection: ConnectionConfig
    files: Files
    root: str

    @property
    def config(self) -> QuarantineConfig:
        assert self.node.config.validation.quarantine is not None
        return self.node.config.validation.quarantine

    def batches(self) -> list[Batch]:
        found = self._all()
        if found is None:
            return []
        added = tuple(name for name in METADATA if name in found.columns)
        counts, when = (
            F.count(F.lit(1)).alias("rows"),
            F.min("_rejected_at") if "_rejected_at" in added else F.lit(None),
        )
        listed = found.groupBy(BATCH).agg(counts, when.cast("double").alias("at")).collect()
        tests = self._failures(found) if "_failed_tests" in added else {}
        schema = found.drop(BATCH).schema.jsonValue()
        notes = [
            BatchNote(
                row[BATCH],
                self.node.job_name,
                _LONG_AGO if row["at"] is None else datetime.fromtimestamp(row["at"], UTC),
                row["rows"],
                tests.get(row[BATCH], {}),
                retention_days=None if row["at"] is None else self.config.retention_days,
                format="table",
                schema=schema,
                added=added,
            )
            for row in listed
        ]
        return sorted((self._noted(note) for note in notes), key=lambda batch: batch.note.rejected_at)

    def _all(self) -> DataFrame | None:
        address = self.node.quarantine
        assert address is not None
        if address.kind is Kind.table and self.spark.catalog.tableExists(name := table_name(address.location)):
            # Another session may have replaced files that this one remembers.
            self.spark.catalog.refreshTable(name)
        return self._table("", datetime.now(UTC)).rows()

    def _failures(self, found: DataFrame) -> Mapping[str, dict[str, int]]:
        counted = found.select(BATCH, F.explode("_failed_tests").alias("test")).groupBy(BATCH, "test").count().collect()
        tests: dict[str, dict[str, int]] = {}
        for row in sorted(counted):
            tests.setdefault(row[BATCH], {})[row["test"]] = row["count"]
        return tests

    def _noted(self, note: BatchNote) -> Batch:
        """With what a note says beside the table, if there was a replay."""
        path = self._note_path(note.batch_id)
        assert self.node.quarantine is not None
        label = f"{self.node.quarantine} where {BATCH} = '{note.batch_id}'"
        if not self.files.exists(path):
            return Batch(label, note)
        known = msgspec.json.decode(self.files.read_text(path), type=BatchNote)
        found = structs.replace(note, moved=known.moved, gone=known.gone, replayed_at=known.replayed_at)
        return Batch(label, structs.replace(found, rejected_at=known.rejected_at, state=known.state))

    def rows(self, batch: Batch) -> DataFrame:
        found = self._all()
        assert found is not None
        return with_ids(found.where(F.col(BATCH) == batch.note.batch_id).drop(BATCH), batch.note)

    def drop(self, batch: Batch, run_id: str) -> str | None:
        self._table(run_id, datetime.now(UTC)).discard([batch.note.batch_id])
        self.tidy(batch)
        return None

    def pending(self, batch: Batch) -> Pending | None:
        path = self._pending_path(batch)
        return msgspec.json.decode(self.files.read_text(path), type=Pending) if self.files.exists(path) else None

    def begin(self, batch: Batch, pending: Pending) -> None:
        self.files.write_text(self._pending_path(batch), msgspec.json.encode(pending).decode())

    def stage(self, rest: DataFrame, note: BatchNote, run_id: str, now: datetime) -> str:
        folder = posixpath.join(self.root, "replays", f"{run_id}.{self.node.job_name}.rest")
        rest.write.mode("overwrite").parquet(f"{folder}/rows")
        _check_whole(self.spark.read.parquet(f"{folder}/rows"), note)
        self.files.write_text(f"{folder}/note.json", msgspec.json.encode(note).decode())
        return folder

    def steps(self, batch: Batch, rest: str | None, run_id: str, now: datetime) -> None:
        return None

    def settle(self, batch: Batch, rest: str | None, run_id: str, now: datetime) -> tuple[str, ...]:
        table = self._table(batch.note.batch_id, now)
        if rest is None:
            table.discard([batch.note.batch_id])
            self.tidy(batch)
            return ()
        rows = self.spark.read.parquet(f"{rest}/rows")
        table.check(rows.schema)
        table.stage(rows)
        notes = table.publish()
        self.files.write_text(self._note_path(batch.note.batch_id), self.files.read_text(f"{rest}/note.json"))
        self.files.delete(self._pending_path(batch))
        self.files.delete(rest)
        self.files.delete(table.staging)
        return notes

    def tidy(self, batch: Batch) -> None:
        for path in (self._note_path(batch.note.batch_id), self._pending_path(batch)):
            self.files.delete(path)

    def _table(self, run_id: str, now: datetime) -> TableQuarantine:
        staging = posixpath.join(self.root, "replays", f"{run_id}.{self.node.job_name}.table")
        return TableQuarantine(self.spark, self.node, self.connection, self.files, staging, run_id, now)

    def _note_path(self, batch_id: str) -> str:
        return posixpath.join(self.root, "replays", f"{batch_id}.{self.node.job_name}.json")

    def _pending_path(self, batch: Batch) -> str:
        return posixpath.join(self.root, "replays", f"{batch.note.batch_id}.{self.node.job_name}.pending.json")


def _check_whole(staged: DataFrame, note: BatchNote) -> None:
    found = staged.count()
    if found != note.rows:
        raise HeadgateError(f"{note.rows:,} rows were to stay in quarantine, and {found:,} were written")
