"""The Spark session of a test process: there can be one at a time, and the agent is in some and not in others."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_open: dict[str, SparkSession] = {}
_PLAIN = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(kind: str, settings: Mapping[str, str], **env: str) -> SparkSession:
    """The session of this kind, started if it is not there; one of another kind is ended with its JVM.

    What a JVM has loaded and heard of when it started stays with it.
    """
    from pyspark.sql import SparkSession

    if kind not in _open:
        end()
        with pytest.MonkeyPatch.context() as monkeypatch:
            for name, value in {"PYSPARK_PYTHON": sys.executable, **env}.items():
                monkeypatch.setenv(name, value)
            builder = SparkSession.builder.appName(kind).master("local[2]")
            for key, value in {**_PLAIN, **settings}.items():
                builder = builder.config(key, value)
            _open[kind] = builder.getOrCreate()
    return _open[kind]


def plain_session(warehouse: str) -> SparkSession:
    """A session without the agent, for pipelines."""
    found = session("pipelines", {"spark.sql.session.timeZone": "UTC", "spark.sql.warehouse.dir": warehouse})
    found.sparkContext.setLogLevel("OFF")
    return found


def end() -> None:
    """Stop the session, if there is one, and the JVM that it ran in."""
    if not _open:
        return
    from pyspark import SparkContext

    context: Any = SparkContext
    while _open:
        _open.popitem()[1].stop()
    gateway, context._gateway, context._jvm = context._gateway, None, None
    gateway.shutdown()
    # It goes by itself when nobody writes to it any more.
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=60)
