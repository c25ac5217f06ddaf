"""One side in a process of its own: does what it is told, line by line. Runs in the environments of the peers too."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from benchmarks.pipelines.rows import trips

CONF = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "3g",
    # A heap that grows would cost the first turns more than the last.
    "spark.driver.extraJavaOptions": "-Xms3g",
}


class Side:
    """A warm session with the works of one side, among them the bare one: read and write."""

    def __init__(self, name: str, folder: Path) -> None:
        builder = SparkSession.builder.appName(name)
        for key, value in CONF.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self._source, self._target = folder / "trips", folder / name
        more = importlib.import_module(f"benchmarks.pipelines.{name}")
        self._works: dict[str, Callable[[], None]] = {
            "bare": self._bare,
            **more.works(self.spark, self._source, self._target),
        }

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        match order["do"]:
            case "make":
                trips(self.spark, order["rows"]).write.mode("overwrite").parquet(str(self._source))
            case "clear":
                self._clear(order["work"])
            case "run":
                before = self._jobs()
                self._works[order["work"]]()
                return {"jobs": self._jobs() - before}
            case "count":
                folder = self._target / order["work"]
                return {name: self._count(folder / name) for name in ("valid", "rejected")}
        return {}

    def _bare(self) -> None:
        self.spark.read.parquet(str(self._source)).write.parquet(str(self._target / "bare" / "valid"))

    def _clear(self, work: str) -> None:
        shutil.rmtree(self._target / work, ignore_errors=True)
        self._jvm().java.lang.System.gc()

    def _count(self, folder: Path) -> int:
        return self.spark.read.option("recursiveFileLookup", "true").parquet(str(folder)).count()

    def _jobs(self) -> int:
        """How many jobs there have been, of whatever group."""
        return int(self.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())

    def _jvm(self) -> Any:
        return self.spark._jvm


def main() -> None:
    side = Side(sys.argv[1], Path(sys.argv[2]))
    print(json.dumps({"spark": pyspark.__version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(side.answer(json.loads(line))), flush=True)
    side.spark.stop()


if __name__ == "__main__":
    main()
