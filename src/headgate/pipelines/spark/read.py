"""From a read block to a DataFrame: nothing is read yet."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.errors import ConfigError
from headgate.pipelines.config.connection import (
    ConnectionConfig,
    FolderConnection,
    JdbcConnection,
    KafkaConnection,
)
from headgate.pipelines.config.read import IncrementalConfig, ReadConfig
from headgate.pipelines.places import Address
from headgate.pipelines.spark.spelling import spark_options


def read(spark: SparkSession, config: ReadConfig, address: Address, connection: ConnectionConfig) -> DataFrame:
    """The source's rows, all of them."""
    options = spark_options(config.options)
    if isinstance(connection, JdbcConnection):
        return _jdbc(spark, connection, config, options)
    if isinstance(connection, KafkaConnection):
        return _kafka(spark, connection, address.location, options)
    if isinstance(connection, FolderConnection):
        return _files(spark, config, address.location, options)
    return spark.read.options(**options).table(address.location)


def _files(spark: SparkSession, config: ReadConfig, location: str, options: dict[str, str]) -> DataFrame:
    kind = config.format or "parquet"
    if kind == "csv":
        options = {"header": "true", "inferSchema": str(config.columns is None).lower(), **options}
    reader = spark.read.format(kind).options(**options)
    if config.columns is not None:
        reader = reader.schema(config.columns)
    return reader.load(location)


def _jdbc(spark: SparkSession, connection: JdbcConnection, config: ReadConfig, options: dict[str, str]) -> DataFrame:
    what = {"query": config.query} if config.query is not None else {"dbtable": str(config.table)}
    return spark.read.format("jdbc").options(**jdbc_options(connection), **what, **options).load()


def jdbc_options(connection: JdbcConnection) -> dict[str, str]:
    given = {"url": connection.url, "user": connection.user, "driver": connection.driver}
    if connection.password is not None:
        given["password"] = connection.password.get_secret_value()
    return {key: value for key, value in given.items() if value is not None} | connection.options


def _kafka(spark: SparkSession, connection: KafkaConnection, topic: str, options: dict[str, str]) -> DataFrame:
    return spark.read.format("kafka").options(**kafka_options(connection), subscribe=topic, **options).load()


def kafka_options(connection: KafkaConnection) -> dict[str, str]:
    plain = {
        key: value if isinstance(value, str) else value.get_secret_value() for key, value in connection.options.items()
    }
    return {"kafka.bootstrap.servers": connection.bootstrap_servers} | plain


def newer(frame: DataFrame, config: IncrementalConfig, watermark: str | None) -> DataFrame:
    """Rows past the watermark, or past the first run's beginning; with a lag, some are read again."""
    if config.column not in frame.columns:
        raise ConfigError(
            f"incremental reads by {config.column!r}, which is no column",
            hint=f"its columns: {', '.join(frame.columns)}",
        )
    start = watermark if watermark is not None else config.initial
    if start is None:
        return frame
    kind = frame.schema[config.column].dataType
    bound = F.lit(str(start)).cast(kind)
    if config.lag is not None and watermark is not None:
        bound = _earlier(bound, kind, config.lag.total_seconds())
        return frame.where(F.col(f"`{config.column}`") >= bound)
    column = F.col(f"`{config.column}`")
    return frame.where(column > bound if watermark is not None else column >= bound)


def _earlier(bound: Any, kind: T.DataType, seconds: float) -> Any:
    if isinstance(kind, T.DateType):
        return F.date_sub(bound, int(-(-seconds // 86400)))
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        return bound - F.expr(f"INTERVAL {int(seconds)} SECONDS")
    raise ConfigError(
        f"incremental.lag is a span of time, and the column is {kind.simpleString()}", hint="leave lag out"
    )
