"""From rows to the shapes of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headgate.server.pipelines import schemas

Row = Mapping[str, Any]


def run_out(row: Row) -> schemas.PipelineRunOut:
    return schemas.PipelineRunOut(**_run(row))


def pipeline_out(row: Row) -> schemas.PipelineOut:
    return schemas.PipelineOut(
        project=row["project"], pipeline=row["pipeline"], run_count=row["run_count"], last_run=run_out(row)
    )


def detail_out(last_run: Row, rows: Sequence[Row]) -> schemas.PipelineDetailOut:
    planned = _planned(last_run)
    nodes = [_node(row, planned) for row in rows]
    begun = {node.node for node in nodes}
    nodes += [_unbegun(name) for name in planned if name not in begun]
    targets = {node.target.urn: node.target for node in nodes if node.target is not None}
    listed = pipeline_out(last_run)
    return schemas.PipelineDetailOut(**dict(listed), nodes=nodes, targets=[targets[urn] for urn in sorted(targets)])


def run_detail_out(run: Row, nodes: Sequence[Row], alerts: Sequence[Row]) -> schemas.PipelineRunDetailOut:
    return schemas.PipelineRunDetailOut(
        **_run(run),
        planned_nodes=_planned(run),
        nodes=[schemas.NodeRecordOut(**_node_run(row), record=msgspec.json.decode(row["record"])) for row in nodes],
        alerts=[schemas.AlertOut(**dict(alert)) for alert in alerts],
    )


def published_out(row: Row) -> schemas.PublishedOut:
    return schemas.PublishedOut(**{name: row[name] for name in schemas.PublishedOut.model_fields})


def last_out(row: Row) -> schemas.LastPublishedOut:
    fields = msgspec.json.decode(row["fields"]) if row["fields"] else []
    mark = None
    if row["column_name"] is not None:
        mark = schemas.WatermarkOut(
            column=row["column_name"], value=row["value"], run_id=row["moved_by"], updated_at=row["updated_at"]
        )
    return schemas.LastPublishedOut(
        **dict(published_out(row)),
        fields=[schemas.FieldOut(**{"nullable": True, **field}) for field in fields],
        watermark=mark,
    )


def batch_out(row: Row) -> schemas.BatchOut:
    shown = {name: row[name] for name in schemas.BatchOut.model_fields}
    return schemas.BatchOut(**shown | {"failed_tests": msgspec.json.decode(row["failed_tests"])})


def _run(row: Row) -> dict[str, Any]:
    names = schemas.PipelineRunOut.model_fields.keys() - {"node_counts"}
    counts = {name: row[f"{name}_nodes"] for name in schemas.NodeCountsOut.model_fields}
    return {name: row[name] for name in names} | {"node_counts": schemas.NodeCountsOut(**counts)}


def _planned(run: Row) -> list[str]:
    record = msgspec.json.decode(run["record"]) if run["record"] else {}
    return list(dict.fromkeys(record.get("nodes") or ()))


def _node(row: Row, planned: Sequence[str]) -> schemas.NodeOut:
    published = None
    if row["published_run_id"] is not None:
        published = schemas.PublishedOut(
            run_id=row["published_run_id"],
            ended_at=row["published_at"],
            rows_in=row["published_rows_in"],
            rows_published=row["published_rows"],
        )
    latest = schemas.NodeRunOut(**_node_run(row))
    return schemas.NodeOut(
        node=row["node"],
        in_last_run=row["node"] in planned,
        latest_run=latest,
        last_published=published,
        target=latest.target,
    )


def _unbegun(name: str) -> schemas.NodeOut:
    return schemas.NodeOut(node=name, in_last_run=True, latest_run=None, last_published=None, target=None)


def _node_run(row: Row) -> dict[str, Any]:
    names = schemas.NodeRunOut.model_fields.keys() - {"gate", "tests", "target"}
    target = None
    if row["output_urn"] is not None:
        target = schemas.TargetOut(urn=row["output_urn"], label=row["output_label"])
    tests = schemas.TestCountsOut(total=row["tests"], passed=row["passed_tests"], failed=row["failed_tests"])
    gate = msgspec.json.decode(row["gate"]) if row["gate"] else None
    return {name: row[name] for name in names} | {"gate": gate, "tests": tests, "target": target}
