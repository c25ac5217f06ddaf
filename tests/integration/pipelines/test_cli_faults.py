"""`headgate run` as a process of its own that is killed, loses its server, or is watched by the agent."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import Cluster
from tests.integration.pipelines.test_cli_process import started, wait_for
from tests.support.live import Live, live_server
from tests.support.up import headgate
from tests.unit.pipelines.samples import saved, with_nodes

pytestmark = pytest.mark.slow

RUN_S = 240
ORDERS = "id,amount\n" + "\n".join(f"{n},{n * 10}" for n in range(1, 21)) + "\n21,\n"
NODES = """
    - name: orders
      read: {connection: bronze, path: orders.csv, format: csv, columns: "id BIGINT, amount INT"}
      transform: {steps: ["SELECT id, amount * 2 AS doubled, amount FROM df"]}
      validation:
        tests:
          - {type: not_null, columns: [amount], on_fail: quarantine}
          - {type: unique, columns: [id], on_fail: quarantine}
        quarantine: {connection: silver, path: bad_orders}
      write: {connection: silver, path: orders}
    - name: totals
      depends_on: orders
      transform: {steps: ["SELECT sum(doubled) AS total FROM orders"]}
      write: {connection: silver, path: totals}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    saved(tmp_path, ORDERS, "data/bronze/orders.csv")
    return saved(tmp_path, with_nodes(NODES))


@pytest.fixture(scope="module")
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as found:
        yield found


def ran(file: Path, *arguments: str, **env: str) -> dict[str, Any]:
    done = headgate("run", str(file), "--json", *arguments, cwd=file.parent, timeout_s=RUN_S, **env)
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


def rows_of(folder: Path) -> int:
    from pyarrow import parquet

    # Each file for itself: what Spark left beside them is no part of it.
    return sum(parquet.ParquetFile(path).metadata.num_rows for path in folder.rglob("*.parquet"))


@pytest.mark.parametrize("wait_s", [0.5, 4.0])
def test_a_run_that_is_killed_leaves_the_old_rows_or_the_new_ones_and_the_next_cleans_up(
    project: Path, wait_s: float
) -> None:
    target = project.parent / "data/silver/orders"
    before = ran(project, "--no-server")
    old = files_below(target)
    process = started(project)
    wait_for(process, "daily.orders: started")
    time.sleep(wait_s)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()

    is_as_before = files_below(target) == old
    after = ran(project, "--no-server")

    assert before["status"] == after["status"] == "published"
    assert is_as_before or rows_of(target) == 20
    assert rows_of(target) == 20
    assert rows_of(project.parent / "data/silver/bad_orders") in (2, 3)
    assert list((project.parent / "data/silver/.headgate").rglob("*.parquet")) == []


def test_column_lineage_comes_from_the_agent_and_nothing_of_staging_does(project: Path, live: Live) -> None:
    answer = ran(project, HEADGATE_URL=live.url, HEADGATE_API_KEY=live.api_key)

    headers = {"authorization": f"Bearer {live.api_key}"}
    with httpx.Client(base_url=f"{live.url}/api/v1", headers=headers, trust_env=False) as client:
        names = [item["name"] for item in client.get("/datasets", params={"limit": 1000}).json()["items"]]
        target = quote(f"file/{project.parent}/data/silver/orders", safe="")
        found = client.get(f"/datasets/{target}/column-lineage").json()["edges"]
    edges = {(edge["source"]["column"], edge["target"]["column"]) for edge in found}
    assert answer["status"] == "published"
    assert [name for name in names if ".headgate" in name] == []
    assert {("amount", "doubled"), ("amount", "amount"), ("id", "id")} <= edges
    assert not any(column.startswith("_headgate") for pair in edges for column in pair)
