"""Column edges as answers show them: plain values, ready to be encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import msgspec

from headgate.domain.lineage import label_of
from headgate.server.db.pool import Record

Json = dict[str, Any]

_TYPES = ("DIRECT", "INDIRECT")
_kinds = msgspec.json.Decoder(list[dict[str, Any]])


def edge(row: Record) -> Json:
    """One edge, with the label that its kinds and expression add up to."""
    kinds = _kinds.decode(row["kinds"])
    return {
        "source": column_ref(row["source_id"], row["source_namespace"], row["source_name"], row["source_column"]),
        "target": column_ref(row["target_id"], row["target_namespace"], row["target_name"], row["target_column"]),
        "kinds": shown_kinds(kinds),
        "label": label_of(kinds, row["expression"]).value,
        "expression": row["expression"],
        "job": {"id": row["job_id"], "namespace": row["job_namespace"], "name": row["job_name"]},
        "last_seen_at": row["last_seen_at"],
    }


def column_ref(dataset_id: UUID, namespace: str, name: str, column: str) -> Json:
    return {"dataset_id": dataset_id, "namespace": namespace, "name": name, "column": column or None}


def shown_kinds(kinds: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Kinds as type and subtype, each once. What is sent as a type and is none tells how the value was made."""
    shown: dict[tuple[str, str | None], None] = {}
    for kind in kinds:
        type_, subtype = kind.get("type"), kind.get("subtype")
        shown[(type_, subtype) if type_ in _TYPES else ("DIRECT", subtype or type_)] = None
    return [{"type": type_, "subtype": subtype} for type_, subtype in shown]
