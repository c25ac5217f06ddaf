"""The one line of an error that says what went wrong."""

from __future__ import annotations

import pytest

from headgate.domain.evidence import run_failed
from headgate.domain.trace import telling_line

PYTHON = """Traceback (most recent call last):
  File "/opt/airflow/dags/orders.py", line 41, in load
    day = date.fromisoformat(text)
          ^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: bad date 2026-13-01"""

CHAINED = """Task failed with exception
Traceback (most recent call last):
  File "load.py", line 3, in fetch
    return rows[key]
           ~~~~^^^^^
KeyError: 'eu'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "load.py", line 9, in <module>
    fetch("eu")
RegionError: no rows of region 'eu'"""

OF_SQL = """Traceback (most recent call last):
  File "load.py", line 9, in <module>
    cursor.execute(text)
psycopg2.errors.UndefinedColumn: column "mail" does not exist
LINE 1: select mail from raw.orders
               ^
HINT:  Perhaps you meant to reference the column "orders.email"."""

JAVA = """java.lang.RuntimeException: java.lang.reflect.InvocationTargetException
\tat org.example.Main.run(Main.java:12)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.lang.reflect.InvocationTargetException
\tat org.example.Inner.call(Inner.java:7)
\t... 8 more
Caused by: java.io.FileNotFoundException: s3a://lake/orders/day=2026-03-09 does not exist
\tat org.example.Files.open(Files.java:99)
\t... 12 more"""

SPARK = """org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.jobAbortedError(QueryExecutionErrors.scala:651)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 7.0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2844)
Caused by: java.lang.ArithmeticException: / by zero
\tat org.apache.spark.sql.catalyst.expressions.Divide.eval(arithmetic.scala:10)
\t... 1 more"""

SPARK_THAT_SAYS_SO = """org.apache.spark.sql.AnalysisException: [UNRESOLVED_COLUMN] A column `mail` cannot be resolved.
\tat org.apache.spark.sql.Dataset.ofRows(Dataset.scala:92)
Caused by: java.lang.IllegalStateException: inner
\t... 1 more"""

PY4J = """Traceback (most recent call last):
  File "/app/job.py", line 12, in <module>
    frame.write.save(path)
py4j.protocol.Py4JJavaError: An error occurred while calling o52.save.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.execution.datasources.FileFormatWriter$.write(FileFormatWriter.scala:251)
Caused by: org.apache.hadoop.fs.s3a.AWSBadRequestException: 400 on lake/orders
\tat org.apache.hadoop.fs.s3a.S3AUtils.translateException(S3AUtils.java:255)
\t... 41 more
"""

PY4J_WITHOUT_CAUSE = """An error occurred while calling o52.save.
: java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PYTHON, "ValueError: bad date 2026-13-01"),
        (f"\n\n{PYTHON}\n\n", "ValueError: bad date 2026-13-01"),
        (PYTHON.replace("\n", "\r\n"), "ValueError: bad date 2026-13-01"),
        (CHAINED, "RegionError: no rows of region 'eu'"),
        (OF_SQL, 'psycopg2.errors.UndefinedColumn: column "mail" does not exist'),
        (JAVA, "java.io.FileNotFoundException: s3a://lake/orders/day=2026-03-09 does not exist"),
        (SPARK, "java.lang.ArithmeticException: / by zero"),
        (SPARK_THAT_SAYS_SO, SPARK_THAT_SAYS_SO.splitlines()[0]),
        (PY4J, "org.apache.hadoop.fs.s3a.AWSBadRequestException: 400 on lake/orders"),
        (PY4J_WITHOUT_CAUSE, "java.io.IOException: No space left on device"),
        ('ERROR: relation "raw.orders" does not exist\n  Position: 15', 'ERROR: relation "raw.orders" does not exist'),
        ("the following checks failed:\n  not_null of id", "not_null of id"),
        ("AssertionError", "AssertionError"),
        ("boom", "boom"),
        ("  out of memory  \nmore of it", "out of memory"),
        ("java.lang.NullPointerException\n\tat a.B.c(B.java:1)", "java.lang.NullPointerException"),
        # Cut off before it says what.
        ("load failed\nTraceback (most recent call last):\n  File 'x', line 1", "load failed"),
        ("Traceback (most recent call last):\n  File 'x', line 1, in f", "File 'x', line 1, in f"),
        ("Traceback (most recent call last):", "Traceback (most recent call last):"),
        ("", ""),
        (" \n\t\n ", ""),
        (None, ""),
    ],
)
def test_the_line_that_says_what_went_wrong_is_told(error: str | None, line: str) -> None:
    assert telling_line(error) == line


def test_evidence_tells_that_line_and_no_more_of_it_than_fits() -> None:
    assert run_failed("FAIL", PYTHON).sentence == "failed: ValueError: bad date 2026-13-01"
    assert run_failed("ABORT", " \n").sentence == "was aborted"
    assert len(run_failed("FAIL", "x" * 10_000).sentence) < 300


def test_of_a_huge_error_a_line_is_told_that_can_be_shown() -> None:
    assert len(telling_line("x" * 10_000_000)) == 4000
    assert telling_line("\n".join(["java.lang.Error:"] * 100_000)) == "java.lang.Error:"
