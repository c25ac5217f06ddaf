"""`headgate tasks` against a real server, in a terminal of 80 columns, and a worker's own metrics."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.local import claim
from tests.conftest import Cluster
from tests.support.asking import Ask, asking_server
from tests.support.live import Live, live_server
from tests.support.up import HEADGATE, environment


@pytest.fixture(scope="module")
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        yield live


@pytest.fixture
async def ids(live: Live) -> dict[str, int]:
    """A task in each of some states, by its state."""
    await live.db.execute("DELETE FROM async_task")
    for number, status in enumerate(("PENDING", "DEAD", "FAILED", "RUNNING", "SUCCEEDED")):
        await live.db.execute(
            """INSERT INTO async_task (organization_id, task_type, tenant_id, tenant_code, resource_type, resource_id,
                                       content_hash, status, attempts, worker_id, claimed_at, last_error)
               SELECT id, $1, tenant_id, tenant_code, 'RUN', $2, '', $3, 6, 'w', now(), 'it broke'
                 FROM organizations""",
            "ALERT" if status == "DEAD" else "DETECT",
            f"0190d0a0-0000-7000-8000-00000000000{number}",
            status,
        )
    await live.db.execute(
        """INSERT INTO async_task_attempt (organization_id, task_id, attempt_no, worker_id, started_at, finished_at,
                                           status, latency_ms, error_type, error_message)
           SELECT organization_id, id, 6, 'w', now(), now(), 'FAILED', 1234, 'ValueError', 'it broke'
             FROM async_task WHERE status = 'DEAD'"""
    )
    rows = await live.db.fetch("SELECT id, status FROM async_task")
    return {row["status"]: row["id"] for row in rows}


@pytest.fixture
def ask(live: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    return asking_server(live, monkeypatch, capsys, "tasks")


def test_the_list_fits_a_terminal(ask: Ask, ids: dict[str, int]) -> None:
    found = ask("list")
    assert found.code == 0
    assert max(len(line) for line in found.out.splitlines()) <= 80
    assert all(str(id_) in found.out and status in found.out for status, id_ in ids.items())


async def test_what_a_task_is_about_can_be_copied_from_the_list(ask: Ask, ids: dict[str, int], live: Live) -> None:
    await live.db.execute("UPDATE async_task SET task_type = 'CLEAN_REFUSED' WHERE status = 'SUCCEEDED'")
    await live.db.execute("UPDATE async_task SET resource_id = resource_id || ':on_gate_block' WHERE status = 'DEAD'")
    await live.db.execute("UPDATE async_task SET updated_at = now() - interval '3 days 5 hours' WHERE status = 'DEAD'")
    found = await asyncio.to_thread(ask, "list")
    words = [line.split() for line in found.out.splitlines()]
    assert {f"0190d0a0-0000-7000-8000-00000000000{number}" for number in range(5)} <= {row[-1] for row in words if row}
    assert [str(ids["DEAD"]), "ALERT", "DEAD", "6", "3d"] in [row[:5] for row in words]
    assert max(len(line) for line in found.out.splitlines()) <= 80


def test_the_list_can_be_narrowed(ask: Ask, ids: dict[str, int]) -> None:
    answer = json.loads(ask("list", "--status", "dead", "--status", "failed", "--json").out)
    assert [item["status"] for item in answer["items"]] == ["FAILED", "DEAD"]
    assert [item["id"] for item in json.loads(ask("list", "--type", "alert", "--json").out)["items"]] == [ids["DEAD"]]
    answer = json.loads(ask("list", "--resource", "0190d0a0-0000-7000-8000-000000000000", "--json").out)
    assert [item["id"] for item in answer["items"]] == [ids["PENDING"]]
    assert "no task fits" in ask("list", "--type", "NONE").err


def test_one_is_shown_with_its_attempts(ask: Ask, ids: dict[str, int]) -> None:
    found = ask("show", ids["DEAD"])
    assert found.code == 0
    assert "attempt 6" in found.out
    assert "after 1.2 s: ValueError: it broke" in found.out
    assert json.loads(ask("show", ids["RUNNING"], "--json").out)["attempt_log"][0]["status"] == "RUNNING"


def test_one_that_is_not_there_is_an_error(ask: Ask, ids: dict[str, int]) -> None:
    found = ask("show", 2**40)
    assert (found.code, "error[not_found]" in found.err, "tasks list" in found.err) == (2, True, True)
    assert ask("show", "x").code == 2


def test_tasks_are_retried_and_canceled(ask: Ask, ids: dict[str, int]) -> None:
    assert ask("retry", ids["DEAD"]).out == f"task {ids['DEAD']} is due now\n"
    assert "is canceled" in ask("cancel", ids["DEAD"]).out
    again = ask("cancel", ids["SUCCEEDED"])
    assert (again.code, "error[conflict]" in again.err) == (2, True)
    assert ask("retry", "--failed").out == "1 task due now\n"
    assert ask("retry", "--dead", "--type", "detect").out == "0 tasks due now\n"


@pytest.mark.parametrize(
    "arguments",
    [[], ["--dead", "--failed"], ["1", "--dead"], ["1", "--type", "X"]],
    ids=["none", "both", "two", "type"],
)
def test_a_retry_says_what_is_meant(ask: Ask, arguments: list[str]) -> None:
    found = ask("retry", *arguments)
    assert (found.code, "say which" in found.err) == (2, True)


def test_the_numbers_fit_a_terminal(ask: Ask, ids: dict[str, int]) -> None:
    found = ask("stats")
    assert max(len(line) for line in found.out.splitlines()) <= 80
    lines = {line.split()[0]: line.split()[1:5] for line in found.out.splitlines()[2:]}
    assert lines == {"ALERT": ["0", "0", "0", "1"], "DETECT": ["2", "1", "1", "0"], "all": ["2", "1", "1", "1"]}
    assert json.loads(ask("stats", "--json").out)["dead"] == 1


@pytest.mark.slow
def test_a_worker_shows_its_metrics(cluster: Cluster, database_name: str, tmp_path: Path) -> None:
    with claim.port("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    env = environment(HEADGATE_DATABASE_URL=cluster.app_dsn(database_name))
    command = [*HEADGATE, "worker", "--metrics-port", str(port)]
    with (tmp_path / "err.txt").open("wb") as err:
        process = subprocess.Popen(command, cwd=tmp_path, env=env, stderr=err)
    try:
        text = _read(f"http://127.0.0.1:{port}/metrics")
        assert "headgate_build_info" in text
        assert "headgate_tasks_claimed" in text
        second = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=60, check=False)
        assert (second.returncode, str(port).encode() in second.stderr) == (2, True)
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
    assert "Traceback" not in (tmp_path / "err.txt").read_text()


def _read(url: str) -> str:
    for _ in range(150):
        try:
            with urllib.request.urlopen(url) as answer:
                return str(answer.read().decode())
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"{url} does not answer")
