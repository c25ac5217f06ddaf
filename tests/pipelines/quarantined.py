"""A node with a quarantine: what its runs set apart, and what replays make of that."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.domain import gate
from headgate.pipelines.batches import Batch, batches
from headgate.pipelines.files import Files, LocalFiles
from headgate.pipelines.history import Counts, Last, Unknown
from headgate.pipelines.load import load
from headgate.pipelines.plan import Node, Plan, make_plan
from headgate.pipelines.record import NodeRecord
from headgate.pipelines.replays import ReplayRecord
from headgate.pipelines.spark.engine import SparkEngine
from headgate.pipelines.spark.held import rows_of
from headgate.pipelines.spark.replaying import Replay
from headgate.pipelines.spark.session import own_session
from tests.pipelines.writing import rows

COLUMNS = "id INT, day STRING, amount INT"
NOT_NULL = "{type: not_null, columns: [amount], on_fail: quarantine, name: has_amount}"
PAID = "{type: range, column: amount, min: 0, on_fail: quarantine, name: is_paid, description: nobody is paid to buy}"
_numbers = itertools.count(1)


class NoPast:
    """Nothing is known of earlier runs."""

    def last_published(self, node: Node) -> Last | Unknown:
        return Unknown("nobody was asked")

    def row_counts(self, node: Node, runs: int) -> Counts | Unknown:
        return Unknown("nobody was asked")

    def for_gate(self, node: Node) -> gate.History:
        return gate.History(note="nobody was asked")


@dataclass
class Shop:
    """A project of one node, `orders`; each run reads the rows that it is given."""

    spark: SparkSession
    folder: Path
    write: str = "mode: append"
    tests: Sequence[str] = (NOT_NULL, PAID)
    quarantine: str = ""
    more: str = ""
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        self.file.write_text(self.text(), encoding="utf-8")
        self.plan = make_plan(load(self.file))

    @property
    def file(self) -> Path:
        return self.folder / "pipeline.yaml"

    def text(self) -> str:
        apart = f", {self.quarantine}" if self.quarantine else ""
        lines = [
            "project: shop",
            "connections:",
            "  lake: {type: local, base_path: data}",
            "pipelines:",
            "- pipeline: daily",
            "  nodes:",
            "  - name: orders",
            "    read: {connection: lake, path: raw}",
            "    validation:",
            f"      quarantine: {{connection: lake, path: bad_orders{apart}}}",
            f"      tests: [{', '.join(self.tests)}]",
            *([f"    {self.more}"] if self.more else []),
            f"    write: {{connection: lake, path: orders, {self.write}}}",
        ]
        return "\n".join(lines) + "\n"

    @property
    def node(self) -> Node:
        return self.plan.nodes[0]

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def run(
        self, given: list[Any], run_id: str | None = None, *, now: datetime | None = None, columns: str = COLUMNS
    ) -> NodeRecord:
        frame = given if isinstance(given, DataFrame) else self.spark.createDataFrame(given, columns)
        frame.coalesce(1).write.mode("overwrite").parquet(str(self.data / "raw"))
        run_id = run_id or f"run-{next(_numbers)}"
        engine = SparkEngine(self.spark, self.plan, run_id, NoPast(), now or moment())
        return engine.run(self.node, NodeRecord("daily", "orders", run_id), {})

    def replay(
        self,
        given: Path | None = None,
        *,
        batch: str | None = None,
        run_id: str | None = None,
        disk: Files | None = None,
        is_dry: bool = False,
    ) -> ReplayRecord:
        record = ReplayRecord("daily", "orders", run_id or f"replay-{next(_numbers)}")
        session = own_session(self.spark, self.plan.loaded.project)
        return Replay(session, self.plan, self.node, batch, record, NoPast(), given, is_dry, moment(), disk).run()

    def target(self, *columns: str) -> list[tuple[Any, ...]]:
        path = self.data / "orders"
        return rows(self.spark.read.parquet(str(path)), *columns) if path.exists() else []

    def apart(self, *columns: str) -> list[tuple[Any, ...]]:
        path = self.data / "bad_orders"
        there = path.exists() and any(path.glob("*/[!_.]*"))
        return rows(self.spark.read.parquet(str(path)), *columns) if there else []

    def batches(self) -> list[Batch]:
        return batches(LocalFiles(), str(self.data / "bad_orders"), "daily.orders")

    def ids(self, batch: Batch | None = None) -> dict[Any, str]:
        """Row ids by the first column; the last of rows that are alike there."""
        found = rows_of(self.spark, LocalFiles(), batch or self.batches()[-1])
        return {row[0]: row["_row_id"] for row in found.collect()}


def moment() -> datetime:
    """Each is later than the one before."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=next(_numbers))


def corrected(folder: Path, text: str, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
