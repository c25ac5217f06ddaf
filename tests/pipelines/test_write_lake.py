"""Delta and Iceberg tables, each in a session of its own, which their jars and extensions have to be there for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.errors import ConfigError
from tests.pipelines.writing import QUICK, Target
from tests.support import maven
from tests.support.spark_jobs import ROOT, run_job

JOB = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from headgate.errors import HeadgateError
from tests.pipelines.writing import Target

base, head = Path(sys.argv[1]), sys.argv[2]
blocks = json.loads(sys.argv[3])
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
SCHEMA = "id INT, day STRING, amount INT"

def frame(*rows, schema=SCHEMA):
    return spark.createDataFrame([tuple(row) for row in rows], schema)

def case(block, name):
    place = block.format(name=name)
    def target(more):
        return Target(spark, base, f"{place}, {more}", head=head)
    def rows(*columns):
        into = target("mode: overwrite")
        location = into.node.target.location
        found = spark.read.format("delta").load(location) if "path:" in place else spark.table(location)
        rows = found.select(*columns).collect()
        return sorted(([None if each is None else str(each) for each in row] for row in rows), key=repr)
    return target, rows

def told(done):
    return [done.files, done.bytes, done.rows, list(done.notes)]

def refused(act):
    try:
        act()
    except HeadgateError as error:
        return str(error)

ALL = ("id", "day", "amount")

# Some runs are done a second time, as after a death that came too late to hinder them: most only for the first block.
def modes(block, seen, is_first):
    target, rows = case(block, "plain")
    into = lambda mode: target(f"mode: {mode}, partition_by: day")
    seen["made"] = told(into("overwrite").write(frame((1, "a", 1), (2, "b", 2)), "r1"))
    into("append").write(frame((3, "b", 3)), "r2")
    again = into("append").write(frame((3, "b", 3)), "r2")
    seen["append"] = [rows(*ALL), list(again.notes)]
    if is_first:
        into("overwrite_partitions").write(frame((4, "b", 9)), "r3")
    again = into("overwrite_partitions").write(frame((4, "b", 4)), "r3")
    seen["overwrite_partitions"] = [rows(*ALL), list(again.notes)]
    target, rows = case(block, "keyed")
    upsert, once = target("mode: upsert, keys: id"), target("mode: append_once, keys: id")
    upsert.write(frame((1, "a", 1), (2, "b", 2), (None, "n", 0)), "r1")
    batch = frame((2, "bb", 20), (3, "c", 30), (None, "n", 1))
    seen["rows"] = upsert.write(batch, "r2").rows
    seen["upsert"] = [list(upsert.write(batch, "r2").notes) if is_first else None, rows(*ALL)]
    batch = frame((1, "z", 0), (7, "g", 7), (None, "n", 2))
    done = once.write(batch, "r3")
    again = list(once.write(batch, "r3").notes) if is_first else None
    seen["append_once"] = [again, rows(*ALL), done.rows, list(done.notes)]
    target, rows = case(block, "history")
    history = target("mode: scd2, keys: id")
    history.write(frame((1, "a", 1)), "r1")
    history.write(frame((1, "a", 2)), "r2")
    again = list(history.write(frame((1, "a", 2)), "r2").notes) if is_first else None
    seen["scd2"] = [again, rows("id", "amount", "is_current")]

def others(block, seen):
    target, rows = case(block, "plain")
    append = target("mode: append, partition_by: day")
    texts = frame((5, "c", "x"), schema="id INT, day STRING, amount STRING")
    by_id = target("mode: overwrite_partitions, partition_by: id")
    seen["clash"] = refused(lambda: append.write(texts, "r5"))
    seen["moved"] = refused(lambda: by_id.write(frame((5, "c", 5)), "r5"))
    append.write(frame((6, "c", 7), schema="id INT, day STRING, more INT"), "r6")
    seen["aligned"] = rows("id", "amount", "more")
    target("mode: overwrite").write(frame(("one",), schema="id STRING"), "r7")
    seen["anew"] = rows("*")
    seen["unparted"] = refused(lambda: by_id.write(frame(("two", 2), schema="id STRING, more INT"), "r5"))
    seen["empty"] = [target("mode: overwrite").write(frame(), "r8").rows, rows(*ALL)]
    target, rows = case(block, "keyed")
    seen["twice"] = refused(lambda: target("mode: upsert, keys: id").write(frame((1, "a", 1), (1, "b", 2)), "r4"))

def apart(block, seen):
    into = Target(spark, base, "connection: lake, path: orders", head=head, quarantine=block.format(name="bad"))
    one, two, three = (1, "a", 1), (2, "b", 2), (3, "c", 3)
    batches = [("one", frame(one, two)), ("two", frame(one)), ("one", frame(three)), ("two", None)]
    seen["apart"] = [into.set_apart(rows, run) for run, rows in batches]

# Each commit takes a while: what does not depend on how the table is known is done once.
for number, block in enumerate(blocks):
    seen = {}
    modes(block, seen, number == 0)
    if number == 0:
        others(block, seen)
        apart(block, seen)
    print("seen=" + json.dumps(seen))
"""


