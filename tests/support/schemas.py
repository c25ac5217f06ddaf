"""Schemas in events, and what the server says of them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

from headgate.server.versions.schemas import DiffOut, SchemaOut, VersionPage
from tests.support.events import Json, a_dataset, an_event, at, with_schema
from tests.support.server import Tenant

CUSTOMERS = "silver/customers"


def seen(second: float, *columns: Any, name: str = "t", job: str = "writer", run: str | None = None) -> Json:
    return an_event(job=job, run=run, time=at(second), outputs=[a_dataset(name, facets=with_schema(*columns))])


async def ask(tenant: Tenant, rest: str = "", dataset: str = "t", **query: Any) -> httpx.Response:
    return await tenant.client.get(f"/api/v1/datasets/{quote(dataset, safe='')}/schema{rest}", params=query)


async def schema(tenant: Tenant, **query: Any) -> Json:
    response = await ask(tenant, **query)
    assert response.status_code == 200, response.text
    SchemaOut.model_validate(response.json())
    return dict(response.json())


async def history(tenant: Tenant, **query: Any) -> Json:
    response = await ask(tenant, "/history", **query)
    assert response.status_code == 200, response.text
    VersionPage.model_validate(response.json())
    return dict(response.json())


async def difference(tenant: Tenant, **query: Any) -> Json:
    response = await ask(tenant, "/diff", **query)
    assert response.status_code == 200, response.text
    DiffOut.model_validate(response.json())
    return dict(response.json())


def names(version: Json) -> str:
    return "".join(field["name"] for field in version["fields"])


BASE = [(f"c{n}", "STRING") for n in range(9)]
ID, EMAIL, LEGACY = ("customer_id", "STRING"), ("email", "VARCHAR"), ("legacy_id", "STRING")
STAMPS = [("created_at", "TIMESTAMP"), ("updated_at", "TIMESTAMP")]
V1 = [ID, EMAIL, LEGACY, *BASE]
V2 = [*V1, *STAMPS]
V3 = [column for column in V2 if column != LEGACY]
V4 = [("email", "STRING") if column == EMAIL else column for column in V3]
V5 = [*V4, ("loyalty_tier", "STRING")]
DAYS = ["2023-12-01T10:00:00Z", "2023-12-15T09:00:00Z", "2024-01-01T12:00:00Z", "2024-01-15T08:30:00Z"]
EVENTS = list(zip([V1, V2, V3, V4, V5], [*DAYS, "2024-01-30T10:15:00Z"], strict=True))


def customers(columns: list[Any], time: str) -> Json:
    dataset = a_dataset(CUSTOMERS, "s3://lake", facets=with_schema(*columns))
    return an_event(job="customers", time=time, outputs=[dataset])
