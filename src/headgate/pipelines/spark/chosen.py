"""The rows of a batch that are replayed, all of them or those that a file corrects, and what is remembered of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from headgate.errors import ConfigError
from headgate.pipelines.batches import Batch, BatchNote
from headgate.pipelines.corrections import ROW_ID, Correction, corrections, read_corrections, resolved
from headgate.pipelines.spark.checks.said import SPARK_ERRORS, said
from headgate.pipelines.spark.held import as_text, corrected, hash_of, own_columns


@dataclass(frozen=True)
class Chosen:
    """The rows that are replayed, those of the batch, and how many it has.

    `given` are the corrections, if there is a file of them; `skipped` those of it that the batch has no rows for.
    """

    batch: Batch
    frame: DataFrame
    rows: DataFrame
    total: int
    given: Sequence[Correction] | None = None
    skipped: int = 0

    @property
    def is_empty(self) -> bool:
        return self.total == 0 or (self.given is not None and not self.given)

    @property
    def untouched(self) -> DataFrame | None:
        """What no correction is about."""
        if self.given is None:
            return None
        return self.rows.join(_ids(self.rows.sparkSession, self.given), ROW_ID, "left_anti")

    def traces(self, failing: DataFrame | None) -> dict[str, Any]:
        """What the note remembers of corrections: which ids became which, and the numbers that are not given again."""
        rest = self.untouched
        if self.given is None or rest is None:
            return {}
        note = self.batch.note
        text = hash_of(own_columns(note).names)
        became = {row[0]: row[1] for row in self.frame.select(ROW_ID, text).collect()}
        stay = Counter(row[0] for row in failing.select(text).collect()) if failing is not None else Counter()
        base = F.substring_index(ROW_ID, "-", 1)
        there = {row[0] for row in rest.where(base.isin(sorted(set(map(_base, became))))).select(base).collect()}
        moved = {row_id: now for row_id, now in became.items() if now != _base(row_id) and stay[now]}
        gone = {text: set(numbers) for text, numbers in note.gone.items()}
        for row_id, now in became.items():
            was, _, number = row_id.partition("-")
            if not (now == was and stay[now]) and (was in there or stay[was]):
                gone.setdefault(was, set()).add(int(number or 1))
        return {"moved": note.moved | moved, "gone": {text: tuple(sorted(each)) for text, each in gone.items()}}


def choose(spark: SparkSession, rows: DataFrame, batch: Batch, given: Path | None) -> Chosen:
    """All rows, or those of the file with the values that it has for them."""
    total = rows.count()
    if given is None:
        return Chosen(batch, rows, rows, total)
    wanted = resolved(_read(spark, given, batch.note), batch.note.moved)
    known = {row[0] for row in rows.join(_ids(spark, wanted), ROW_ID, "left_semi").select(ROW_ID).collect()}
    there = [each for each in wanted if each.row_id in known]
    frame = corrected(spark, rows, batch.note, there) if there else rows.limit(0)
    return Chosen(batch, frame, rows, total, there, len(wanted) - len(there))


def _ids(spark: SparkSession, given: Sequence[Correction]) -> DataFrame:
    return F.broadcast(spark.createDataFrame([(each.row_id,) for each in given], f"{ROW_ID} STRING"))


def _read(spark: SparkSession, path: Path, note: BatchNote) -> list[Correction]:
    names = own_columns(note).names
    if path.suffix.lower() != ".parquet":
        return read_corrections(path, names, note.added)
    try:
        frame = spark.read.parquet(path.resolve().as_uri())
    except SPARK_ERRORS as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {said(error)}", hint="export it again") from None
    rows = frame.select(*(as_text(each).alias(each.name) for each in frame.schema.fields)).collect()
    return corrections([row.asDict() for row in rows], names, note.added)


def _base(row_id: str) -> str:
    return row_id.partition("-")[0]
