"""Runs of a small project with an engine that does as it is told, for those who watch runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from headgate.openlineage.packing import unpack
from headgate.pipelines.emit import Emitter, Outbox
from headgate.pipelines.home import Home
from headgate.pipelines.plan import Key, Node, Plan
from headgate.pipelines.record import (
    ColumnProfile,
    DatasetRef,
    FieldRecord,
    GateRecord,
    NodeRecord,
    QuarantineRecord,
    RowCountRecord,
    RunRecord,
    Status,
    TestRecord,
)
from headgate.pipelines.run import Runner, Watcher
from headgate.pipelines.spool import Waits
from tests.support.events import Json
from tests.support.live import Live
from tests.unit.pipelines.samples import plan_of

PROJECT = """
    project: shop
    owner: data@example.org
    tags: [nightly]
    retry: {attempts: 2, delay: 1s}
    on_error: fail_later
    connections:
      bronze: {type: s3, base_path: s3a://lake/bronze}
      silver: {type: s3, base_path: s3a://lake/silver}
    pipelines:
      - pipeline: daily
        description: What was sold.
        nodes:
          - name: orders
            description: Orders that can be trusted.
            tags: [pii]
            read: {connection: bronze, path: orders}
            freshness: {max_age: 36h}
            validation:
              quarantine: {connection: silver, path: rejects}
              tests:
                - {type: not_null, columns: [id], on_fail: quarantine}
                - {type: row_count, min: 1, on_fail: warn}
            gate: {require_pass_rate: 0.9}
            write: {connection: silver, path: orders}
          - name: totals
            depends_on: orders
            write: {connection: silver, path: totals}
"""
TWO_PIPELINES = f"""{PROJECT}
      - pipeline: hourly
        nodes:
          - {{name: clicks, read: {{connection: bronze, path: clicks}}, write: {{connection: silver, path: clicks}}}}
"""

Deed = Callable[[NodeRecord], None]


class Engine:
    """Publishes every node in full but those for which it has something else to do."""

    def __init__(self, deeds: dict[str, Deed] | None = None) -> None:
        self.deeds = deeds or {}
        self.cancelled = 0

    def run(self, node: Node, record: NodeRecord, done: dict[Key, NodeRecord]) -> NodeRecord:
        fill(record, node)
        self.deeds.get(node.config.name, lambda _: None)(record)
        return record

    def cancel(self) -> None:
        self.cancelled += 1


def fill(record: NodeRecord, node: Node, rows: int = 100) -> NodeRecord:
    """What a published run of the node would leave."""
    assert node.target is not None
    record.status = Status.published
    record.output = DatasetRef(node.target.namespace, node.target.name, node.target.label)
    record.rows_in, record.rows_valid, record.rows_quarantined, record.rows_published = rows, rows - 3, 3, rows - 3
    record.bytes_published, record.files_published = 2048, 2
    record.schema = (FieldRecord("id", "bigint", False), FieldRecord("total", "decimal(10,2)"))
    record.profile = {"id": ColumnProfile(0, 97, 1, 97), "total": ColumnProfile(2, None, "1.50", None)}
    record.watermark = {"column": "updated_at", "value": "2026-03-01"}
    if node.config.gate is not None:
        record.gate = GateRecord(
            True, 0.97, 0.9, None, rows, rows - 3, 3, {"not_null": 0.97}, RowCountRecord(rows, None, None), ()
        )
        record.tests = (
            TestRecord("not_null", "not_null", "quarantine", "failed", 3, ("id",), rows),
            TestRecord("row_count", "row_count", "warn", "passed", 0, limit="at least 1", observed=rows),
        )
        apart = DatasetRef("s3://lake", "silver/rejects", "silver/rejects")
        sample = {"id": None, "total": "***"}
        record.quarantine = QuarantineRecord(
            apart, "s3a://lake/silver/rejects", record.run_id, 3, {"not_null": 3}, samples=(sample,)
        )
    return record


def breaks(record: NodeRecord) -> None:
    record.output = None
    raise ConnectionError("the network is gone\x00")


def stops(record: NodeRecord) -> None:
    record.status = Status.stopped
    record.rows_published = 0
    record.reasons = ("50 % of the rows pass, 90 % are required",)


def a_plan(folder: Path, text: str = PROJECT) -> Plan:
    return plan_of(folder, text)


def a_record(plan: Plan, **more: object) -> RunRecord:
    return RunRecord(str(uuid4()), "shop", tuple(plan.pipelines), file="pipeline.yaml", **more)  # type: ignore[arg-type]


def a_run(
    plan: Plan, watchers: Sequence[Watcher], deeds: dict[str, Deed] | None = None, run: RunRecord | None = None
) -> RunRecord:
    """A run from start to end."""
    runner = Runner(plan, Engine(deeds), watchers, lambda: str(uuid4()), sleep=lambda _: None)
    return runner.run(run or a_record(plan))


def an_ended(node: Node, **more: object) -> NodeRecord:
    """The record of a node that has been published, without a run around it."""
    now = datetime.now(UTC)
    record = NodeRecord(node.pipeline.pipeline, node.config.name, str(uuid4()), started_at=now, ended_at=now)
    fill(record, node)
    for name, value in more.items():
        setattr(record, name, value)
    return record


def an_emitter(plan: Plan, url: str, api_key: str = "hg_live_none", **more: Any) -> Emitter:
    """One that keeps its files beside the project, and waits for nobody."""
    home = Home.of(plan.loaded)
    quick = Waits(read_s=more.pop("read_s", 5.0), batch_s=more.pop("batch_s", 10.0))
    return Emitter(plan, Outbox(url, api_key, home.spool, home.refused, quick), **more)


def kept_in(folder: Path) -> list[Json]:
    """The events that wait to be sent, in their order."""
    files = sorted((folder / ".headgate" / "spool").glob("*.ndjson"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def in_short(event: Json) -> tuple[str, str]:
    return event["job"]["name"], event["eventType"]


async def stored_by(live: Live) -> list[bytes]:
    """Events that the server has accepted, as they came; those of one microsecond as they lie in the table."""
    rows = await live.db.fetch("SELECT raw FROM lineage_events WHERE outcome = 'accepted' ORDER BY received_at, ctid")
    return [unpack(row["raw"]) for row in rows]
