"""Calls about lineage, of datasets and of columns, and about what a change would hit."""

from __future__ import annotations

from datetime import datetime

from headgate.client.datasets import path
from headgate.client.http import Call
from headgate.client.paths import Value, query, segment
from headgate.client.shapes import ColumnLineage, Json, Lineage, value_of


class Walk:
    """A question for what a dataset is connected with, which way is for each instance to say."""

    def __init__(self, name: str, doc: str) -> None:
        self.__name__ = name
        self.__doc__ = doc

    def __call__(
        self,
        name: str,
        *,
        depth: int | None = None,
        limit: int | None = None,
        columns: bool | None = None,
        as_of: datetime | str | None = None,
    ) -> Call[Lineage]:
        wanted: dict[str, Value] = {"depth": depth, "limit": limit, "columns": columns, "as_of": as_of}
        return Call("GET", path(name, f"/{self.__name__}"), value_of(Lineage), params=query(wanted))


upstream = Walk("upstream", "What a dataset is made from.")
downstream = Walk("downstream", "What is made from a dataset.")
lineage = Walk("lineage", "Both.")


def paths(from_: str, to: str, *, limit: int | None = None) -> Call[Json]:
    """Ways from one dataset to another, shortest first."""
    wanted: dict[str, Value] = {"from": from_, "to": to, "limit": limit}
    return Call("GET", "/api/v1/lineage/paths", value_of(Json), params=query(wanted))


def neighbourhood(
    *,
    root: str | None = None,
    job: str | None = None,
    up: int | None = None,
    down: int | None = None,
    limit: int | None = None,
) -> Call[Json]:
    """The graph around a dataset or a job."""
    wanted: dict[str, Value] = {"root": root, "job": job, "up": up, "down": down, "limit": limit}
    return Call("GET", "/api/v1/lineage", value_of(Json), params=query(wanted))


def column_lineage(name: str) -> Call[ColumnLineage]:
    """Every column edge into and out of a dataset."""
    return Call("GET", path(name, "/column-lineage"), value_of(ColumnLineage))


def column_upstream(name: str, column: str, *, depth: int | None = None) -> Call[ColumnLineage]:
    """What a column is made from."""
    return _column(name, column, "upstream", depth)


def column_downstream(name: str, column: str, *, depth: int | None = None) -> Call[ColumnLineage]:
    """What is made from a column."""
    return _column(name, column, "downstream", depth)


def column_impact(name: str, column: str) -> Call[Json]:
    """What a change of a column would hit, and how bad that is."""
    return Call("GET", path(name, f"/columns/{segment(column)}/impact"), value_of(Json))


def impact(name: str, *, if_schema_changes: bool | None = None, column: str | None = None) -> Call[Json]:
    """What a change of a dataset would hit: tables, pipelines, owners."""
    wanted: dict[str, Value] = {"if_schema_changes": if_schema_changes, "column": column}
    return Call("GET", path(name, "/impact"), value_of(Json), params=query(wanted))


def run_impact(run_id: str, *, max_depth: int | None = None) -> Call[Json]:
    """What lies downstream of a run."""
    return Call("GET", f"/api/v1/runs/{segment(run_id)}/impact", value_of(Json), params=query({"max_depth": max_depth}))


def _column(name: str, column: str, direction: str, depth: int | None) -> Call[ColumnLineage]:
    where = path(name, f"/columns/{segment(column)}/{direction}")
    return Call("GET", where, value_of(ColumnLineage), params=query({"depth": depth}))
