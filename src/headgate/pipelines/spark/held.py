"""Rows that a quarantine holds: read back as they were, each with an id of its own; as text for people, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.errors import ConfigError
from headgate.pipelines.batches import Batch, BatchNote
from headgate.pipelines.corrections import ROW_ID, Correction
from headgate.pipelines.files import Files
from headgate.pipelines.spark.rejections import AS_JSON, NESTED, written_as
from headgate.pipelines.spark.spelling import nullable, quoted

HASH, _NUMBER = "_headgate_hash", "_headgate_number"
_LINE, _GIVEN = "_headgate_line", "_headgate_given_{}"
# Stands for a text without letters while a CSV is read: Spark would take it for NULL. Nobody writes it.
_EMPTY = "\ue000"
# Enough of a SHA-256 that no two rows will ever share it.
_DIGITS = 32


def columns_of(note: BatchNote) -> T.StructType:
    """All columns of a batch's files."""
    return T.StructType.fromJson(note.schema)


def own_columns(note: BatchNote) -> T.StructType:
    """Those that the rows had when they were rejected."""
    return T.StructType([each for each in columns_of(note).fields if each.name not in note.added])


def rows_of(spark: SparkSession, files: Files, batch: Batch) -> DataFrame:
    """The rows with all their columns and an id, which is the same whenever it is asked for."""
    note, schema = batch.note, nullable(columns_of(batch.note))
    paths = batch.files(files)
    if not paths:
        return with_ids(spark.createDataFrame([], schema), note)
    reader = spark.read.format(note.format).options(**written_as(note.format))
    if note.format != "csv":
        return with_ids(reader.schema(schema).load(paths), note)
    frame = reader.option("emptyValue", _EMPTY).schema(_flattened(schema)).load(paths)
    return with_ids(_unflattened(frame, schema), note)


def _flattened(schema: T.StructType) -> T.StructType:
    return T.StructType(
        [T.StructField(f.name, T.StringType() if isinstance(f.dataType, NESTED) else f.dataType) for f in schema.fields]
    )


def _unflattened(frame: DataFrame, schema: T.StructType) -> DataFrame:
    return frame.select(*(_unflat(each).alias(each.name) for each in schema.fields))


def _unflat(field: T.StructField) -> Column:
    column = F.col(quoted(field.name))
    if isinstance(field.dataType, NESTED):
        return F.from_json(column, field.dataType.json(), AS_JSON)
    return F.when(column == _EMPTY, "").otherwise(column) if isinstance(field.dataType, T.StringType) else column


def hash_of(columns: Sequence[str]) -> Column:
    """A name for what a row says, whatever the session and the format it is kept in."""
    text = F.to_json(F.struct(*map(quoted, columns)), AS_JSON)
    return F.substring(F.sha2(text, 256), 1, _DIGITS)


def with_ids(frame: DataFrame, note: BatchNote) -> DataFrame:
    """Rows with ids. Those that say the same are numbered; the numbers of those that have left are not given again."""
    hashed = frame.withColumn(HASH, hash_of(own_columns(note).names))
    number: Column = F.row_number().over(Window.partitionBy(HASH).orderBy(F.lit(0)))
    if note.gone:
        cases = [F.when(F.col(HASH) == text, F.array(*map(F.lit, gone))) for text, gone in note.gone.items()]
        gone = F.coalesce(*cases, F.array().cast("array<int>"))
        free = F.array_except(F.sequence(F.lit(1), F.col(_NUMBER) + F.size(gone)), gone)
        numbered = hashed.withColumn(_NUMBER, number).withColumn(_NUMBER, F.element_at(free, F.col(_NUMBER)))
    else:
        numbered = hashed.withColumn(_NUMBER, number)
    row_id = F.when(F.col(_NUMBER) == 1, F.col(HASH)).otherwise(F.concat_ws("-", HASH, _NUMBER))
    return numbered.withColumn(ROW_ID, row_id).drop(HASH, _NUMBER)


