"""The Spark application of a run, and what only columns can tell before its first node: that steps and tests fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 - as everybody calls it

from headgate.errors import ConfigError, HeadgateError, InvalidPipeline, PipelineProblem
from headgate.pipelines.config.transform import StepConfig
from headgate.pipelines.config.write import WriteConfig, WriteMode
from headgate.pipelines.places import Address
from headgate.pipelines.plan import Key, NamedTest, Node, Plan
from headgate.pipelines.record import FieldRecord
from headgate.pipelines.spark.checks.frame import Frame
from headgate.pipelines.spark.checks.refusals import refusals
from headgate.pipelines.spark.checks.said import first_line
from headgate.pipelines.spark.figures.contract import with_contract
from headgate.pipelines.spark.read import read
from headgate.pipelines.spark.references import references
from headgate.pipelines.spark.session import is_connect, is_there, open_session, own_session
from headgate.pipelines.spark.sources import published
from headgate.pipelines.spark.spelling import nullable
from headgate.pipelines.spark.steps import transform
from headgate.pipelines.spark.write.align import fit
from headgate.pipelines.spark.write.base import check_columns as check_target
from headgate.pipelines.spark.write.keyed import added_columns, target_schema

Columns = tuple[FieldRecord, ...]
# The target is written again as a whole, so that new columns are in all its files.
_REWRITE = (WriteMode.upsert, WriteMode.scd2)
_UNTYPED = ("csv", "json", "text")
_TABLES = ("delta", "iceberg")
_ABSENT = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "PATH_DOES_NOT_EXIST")
# Types that Spark finds in the names of folders just as they were written there.
_NAMED = (T.DateType, T.TimestampType, T.IntegerType)
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"


@contextmanager
def application(plan: Plan, master: str | None, watching: Mapping[str, str]) -> Iterator[SparkSession]:
    """The session of a run; one that was there before is left running."""
    was_there = is_there()
    spark = _opened(plan, master, watching)
    if was_there:
        yield spark
        return
    if not is_connect(spark):
        spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _opened(plan: Plan, master: str | None, watching: Mapping[str, str]) -> SparkSession:
    project = plan.loaded.project
    try:
        return open_session(project.project, project.spark, master=master, watching=watching)
    except (PySparkException, Py4JError) as error:
        raise _not_started(error) from error


def _not_started(error: Exception) -> HeadgateError:
    if "JAVA_GATEWAY_EXITED" in str(error):
        return ConfigError(
            "Java did not start, and Spark needs it",
            hint="install a JDK (17 or 21) and set JAVA_HOME, or give --master sc://HOST of Spark Connect",
        )
    return HeadgateError(f"Spark did not start: {first_line(error)}", hint="what Spark says is above")


def check_columns(spark: SparkSession, plan: Plan, now: datetime | None = None) -> dict[Key, Columns | None]:
    """The columns of each node; None where only the run will tell. All that does not fit is refused at once."""
    checking = _Checking(spark, plan, now or datetime.now(UTC))
    for node in plan.nodes:
        checking.check(node)
    if checking.problems:
        raise InvalidPipeline(checking.problems)
    return {key: _columns(schema) for key, schema in checking.schemas.items()}


def _columns(schema: T.StructType | None) -> Columns | None:
    if schema is None:
        return None
    return tuple(FieldRecord(each.name, each.dataType.simpleString(), each.nullable) for each in schema.fields)


class _Unknown(Exception):
    """Only the run will tell."""


@dataclass
class _Checking:
    """Goes through the nodes in order; those to come are analysed over no rows of the columns that they will get."""

    spark: SparkSession
    plan: Plan
    now: datetime
    schemas: dict[Key, T.StructType | None] = field(default_factory=dict)
    problems: list[PipelineProblem] = field(default_factory=list)

    def check(self, node: Node) -> None:
        self.schemas[node.key] = None
        spark = own_session(self.spark, self.plan.loaded.project)
        try:
            frame = self._frame(spark, node)
        except _Unknown:
            return
        if frame is None:
            return
        self.schemas[node.key] = frame.schema
        tests = with_contract(node.tests, node.config.contract)
        self.problems += refusals(spark, frame, tests)
        self._check_references(spark, node, frame, tests)

    def _check_references(self, spark: SparkSession, node: Node, frame: DataFrame, tests: Sequence[NamedTest]) -> None:
        """Those that are there already; what a node of this run will write is looked at when it has."""
        refused = {problem.place for problem in self.problems}
        written = {each.target.location for each in self.plan.nodes if each.key in node.after and each.target}
        ready = [
            test
            for test in tests
            if test.reference is not None and test.reference.location not in written and test.place not in refused
        ]
        connections = self.plan.loaded.project.connections
        self.problems += references(spark, ready, Frame(frame.schema, self.now), {}, connections).problems

    def _frame(self, spark: SparkSession, node: Node) -> DataFrame | None:
        """None if it was refused."""
        if self._depends_on_rows(node):
            raise _Unknown
        others = {name: self._other(spark, node, (node.pipeline.pipeline, name)) for name in node.config.depends_on}
        source = self._source(spark, node)
        if None in others.values() or (source is None and node.config.read is not None):
            return None
        known = {name: frame for name, frame in others.items() if frame is not None}
        frame = source if source is not None else next(iter(known.values())) if len(known) == 1 else None
        folder = self.plan.loaded.folder_of(*node.loc, "transform")
        deed: Callable[[], DataFrame] = lambda: transform(spark, frame, node.config.transform, known, folder)  # noqa: E731
        return self._tried(node, "transform", deed)

    def _source(self, spark: SparkSession, node: Node) -> DataFrame | None:
        config, address = node.config.read, node.source
        if config is None or address is None:
            return None
        writers = self._writers(node)
        if len(writers) == 1 and writers[0][1].location == address.location:
            return self._read_to_come(spark, writers[0][0])
        if writers:
            raise _Unknown
        connection = self.plan.loaded.project.connections[config.connection]
        return self._tried(node, "read", lambda: read(spark, config, address, connection))

    def _writers(self, node: Node) -> list[tuple[Node, Address]]:
        """The nodes of this run that write what it reads, or what that is a part of, with their targets."""
        before = [(each, each.target) for each in self.plan.nodes if each.key in node.after]
        return [
            (each, target)
            for each, target in before
            if target is not None and node.source is not None and _is_within(node.source.location, target.location)
        ]

    def _depends_on_rows(self, node: Node) -> bool:
        """Whether a function gets rows to come: it may make columns of values, and there are none yet."""
        running = {each.key for each in self.plan.nodes}
        names = [name for name in node.config.depends_on if (node.pipeline.pipeline, name) in running]
        is_to_come = bool(names) if node.config.read is None else bool(self._writers(node))
        for step in node.config.transform.steps if node.config.transform is not None else []:
            if step.function is not None and is_to_come:
                return True
            is_to_come = is_to_come or _may_read(step, names)
        return False

    def _other(self, spark: SparkSession, node: Node, key: Key) -> DataFrame | None:
        other = self.plan.node(key)
        if other in self.plan.nodes:
            return self._to_come(spark, other)
        assert other.config.write is not None
        connection = self.plan.loaded.project.connections[other.config.write.connection]
        return self._tried(node, "depends_on", lambda: published(spark, other, connection, ()))

    def _to_come(self, spark: SparkSession, writer: Node) -> DataFrame:
        """No rows of what a node of this run will publish."""
        schema, write = self.schemas.get(writer.key), writer.config.write
        if schema is None:
            raise _Unknown
        whole = schema if write is None else self._kept(spark, writer, write, schema)
        return spark.createDataFrame([], nullable(whole))

    def _read_to_come(self, spark: SparkSession, writer: Node) -> DataFrame:
        """The same for one that reads the files by itself, and knows of partitions what Spark makes of their names."""
        frame, write = self._to_come(spark, writer), writer.config.write
        assert write is not None
        is_plain = write.path is not None and write.format not in _TABLES
        parts = {name.lower() for name in write.partition_by} if is_plain else set()
        kinds = [each.dataType for each in frame.schema.fields if each.name.lower() in parts]
        if kinds and not (spark.conf.get(_INFERENCE) == "true" and all(isinstance(each, _NAMED) for each in kinds)):
            raise _Unknown
        return frame

    def _kept(self, spark: SparkSession, writer: Node, write: WriteConfig, schema: T.StructType) -> T.StructType:
        """The columns of a target after its node: the node's own, those that were there, and partitions last."""
        try:
            check_target(schema, write, added_columns(write))
            whole = target_schema(schema, write)
            there = self._there(spark, writer, write, whole)
            found = None if there is None else fit(whole, there, writer.job_name)
        except ConfigError:  # the writer says it better
            raise _Unknown from None
        if found is not None and found.added and write.mode not in _REWRITE:
            # Readers see them or not, by the file that Spark looks at.
            raise _Unknown
        return _partitions_last(whole if found is None else found.schema, write)

    def _there(self, spark: SparkSession, writer: Node, write: WriteConfig, whole: T.StructType) -> T.StructType | None:
        """The columns of what stays of a target; None if nothing does."""
        if write.mode is WriteMode.overwrite:
            return None
        if write.topic is not None or write.format in _UNTYPED:
            raise _Unknown
        connection = self.plan.loaded.project.connections[write.connection]
        try:
            schema = published(spark, writer, connection, ()).schema
        except AnalysisException as error:
            if _is_absent(error):
                return None
            raise _Unknown from None
        except (PySparkException, Py4JError):
            raise _Unknown from None
        # Names of folders have no types.
        parts = {name.lower() for name in write.partition_by}
        named = {each.name.lower(): each for each in whole.fields if each.name.lower() in parts}
        return T.StructType([named.get(each.name.lower(), each) for each in schema.fields])

    def _tried(self, node: Node, block: str, deed: Callable[[], DataFrame]) -> DataFrame | None:
        place = self.plan.loaded.place(*node.loc, block)
        try:
            return deed()
        except PySparkException as error:
            self._refuse(place, f"node {node.config.name!r}: {first_line(error)}")
        except ConfigError as error:
            self._refuse(place, f"node {node.config.name!r}: {error.message}", error.hint)
        except Exception as error:  # a function of the project's own may raise anything
            self._refuse(place, f"node {node.config.name!r}: {type(error).__name__}: {first_line(error)}")
        return None

    def _refuse(self, place: str, message: str, hint: str | None = None) -> None:
        self.problems.append(PipelineProblem(place, message, hint))


def _is_within(location: str, folder: str) -> bool:
    return location == folder or location.startswith(f"{folder}/")


def _may_read(step: StepConfig, names: Sequence[str]) -> bool:
    """Whether a step of SQL takes in one of these nodes; a file may."""
    if step.function is not None:
        return False
    return bool(names) if step.sql is None else any(name.lower() in step.sql.lower() for name in names)


def _partitions_last(schema: T.StructType, write: WriteConfig) -> T.StructType:
    parts = [name.lower() for name in write.partition_by]
    last = [each for name in parts for each in schema.fields if each.name.lower() == name]
    return T.StructType([*(each for each in schema.fields if each.name.lower() not in parts), *last])


def _is_absent(error: AnalysisException) -> bool:
    """Whether there is no target yet, or a folder without files."""
    return any(word in str(error) for word in _ABSENT)
