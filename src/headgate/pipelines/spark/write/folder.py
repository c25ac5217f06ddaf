"""Folders of files, on this machine's disks or any that Hadoop opens: staged beside them, published by renames."""

from __future__ import annotations

import posixpath

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 - as everybody calls it

from headgate.errors import ConfigError
from headgate.pipelines.config.write import KEYED, WriteMode
from headgate.pipelines.files import Files, volume
from headgate.pipelines.plan import Node
from headgate.pipelines.publish import (
    EMPTY,
    LastBatch,
    Steps,
    batch_prefix,
    gather,
    partitions_of,
    parts_of,
    previous_folder,
    publish,
    target_steps,
    walk,
)
from headgate.pipelines.record import NodeRecord
from headgate.pipelines.spark.spelling import spark_options
from headgate.pipelines.spark.write import keyed
from headgate.pipelines.spark.write.align import Fit, aligned, fit
from headgate.pipelines.spark.write.base import (
    ADDS,
    ONCE,
    Batch,
    Published,
    check_columns,
    check_format,
    check_partitions,
    end_leftovers,
    publish_apart,
    target_of,
    write_config,
)

# What the pass can write as it will stay; all else has no types, or no order of columns, of its own.
_KEPT = ("parquet", "orc", "avro")
_MERGES = ("parquet", "orc")


