"""Events of pipelines as the engine sends them: a run, its nodes, and the alerts of a run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import to_builtins

from headgate.pipelines.record import (
    DatasetRef,
    FieldRecord,
    GateRecord,
    NodeRecord,
    QuarantineRecord,
    RowCountRecord,
    Status,
    TestRecord,
)
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at

PROJECT, PIPELINE, NODE = "shop", "sales", "orders"
TARGET = DatasetRef("s3://lake", "silver/orders", "silver/orders")
SOURCE = DatasetRef("s3://lake", "bronze/orders", "bronze/orders")
REJECTS = DatasetRef("s3://lake", "rejects/orders", "rejects/orders")
_ENDS = {Status.published: "COMPLETE", Status.skipped: "COMPLETE", Status.stopped: "FAIL", Status.failed: "FAIL"}


def moment(seconds: float) -> datetime:
    return datetime.fromisoformat(at(seconds))


def a_pipeline_event(
    run: str,
    status: str | None = None,
    *,
    seconds: float = 0,
    pipeline: str = PIPELINE,
    project: str = PROJECT,
    event_type: str | None = None,
    alerts: list[Json] | None = None,
    **more: Any,
) -> Json:
    """The start of a run of a pipeline or, given a status, its end."""
    body = {"project": project, "pipeline": pipeline, "environment": "test", "file": "shop.yaml", "run_id": run}
    body |= {"nodes": [NODE], "started_at": at(seconds if status is None else 0)}
    body |= {} if status is None else {"status": status, "ended_at": at(seconds)}
    facets = {"headgate_pipeline": a_facet(**body | more)}
    if alerts is not None:
        facets["headgate_alerts"] = a_facet(alerts=alerts)
    kind = event_type or ("START" if status is None else _ENDS[Status(status)])
    return an_event(kind, run=run, namespace=project, job=pipeline, time=at(seconds), run_facets=facets)


def a_node_start(run: str, parent: str | None = None, *, seconds: float = 0, node: str = NODE, **more: Any) -> Json:
    """The start of a node, which tells no more than who it is."""
    body = {"project": PROJECT, "pipeline": PIPELINE, "name": node, "run_id": run} | more
    return _node_event("START", run, parent, seconds, body)


def a_node_end(
    run: str,
    parent: str | None = None,
    *,
    seconds: float = 60,
    node: str = NODE,
    project: str = PROJECT,
    pipeline: str = PIPELINE,
    freshness: Json | None = None,
    event_type: str | None = None,
    outputs: list[Json] | None = None,
    **record: Any,
) -> Json:
    """The end of a node with its record; what is not given is that of a small published run."""
    told = {
        "status": Status.published,
        "started_at": moment(max(0, seconds - 60)),
        "ended_at": moment(seconds),
        "rows_in": 100,
        "rows_valid": 97,
        "rows_quarantined": 3,
        "rows_published": 97,
        "output": TARGET,
    } | record
    found = NodeRecord(pipeline, node, run, **told)
    body = to_builtins(found, str_keys=True) | {"project": project}
    body |= {} if freshness is None else {"freshness": freshness}
    kind = event_type or _ENDS[Status(told["status"])]
    return _node_event(kind, run, parent, seconds, body, outputs)


def a_full_record(**more: Any) -> Json:
    """Parts of a record that only some nodes have."""
    gate = GateRecord(True, 0.97, 0.95, None, 100, 97, 3, {"ids": 0.97}, RowCountRecord(100, None, None), ())
    tests = (
        TestRecord("ids", "not_null", "quarantine", "failed", 3, ("id",), 100),
        TestRecord("size", "row_count", "warn", "passed", 0),
    )
    schema = (FieldRecord("id", "bigint", False), FieldRecord("total", "decimal(10,2)"))
    parts = {"gate": gate, "tests": tests, "schema": schema, "quarantine": a_batch("batch-1")}
    return parts | {"watermark": {"column": "updated_at", "value": "2026-03-01"}} | more


def a_batch(batch_id: str, state: str = "open", **more: Any) -> QuarantineRecord:
    told = {"dataset": REJECTS, "location": f"s3://lake/rejects/orders/{batch_id}", "rows": 3, "retention_days": 90}
    return QuarantineRecord(batch_id=batch_id, state=state, failed_tests={"ids": 3}, **told | more)


def an_alert(seconds: float = 60, **more: Any) -> Json:
    told = {"event": "on_gate_block", "node": NODE, "channel": "slack", "outcome": "sent", "at": at(seconds)}
    return told | {"reason": None, "message": "3 rows were set apart"} | more


def a_labelled(name: str, label: str, namespace: str = "s3://lake", project: str = PROJECT) -> Json:
    """A dataset as the engine names it: with what the pipeline's file calls it."""
    link = {"namespace": f"headgate:{project}", "name": label, "type": "TABLE"}
    return a_dataset(name, namespace, facets={"symlinks": a_facet(identifiers=[link])})


def a_run(*, seconds: float = 60, pipeline: str = PIPELINE, **record: Any) -> tuple[str, list[Json]]:
    """The id and the events of a whole run with one node."""
    run, node = a_run_id(), a_run_id()
    status = record.get("status", Status.published)
    return run, [
        a_pipeline_event(run, seconds=seconds - 60, pipeline=pipeline),
        a_node_end(node, run, seconds=seconds, pipeline=pipeline, **record),
        a_pipeline_event(run, status, seconds=seconds + 1, pipeline=pipeline, started_at=at(seconds - 60)),
    ]


def _node_event(
    kind: str, run: str, parent: str | None, seconds: float, body: Json, outputs: list[Json] | None = None
) -> Json:
    facets = {"headgate_node": a_facet(**body)}
    if parent is not None:
        job = {"namespace": body["project"], "name": body["pipeline"]}
        facets["parent"] = a_facet(run={"runId": parent}, job=job)
    name = f"{body['pipeline']}.{body['name']}"
    return an_event(
        kind, run=run, namespace=body["project"], job=name, time=at(seconds), run_facets=facets, outputs=outputs
    )
