"""Versions and their differences as answers. Plain values, not models: a schema may have thousands of fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from headgate.domain.lineage import label_of
from headgate.domain.schema import Field, FieldChange, FieldDiff, column_count, last_changes, path_of, summary
from headgate.server.db.pool import Record
from headgate.server.versions.store import Version

Json = dict[str, Any]

_BACKWARDS = {FieldChange.ADDED: FieldChange.REMOVED, FieldChange.REMOVED: FieldChange.ADDED}


def version_out(version: Version) -> Json:
    names = {field.name for field in version.fields}
    fields = [
        {
            "name": field.name,
            "type": field.type,
            "nullable": field.nullable,
            "description": field.description,
            "path": path_of(field.name, names),
        }
        for field in version.fields
    ]
    return brief_out(version) | {"fields": fields}


def brief_out(version: Version) -> Json:
    row = version.row
    return {
        "id": row["id"],
        "version": version.number,
        "hash": row["schema_hash"].hex(),
        "valid_from": row["valid_from"],
        "valid_to": row["valid_to"],
        "run_id": row["run_id"],
        "job": job_out(row) if row["job_name"] is not None else None,
        "change_type": row["change_type"],
        "summary": summary(version.fields_before, version.fields),
        "description": row["description"],
        "breaking": row["breaking"],
        "columns_added": row["columns_added"],
        "columns_removed": row["columns_removed"],
        "columns_type_changed": row["columns_type_changed"],
        "column_count": column_count(version.fields),
    }


def job_out(row: Record) -> Json:
    return {"id": row["job_id"], "namespace": row["job_namespace"], "name": row["job_name"]}


def field_diffs_out(items: Iterable[FieldDiff], since: Mapping[str, int]) -> list[Json]:
    return [
        {
            "name": item.name,
            "change": item.changes[0],
            "before": _placed(item.before, item.before_position),
            "after": _placed(item.after, item.after_position),
            "breaking": bool(item.breaks),
            "since_version": since.get(item.name),
        }
        for item in items
    ]


def _placed(field: Field | None, position: int | None) -> Json | None:
    return None if field is None else {"type": field.type, "nullable": field.nullable, "position": position}


def since_versions(items: Iterable[FieldDiff], between: Sequence[Version], *, backwards: bool) -> dict[str, int]:
    """For each field that is different, the version that last changed it in that way, or else in any."""
    found = last_changes([(version.number, version.fields) for version in between])
    latest: dict[str, int] = {}
    for (name, change), number in found.items():
        if change is not FieldChange.UNCHANGED:
            latest[name] = max(number, latest.get(name, 0))
    since = {}
    for item in items:
        change = item.changes[0]
        forward = _BACKWARDS.get(change, change) if backwards else change
        if change is not FieldChange.UNCHANGED and item.name in latest:
            since[item.name] = found.get((item.name, forward), latest[item.name])
    return since


def breaks_out(items: Iterable[FieldDiff]) -> list[Json]:
    return [
        {"column": item.name, "change": change, "description": _said(item, change)}
        for item in items
        for change in item.breaks
    ]


def _said(item: FieldDiff, change: FieldChange) -> str:
    if item.before is None or item.after is None:
        return "removed"
    if change is FieldChange.TYPE:
        return f"changed from {item.before.type or 'unknown'} to {item.after.type or 'unknown'}"
    return "no longer nullable"


def reader_out(row: Record, column: str) -> Json:
    kinds = msgspec.json.decode(row["kinds"])
    return {
        "column": column,
        "read_as": row["source_column"],
        "dataset": {
            "id": row["id"],
            "namespace": row["namespace"],
            "name": row["name"],
            "urn": f"{row['namespace']}/{row['name']}",
            "display_name": row["display_name"],
            "type": row["type"],
        },
        "target_column": row["target_column"],
        "job": job_out(row),
        "kinds": [{"type": kind["type"], "subtype": kind["subtype"]} for kind in kinds],
        "label": label_of(kinds, row["expression"]),
        "expression": row["expression"],
    }
