"""Tables of a real PostgreSQL: one transaction, done once a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.server.db.embedded import EmbeddedPostgres
from tests.pipelines.writing import QUICK
from tests.support import maven
from tests.support.ports import port_of
from tests.support.spark_jobs import ROOT, run_job

# All in one session: a driver has to be there when it starts, and each costs a JVM.
JOB = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from headgate.errors import HeadgateError
from tests.pipelines.writing import Target

url = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
head = f"  db: {{type: jdbc, url: '{url}', user: postgres}}\\n"
SCHEMA = "id INT, name STRING, amount DECIMAL(10,2)"
seen = {}

def target(more, table="public.orders"):
    return Target(spark, Path("."), f"connection: db, table: {table}, {more}", head=head)

def frame(*rows, schema=SCHEMA):
    return spark.createDataFrame([tuple(row) for row in rows], schema)

def rows(table="public.orders"):
    found = spark.read.jdbc(url, table, properties={"user": "postgres"}).collect()
    return sorted(([None if each is None else str(each) for each in row] for row in found), key=repr)

def refused(act):
    try:
        act()
    except HeadgateError as error:
        return [str(error), error.hint]

def tables():
    query = "(SELECT table_name FROM information_schema.tables WHERE table_schema = 'public') t"
    return sorted(row[0] for row in spark.read.jdbc(url, query, properties={"user": "postgres"}).collect())

def sql(text):
    connection = spark._jvm.java.sql.DriverManager.getConnection(url, "postgres", "")
    connection.createStatement().execute(text)
    connection.close()

from decimal import Decimal as D
one, two = (1, "a", D("1.50")), (2, "b", None)
done = target("mode: overwrite").write(frame(one, two), "r1")
seen["made"] = [rows(), done.rows, done.notes]
target("mode: overwrite").write(frame((9, "z", None)), "r2")
target("mode: overwrite").write(frame((3, "c", None)), "r2")
seen["overwritten"] = rows()
target("mode: append").write(frame(one), "r3")
again = target("mode: append").write(frame(one), "r3")
seen["appended"] = [rows(), again.notes]
done = target("mode: upsert, keys: [id]").write(frame((3, "cc", None), (4, "d", None), (None, "n", None)), "r4")
target("mode: upsert, keys: [id]").write(frame((None, "n", None)), "r5")
seen["upserted"] = rows()
done = target("mode: append_once, keys: [id]").write(frame((1, "z", None), (5, "e", None)), "r6")
seen["appended_once"] = [rows(), done.rows, done.notes]
target("mode: overwrite_partitions, partition_by: [name]").write(frame((6, "n", None)), "r7")
seen["partitions"] = rows()
seen["twice"] = refused(lambda: target("mode: upsert, keys: [id]").write(frame(one, one), "r8"))
seen["new column"] = refused(lambda: target("mode: append").write(frame((1, 2), schema="id INT, extra INT"), "r9"))
seen["history"] = refused(lambda: target("mode: scd2, keys: [id]").write(frame(one), "r9"))
sql("ALTER TABLE public.orders ADD CONSTRAINT small CHECK (id < 100)")
before = rows()
seen["broken"] = refused(lambda: target("mode: overwrite").write(frame(one, (100, "x", None)), "r10"))
seen["unchanged"] = before == rows()
done = target("mode: overwrite").write(frame(one), "r10")
seen["retried"] = rows()
target("mode: overwrite", "'\\"Odd Table\\"'").write(frame((1, 2), schema="`Odd Id` INT, `select` INT"), "r11")
seen["odd"] = rows('"Odd Table"')
from headgate.pipelines.journal import Owner
mine = Owner.this(0.0)
leftovers = [f"headgate_staging_0123ab_{machine}_{mine.pid}_0123456789ab" for machine in (mine.machine, "0123456789ab")]
for leftover in leftovers:
    sql(f"CREATE TABLE {leftover} (id INT)")
seen["empty"] = [target("mode: overwrite").write(frame(), "r12").rows, rows()]
seen["left"] = [name in tables() for name in leftovers]
sql(f"DROP TABLE {leftovers[1]}")
seen["tables"] = tables()
seen["marked"] = rows("public.headgate_batches")
print("seen=" + json.dumps(seen))
"""


@pytest.fixture(scope="module")
def port(embedded_postgres: EmbeddedPostgres) -> Iterator[int]:
    with port_of(embedded_postgres) as found:
        yield found


@pytest.fixture(scope="module")
def seen(port: int) -> Any:
    jars = maven.jars(maven.POSTGRESQL)
    paths = list(map(str, jars))
    conf = QUICK | {"spark.jars": ",".join(paths), "spark.driver.extraClassPath": ":".join(paths)}
    url = f"jdbc:postgresql://127.0.0.1:{port}/postgres"
    env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = run_job(JOB, conf=conf, env=env, args=[url], watch=False, timeout_s=400)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("seen=")).removeprefix("seen="))


pytestmark = pytest.mark.slow


def test_a_table_is_made_and_overwritten(seen: Any) -> None:
    assert seen["made"] == [[["1", "a", "1.50"], ["2", "b", None]], 2, []]
    assert seen["overwritten"] == [["3", "c", None]]


def test_a_run_done_again_after_its_commit_adds_nothing(seen: Any) -> None:
    rows, notes = seen["appended"]
    assert rows == [["1", "a", "1.50"], ["3", "c", None]]
    assert notes == ["this run's rows were there already: an earlier try had published them"]


def test_upsert_replaces_by_key_and_null_keys_match_nothing(seen: Any) -> None:
    assert seen["upserted"] == [
        ["1", "a", "1.50"],
        ["3", "cc", None],
        ["4", "d", None],
        [None, "n", None],
        [None, "n", None],
    ]


def test_append_once_leaves_out_known_keys(seen: Any) -> None:
    rows, count, notes = seen["appended_once"]
    assert ["5", "e", None] in rows
    assert ["1", "z", None] not in rows
    assert count == 1
    assert notes == ["1 rows were left out: their keys are there already"]


def test_rows_of_the_same_partition_are_replaced(seen: Any) -> None:
    assert [row for row in seen["partitions"] if row[1] == "n"] == [["6", "n", None]]
    assert ["1", "a", "1.50"] in seen["partitions"]


def test_what_cannot_be_written_is_told(seen: Any) -> None:
    assert seen["twice"][0].startswith("2 rows of the batch share 1 values of write.keys id")
    assert seen["new column"][0] == "db.public.orders has no column extra"
    assert "scd2 is not for databases" in seen["history"][0]


def test_an_error_in_the_transaction_changes_nothing_and_a_retry_goes_through(seen: Any) -> None:
    assert "violates check constraint" in seen["broken"][0]
    assert seen["unchanged"] is True
    assert seen["retried"] == [["1", "a", "1.50"]]


def test_names_may_be_odd_and_batches_empty(seen: Any) -> None:
    assert seen["odd"] == [["1", "2"]]
    assert seen["empty"] == [0, []]


def test_nothing_but_the_marks_is_left_in_the_database(seen: Any) -> None:
    assert [name for name in seen["tables"] if name.startswith("headgate")] == ["headgate_batches"]
    assert ["r3", "daily.orders"] in seen["marked"]
    assert "r8" not in [row[0] for row in seen["marked"]]


def test_staging_tables_of_dead_processes_are_dropped_and_those_of_other_machines_stay(seen: Any) -> None:
    assert seen["left"] == [False, True]
