"""Calls about datasets: lists, schemas, metrics, tests, tags. A dataset is named by id, urn or any of its names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from headgate.client.http import Call
from headgate.client.paths import Value, query, segment
from headgate.client.shapes import Dataset, Json, Page, SchemaChange, SchemaVersion, page_of, value_of

_BASE = "/api/v1/datasets"


def path(dataset: str, rest: str = "") -> str:
    return f"{_BASE}/{segment(dataset)}{rest}"


def datasets(
    *,
    namespace: str | None = None,
    type: str | None = None,  # noqa: A002  # the name of the parameter on the wire
    tag: str | None = None,
    text: str | None = None,
    has_incident: bool | None = None,
    sort: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Call[Page[Dataset]]:
    """Datasets, by name unless another `sort` is given: freshness, rows or downstream; a `-` before it turns it."""
    wanted: dict[str, Value] = {
        "namespace": namespace,
        "type": type,
        "tag": tag,
        "text": text,
        "has_incident": has_incident,
        "sort": sort,
        "limit": limit,
        "cursor": cursor,
    }
    return Call("GET", _BASE, page_of(Dataset), params=query(wanted))


def dataset(name: str) -> Call[Json]:
    """One dataset with everything known of it."""
    return Call("GET", path(name), value_of(Json))


def annotate(name: str, *, description: str | None = None, owners: Sequence[str] | None = None) -> Call[Json]:
    """Set what people say of a dataset; what is not given stays."""
    given = {"description": description, "owners": None if owners is None else list(owners)}
    body = {field: value for field, value in given.items() if value is not None}
    return Call("PATCH", path(name), value_of(Json), body=msgspec.json.encode(body), repeatable=True)


def add_tag(name: str, tag: str, *, column: str | None = None) -> Call[None]:
    """Tag a dataset, or a column of it."""
    return Call("PUT", _tag(name, tag, column), lambda _: None, repeatable=True)


def remove_tag(name: str, tag: str, *, column: str | None = None) -> Call[None]:
    """Take a tag away."""
    return Call("DELETE", _tag(name, tag, column), lambda _: None, repeatable=True)


def tags(*, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """Tags and how often they are used."""
    return Call("GET", "/api/v1/tags", page_of(Json), params=query({"limit": limit, "cursor": cursor}))


def status(ids: Sequence[str]) -> Call[Json]:
    """The state of many datasets at once."""
    return Call("GET", "/api/v1/status", value_of(Json), params=query({"ids": ",".join(ids)}))


def schema(name: str, *, at: datetime | str | None = None) -> Call[SchemaVersion]:
    """The schema of a dataset, now or at a time."""
    return Call("GET", path(name, "/schema"), value_of(SchemaVersion), params=query({"at": at}))


def schema_history(name: str, *, limit: int = 100, cursor: str | None = None) -> Call[Page[SchemaChange]]:
    """The versions of a dataset's schema, newest first."""
    wanted: dict[str, Value] = {"limit": limit, "cursor": cursor}
    return Call("GET", path(name, "/schema/history"), page_of(SchemaChange), params=query(wanted))


def schema_diff(name: str, *, from_: str | None = None, to: str | None = None) -> Call[Json]:
    """What is different between two versions, `v3`, an id or a time each; the last change, if none is given."""
    return Call("GET", path(name, "/schema/diff"), value_of(Json), params=query({"from": from_, "to": to}))


def metrics(name: str, *, hours: int | None = None, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """What runs measured of a dataset, newest first."""
    wanted: dict[str, Value] = {"hours": hours, "limit": limit, "cursor": cursor}
    return Call("GET", path(name, "/metrics"), page_of(Json), params=query(wanted))


def metric_stats(name: str, *, days: int | None = None) -> Call[Json]:
    """Mean, spread and percentiles of what was measured."""
    return Call("GET", path(name, "/metrics/stats"), value_of(Json), params=query({"days": days}))


def checks(name: str, *, history: bool | None = None, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """Results of tests on a dataset: the latest of each, or all."""
    wanted: dict[str, Value] = {"history": history, "limit": limit, "cursor": cursor}
    return Call("GET", path(name, "/tests"), page_of(Json), params=query(wanted))


def _tag(name: str, tag: str, column: str | None) -> str:
    of_column = "" if column is None else f"/columns/{segment(column)}"
    return path(name, f"{of_column}/tags/{segment(tag)}")
