"""`headgate quarantine` with real Spark and a real server: what the server hears of a batch, and does not count."""

from __future__ import annotations

import getpass
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from headgate.cli.main import run
from tests.conftest import Cluster
from tests.support.events import Json
from tests.support.live import Live, live_server
from tests.support.sessions import plain_session
from tests.unit.pipelines.samples import saved, with_nodes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

NODES = """
    - name: orders
      read: {connection: bronze, path: orders.csv, format: csv}
      validation:
        tests: [{type: not_null, columns: [amount], on_fail: quarantine}]
        quarantine: {connection: silver, path: bad_orders}
      write: {connection: silver, path: orders}
"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return plain_session(str(tmp_path_factory.mktemp("warehouse")))


@pytest.fixture
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as found:
        yield found


@pytest.fixture
def project(tmp_path: Path, live: Live, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADGATE_URL", live.url)
    monkeypatch.setenv("HEADGATE_API_KEY", live.api_key)
    saved(tmp_path, with_nodes(NODES))
    saved(tmp_path, "id,amount\n1,10\n2,\n3,\n4,40\n", "data/bronze/orders.csv")
    return tmp_path


def told(live: Live, path: str) -> list[Json]:
    headers = {"authorization": f"Bearer {live.api_key}"}
    answer = httpx.get(f"{live.url}/api/v1/{path}", headers=headers, trust_env=False)
    assert answer.status_code == 200, answer.text
    items: list[Json] = answer.json()["items"]
    return items


def history(live: Live) -> list[int]:
    return [each["rows_in"] for each in told(live, "pipelines/shop/daily/nodes/orders/history")]


def test_a_replay_is_told_and_is_no_part_of_the_nodes_history(project: Path, live: Live) -> None:
    assert run(["run"]) == 0
    (batch,) = told(live, "quarantine-batches")
    assert (batch["state"], batch["rows"]) == ("open", 2)
    assert run(["quarantine", "show", "pipeline.yaml", "orders", "--output", "rows.csv"]) == 0
    file = project / "rows.csv"
    file.write_text(file.read_text().replace(",2,,", ",2,20,").replace(",3,,", ",3,30,"))

    assert run(["quarantine", "replay", "pipeline.yaml", "orders", "--rows", "rows.csv"]) == 0

    (after,) = told(live, "quarantine-batches")
    assert (after["batch_id"], after["state"], after["run_id"]) == (batch["batch_id"], "replayed", batch["run_id"])
    assert after["changed_by"] != batch["run_id"]
    assert history(live) == [4]
    assert [each["status"] for each in told(live, "pipelines/shop/daily/runs")] == ["published", "published"]


def test_a_discarded_batch_is_told_with_who_did_it(project: Path, live: Live) -> None:
    assert run(["run"]) == 0
    (batch,) = told(live, "quarantine-batches")

    discard = ["quarantine", "discard", "pipeline.yaml", "orders", "--batch", batch["batch_id"][:6], "--yes"]
    assert run(discard) == 0

    (after,) = told(live, "quarantine-batches")
    assert after["state"] == "discarded"
    assert history(live) == [4]
    events = told(live, f"runs/{after['changed_by']}/events")
    notes = [event["event"]["run"]["facets"]["headgate_node"].get("notes") for event in events]
    assert [f"discarded by {getpass.getuser()}"] in notes
