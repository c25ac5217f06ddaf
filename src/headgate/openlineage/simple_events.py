"""What both simple forms put on the wire: events, facets with their base fields, run ids and dataset names.

Builds values only; it does not know the payloads they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec

from headgate.domain import names
from headgate.domain.partitions import Patterns

PRODUCER: Final = "https://github.com/headgate/headgate/tree/0.1.0/simple"
_CORE: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/"
_RUNS: Final = UUID("6d5f0f5e-3c1b-5a43-9d0e-7d1f4a5b2c80")


def _standard(version: str, file: str, definition: str | None = None) -> str:
    return f"https://openlineage.io/spec/facets/{version}/{file}.json#/$defs/{definition or file}"


def _own(definition: str) -> str:
    return f"https://headgate.dev/spec/facets/1-0-0/{definition}.json#/$defs/{definition}"


_FACETS: Final[Mapping[str, str]] = {
    "columnLineage": _standard("1-2-0", "ColumnLineageDatasetFacet"),
    "datasetType": _standard("1-0-1", "DatasetTypeDatasetFacet"),
    "errorMessage": _standard("1-0-1", "ErrorMessageRunFacet"),
    "inputStatistics": _standard("1-0-0", "InputStatisticsInputDatasetFacet"),
    "jobType": _standard("2-0-4", "JobTypeJobFacet"),
    "lineage": _standard("1-0-0", "LineageFacet", "LineageJobFacet"),
    "outputStatistics": _standard("1-0-2", "OutputStatisticsOutputDatasetFacet"),
    "schema": _standard("1-2-0", "SchemaDatasetFacet"),
    "headgate_anomalies": _own("AnomaliesRunFacet"),
    "headgate_execution": _own("ExecutionRunFacet"),
    "headgate_location": _own("LocationDatasetFacet"),
    "headgate_origin": _own("OriginDatasetFacet"),
    "headgate_partition": _own("PartitionRunFacet"),
    "headgate_simple": _own("SimpleFacet"),
}


@dataclass(frozen=True)
class Translated:
    """Events in the order in which to ingest them, and what the answer to the sender says of them."""

    events: list[bytes]
    job_id: str
    datasets: int
    edges: int
    notes: list[str]


@dataclass
class Dataset:
    """A dataset under its wire name; `key` is equal for all spellings and partitions of it."""

    namespace: str
    name: str
    key: tuple[str, str]
    facets: dict[str, Any] = field(default_factory=dict)
    use_facets: dict[str, Any] = field(default_factory=dict)

    @property
    def spelled(self) -> tuple[str, str]:
        return self.namespace, self.name

    def identifier(self) -> dict[str, Any]:
        return {"namespace": self.namespace, "name": self.name}

    def copied(self) -> Dataset:
        """Its own facets, so that what one event adds does not show in another."""
        return Dataset(self.namespace, self.name, self.key, dict(self.facets))

    def rendered(self, use: str | None = None) -> dict[str, Any]:
        """The dataset as an event holds it; `use` is `inputFacets` or `outputFacets`."""
        out = self.identifier()
        if self.facets:
            out["facets"] = self.facets
        if use and self.use_facets:
            out[use] = self.use_facets
        return out


def facet(name: str, **body: Any) -> dict[str, Any]:
    """A facet with its base fields, without the members that have no value."""
    filled = {key: value for key, value in body.items() if value is not None}
    return {"_producer": PRODUCER, "_schemaURL": _FACETS[name], **filled}


def event(kind: str, at: datetime, **body: Any) -> bytes:
    """One encoded event; equal arguments give equal bytes."""
    head = {"eventTime": spelled(at), "producer": PRODUCER, "schemaURL": _CORE + kind}
    return msgspec.json.encode(head | body)


def job(namespace: str, name: str, **facets: dict[str, Any]) -> dict[str, Any]:
    job_type = facet("jobType", processingType="BATCH", integration="SPARK", jobType="JOB")
    return {"namespace": namespace, "name": name, "facets": {"jobType": job_type, **facets}}


def spelled(at: datetime) -> str:
    return utc(at).isoformat().replace("+00:00", "Z")


def utc(at: datetime) -> datetime:
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


def run_id(job_id: str, application_id: str | None, *moments: datetime | None) -> str:
    """The same for every payload of one run: job ids such as `query-7` come back in each application.

    Without an application the first known moment tells runs apart.
    """
    if application_id and application_id.strip():
        parts = ["application", job_id, application_id]
    else:
        parts = ["moment", job_id, *(spelled(at) for at in moments if at)][:3]
    return str(uuid5(_RUNS, msgspec.json.encode(parts).decode()))


def dataset_of(
    name: str,
    *,
    location: str | None = None,
    database: str | None = None,
    catalog: str | None = None,
    declared_type: str | None = None,
    default_namespace: str,
    patterns: Patterns,
) -> Dataset:
    """A dataset with its type and what was said of its place."""
    namespace, path = names.simple_dataset(
        name, location=location, database=database, catalog=catalog, default_namespace=default_namespace
    )
    canonical = names.canonical_dataset(namespace, path, patterns)
    facets = {"datasetType": facet("datasetType", datasetType=names.infer_type(name, location, declared_type))}
    if location or database or catalog or declared_type:
        facets["headgate_location"] = facet(
            "headgate_location",
            location=location,
            database=database,
            catalog=catalog,
            declaredType=declared_type,
        )
    return Dataset(namespace, path, (canonical.namespace, canonical.name), facets)
