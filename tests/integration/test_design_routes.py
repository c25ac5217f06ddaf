"""The endpoint table of the first design: each path about datasets, lineage, schemas, metrics or jobs answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import Cluster
from tests.support.events import a_facet, an_event
from tests.support.shop import SILVER, shop_server

RUN = "66ea8898-86cc-5d6d-b488-cb2a8abbeab4"
NAME, COLUMN = quote(SILVER, safe=""), "order_id"
PATHS = [
    "/health",
    "/datasets",
    f"/datasets/{NAME}",
    f"/datasets/{NAME}/upstream",
    f"/datasets/{NAME}/downstream",
    f"/datasets/{NAME}/lineage",
    f"/datasets/{NAME}/columns/{COLUMN}/upstream",
    f"/datasets/{NAME}/columns/{COLUMN}/downstream",
    f"/datasets/{NAME}/columns/{COLUMN}/lineage",
    f"/datasets/{NAME}/columns/{COLUMN}/impact",
    f"/datasets/{NAME}/column-lineage",
    f"/datasets/{NAME}/schema",
    f"/datasets/{NAME}/schema/history",
    f"/datasets/{NAME}/schema/diff",
    f"/datasets/{NAME}/metrics",
    f"/datasets/{NAME}/metrics/stats",
    "/jobs",
    f"/jobs/{RUN}",
    f"/jobs/{RUN}/stages",
    "/jobs/stats/summary",
]


@pytest.fixture(scope="module")
async def client(cluster: Cluster) -> AsyncIterator[httpx.AsyncClient]:
    async with shop_server(cluster) as live:
        headers = {"authorization": f"Bearer {live.api_key}"}
        async with httpx.AsyncClient(base_url=live.url, headers=headers, trust_env=False) as client:
            yield client


@pytest.mark.parametrize("path", PATHS)
async def test_every_path_of_the_first_design_answers(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path if path == "/health" else f"/api/v1{path}")

    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"


async def test_a_stage_answers(client: httpx.AsyncClient) -> None:
    stages = a_facet(stages=[{"stage_id": 3, "attempt": 0, "num_tasks": 8}])
    event = an_event(run_facets={"headgate_stages": stages})
    assert (await client.post("/api/v1/lineage", json=event)).status_code == 201

    answer = await client.get(f"/api/v1/jobs/{event['run']['runId']}/stages/3")

    assert answer.status_code == 200, answer.text
    assert (answer.json()["stage_id"], answer.json()["num_tasks"]) == (3, 8)
