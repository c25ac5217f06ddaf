"""Tables of a database: a staging table beside the target, then one transaction that brings its rows over.

The transaction also leaves a row that says whose it was: a run that died after it is not done a second time.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 - as everybody calls it

from headgate.errors import ConfigError, HeadgateError
from headgate.pipelines.config.connection import JdbcConnection
from headgate.pipelines.config.write import WriteMode
from headgate.pipelines.files import Files
from headgate.pipelines.journal import Owner
from headgate.pipelines.plan import Node
from headgate.pipelines.publish import Steps
from headgate.pipelines.record import NodeRecord
from headgate.pipelines.spark.read import jdbc_options
from headgate.pipelines.spark.session import is_connect
from headgate.pipelines.spark.spelling import spark_options
from headgate.pipelines.spark.write import keyed
from headgate.pipelines.spark.write.base import (
    ADDS,
    ONCE,
    Batch,
    Published,
    StagedAsParquet,
    check_columns,
    end_leftovers,
    publish_apart,
    refuse_mode,
    target_of,
    write_config,
)

MARKER = "headgate_batches"
_STAGING = "headgate_staging_"
_OWNED = re.compile(rf"{_STAGING}[0-9a-f]{{6}}_([0-9a-f]{{12}})_(\d+)_([0-9a-f]{{12}})", re.IGNORECASE)
_MODES = {
    WriteMode.overwrite,
    WriteMode.append,
    WriteMode.overwrite_partitions,
    WriteMode.upsert,
    WriteMode.append_once,
}


class JdbcWriter(StagedAsParquet):
    """Writes a table of a database."""

    def __init__(self, spark: SparkSession, node: Node, files: Files, connection: JdbcConnection) -> None:
        self._config, self._target = write_config(node), target_of(node)
        if is_connect(spark):
            raise ConfigError(
                f"{self._target}: a database is written in one transaction, which Spark Connect has no way to",
                hint="run on a classic session (spark-submit, or --master)",
            )
        refuse_mode(self._config, "databases", _MODES)
        self._spark, self._node, self._files = spark, node, files
        self._options = jdbc_options(connection) | spark_options(self._config.options)
        self._database = Database(spark, self._options, self._target.location)
        self._schema = T.StructType([])
        self._rows, self._staging = 0, ""

    def check(self, schema: T.StructType) -> None:
        end_leftovers(self._spark, self._node)
        check_columns(schema, self._config)
        with self._told(), self._database.connected() as connection:
            self._drop_leftovers(connection)
            there = self._database.columns(connection)
        if there is None:
            return
        new = [name for name in schema.names if name.lower() not in {each.lower() for each in there}]
        if new:
            raise ConfigError(
                f"{self._target} has no column {', '.join(new)}",
                hint="add it to the table, or drop it in transform: tables of a database are not changed here",
            )

    def prepare(self, batch: Batch) -> None:
        frame = batch.frame(self._spark, self._files)
        if self._config.mode is WriteMode.upsert:
            keyed.check_repeats(frame, self._config.keys)
        self._schema, self._rows = batch.schema, batch.rows
        self._staging = self._staging_table(batch.run_id)
        with self._told():
            options = self._options | {"dbtable": self._staging}
            frame.write.format("jdbc").options(**options).mode("overwrite").save()

    def publish(self, run_id: str, record: NodeRecord, quarantine: Steps | None) -> Published:
        notes = publish_apart(self._spark, self._node, run_id, quarantine)
        with self._told(), self._database.connected() as connection:
            try:
                rows, told = self._commit(connection, run_id)
            except BaseException:
                self._drop_staging(connection)
                raise
            return Published(None, None, rows, (*told, *self._drop_staging(connection), *notes))

    def _commit(self, connection: Any, run_id: str) -> tuple[int, tuple[str, ...]]:
        # Outside of the transaction: some databases end one at each CREATE.
        self._create_marker(connection)
        is_new = self._database.columns(connection) is None
        connection.setAutoCommit(False)
        try:
            if self._config.mode in ADDS and self._is_marked(connection, run_id):
                connection.rollback()
                return self._rows, (ONCE,)
            if is_new:
                columns = self._columns()
                create = f"CREATE TABLE {self._target.location} AS SELECT {columns} FROM {self._staging} WHERE 1 = 0"
                self._database.run(connection, create)
            rows = self._bring_over(connection)
            self._mark(connection, run_id)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        return rows, keyed.left_out(self._rows - rows) if self._config.mode is WriteMode.append_once else ()

    def _bring_over(self, connection: Any) -> int:
        target, mode = self._target.location, self._config.mode
        if mode is WriteMode.overwrite:
            self._database.run(connection, f"DELETE FROM {target}")
        elif mode in (WriteMode.upsert, WriteMode.overwrite_partitions):
            same = self._same(self._config.keys or self._config.partition_by, "s", target)
            gone = f"DELETE FROM {target} WHERE EXISTS (SELECT 1 FROM {self._staging} s WHERE {same})"
            self._database.run(connection, gone)
        new = ""
        if mode is WriteMode.append_once:
            same = self._same(self._config.keys, "s", "t")
            new = f" WHERE NOT EXISTS (SELECT 1 FROM {target} t WHERE {same})"
        columns = self._columns()
        insert = f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {self._staging} s{new}"
        return self._database.run(connection, insert)

    def _same(self, names: Sequence[str], one: str, other: str) -> str:
        pairs = []
        for name in names:
            column = self._database.quoted(name)
            pair = f"{one}.{column} = {other}.{column}"
            if not self._config.keys:
                pair = f"({pair} OR ({one}.{column} IS NULL AND {other}.{column} IS NULL))"
            pairs.append(pair)
        return " AND ".join(pairs)

    def _columns(self) -> str:
        return ", ".join(self._database.quoted(name) for name in self._schema.names)

    def _staging_table(self, run_id: str) -> str:
        name = hashlib.sha256(f"{run_id}|{self._node.job_name}".encode()).hexdigest()[:6]
        owner = Owner.this(0.0)
        return self._beside(f"{_STAGING}{name}_{owner.machine}_{owner.pid}_{owner.started}")

    @property
    def _marker(self) -> str:
        return self._beside(MARKER)

    def _beside(self, table: str) -> str:
        schema, separator, _ = self._target.location.rpartition(".")
        return f"{schema}{separator}{table}"

    def _create_marker(self, connection: Any) -> None:
        if self._database.columns(connection, self._marker) is not None:
            return
        columns = "run_id VARCHAR(64) NOT NULL, node VARCHAR(255) NOT NULL, PRIMARY KEY (run_id, node)"
        self._database.run(connection, f"CREATE TABLE {self._marker} ({columns})")

    def _is_marked(self, connection: Any, run_id: str) -> bool:
        query = f"SELECT 1 FROM {self._marker} WHERE run_id = ? AND node = ?"
        return self._database.has_rows(connection, query, run_id, self._node.job_name)

    def _drop_leftovers(self, connection: Any) -> None:
        """What processes of this machine have left that are gone; of others nobody can tell."""
        schema = self._target.location.rpartition(".")[0].rpartition(".")[2]
        for name in self._database.tables(connection, schema, _STAGING):
            found = _OWNED.fullmatch(name)
            if found is None:
                continue
            machine, pid, started = found[1].lower(), int(found[2]), found[3].lower()
            if not Owner(machine, pid, started, math.inf).is_alive(time.time(), 0.0):
                self._database.run(connection, f"DROP TABLE {self._beside(name)}")

    def _mark(self, connection: Any, run_id: str) -> None:
        for mark in (
            f"DELETE FROM {self._marker} WHERE run_id = ? AND node = ?",
            f"INSERT INTO {self._marker} (run_id, node) VALUES (?, ?)",
        ):
            self._database.run(connection, mark, run_id, self._node.job_name)

    def _drop_staging(self, connection: Any) -> tuple[str, ...]:
        try:
            connection.setAutoCommit(True)
            self._database.run(connection, f"DROP TABLE {self._staging}")
        except Py4JJavaError as error:  # the rows are where they belong, or the error that is on its way says more
            return (f"the table {self._staging} is left over and may be dropped: {_reason(error)}",)
        return ()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            raise HeadgateError(f"{self._target}: {_reason(error)}") from error


class Database:
    """A connection as Spark itself opens it, with the driver and the ways to log in that the session has."""

    def __init__(self, spark: SparkSession, options: dict[str, str], table: str) -> None:
        session: Any = spark
        self._jvm = session._jvm
        self._options = options
        self._table = table
        self._dialect = self._jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])

    @contextmanager
    def connected(self) -> Iterator[Any]:
        given = self._jvm.PythonUtils.toScalaMap(self._options | {"dbtable": self._table})
        options = self._jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(given)
        connection = self._dialect.createConnectionFactory(options).apply(-1)
        try:
            yield connection
        finally:
            connection.close()

    def quoted(self, name: str) -> str:
        return str(self._dialect.quoteIdentifier(name))

    def columns(self, connection: Any, table: str | None = None) -> list[str] | None:
        """Names of a table's columns; None if it is not there."""
        query = self._dialect.getSchemaQuery(table or self._table)
        statement = connection.prepareStatement(query)
        try:
            found = statement.executeQuery().getMetaData()
            return [str(found.getColumnName(n)) for n in range(1, found.getColumnCount() + 1)]
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise
        finally:
            statement.close()

    def tables(self, connection: Any, schema: str, prefix: str) -> list[str]:
        """Names of tables that begin so, in a schema or in the one that the connection is in."""
        known = connection.getMetaData()
        begins = prefix.upper() if known.storesUpperCaseIdentifiers() else prefix
        rows = known.getTables(connection.getCatalog(), schema or connection.getSchema(), f"{begins}%", None)
        names = []
        try:
            while rows.next():
                names.append(str(rows.getString("TABLE_NAME")))
        finally:
            rows.close()
        return names

    def run(self, connection: Any, sql: str, *values: str) -> int:
        statement = _prepared(connection, sql, values)
        try:
            return int(statement.executeUpdate())
        finally:
            statement.close()

    def has_rows(self, connection: Any, sql: str, *values: str) -> bool:
        statement = _prepared(connection, sql, values)
        try:
            return bool(statement.executeQuery().next())
        finally:
            statement.close()


def _prepared(connection: Any, sql: str, values: Sequence[str]) -> Any:
    statement = connection.prepareStatement(sql)
    for number, value in enumerate(values, 1):
        statement.setString(number, value)
    return statement


def _reason(error: Py4JJavaError) -> str:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage()).strip()


def _is_missing(error: Py4JJavaError) -> bool:
    # 42P01 of PostgreSQL, 42S02 of MySQL and SQL Server, 42000 and 00942 of Oracle, 42704 of Db2.
    state = getattr(error.java_exception, "getSQLState", lambda: None)()
    code = getattr(error.java_exception, "getErrorCode", lambda: 0)()
    return state in ("42P01", "42S02", "42704", "42X05", "42S04") or code in (942, 208)
