"""Builders of events with column lineage, and ways to ask for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from headgate.server.columns import schemas
from tests.support.events import Json, a_dataset, a_facet, an_event
from tests.support.server import Server, Tenant

NS = "postgres://db:5432"


def a_source(text: str, *kinds: tuple[str, str | None], description: str | None = None) -> Json:
    """`table.column`, and how it is used."""
    name, _, column = text.rpartition(".")
    steps = [{"type": type_, "subtype": subtype, "description": description} for type_, subtype in kinds]
    return {"namespace": NS, "name": name, "field": column, "transformations": steps}


def made_of(whole: Iterable[Json] = (), **columns: Iterable[str | Json]) -> Json:
    """A columnLineage facet: for each column what it is made of; `whole` influences all of them."""
    fields = {
        name: {"inputFields": [a_source(source) if isinstance(source, str) else source for source in sources]}
        for name, sources in columns.items()
    }
    return {"columnLineage": a_facet(fields=fields, dataset=list(whole))}


def a_step(job: str, sources: Iterable[str], target: str, facets: Json | None = None, **more: Any) -> Json:
    """A run of `job` that makes `target` out of `sources`."""
    outputs = [a_dataset(target, facets=facets or {})]
    return an_event(job=job, inputs=[a_dataset(name) for name in sources], outputs=outputs, **more)


def a_write(target: str, facets: Json, *, job: str | None = None, **more: Any) -> Json:
    """A run that writes `target`, reading whatever its column lineage names."""
    facet = facets.get("columnLineage", {"fields": {}})
    sources = [source for field in facet["fields"].values() for source in field["inputFields"]]
    names = {source["name"] for source in [*sources, *facet.get("dataset", ())]} - {target}
    return a_step(job or f"make_{target}", sorted(names), target, facets, **more)


async def ask(tenant: Tenant, path: str, status: int = 200, **params: Any) -> Json:
    response = await tenant.client.get(f"/api/v1/{path}", params=params)
    assert response.status_code == status, response.text
    found: Json = response.json()
    return found


async def edges_of(tenant: Tenant, dataset: str, **params: Any) -> Json:
    """The column lineage of a dataset."""
    answer = await ask(tenant, f"datasets/{quote(dataset, safe='')}/column-lineage", **params)
    schemas.ColumnLineageOut.model_validate(answer)
    return answer


async def walk(server: Server, column: str, direction: str, **params: Any) -> Json:
    """What is up- or downstream of `table.column`."""
    table, _, name = column.rpartition(".")
    answer = await ask(server.tenant, f"datasets/{table}/columns/{name}/{direction}", **params)
    schemas.ColumnGraphOut.model_validate(answer)
    return answer


def ends(edges: Iterable[Json]) -> list[tuple[str, str]]:
    return [(shown(edge["source"]), shown(edge["target"])) for edge in edges]


def depths(answer: Json) -> dict[str, int]:
    return {shown(node): node["depth"] for node in answer["nodes"]}


def shown(end: Json) -> str:
    """`table.column`, or `table.*` for all of it."""
    return f"{end['name']}.{'*' if end['column'] is None else end['column']}"
