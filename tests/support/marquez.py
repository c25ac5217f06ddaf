"""A story to tell a server, and asking for it under Marquez's base URL, each answer held against its shape."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.server import Tenant

API = "/marquez/api/v1"
JOBS = "shop-jobs"
DATABASE, KNOWN_AS = "postgres://db:5432", "postgres://db"
LAKE = "s3://lake"
FIRST, SECOND, FAILED, RUNNING = (str(uuid.UUID(int=number)) for number in range(1, 5))
RAW = "shop.public.raw_orders"


def at_path(*segments: str) -> str:
    """A path of segments that may hold anything."""
    return API + "".join(f"/{quote(segment, safe='')}" for segment in segments)


def at_dataset(namespace: str, name: str, *more: str) -> str:
    return at_path("namespaces", namespace, "datasets", name, *more)


def at_job(namespace: str, name: str, *more: str) -> str:
    return at_path("namespaces", namespace, "jobs", name, *more)


async def tell(tenant: Tenant, *events: Json | bytes) -> None:
    """Send events as a client of Marquez does."""
    for event in events:
        response = await tenant.send(event, f"{API}/lineage")
        assert response.status_code == 201, response.text


async def ask(client: httpx.AsyncClient, shape: type[BaseModel], path: str, **params: Any) -> Json:
    """The answer, which must have exactly the fields that its shape has."""
    response = await client.get(path if path.startswith(API) else f"{API}{path}", params=params)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    shape.model_validate(answer)
    return answer


async def refused(client: httpx.AsyncClient, path: str, **params: Any) -> Json:
    """The problem that the answer must be."""
    response = await client.get(path if path.startswith(API) else f"{API}{path}", params=params)
    assert response.headers["content-type"] == "application/problem+json", response.text
    problem: Json = response.json()
    return problem


def a_source(column: str) -> Json:
    step = {"type": "DIRECT", "subtype": "AGGREGATION", "description": f"sum({column})"}
    return {"namespace": DATABASE, "name": RAW, "field": column, "transformations": [step]}


def orders(*columns: tuple[str, str]) -> Json:
    lineage = {"total": {"inputFields": [a_source("amount")]}}
    facets = with_schema(*columns) | {
        "documentation": a_facet(description="Orders by day"),
        "columnLineage": a_facet(fields=lineage),
        "symlinks": a_facet(identifiers=[{"namespace": "hive://warehouse", "name": "shop.orders", "type": "TABLE"}]),
        "tags": a_facet(
            tags=[{"key": "gold", "value": "true", "source": "x"}, {"key": "pii", "value": "yes", "field": "total"}]
        ),
    }
    return a_dataset("orders/date=2026-03-01", "s3a://lake", facets=facets)


def load_orders(run: str, seconds: float, *columns: tuple[str, str]) -> list[Json]:
    """A run from START to COMPLETE."""
    parent = {"run": {"runId": a_run_id()}, "job": {"namespace": "airflow", "name": "nightly"}}
    start = {
        "nominalTime": a_facet(nominalStartTime=at(-60)),
        "parent": a_facet(**parent),
        "engine": a_facet(version="1", name="spark"),
        "passing": a_facet(note="gone at the end"),
    }
    end = {"engine": a_facet(version="2", name="spark"), "passing": a_facet(_deleted=True)}
    about = {
        "documentation": a_facet(description="Loads orders"),
        "sourceCodeLocation": a_facet(type="git", url="https://example.org/load.py"),
        "jobType": a_facet(processingType="BATCH", integration="SPARK", jobType="JOB"),
        "tags": a_facet(tags=[{"key": "daily"}]),
    }
    told = {"run": run, "job": "nightly.load", "namespace": JOBS, "job_facets": about}
    return [
        an_event("START", time=at(seconds), run_facets=start, **told),
        an_event(
            "COMPLETE",
            time=at(seconds + 10),
            run_facets=end,
            inputs=[a_dataset(RAW, DATABASE, facets=with_schema(("amount", "int")))],
            outputs=[orders(*columns)],
            **told,
        ),
    ]


def the_story() -> list[Json]:
    """Two runs of a load, the second with another column; a stream that reads it; runs that did not complete."""
    stream = {
        "job": "publish",
        "namespace": JOBS,
        "job_facets": {"jobType": a_facet(processingType="STREAMING", integration="FLINK")},
        "inputs": [a_dataset("orders", LAKE)],
    }
    return [
        *load_orders(FIRST, 0, ("id", "int")),
        *load_orders(SECOND, 100, ("id", "int"), ("total", "double")),
        an_event("START", run=RUNNING, time=at(200), outputs=[a_dataset("orders", "kafka://k:9092")], **stream),
        an_event("FAIL", run=FAILED, time=at(300), **stream),
    ]