class FolderWriter:
    """Writes a folder of parquet, orc, avro, csv, json or text files."""

    def __init__(self, spark: SparkSession, node: Node, files: Files) -> None:
        self._spark, self._node, self._files = spark, node, files
        self._config, self._target = write_config(node), target_of(node)
        self._format = self._config.format or "parquet"
        self._options = ({"header": "true"} if self._format == "csv" else {}) | spark_options(self._config.options)
        self._rows, self._folder, self._staging = 0, "", ""
        # Folders of the target that an earlier try of this run has added files to; None if there was none.
        self._own: tuple[str, ...] | None = None
        self._notes: tuple[str, ...] = ()
        self._mode = self._config.mode

    @property
    def _is_direct(self) -> bool:
        return self._config.mode not in KEYED and self._format in _KEPT

    def stage_format(self) -> str:
        return self._format if self._is_direct else "parquet"

    def stage_partitions(self) -> list[str]:
        return self._config.partition_by if self._is_direct else []

    def stage_options(self) -> dict[str, str]:
        return self._options if self._is_direct else {}

    def check(self, schema: T.StructType) -> None:
        end_leftovers(self._spark, self._node)
        check_columns(schema, self._config, keyed.added_columns(self._config))
        check_format(self._spark, self._format)
        if self._config.mode is WriteMode.scd2:
            keyed.check_history(schema, self._config)
        self._check_text(schema)
        self._check_target()
        self._fit(schema, self._there(schema))

    def prepare(self, batch: Batch) -> None:
        self._rows, self._notes, self._mode = batch.rows, (), self._config.mode
        self._staging, self._folder = batch.staging, f"{batch.staging}/files"
        self._files.delete(self._folder)
        self._own = self._added_before(batch.run_id)
        if self._own is not None and self._config.mode in (WriteMode.upsert, WriteMode.append_once):
            # Rows whose key has a NULL would come a second time.
            self._folder, self._notes = "", (ONCE,)
            return
        there = self._there(batch.schema, is_written_again=self._config.mode in (WriteMode.upsert, WriteMode.scd2))
        found = self._fit(batch.schema, there)
        if self._config.mode in KEYED:
            self._merge(batch, there)
        elif self._is_direct and (found is None or found.is_exact):
            gather(self._files, batch.folders, self._folder, prefix=self._prefix(batch.run_id))
        else:
            frame = batch.frame(self._spark, self._files)
            self._write(frame if found is None else aligned(frame, found.schema), batch)
        self._end(batch, found)

    def publish(self, run_id: str, record: NodeRecord, quarantine: Steps | None) -> Published:
        notes: tuple[str, ...] = ()
        if quarantine is not None and not self._is_beside_quarantine():
            notes, quarantine = publish_apart(self._spark, self._node, run_id, quarantine), None
        mine, size = self._steps(run_id)
        steps = mine.after(quarantine)
        if steps.moves:
            facts = {"target": self._target.label, "rows": self._rows, "attempt": record.attempt}
            note = publish(self._files, self._target.location, run_id, self._node.job_name, steps, facts)
            notes = (*notes, *([note] if note is not None else []))
        return Published(len(mine.files), size, self._rows, (*self._notes, *notes))

    def _steps(self, run_id: str) -> tuple[Steps, int]:
        if not self._folder:
            return Steps(), 0
        target, job = self._target.location, self._node.job_name
        previous, inside = previous_folder(target, run_id, job), list(walk(self._files, self._folder))
        size = sum(self._files.size(posixpath.join(self._folder, each)) for each in inside)
        steps = target_steps(
            self._files,
            self._mode,
            self._folder,
            target,
            f"{previous}/target",
            prefix=batch_prefix(run_id, job),
            parts=self._own or (),
        )
        if self._config.mode in ADDS and steps.moves:
            note = f"{self._staging}/batch.json"
            LastBatch(run_id, tuple(parts_of(inside))).write(self._files, note)
            steps.replace(note, LastBatch.path(target, job), f"{previous}/batch.json", self._files)
        steps.trash += [previous] if steps.trash else []
        return steps, size

    def _added_before(self, run_id: str) -> tuple[str, ...] | None:
        if self._config.mode not in ADDS or not self._has_files():
            return None
        last = LastBatch.of(self._files, self._target.location, self._node.job_name)
        return last.parts if last is not None and last.run_id == run_id else None

    def _is_beside_quarantine(self) -> bool:
        assert self._node.quarantine is not None
        return volume(self._node.quarantine.location) == volume(self._target.location)

    def _prefix(self, run_id: str) -> str:
        return batch_prefix(run_id, self._node.job_name) if self._mode is WriteMode.append else ""

    def _check_text(self, schema: T.StructType) -> None:
        rest = [each for each in schema.fields if each.name not in self._config.partition_by]
        if self._format == "text" and [each.dataType.simpleString() for each in rest] != ["string"]:
            raise ConfigError(
                f"write.format text takes one column of text; there are {', '.join(each.name for each in rest)}",
                hint="make one of them in transform: SELECT concat_ws(...) AS value",
            )

    def _check_target(self) -> None:
        target = self._target
        if self._files.exists(f"{target.location}/_delta_log"):
            raise ConfigError(f"{target} is a Delta table", hint="say format: delta, or write elsewhere")
        inside = walk(self._files, target.location)
        if self._config.mode is WriteMode.overwrite or all(each.startswith(EMPTY) for each in inside):
            return
        check_partitions(self._config, partitions_of(self._files, target.location), target.label)

    def _has_files(self) -> bool:
        return next(walk(self._files, self._target.location), None) is not None

    def _fit(self, schema: T.StructType, there: T.StructType | None) -> Fit | None:
        """How the batch goes with what stays of the target."""
        if there is None:
            return None
        found = fit(keyed.target_schema(schema, self._config), there, self._target.label)
        if found.added and self._format == "csv" and self._config.mode not in (WriteMode.upsert, WriteMode.scd2):
            raise ConfigError(
                f"{self._target} has no column {', '.join(found.added)}, and csv knows columns by their order",
                hint="drop it in transform, or replace the target by mode: overwrite",
            )
        return found

    def _there(self, schema: T.StructType, *, is_written_again: bool = False) -> T.StructType | None:
        """The columns of what stays of the target; None if nothing does.

        Names of folders and text have no types: there the batch's are taken.
        """
        if self._config.mode is WriteMode.overwrite or not self._has_files():
            return None
        whole = {each.name.lower(): each for each in keyed.target_schema(schema, self._config).fields}
        if self._format == "text" or self._options.get("header") == "false":
            return keyed.target_schema(schema, self._config)
        reader = self._spark.read.format(self._format).options(**self._options)
        if self._format in _MERGES and is_written_again:
            # A column that only some have must not get lost.
            reader = reader.option("mergeSchema", "true")
        by_name = {each.lower() for each in self._config.partition_by}
        untyped = self._format in ("csv", "json")
        return T.StructType(
            [
                whole[each.name.lower()]
                if each.name.lower() in whole and (untyped or each.name.lower() in by_name)
                else each
                for each in reader.load(self._target.location).schema.fields
            ]
        )

    def _merge(self, batch: Batch, there: T.StructType | None) -> None:
        existing = None
        if there is not None:
            reader = self._spark.read.format(self._format).options(**self._options).schema(there)
            existing = reader.load(self._target.location)
        merged = keyed.merge(
            self._spark,
            self._config,
            batch.frame(self._spark, self._files),
            existing,
            rows=batch.rows,
            now=batch.now,
            staging=batch.staging,
            label=self._target.label,
        )
        self._rows, self._notes = merged.rows, merged.notes
        if merged.is_nothing:
            self._folder = ""
            return
        self._mode = WriteMode.overwrite if merged.is_whole else WriteMode.append
        self._write(merged.frame, batch)

    def _write(self, frame: DataFrame, batch: Batch) -> None:
        written = self._folder if self._mode is not WriteMode.append else f"{batch.staging}/written"
        self._files.delete(written)
        writer = frame.write.format(self._format).options(**self._options)
        writer.partitionBy(*self._config.partition_by).save(written)
        if written != self._folder:
            gather(self._files, [written], self._folder, prefix=self._prefix(batch.run_id))

    def _end(self, batch: Batch, found: Fit | None) -> None:
        """Nothing to add needs no publication; a target without rows needs a file that tells its columns."""
        if not self._folder:
            return
        if self._mode in (WriteMode.append, WriteMode.overwrite_partitions) and found is not None:
            if self._rows == 0 and self._own is None:
                self._folder = ""
            elif found.added:
                more = f"columns that are new to {self._target}: {', '.join(found.added)}"
                self._notes = (*self._notes, f"{more}; files from before have none, read them with mergeSchema")
            return
        if next(walk(self._files, self._folder), None) is None:
            self._files.delete(self._folder)
            written = f"{batch.staging}/empty"
            empty = self._spark.createDataFrame([], keyed.target_schema(batch.schema, self._config)).coalesce(1)
            empty.write.mode("overwrite").format(self._format).options(**self._options).save(written)
            gather(self._files, [written], self._folder, prefix=EMPTY)
        self._files.write_text(f"{self._folder}/_SUCCESS", "")
