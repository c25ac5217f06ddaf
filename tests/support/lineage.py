"""Small graphs sent as events, and answers about them in names instead of ids."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

from tests.support.events import PRODUCER, SCHEMA_URL, Json, a_dataset, a_facet, an_event, at
from tests.support.server import Tenant

NS = "postgres://db"
DAY = 86_400.0


def a_flow(flow: str, *, second: float = 0, event_type: str = "COMPLETE", job: str | None = None, **parts: Any) -> Json:
    """A run that reads and writes: `a,b > c`. The job is named after it."""
    inputs, outputs = ([name.strip() for name in side.split(",") if name.strip()] for side in flow.split(">"))
    return an_event(
        event_type,
        job=job or flow.replace(" ", ""),
        time=at(second),
        inputs=[a_dataset(name) for name in inputs],
        outputs=[a_dataset(name) for name in outputs],
        **parts,
    )


async def flows(tenant: Tenant, *texts: str, second: float = 0) -> None:
    await tenant.send_ok(*(a_flow(text, second=second) for text in texts))


def changed(name: str, change: str, previous: str | None = None) -> Json:
    """A dataset with the facet that tells what happened to it."""
    body: Json = {"lifecycleStateChange": change}
    if previous is not None:
        body["previousIdentifier"] = {"namespace": "postgres://db:5432", "name": previous}
    return a_dataset(name, facets={"lifecycleStateChange": a_facet(**body)})


def a_change(*outputs: Json, second: float, event_type: str = "COMPLETE", job: str = "ddl") -> Json:
    return an_event(event_type, job=job, time=at(second), outputs=list(outputs))


def a_dataset_event(dataset: Json, second: float) -> Json:
    return {"eventTime": at(second), "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset}


async def get(tenant: Tenant, path: str, **query: Any) -> httpx.Response:
    return await tenant.client.get(f"/api/v1/{path}", params={name.rstrip("_"): value for name, value in query.items()})


async def lineage(tenant: Tenant, name: str, direction: str = "lineage", **query: Any) -> Json:
    response = await get(tenant, f"datasets/{quote(name, safe='')}/{direction}", **query)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


async def dataset_id(tenant: Tenant, name: str) -> str:
    answer = await lineage(tenant, name, "upstream", limit=1)
    root: str = answer["root"]
    return root


def depths(answer: Json) -> dict[str, int]:
    return {node["name"]: node["depth"] for node in answer["nodes"]}


def edges(answer: Json) -> set[str]:
    names = {node["id"]: node["name"] for node in answer["nodes"]}
    return {f"{names[edge['source']]}>{names[edge['target']]}" for edge in answer["edges"]}
