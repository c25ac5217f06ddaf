"""Datasets and their versions, as Marquez shows them: reads rows and gives plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Raw

from headgate.errors import NotFound
from headgate.server.db.pool import Record
from headgate.server.marquez import facets as read
from headgate.server.marquez.jobs import JobStore
from headgate.server.marquez.lookup import Q, Tenant
from headgate.server.marquez.requests import MAX_COUNT, Window
from headgate.server.marquez.runs import RunStore

Json = dict[str, Any]
MAX_EDGES = 50_000
_STREAMS = frozenset({"stream", "topic", "kafka", "queue"})


class ColumnEdge(NamedTuple):
    """A column that another comes from now."""

    source: tuple[UUID, str]
    target: tuple[UUID, str]
    description: str | None
    type: str | None


def input_fields(edges: Iterable[ColumnEdge], names: Mapping[UUID, Mapping[str, Any]]) -> list[Json]:
    """Where a column comes from, by name."""
    found = [
        {
            "namespace": names[edge.source[0]]["namespace"],
            "dataset": names[edge.source[0]]["name"],
            "field": edge.source[1],
            "transformationDescription": edge.description,
            "transformationType": edge.type,
        }
        for edge in edges
    ]
    return sorted(found, key=lambda field: (field["namespace"], field["dataset"], field["field"]))


@dataclass
class Known:
    """What facets and people say of a dataset. Tags and notes by column; those of the dataset have an empty name."""

    facets: dict[str, Raw] = field(default_factory=dict)
    tags: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    times: list[datetime] = field(default_factory=list)


class DatasetStore:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._runs = RunStore(tenant)

    async def page(self, namespace: str, window: Window) -> tuple[list[Json], int]:
        rows = await self._tenant.fetch(Q.list_dataset_ids, namespace, window.limit, window.offset)
        total = await self._tenant.count(Q.count_datasets, namespace, MAX_COUNT)
        return await self.details([row["id"] for row in rows]), total

    async def details(self, ids: Sequence[UUID]) -> list[Json]:
        """These datasets with all that is known of them."""
        rows = await self._tenant.fetch(Q.list_datasets, ids)
        known = await self._known(ids, None)
        lineage = await self._column_lineage(ids)
        return [
            _node(row, known[row["id"]]) | {"columnLineage": lineage.get(row["id"]), "facets": known[row["id"]].facets}
            for row in rows
        ]

    async def nodes(self, ids: Sequence[UUID]) -> dict[UUID, Json]:
        """These datasets as a graph shows them."""
        rows = await self._tenant.fetch(Q.list_datasets, ids)
        known = await self._known(ids, read.SHOWN)
        return {row["id"]: _node(row, known[row["id"]]) for row in rows}

    async def versions(self, dataset_id: UUID, window: Window) -> tuple[list[Json], int]:
        """Versions of the schema, newest first. A dataset without one has a single version, named after itself."""
        dataset = (await self.details([dataset_id]))[0]
        total = await self._tenant.count(Q.count_versions, dataset_id)
        if not total:
            return window.of([_only_version(dataset)]), 1
        rows = await self._tenant.fetch(Q.list_versions, dataset_id, window.limit, window.offset)
        return await self._versions(dataset, rows), total

    async def version(self, dataset_id: UUID, version: UUID) -> Json:
        dataset = (await self.details([dataset_id]))[0]
        if version == dataset_id == dataset["currentVersion"]:
            return _only_version(dataset)
        rows = await self._tenant.fetch(Q.get_version, dataset_id, version)
        if not rows:
            raise NotFound(
                f"no version '{version}' of {dataset['name']!r}", hint="list them at the same path without the id"
            )
        return (await self._versions(dataset, rows))[0]

    async def column_edges(self, rows: Iterable[Record]) -> list[ColumnEdge]:
        """Those of the stored edges whose job still writes their target."""
        found = list(rows)
        uses = await JobStore(self._tenant).uses({row["job_id"] for row in found})
        written = {(use.job_id, use.dataset_id) for use in uses if use.role == "output"}
        return [_edge(row) for row in found if (row["job_id"], row["target_id"]) in written]

    async def _column_lineage(self, ids: Sequence[UUID]) -> dict[UUID, list[Json]]:
        edges = await self.column_edges(await self._tenant.fetch(Q.list_column_edges, ids, MAX_EDGES))
        names = await self._runs.datasets({edge.source[0] for edge in edges})
        fields: dict[tuple[UUID, str], list[ColumnEdge]] = {}
        for edge in sorted(edges, key=lambda edge: edge.target[1]):
            fields.setdefault(edge.target, []).append(edge)
        lineage: dict[UUID, list[Json]] = {}
        for (dataset_id, column), sources in fields.items():
            lineage.setdefault(dataset_id, []).append({"name": column, "inputFields": input_fields(sources, names)})
        return lineage

    async def _known(self, ids: Sequence[UUID], facets: Sequence[str] | None) -> dict[UUID, Known]:
        """What is said of each dataset; of facets, those of these names, or all."""
        known = {id_: Known() for id_ in ids}
        for row in await self._tenant.fetch(Q.list_facets, ids, facets):
            known[row["dataset_id"]].facets[row["name"]] = Raw(row["body"].encode())
            known[row["dataset_id"]].times.append(row["event_time"])
        for row in await self._tenant.fetch(Q.list_dataset_tags, ids):
            known[row["dataset_id"]].tags.setdefault(row["column_name"], []).append(row["tag"])
        for row in await self._tenant.fetch(Q.list_notes, ids):
            known[row["dataset_id"]].notes[row["column_name"]] = row["description"]
            known[row["dataset_id"]].times.append(row["updated_at"])
        return known

    async def _versions(self, dataset: Json, rows: Sequence[Record]) -> list[Json]:
        runs = await self._runs.by_id({row["run_id"] for row in rows if row["run_id"]})
        return [_version(dataset, row, runs.get(row["run_id"])) for row in rows]


def _is_deleted(row: Record) -> bool:
    """Whether the dataset was dropped, and not written since."""
    dropped_at, written_at = row["dropped_at"], row["written_at"]
    return dropped_at is not None and (written_at is None or written_at <= dropped_at)


def _node(row: Record, known: Known) -> Json:
    times = (row["first_seen_at"], row["seen_at"], row["valid_from"], *known.times)
    return {
        "id": {"namespace": row["namespace"], "name": row["name"]},
        "type": "STREAM" if row["type"] in _STREAMS else "DB_TABLE",
        "name": row["name"],
        "physicalName": row["name"],
        "createdAt": row["first_seen_at"],
        "updatedAt": max(at for at in times if at is not None),
        "namespace": row["namespace"],
        "sourceName": row["namespace"],
        "fields": _fields(row["fields"], known),
        "tags": known.tags.get("", []),
        "lastModifiedAt": row["completed_at"],
        "lastLifecycleState": read.lifecycle_state(known.facets),
        "description": known.notes.get("", read.description(known.facets)),
        "currentVersion": row["version_id"] or row["id"],
        "deleted": _is_deleted(row),
    }


def _fields(text: str | None, known: Known) -> list[Json]:
    return [
        {
            "name": column["name"],
            "type": column["type"] or None,
            "tags": known.tags.get(column["name"], []),
            "description": known.notes.get(column["name"], column.get("description")),
        }
        for column in (msgspec.json.decode(text) if text else ())
    ]


def _version(dataset: Json, row: Record, run: Json | None) -> Json:
    """A version of the schema. Facets and tags are known as they are now, so an old version has none."""
    is_current = row["valid_to"] is None
    return _only_version(dataset) | {
        "id": dataset["id"] | {"version": row["id"]},
        "createdAt": row["valid_from"],
        "version": row["id"],
        "fields": dataset["fields"] if is_current else _fields(row["fields"], Known()),
        "tags": dataset["tags"] if is_current else [],
        "lifecycleState": dataset["lastLifecycleState"] if is_current else None,
        "createdByRun": run,
        "facets": dataset["facets"] if is_current else {},
    }


def _only_version(dataset: Json) -> Json:
    """What is known of a dataset, as a version of it."""
    shared = ("type", "name", "physicalName", "createdAt", "namespace", "sourceName", "fields", "tags")
    return {name: dataset[name] for name in (*shared, "lastModifiedAt", "description", "facets")} | {
        "id": dataset["id"] | {"version": dataset["currentVersion"]},
        "version": dataset["currentVersion"],
        "lifecycleState": dataset["lastLifecycleState"],
        "createdByRun": None,
    }


def _edge(row: Record) -> ColumnEdge:
    kind: Json = next(iter(msgspec.json.decode(row["kinds"])), {})
    named = "MASKED" if kind.get("masking") else kind.get("subtype") or kind.get("type")
    return ColumnEdge(
        (row["source_id"], row["source_column"]), (row["target_id"], row["target_column"]), row["expression"], named
    )
