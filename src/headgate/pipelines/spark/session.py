"""The Spark session of a run: the one that is there, or a new one by the project's settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headgate.errors import ConfigError
from headgate.pipelines.config.connection import FolderConnection
from headgate.pipelines.config.project import ProjectConfig, SparkConfig
from headgate.pipelines.spark.spelling import spark_options

# Rows go to a few lots at once: with a writer for each, they need no sort before.
_WRITERS = "spark.sql.maxConcurrentOutputFileWriters"
# What the agent does not tell: see `watched`.
SILENT = "spark.headgate.action.silent"


def open_session(name: str, config: SparkConfig, *, master: str | None, watching: Mapping[str, str]) -> SparkSession:
    """A session for this run. `watching` configures the agent; a session that is there already is left as it is."""
    active = SparkSession.getActiveSession() or _connected()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    wanted = master or os.environ.get("SPARK_REMOTE") or config.master
    builder = SparkSession.builder.appName(name)
    if wanted is not None and wanted.startswith("sc://"):
        # For sessions of nodes, where this one should not say where its server is.
        os.environ["SPARK_REMOTE"] = wanted
        return _configured(builder.remote(wanted), config, {}).getOrCreate()
    # Under spark-submit the master is known already.
    if wanted is not None:
        builder = builder.master(wanted)
    elif "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master("local[*]")
    defaults = {"spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}
    return _configured(builder, config, {**defaults, **watching}).getOrCreate()


def is_there() -> bool:
    """Whether there is a session already, of whichever kind."""
    return SparkContext._active_spark_context is not None or _connected() is not None


def _connected() -> SparkSession | None:
    """A session of Spark Connect that somebody has opened, in this thread or another."""
    # Not loaded for the question: it needs packages that others can do without.
    module = sys.modules.get("pyspark.sql.connect.session")
    if module is None:
        return None
    found: SparkSession | None = module.SparkSession.getActiveSession() or module.SparkSession._get_default_session()
    return found


def _configured(builder: SparkSession.Builder, config: SparkConfig, more: Mapping[str, str]) -> SparkSession.Builder:
    given = spark_options(config.conf)
    if config.packages:
        given["spark.jars.packages"] = ",".join(config.packages)
    for key, value in {**more, **given}.items():
        builder = builder.config(key, value)
    return builder


def is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _take_over(spark: SparkSession, fresh: SparkSession) -> None:
    """Sessions of Spark Connect begin with the server's settings, and not with those of the project."""
    there = dict(fresh.conf.getAll)
    for key, value in dict(spark.conf.getAll).items():
        if there.get(key) != value:
            fresh.conf.set(key, value)


def remote_of(spark: SparkSession) -> str:
    """Where the server of a session is; by an address without its id, for a new session has its own."""
    parsed = getattr(getattr(spark.client, "_builder", None), "url", None)
    if parsed is None:
        if (known := os.environ.get("SPARK_REMOTE")) is not None:
            return known
        raise ConfigError(
            "the session of Spark Connect does not say where its server is", hint="set SPARK_REMOTE to sc://HOST"
        )
    kept = [each for each in parsed.params.split(";") if each and not each.startswith("session_id=")]
    return f"sc://{parsed.netloc}/" + "".join(f";{each}" for each in kept)


def own_session(spark: SparkSession, project: ProjectConfig) -> SparkSession:
    """A session of a node's own: views of nodes that run side by side have the same names."""
    if is_connect(spark):
        fresh = SparkSession.builder.remote(remote_of(spark)).create()
        _take_over(spark, fresh)
    else:
        fresh = spark.newSession()
    fresh.conf.set(_WRITERS, "16")
    fresh.conf.set(SILENT, "true")
    for connection in project.connections.values():
        if isinstance(connection, FolderConnection):
            # A session hands its settings on to Hadoop.
            for key, value in connection.options.items():
                fresh.conf.set(key, value)
    return fresh
