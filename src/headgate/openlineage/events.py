"""The OpenLineage envelope as it travels: typed where every event needs it, facets left raw.

Field names are the specification's. Decoding is one pass; `validate.py` explains what it refuses.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

EventType = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER"]
Facets = dict[str, Raw]
NO_FACETS: Facets = {}


class Run(Struct):
    runId: UUID  # noqa: N815 - the wire's name
    facets: Facets | UnsetType = UNSET


class Job(Struct):
    namespace: str
    name: str
    facets: Facets | UnsetType = UNSET


class Dataset(Struct):
    namespace: str
    name: str
    facets: Facets | UnsetType = UNSET
    inputFacets: Facets | UnsetType = UNSET  # noqa: N815 - the wire's name
    outputFacets: Facets | UnsetType = UNSET  # noqa: N815 - the wire's name


class Event(Struct):
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


def facet_groups(event: Event) -> list[tuple[str, Facets]]:
    """Every facet map of the event with its path, for whoever has to look at all of them."""
    groups: list[tuple[str, Facets | UnsetType]] = []
    if event.run is not UNSET:
        groups.append(("run.facets", event.run.facets))
    if event.job is not UNSET:
        groups.append(("job.facets", event.job.facets))
    if event.dataset is not UNSET:
        groups.append(("dataset.facets", event.dataset.facets))
    for side, datasets in (("inputs", event.inputs), ("outputs", event.outputs)):
        for place, dataset in enumerate(datasets or ()):
            groups.append((f"{side}[{place}].facets", dataset.facets))
            groups.append((f"{side}[{place}].inputFacets", dataset.inputFacets))
            groups.append((f"{side}[{place}].outputFacets", dataset.outputFacets))
    return [(path, facets) for path, facets in groups if facets is not UNSET and facets]
