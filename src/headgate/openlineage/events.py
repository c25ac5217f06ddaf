"""The OpenLineage envelope as it travels: typed where every event needs it, facets left raw.

Field names are the specification's. Decoding is one pass; `validate.py` explains what it refuses. Events are trees,
so the garbage collector is kept out of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

EventType = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER"]
# Raw when decoded; once an event is checked, each value is a `facets.Facet`.
Facets = dict[str, Raw]
NO_FACETS: dict[str, Any] = {}


class Run(Struct, gc=False):
    runId: UUID  # noqa: N815 - the wire's name
    facets: Facets | UnsetType = UNSET


class Job(Struct, gc=False):
    namespace: str
    name: str
    facets: Facets | UnsetType = UNSET


class Dataset(Struct, gc=False):
    namespace: str
    name: str
    facets: Facets | UnsetType = UNSET
    inputFacets: Facets | UnsetType = UNSET  # noqa: N815 - the wire's name
    outputFacets: Facets | UnsetType = UNSET  # noqa: N815 - the wire's name


class Event(Struct, gc=False):
    eventTime: datetime  # noqa: N815 - the wire's name
    producer: str
    schemaURL: str | UnsetType = UNSET  # noqa: N815 - the wire's name
    eventType: EventType | UnsetType = UNSET  # noqa: N815 - the wire's name
    run: Run | UnsetType = UNSET
    job: Job | UnsetType = UNSET
    dataset: Dataset | UnsetType = UNSET
    inputs: list[Dataset] | UnsetType | None = UNSET
    outputs: list[Dataset] | UnsetType | None = UNSET


decode_event = msgspec.json.Decoder(Event).decode
decode_array = msgspec.json.Decoder(list[Raw]).decode


def facet_maps(event: Event) -> list[Facets]:
    """Every map of facets in the event that is not empty."""
    maps = []
    if event.run is not UNSET and event.run.facets:
        maps.append(event.run.facets)
    if event.job is not UNSET and event.job.facets:
        maps.append(event.job.facets)
    for datasets in (() if event.dataset is UNSET else (event.dataset,), event.inputs, event.outputs):
        for dataset in datasets or ():
            if dataset.facets:
                maps.append(dataset.facets)
            if dataset.inputFacets:
                maps.append(dataset.inputFacets)
            if dataset.outputFacets:
                maps.append(dataset.outputFacets)
    return maps
