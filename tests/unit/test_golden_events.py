"""What real producers sent is valid by the strict rules, and refused as soon as one required part is gone."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.errors import InvalidFields
from headgate.openlineage.events import facet_maps
from headgate.openlineage.facets import FacetReader
from headgate.openlineage.validate import STRICT, Rules, check_event
from tests.support.golden import PRODUCERS, golden

Json = dict[str, Any]

EVERY_EVENT = [
    pytest.param(body, id=f"{producer}-{number:02}")
    for producer in PRODUCERS
    for number, body in enumerate(golden(producer), start=1)
]


def parts(event: Json) -> Iterator[tuple[str, Json]]:
    """Path and value of everything in an event that may carry facets."""
    for name in ("run", "job", "dataset"):
        if name in event:
            yield name, event[name]
    for side in ("inputs", "outputs"):
        for place, dataset in enumerate(event.get(side, [])):
            yield f"{side}[{place}]", dataset


def facets(event: Json) -> Iterator[tuple[str, Json]]:
    """Path and body of every facet in an event."""
    for path, part in parts(event):
        for group in ("facets", "inputFacets", "outputFacets"):
            for name, body in part.get(group, {}).items():
                yield f"{path}.{group}.{name}", body


def required(event: Json) -> Iterator[tuple[str, Json, str]]:
    """Path, owner and name of every field that the specification requires outside of facets."""
    for name in ("eventTime", "producer", "schemaURL"):
        yield name, event, name
    for path, part in parts(event):
        for name in ("runId",) if path == "run" else ("namespace", "name"):
            yield f"{path}.{name}", part, name


def wrong_fields(event: Json) -> list[str]:
    with pytest.raises(InvalidFields) as refused:
        check_event(json.dumps(event).encode(), STRICT, FacetReader())
    return [error.path for error in refused.value.errors]


@pytest.mark.parametrize("body", EVERY_EVENT)
def test_a_real_event_is_valid_and_each_facet_that_we_know_is_understood(body: bytes) -> None:
    checked = check_event(body, STRICT, FacetReader())
    assert not checked.lenient
    assert [name for found in facet_maps(checked.event) for name, facet in found.items() if facet.invalid] == []


@pytest.mark.parametrize("body", EVERY_EVENT)
@pytest.mark.parametrize("base", ["_producer", "_schemaURL"])
def test_a_facet_without_a_base_field_is_named_by_its_path(body: bytes, base: str) -> None:
    event = json.loads(body)
    paths = [path for path, _ in facets(event)]
    assert paths
    for place, path in enumerate(paths):
        broken = copy.deepcopy(event)
        del list(facets(broken))[place][1][base]
        assert wrong_fields(broken) == [f"{path}.{base}"]


@pytest.mark.parametrize("body", EVERY_EVENT)
def test_every_facet_without_its_producer_is_listed_at_once(body: bytes) -> None:
    event = json.loads(body)
    for _, facet in facets(event):
        del facet["_producer"]
    assert wrong_fields(event) == [f"{path}._producer" for path, _ in facets(event)]
    assert check_event(json.dumps(event).encode(), Rules(lenient=True), FacetReader()).lenient


@pytest.mark.parametrize("body", EVERY_EVENT)
def test_each_required_field_is_missed_when_it_is_gone(body: bytes) -> None:
    event = json.loads(body)
    for place, (path, _, name) in enumerate(required(event)):
        broken = copy.deepcopy(event)
        del list(required(broken))[place][1][name]
        assert wrong_fields(broken) == [path]
