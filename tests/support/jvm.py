"""JVMs for tests: they live for seconds, and most of that went into loading classes and into a better compiler.

`python -m tests.support.jvm` writes down which classes Spark loads (`make test` does so); a JVM that finds the
archive maps it. One that finds none, or one of another class path, loads its classes as ever and says nothing.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.spark_jobs import environment, finish, jars_folder, quick_java, submit_args

TRAINING_S = 300

# What most jobs of the tests do; only what is loaded here is in the archive.
_TRAINING = """
from pyspark import SparkContext
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rows = spark.range(100).selectExpr("id", "id % 7 AS kind", "concat('n', id) AS name", "id * 1.5D AS amount")
for form in ("parquet", "csv", "json"):
    rows.write.mode("overwrite").format(form).save(f"rows.{form}")
    spark.read.schema(rows.schema).format(form).load(f"rows.{form}").createOrReplaceTempView(form)
spark.sql("CREATE TABLE kept USING parquet AS SELECT * FROM json")
spark.sql("INSERT INTO kept SELECT * FROM csv")
kinds = rows.groupBy("kind").agg(F.sum("amount"), F.countDistinct("name"), F.max("id"))
kinds.join(spark.table("kept"), "kind").orderBy("kind").write.partitionBy("kind").parquet("kinds")
spark.sql("SELECT *, row_number() OVER (PARTITION BY kind ORDER BY id) AS nth FROM parquet").collect()
spark.createDataFrame([(1, "ann"), (2, None)], "id int, who string").select(F.upper("who")).collect()
spark.read.parquet("rows.parquet").rdd.map(lambda row: row.id).sum()
try:
    spark.range(2).selectExpr("raise_error('boom')").collect()
except Exception:
    pass
spark.stop()
gateway = SparkContext._gateway
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def main() -> None:
    if shutil.which("java") is not None:
        _write()


def _write() -> None:
    """The archive, unless there is one of the same jars and the same Java."""
    archive = quick_java().archive
    stamp, made_of = archive.with_suffix(".sha256"), _fingerprint()
    if archive.is_file() and stamp.is_file() and stamp.read_text() == made_of:
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        new = Path(folder) / archive.name
        training = {"SPARK_SUBMIT_OPTS": f"{quick_java().flags} -XX:ArchiveClassesAtExit={new}"}
        known = {"PYSPARK_SUBMIT_ARGS": submit_args({}, watch=False)}
        done = finish(
            [sys.executable, "-c", _TRAINING],
            cwd=folder,
            env=environment(training | known),
            timeout_s=TRAINING_S,
        )
        if done.returncode != 0 or not new.is_file():
            sys.stderr.write(f"tests go on without an archive of Spark's classes: {done.stderr.strip()[-500:]}\n")
            return
        new.rename(archive)
    stamp.write_text(made_of)


def _fingerprint() -> str:
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    jars = sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in jars_folder().iterdir())
    return hashlib.sha256(f"{java}{_TRAINING}{jars_folder()}{jars}".encode()).hexdigest()


if __name__ == "__main__":
    main()
