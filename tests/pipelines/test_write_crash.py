"""A process that dies while it publishes: the target is as it was, byte for byte, or complete, and a retry ends it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.pipelines.files import LocalFiles
from headgate.pipelines.journal import Journal, Move
from headgate.pipelines.publish import Steps, journal_folder, publish
from tests.pipelines.writing import Target, contents, record, rejected, rows
from tests.support.dying import Dying, Recording
from tests.support.spark_jobs import ROOT, environment

# Has no session: what it publishes was prepared before, and a JVM for each step would take long.
DRIVER = """
import json, os, signal, sys
from headgate.pipelines.files import LocalFiles
from headgate.pipelines.journal import Move
from headgate.pipelines.publish import Steps, publish

class Mortal(LocalFiles):
    left = int(sys.argv[2])

    def step(self, act, *args):
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1
        act(*args)

    def rename(self, *args):
        self.step(super().rename, *args)

    def delete(self, *args):
        self.step(super().delete, *args)

    def write_text(self, *args):
        self.step(super().write_text, *args)

given = json.load(open(sys.argv[1]))
steps = Steps([Move(*each) for each in given["moves"]], given["trash"])
publish(Mortal(), given["target"], "second", "daily.orders", steps)
"""
SCHEMA = "id INT, day STRING, amount INT"
FIRST = [(1, "a", 1), (2, "b", 2)]
SECOND = [(2, "b", 20), (3, "c", 30)]
KEYLESS = (None, "n", 0)
MODES: dict[str, tuple[str, list[Any]]] = {
    "overwrite": ("mode: overwrite", [*SECOND, KEYLESS]),
    "append": ("mode: append, partition_by: day", [*FIRST, *SECOND, KEYLESS]),
    "overwrite_partitions": ("mode: overwrite_partitions, partition_by: day", [FIRST[0], *SECOND, KEYLESS]),
    "upsert": ("mode: upsert, keys: id, partition_by: day", [FIRST[0], *SECOND, KEYLESS]),
    "append_once": ("mode: append_once, keys: id", [*FIRST, SECOND[1], KEYLESS]),
    "scd2": ("mode: scd2, keys: id", [*FIRST, *SECOND]),
}


class Prepared:
    """A target with rows, and a second batch that is about to be published to it."""

    def __init__(self, spark: SparkSession, folder: Path, mode: str) -> None:
        self.folder, self.data = folder, folder / "data"
        block, self.expected = MODES[mode]
        self.target = Target(spark, folder, f"connection: lake, path: orders, {block}")
        self.target.now = datetime(2026, 5, 3, tzinfo=UTC)
        self.target.write(spark.createDataFrame(FIRST, SCHEMA), "first")
        self.target.now = datetime(2026, 5, 4, tzinfo=UTC)
        more = [] if mode == "scd2" else [KEYLESS]
        self.batch: DataFrame = spark.createDataFrame([*SECOND, *more], SCHEMA)
        apart = rejected(self.target, self.batch, "second")
        files = Recording()
        self.target.files = files
        into = self.target.prepared(self.batch, "second")
        with pytest.raises(InterruptedError):
            into.publish("second", record(self.target.node, "second"), apart)
        self.target.files = LocalFiles()
        self.entry = files.entry
        self.before = self.seen()
        shutil.copytree(self.data, folder / "prepared")

    @property
    def steps(self) -> int:
        # The entry twice, each rename, each deletion and that of the entry.
        return 2 + len(self.entry["moves"]) + len(self.entry["trash"]) + 1

    def seen(self) -> dict[str, bytes]:
        """Target and quarantine, byte for byte."""
        found = {name: contents(self.data / name) for name in ("orders", "bad_orders")}
        return {f"{name}/{path}": text for name, inside in found.items() for path, text in inside.items()}

    def again(self) -> None:
        shutil.rmtree(self.data)
        shutil.copytree(self.folder / "prepared", self.data)

    def dies_at(self, step: int) -> None:
        self.again()
        steps = Steps([Move(*each) for each in self.entry["moves"]], self.entry["trash"])
        files = Dying(step)
        with suppress(ConnectionError):
            publish(files, str(self.target.location), "second", "daily.orders", steps)
        assert (files.left < 0) == (step < self.steps)

    def is_killed_at(self, step: int) -> None:
        self.again()
        given = self.folder / "given.json"
        given.write_text(json.dumps({**self.entry, "target": str(self.target.location)}))
        command = [sys.executable, "-c", DRIVER, str(given), str(step)]
        env = environment({"PYTHONPATH": str(ROOT / "src")})
        ended = subprocess.run(command, cwd=ROOT, env=env, timeout=60, check=False).returncode
        assert ended == (0 if step == self.steps else -signal.SIGKILL)

    def recovered(self) -> dict[str, bytes]:
        Journal(LocalFiles(), journal_folder(str(self.target.location))).recover()
        return self.seen()

    def is_tried_again(self) -> None:
        # As the engine does it: what is left of a dead try is ended before anything of this one is staged.
        self.target.writer().check(self.batch.schema)
        self.target.write(self.batch, "second", rejected(self.target, self.batch, "second"))

    def check_whole(self, outcomes: list[dict[str, bytes]]) -> None:
        assert [outcome in (self.before, outcomes[-1]) for outcome in outcomes] == [True] * len(outcomes)
        assert outcomes[0] == self.before
        assert outcomes[-1] != self.before

    def check_rows(self) -> None:
        spark = self.target.spark
        assert self.target.rows("id", "day", "amount") == sorted(self.expected, key=repr)
        assert rows(spark.read.parquet(str(self.data / "bad_orders")), "id") == rows(self.batch, "id")
        left = self.data / ".headgate"
        assert not list((left / "previous").glob("*"))
        assert not list((left / "journal").glob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_death_at_any_step_leaves_the_target_whole_and_a_retry_ends_it(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    prepared = Prepared(spark, tmp_path, mode)
    outcomes = []
    for step in range(prepared.steps + 1):
        prepared.dies_at(step)
        outcomes.append(prepared.recovered())
    prepared.check_whole(outcomes)
    prepared.check_rows()

    # The same run once more, when it was published and only its end was not heard of.
    prepared.is_tried_again()
    prepared.check_rows()

    # And when it died half way: the retry itself ends what is left.
    prepared.dies_at(prepared.steps // 2)
    prepared.is_tried_again()
    prepared.check_rows()


@pytest.mark.slow
def test_a_process_that_is_killed_at_any_step_leaves_the_target_whole(spark: SparkSession, tmp_path: Path) -> None:
    prepared = Prepared(spark, tmp_path, "overwrite_partitions")
    outcomes = []
    for step in range(prepared.steps + 1):
        prepared.is_killed_at(step)
        outcomes.append(prepared.recovered())

    prepared.check_whole(outcomes)
    prepared.check_rows()
