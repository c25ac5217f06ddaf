"""Jars that tests need beside Spark's own, by their coordinates, through Spark's own resolver.

What was resolved once is kept under build/, so that a JVM starts only for new coordinates. `spark` is the
minor version of a Spark other than this interpreter's own, as in `spark_jobs`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

import pytest

from tests.support.absent import lacking
from tests.support.spark_jobs import ROOT, environment, finish, scala_version, spark_minor, spark_version

CACHE = ROOT / "build" / "maven"
RESOLVE_S = 300

# The gateway's JVM resolves `--packages` before it opens its port; no session is needed.
_RESOLVE = """
from pyspark.java_gateway import launch_gateway

print("jars=" + launch_gateway().jvm.org.apache.spark.SparkConf().get("spark.jars", ""))
"""

POSTGRESQL = "org.postgresql:postgresql:42.7.14"

# By Spark minor: the newest that was tried and works there.
_DELTA = {
    (3, 5): "io.delta:delta-spark_2.12:3.3.3",
    (4, 0): "io.delta:delta-spark_4.0_2.13:4.4.0",
    (4, 2): "io.delta:delta-spark_4.2_2.13:4.4.0",
}
_ICEBERG = {
    (3, 5): "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",
    (4, 0): "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
}
_AVRO = {(3, 5): "3.5.7", (4, 0): "4.0.2", (4, 2): "4.1.1", (4, 3): "4.1.1"}
_KAFKA = {(3, 5): "3.5.7", (4, 0): "4.0.4", (4, 2): "4.2.0", (4, 3): "4.2.0"}
# Its versions are fewer, and any of them goes with any connector of the same major version.
_KAFKA_TOKENS = {(3, 5): "3.5.7", (4, 0): "4.0.0", (4, 2): "4.0.0", (4, 3): "4.0.0"}


def delta(spark: str | None = None) -> str:
    """Delta's coordinates; the test is skipped on a Spark that no Delta was published for."""
    return _published("Delta", _DELTA, spark)


def iceberg_spark() -> str | None:
    """The Spark to test Iceberg on: this one if there is an Iceberg for it, else 3.5."""
    return None if spark_minor() in _ICEBERG else "3.5"


def iceberg(spark: str | None = None) -> str:
    """Iceberg's coordinates; the test is skipped on a Spark that no Iceberg was published for."""
    return _published("Iceberg", _ICEBERG, spark)


def openlineage(spark: str | None = None) -> str:
    return f"io.openlineage:openlineage-spark_{scala_version(spark)}:1.53.0"


def avro(spark: str | None = None) -> str:
    version = _published("Avro", _AVRO, spark)
    return f"org.apache.spark:spark-avro_{scala_version(spark)}:{version}"


def kafka_jars(spark: str | None = None) -> list[Path]:
    """The Kafka connector and what it needs."""
    scala = scala_version(spark)
    tokens = f"org.apache.spark:spark-token-provider-kafka-0-10_{scala}"
    connector = f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{_published('Kafka', _KAFKA, spark)}"
    support = f"{tokens}:{_published('Kafka', _KAFKA_TOKENS, spark)}"
    found = [*jars(connector, excludes=(tokens,), spark=spark), *jars(support, spark=spark)]
    return list(dict.fromkeys(found))


def jars(*coordinates: str, excludes: tuple[str, ...] = (), spark: str | None = None) -> list[Path]:
    """The jars of these coordinates and of what they need; the test is left out where they cannot be had."""
    asked = ["--packages", ",".join(sorted(coordinates))]
    asked += ["--exclude-packages", ",".join(excludes)] if excludes else []
    known = CACHE / f"{hashlib.sha256(' '.join(asked).encode()).hexdigest()[:16]}.json"
    found = _remembered(known)
    if not found:
        found = _resolve(asked, spark)
        known.write_text(json.dumps([str(path) for path in found]))
    return found


def _remembered(known: Path) -> list[Path]:
    found = [Path(name) for name in json.loads(known.read_text())] if known.is_file() else []
    return found if all(path.is_file() for path in found) else []


def _resolve(asked: list[str], spark: str | None) -> list[Path]:
    CACHE.mkdir(parents=True, exist_ok=True)
    arguments = " ".join([*asked, "--conf", f"spark.jars.ivy={CACHE / 'ivy'}", "pyspark-shell"])
    surroundings = environment({"PYSPARK_SUBMIT_ARGS": arguments}, spark=spark)
    done = finish([sys.executable, "-c", _RESOLVE], cwd=CACHE, env=surroundings, timeout_s=RESOLVE_S)
    line = next((line for line in done.stdout.splitlines() if line.startswith("jars=")), "")
    found = [Path(part.removeprefix("file://")) for part in line.removeprefix("jars=").split(",") if part]
    if done.returncode != 0 or not found:
        why = re.search(r"RuntimeException: (.*)", done.stderr)
        lacking(f"{asked[1]} cannot be fetched: {why[1] if why else done.stderr.strip()[-500:]}")
    return found


def _published(what: str, known: dict[tuple[int, int], str], spark: str | None) -> str:
    version = known.get(spark_minor(spark))
    if version is None:
        pytest.skip(f"no {what} is published for Spark {spark_version(spark)}")
    return version
