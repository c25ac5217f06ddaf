"""One Spark session in a process of its own: does what it is told, line by line, and answers with what that took."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.agent import workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLUSH_MS = 60_000
# Linux shows the first fifteen letters of a thread's name.
THREADS = {"agent": "headgate-", "bus": "spark-listener-"}


class Session:
    """The session and the process of its JVM."""

    def __init__(self, conf: dict[str, str]) -> None:
        from pyspark.sql import SparkSession

        began = time.perf_counter()
        builder = SparkSession.builder.appName("benchmark")
        for key, value in conf.items():
            builder = builder.config(key, value)
        self.spark: SparkSession = builder.getOrCreate()
        self.startup_s = time.perf_counter() - began
        self.spark.sparkContext.setLogLevel("ERROR")
        self._jvm: Any = self.spark._jvm
        self._is_ours = "headgate" in conf.get("spark.extraListeners", "")
        self._process = psutil.Process(int(self._jvm.java.lang.ProcessHandle.current().pid()))

    def measure(self, work: Callable[[], None]) -> dict[str, float]:
        """Wall time as the program sees it; CPU of the whole JVM until all events have been sent."""
        self._jvm.java.lang.System.gc()
        cpu, threads, began = self._cpu_s(), self._threads_s(), time.perf_counter()
        work()
        seconds = time.perf_counter() - began
        self.flush()
        flushed = time.perf_counter() - began - seconds
        used = {f"{name}_s": after - threads[name] for name, after in self._threads_s().items()}
        return {"wall_s": seconds, "flush_s": flushed, "cpu_s": self._cpu_s() - cpu, **used}

    def flush(self) -> None:
        """Until every listener has heard of everything and our agent has sent it; the other one sends as it hears."""
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(FLUSH_MS)
        if self._is_ours and not self._jvm.headgate.spark.Agent.flush(FLUSH_MS):
            raise RuntimeError("the agent could not send everything")

    def _cpu_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def _threads_s(self) -> dict[str, float]:
        found = dict.fromkeys(THREADS, 0.0)
        for task in Path(f"/proc/{self._process.pid}/task").iterdir():
            try:
                name, nanos = (task / "comm").read_text(), int((task / "schedstat").read_text().split()[0])
            except OSError:
                continue
            for kind, prefix in THREADS.items():
                if name.startswith(prefix):
                    found[kind] += nanos / 1e9
        return found


def answer(session: Session, order: dict[str, Any]) -> dict[str, float]:
    spark, own = session.spark, Path(order["own"])
    match order["do"]:
        case "prepare":
            workload.prepare(spark, Path(order["data"]), rows=order["rows"])
            return {}
        case "open":
            workload.open_views(spark, Path(order["data"]))
            return {}
        case "small":
            return session.measure(lambda: workload.small(spark, own, order["queries"]))
        case "big":
            return session.measure(lambda: workload.big(spark, own))
    raise ValueError(order["do"])


def main() -> None:
    session = Session(json.loads(sys.argv[1]))
    print(json.dumps({"startup_s": session.startup_s}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(session, json.loads(line))), flush=True)
    session.spark.stop()


if __name__ == "__main__":
    main()
