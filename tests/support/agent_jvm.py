"""A JVM with the agent on its class path and no Spark session: for its configuration and its transport alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.spark_jobs import agent_jar


class Counted(NamedTuple):
    """What became of the events."""

    sent: int
    retried: int
    spooled: int
    dropped: int


class Sending:
    """The agent's transport, made from settings as a job would have them."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def send(self, *events: Mapping[str, Any] | bytes) -> None:
        for event in events:
            self._transport.send(event if isinstance(event, bytes) else json.dumps(event).encode())

    def flush(self, timeout_ms: int = 10_000) -> bool:
        return bool(self._transport.flush(timeout_ms))

    def close(self, timeout_ms: int = 10_000) -> Counted:
        counts = self._transport.close(timeout_ms)
        return Counted(counts.sent(), counts.retried(), counts.spooled(), counts.dropped())

    def timed_close(self, timeout_ms: int) -> tuple[Counted, float]:
        """What became of them, and how many seconds closing took."""
        began = time.monotonic()
        counted = self.close(timeout_ms)
        return counted, time.monotonic() - began


class AgentJvm:
    """Calls into the agent's classes."""

    def __init__(self, gateway: Any, log: Path) -> None:
        self.gateway = gateway
        self._log = log
        self._read = 0

    @property
    def jvm(self) -> Any:
        return self.gateway.jvm

    def config(self, conf: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None) -> Any:
        return self.jvm.headgate.spark.Config.of(dict(conf or {}), dict(env or {}))

    def sending(self, **settings: object) -> Sending:
        conf = {f"spark.headgate.{name}": str(value) for name, value in settings.items()}
        return Sending(self.jvm.headgate.spark.transport.Transports.of(self.config(conf)))

    def new_log(self) -> list[str]:
        """The agent's lines in the log since the last call."""
        text = self._log.read_text()
        new, self._read = text[self._read :], len(text)
        return [line for line in new.splitlines() if " headgate" in line]


@contextmanager
def agent_jvm(folder: Path) -> Iterator[AgentJvm]:
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False)
    conf.set("spark.driver.extraClassPath", str(agent_jar())).set("spark.driver.memory", "512m")
    log = folder / "jvm.log"
    with log.open("wb") as stderr:
        gateway = launch_gateway(conf, popen_kwargs={"stderr": stderr})
        try:
            yield AgentJvm(gateway, log)
        finally:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(30)
