"""Rows that are set apart: what is written beside them, and the few that are shown with their values masked."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.pipelines.config.quarantine import QuarantineConfig
from headgate.pipelines.plan import NamedTest, Node
from headgate.pipelines.spark.fused import FAILED
from headgate.pipelines.spark.masking import masked
from headgate.pipelines.spark.spelling import quoted

METADATA = ("_rejection_reason", "_rejected_at", "_failed_tests", "_original_node")
NESTED = (T.ArrayType, T.StructType, T.MapType)
# As JSON, Spark would cut times to milliseconds and give them in whatever zone the session has.
AS_JSON = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_SHOWN_CHARACTERS = 60


def with_metadata(frame: DataFrame, config: QuarantineConfig, node: Node, now: datetime) -> DataFrame:
    """The rows with the columns that were asked for; the batch's id is in the name of its folder."""
    columns = {
        "_rejection_reason": _reason(node),
        "_rejected_at": F.lit(now.isoformat()).cast("timestamp"),
        "_failed_tests": F.col(FAILED),
        "_original_node": F.lit(node.config.name),
    }
    for name in added(config):
        frame = frame.withColumn(name, columns[name])
    return frame.drop(FAILED)


def added(config: QuarantineConfig) -> tuple[str, ...]:
    """The columns that were asked for, but the batch's id."""
    return tuple(name for name in METADATA if getattr(config.add_columns, name[1:]))


def written_as(kind: str) -> dict[str, str]:
    """Spark's options for files of rows that are to be read again as they were."""
    if kind == "csv":
        return {"header": "true", "escape": '"', "multiLine": "true", **AS_JSON}
    return AS_JSON if kind == "json" else {}


def flat(frame: DataFrame) -> DataFrame:
    """For files that have no place for lists and structs: those are written as JSON."""
    columns = [
        F.to_json(quoted(each.name), AS_JSON).alias(each.name)
        if isinstance(each.dataType, NESTED)
        else F.col(quoted(each.name))
        for each in frame.schema.fields
    ]
    return frame.select(*columns)


def samples(frame: DataFrame, count: int) -> tuple[dict[str, Any], ...]:
    """A few of the rows, masked before they leave Spark: the form of their values is shown, and not what they say."""
    if count == 0:
        return ()
    columns = [_masked(each).alias(each.name) for each in frame.schema.fields if each.name != FAILED]
    rows = frame.limit(count).select(*columns, F.col(FAILED).alias("_failed_tests")).collect()
    return tuple(row.asDict() for row in rows)


def _masked(field: T.StructField) -> Column:
    column = F.col(quoted(field.name))
    if isinstance(field.dataType, T.BinaryType):
        return F.when(column.isNotNull(), F.concat(F.length(column).cast("string"), F.lit(" bytes")))
    text = F.to_json(column) if isinstance(field.dataType, NESTED) else column.cast("string")
    shape = masked(text)
    return F.substring(shape, 1, _SHOWN_CHARACTERS)


def _reason(node: Node) -> Column:
    words = F.create_map(*(F.lit(text) for test in node.tests for text in (test.name, told(test))))
    return F.array_join(F.transform(F.col(FAILED), lambda name: words[name]), "; ")


def told(test: NamedTest) -> str:
    """What a failing row is said to have done.

    The test's own description, else its type and columns.
    """
    columns = ", ".join(test.config.tested_columns)
    return test.config.description or (f"{test.name}: {test.config.kind} of {columns}" if columns else test.name)