def as_text(field: T.StructField) -> Column:
    """A value as text that `typed` makes the same value of."""
    column = F.col(quoted(field.name))
    if isinstance(field.dataType, NESTED):
        return F.to_json(column, AS_JSON)
    if isinstance(field.dataType, T.BinaryType):
        return F.base64(column)
    if isinstance(field.dataType, T.TimestampType | T.TimestampNTZType):
        return F.get_json_object(F.to_json(F.struct(column.alias("v")), AS_JSON), "$.v")
    return column.cast("string")


def texts(rows: DataFrame, note: BatchNote) -> DataFrame:
    """Ids, rows and what was wrong with them, all as text; the id comes first."""
    fields = [*own_columns(note).fields, *(each for each in columns_of(note).fields if each.name in note.added)]
    return rows.select(ROW_ID, *(as_text(each).alias(each.name) for each in fields))


def corrected(spark: SparkSession, rows: DataFrame, note: BatchNote, given: Sequence[Correction]) -> DataFrame:
    """The rows that are corrected, with the values of their corrections; ids as they were."""
    own = own_columns(note)
    named = list(dict.fromkeys(name for each in given for name in each.values))
    fields = [each for each in own.fields if each.name in named]
    schema = T.StructType(
        [
            T.StructField(ROW_ID, T.StringType()),
            T.StructField(_LINE, T.IntegerType()),
            *(T.StructField(_GIVEN.format(n), T.StringType()) for n in range(len(fields))),
        ]
    )
    lines = [(each.row_id, each.line, *(each.values.get(f.name) for f in fields)) for each in given]
    joined = rows.join(F.broadcast(spark.createDataFrame(lines, schema)), ROW_ID)
    _check(joined, fields)
    values = {f.name: _value(f, _GIVEN.format(n)) for n, f in enumerate(fields)}
    return joined.select(
        ROW_ID, *(values.get(name, F.col(quoted(name))).alias(name) for name in own.names), *map(quoted, note.added)
    )


def _value(field: T.StructField, given: str) -> Column:
    """Nothing in a field of text is what was there if that was nothing, else NULL: a CSV cannot tell them apart."""
    typed = _typed(field.dataType, given)
    if not isinstance(field.dataType, T.StringType):
        return typed
    was = F.col(quoted(field.name))
    return F.when(F.col(given).isNull() & (was == ""), was).otherwise(typed)


def _typed(kind: T.DataType, given: str) -> Column:
    if isinstance(kind, T.StringType):
        return F.col(given)
    if isinstance(kind, NESTED):
        return F.from_json(given, kind.json(), AS_JSON)
    if isinstance(kind, T.BinaryType):
        return F.expr(f"try_to_binary({quoted(given)}, 'base64')")
    return F.expr(f"try_cast({quoted(given)} AS {kind.simpleString()})")


def _check(joined: DataFrame, fields: Sequence[T.StructField]) -> None:
    """A value that is none of its column's type is told with its line, and not taken for NULL."""
    wrong = [
        F.when(F.col(_GIVEN.format(n)).isNotNull() & _typed(f.dataType, _GIVEN.format(n)).isNull(), F.lit(n))
        for n, f in enumerate(fields)
        if not isinstance(f.dataType, T.StringType)
    ]
    if not wrong:
        return
    bad = F.coalesce(*wrong) if len(wrong) > 1 else wrong[0]
    texts = F.array(*(F.col(_GIVEN.format(n)) for n in range(len(fields))))
    row = joined.select(_LINE, bad.alias("n"), texts.alias("texts")).where("n IS NOT NULL").orderBy(_LINE).first()
    if row is not None:
        field = fields[row["n"]]
        raise ConfigError(
            f"row {row[_LINE]} of the file: {field.name} is {row['texts'][row['n']]!r}, which is no "
            f"{field.dataType.simpleString()}",
            hint="correct it there; nothing was changed",
        )


def union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def failing(rows: DataFrame, test: str) -> DataFrame:
    """The rows that fail a test."""
    return rows.where(F.array_contains("_failed_tests", test))


def lines(rows: DataFrame, note: BatchNote) -> DataFrame:
    """Ids, rows and what was wrong with them, as one JSON object each, with NULLs."""
    names = [ROW_ID, *own_columns(note).names, *note.added]
    return rows.select(F.to_json(F.struct(*map(quoted, names)), {**AS_JSON, "ignoreNullFields": "false"}))