def run_cases(
    tmp_path: Path, head: str, blocks: list[str], conf: dict[str, str], jars: list[Path], spark: str | None = None
) -> list[Any]:
    env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    args = [str(tmp_path), head, json.dumps(blocks)]
    if spark is not None:
        env["PYTHONPATH"] = f"{ROOT / 'build' / 'spark' / spark}:{env['PYTHONPATH']}"
    given = QUICK | conf | {"spark.jars": ",".join(map(str, jars))}
    done = run_job(JOB, conf=given, env=env, args=args, watch=False, timeout_s=900, spark=spark)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("seen=")]
    return [json.loads(line.removeprefix("seen=")) for line in lines]


ONCE = ["this run's rows were there already: an earlier try had published them"]


def check_modes(seen: Any, *, is_first: bool = True) -> None:
    files, size, count, notes = seen["made"]
    assert files >= 1
    assert size > 0
    assert (count, notes) == (2, [])
    assert seen["append"] == [[["1", "a", "1"], ["2", "b", "2"], ["3", "b", "3"]], ONCE]
    # What can be done again is: the batch of the last try is there.
    assert seen["overwrite_partitions"] == [[["1", "a", "1"], ["4", "b", "4"]], []]
    upserted = [["1", "a", "1"], ["2", "bb", "20"], ["3", "c", "30"]]
    once, nothing = (ONCE, ["nothing has changed"]) if is_first else (None, None)
    assert seen["upsert"] == [once, [*upserted, [None, "n", "0"], [None, "n", "1"]]]
    assert seen["rows"] == 3
    added = [*upserted, ["7", "g", "7"], [None, "n", "0"], [None, "n", "1"], [None, "n", "2"]]
    assert seen["append_once"] == [once, added, 2, ["1 rows were left out: their keys are there already"]]
    assert seen["scd2"] == [nothing, [["1", "1", "False"], ["1", "2", "True"]]]


def check_others(seen: Any) -> None:
    assert "'amount' is string in the batch and int there" in seen["clash"]
    assert "is partitioned by day, and write.partition_by says id" in seen["moved"]
    assert "is partitioned by nothing, and write.partition_by says id" in seen["unparted"]
    assert seen["aligned"] == [["1", "1", None], ["4", "4", None], ["6", None, "7"]]
    assert seen["anew"] == [["one"]]
    assert seen["empty"] == [0, []]
    assert "2 rows of the batch share 1 values" in seen["twice"]
    assert seen["apart"] == [
        [["one", 1], ["one", 2]],
        [["one", 1], ["one", 2], ["two", 1]],
        [["one", 3], ["two", 1]],
        [["one", 3]],
    ]


@pytest.mark.slow
def test_delta_by_path_and_by_name(tmp_path: Path) -> None:
    conf = {
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    head = "  tables: {type: catalog, database: default}\n"
    blocks = ["connection: lake, path: {name}, format: delta", "connection: tables, table: {name}, format: delta"]
    by_path, by_name = run_cases(tmp_path, head, blocks, conf, maven.jars(maven.delta()))

    check_modes(by_path)
    check_others(by_path)
    check_modes(by_name, is_first=False)


@pytest.mark.slow
def test_iceberg_by_name(tmp_path: Path) -> None:
    spark = maven.iceberg_spark()
    conf = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(tmp_path / "ice"),
    }
    head = "  tables: {type: catalog, catalog: ice, database: db}\n"
    jars = maven.jars(maven.iceberg(spark), spark=spark)
    (seen,) = run_cases(tmp_path, head, ["connection: tables, table: {name}"], conf, jars, spark)

    check_modes(seen)
    check_others(seen)


def test_without_jars_the_way_out_is_named(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, format: delta")
    with pytest.raises(ConfigError, match="this session has no delta") as refused:
        target.writer().check(spark.createDataFrame([], "id INT").schema)
    assert "spark.packages: io.delta:delta-spark" in str(refused.value.hint)


def test_iceberg_by_path_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "connection: lake, path: orders, format: iceberg")
    with pytest.raises(ConfigError, match="by their name in a catalog and not by a path"):
        target.writer()
