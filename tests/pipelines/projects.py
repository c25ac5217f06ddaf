"""Small projects that run as a user's would: a file is written, loaded, planned and run, and history is remembered."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.domain import gate
from headgate.pipelines.history import NO_RUN, Counts, Last, Published, Unknown, watermark_of
from headgate.pipelines.load import load
from headgate.pipelines.plan import Key, Node, Plan, make_plan
from headgate.pipelines.record import NodeRecord, RunRecord, Status
from headgate.pipelines.run import Runner
from headgate.pipelines.spark.engine import SparkEngine
from headgate.pipelines.watchers import Watched

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
_numbers = itertools.count(1)


class Memory(Watched):
    """What a server would know of published nodes."""

    def __init__(self) -> None:
        self.published: dict[Key, list[NodeRecord]] = {}

    def node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        if record.status is Status.published:
            self.published.setdefault(node.key, []).insert(0, record)

    def last_published(self, node: Node) -> Last | Unknown:
        found = self.published.get(node.key)
        if not found:
            return Unknown(NO_RUN)
        last = found[0]
        run = Published(last.run_id, last.rows_in, last.rows_published, last.ended_at)
        return Last(run, last.schema, watermark_of(last))

    def row_counts(self, node: Node, runs: int) -> Counts | Unknown:
        found = self.published.get(node.key, [])[:runs]
        return Counts(tuple(each.rows_in for each in found)) if found else Unknown(NO_RUN)

    def for_gate(self, node: Node) -> gate.History:
        last = self.last_published(node)
        return gate.History(note=last.note) if isinstance(last, Unknown) else gate.History(last.rows_in, last.note)


@dataclass
class Project:
    """A project in a folder of its own, with its data beside it."""

    spark: SparkSession
    folder: Path
    nodes: list[dict[str, Any]]
    more: Mapping[str, Any] = field(default_factory=dict)
    history: Memory = field(default_factory=Memory)

    @property
    def file(self) -> Path:
        return self.folder / "shop.yaml"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def put(self, path: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows to read, as JSON; more of them come in further files."""
        folder = self.data / path
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{next(_numbers):04}.json").write_text(text, encoding="utf-8")

    def plan(self) -> Plan:
        told = {
            "project": "shop",
            "connections": {"lake": {"type": "local", "base_path": "data"}},
            "pipelines": [{"pipeline": "daily", "nodes": self.nodes}],
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        # Whatever is JSON is YAML too.
        self.file.write_text(json.dumps({**told, **self.more}, indent=1), encoding="utf-8")
        return make_plan(load(self.file))

    def run(self, run_id: str | None = None, *, now: datetime = NOW, parallel: int = 2) -> dict[str, NodeRecord]:
        """The records of a run's nodes by their names."""
        plan, run_id = self.plan(), run_id or f"run-{next(_numbers)}"
        engine = SparkEngine(self.spark, plan, run_id, self.history, now=now)
        ids = (f"{run_id}-{number}" for number in itertools.count(1))
        runner = Runner(plan, engine, [self.history], lambda: next(ids), parallel)
        try:
            done = runner.run(RunRecord(run_id, "shop", tuple(plan.pipelines)))
        finally:
            engine.close()
        return {record.name: record for record in done.nodes}

    def read(self, path: str, format: str = "parquet", **options: str) -> DataFrame:  # noqa: A002 - as Spark calls it
        return self.spark.read.format(format).options(**options).load(str(self.data / path))

    def ids(self, path: str, column: str = "id") -> list[Any]:
        """The values of a column in order; none if nothing is there."""
        if not (self.data / path).exists():
            return []
        return sorted(row[0] for row in self.read(path).select(column).collect())

    def left_over(self) -> list[str]:
        """What staging still holds."""
        found = self.folder.rglob(".headgate/staging/*")
        return sorted(str(each.relative_to(self.folder)) for each in found)


def node(
    name: str,
    columns: str,
    *tests: Mapping[str, Any],
    source: str = "raw",
    quarantine: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A node that reads JSON of these columns and overwrites parquet under its own name."""
    validation: dict[str, Any] = {"tests": [dict(test) for test in tests]}
    if quarantine is not None:
        validation["quarantine"] = {"connection": "lake", "path": quarantine}
    block = {
        "name": name,
        "read": {"connection": "lake", "path": source, "format": "json", "columns": columns},
        "validation": {**validation, **more.pop("validation", {})},
        "write": {"connection": "lake", "path": name},
    }
    return {key: value for key, value in {**block, **more}.items() if value is not None}


def told_of(record: NodeRecord, name: str) -> Any:
    return next(test for test in record.tests if test.name == name)


def failing(record: NodeRecord) -> dict[str, int]:
    """How many rows fail each test that any fails."""
    return {test.name: test.failed for test in record.tests if test.failed}


def latest_job(spark: SparkSession) -> int:
    """The number of a job that is run to find it out; they go up by one, whoever runs them."""
    spark.range(1).collect()
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None))
