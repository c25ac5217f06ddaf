"""dbt with the official wrapper on a project of our own, in both of its modes, and events that it really sent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.conftest import Cluster
from tests.support import stored
from tests.support.golden import golden, replay
from tests.support.live import Live, live_server

SHOP = Path(__file__).parents[1] / "support" / "dbt_shop"
DUCKDB = "duckdb://shop.duckdb"
TASK = UUID("01a1e0aa-0000-7000-8000-000000000001")
DAG = UUID("01a1e0aa-0000-7000-8000-000000000002")


def dbt(live: Live, project: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """One command of the wrapper, as a user would type it in the project's folder."""
    programs = Path(sys.executable).parent
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OPENLINEAGE_", "DBT_"))}
    environment = inherited | {
        "PATH": f"{programs}{os.pathsep}{inherited['PATH']}",
        "HOME": str(project),
        "NO_PROXY": "127.0.0.1",
        "DO_NOT_TRACK": "1",
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "OPENLINEAGE_URL": live.url,
        "OPENLINEAGE_API_KEY": live.api_key,
        "OPENLINEAGE_NAMESPACE": "dbt-shop",
    }
    command = [str(programs / "dbt-ol"), *arguments]
    return subprocess.run(
        command, cwd=project, env=environment | more, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.fixture(scope="module")
async def artifacts(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """The wrapper's default: events once dbt has ended, from its artifacts."""
    project = tmp_path_factory.mktemp("artifacts") / "shop"
    shutil.copytree(SHOP, project)
    async with live_server(cluster) as live:
        for command, code in (("seed", 0), ("run", 0), ("test", 1)):
            ended = dbt(live, project, command)
            assert ended.returncode == code, ended.stdout + ended.stderr
        yield live


@pytest.fixture(scope="module")
async def logs(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """Events while dbt runs, from its log; started by a task of somebody's DAG."""
    project = tmp_path_factory.mktemp("logs") / "shop"
    shutil.copytree(SHOP, project)
    async with live_server(cluster) as live:
        ended = dbt(
            live,
            project,
            "build",
            "--consume-structured-logs",
            OPENLINEAGE_PARENT_ID=f"airflow/nightly.dbt/{TASK}",
            OPENLINEAGE_ROOT_PARENT_ID=f"airflow/nightly/{DAG}",
        )
        assert ended.returncode == 1, ended.stdout + ended.stderr
        yield live


@pytest.fixture(scope="module")
async def replayed(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        await replay(live, golden("dbt"))
        yield live


def urn(table: str) -> str:
    return f"{DUCKDB}/shop.{table}"


async def test_probe(artifacts, logs):
    from pprint import pprint
    for live in (artifacts, logs):
        for f in (stored.runs, stored.edges, stored.column_edges, stored.schemas, stored.test_results, stored.metrics, stored.producers, stored.refusals):
            x = await f(live.db)
            if isinstance(x,set): x=sorted(x, key=str)
            print(f.__name__)
            if f is stored.runs: x=[(r.job,r.job_type,r.state,r.parent_job,r.root_job,r.is_test,r.error,r.events) for r in x]
            pprint(x, width=200)
        print(live.statuses, await stored.event_count(live.db))
