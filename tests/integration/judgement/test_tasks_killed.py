"""`headgate worker` killed at random while events come in: it finds and tells what it would find if left in peace."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from headgate.cli.main import run
from headgate.messages.webhook import DELIVERY_HEADER
from headgate.server.db.pool import Database
from headgate.server.kinds import kinds_of
from headgate.server.worker import Worker
from headgate.settings import Settings
from tests.conftest import Cluster
from tests.support.alerts import RULES, a_channel
from tests.support.anomalies import a_load, spelled
from tests.support.bad_servers import BadServer
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event
from tests.support.ingest import BATCH, post, unlimited
from tests.support.server import Server, Tenant, running_server
from tests.support.tasks import expire_claims_of
from tests.support.up import environment

pytestmark = pytest.mark.slow

SEED = 20261116
PROCESSES = 3
ROUNDS = 10
TABLES_A_ROUND = 2
OURS = "127.0.0.0/8"
FOUND = {
    "anomalies": "SELECT anomaly_type, count(*) FROM anomalies WHERE organization_id = $1 GROUP BY 1 ORDER BY 1",
    "incidents": "SELECT kind, status, count(*) FROM incidents WHERE organization_id = $1 GROUP BY 1, 2 ORDER BY 1, 2",
    "symptoms": """SELECT type, count(*), sum(count) FROM incident_symptoms WHERE organization_id = $1
                    GROUP BY 1 ORDER BY 1""",
    "events": "SELECT kind, count(*) FROM incident_events WHERE organization_id = $1 GROUP BY 1 ORDER BY 1",
    "alerts": "SELECT status, count(*) FROM alert_history WHERE organization_id = $1 GROUP BY 1 ORDER BY 1",
    # How many there are to look into depends on what is open when a run is judged.
    "tasks": """SELECT DISTINCT task_type, status FROM async_task WHERE organization_id = $1 AND repeat_s IS NULL
                 ORDER BY 1, 2""",
}


@pytest.fixture
def settings() -> Settings:
    return unlimited(alert_allow_private=OURS)


def a_history(number: int, now: datetime) -> list[Json]:
    """A table that has as many rows as always, and then few, of which some are bad; and a job that fails."""
    table, dice = f"orders_{number}", random.Random(number)
    loads = [
        a_load(now - timedelta(days=8 - day), dice.randrange(990, 1010), job=table, table=table) for day in range(7)
    ]
    bad = {"dataQualityAssertions": a_facet(assertions=[{"assertion": "not_null", "success": False, "column": "id"}])}
    checked = [a_dataset(f"customers_{number}", inputFacets=bad)]
    return [
        *loads,
        a_load(now, 50, job=table, table=table),
        an_event(job=f"check_{number}", time=spelled(now), inputs=checked),
        an_event("FAIL", job=f"broken_{number}", time=spelled(now), outputs=[a_dataset(f"items_{number}")]),
    ]


def rounds() -> list[list[Json]]:
    now = datetime.now(UTC) - timedelta(hours=1)
    return [
        [event for table in range(TABLES_A_ROUND) for event in a_history(number * TABLES_A_ROUND + table, now)]
        for number in range(ROUNDS)
    ]


def renamed(events: list[Json]) -> list[Json]:
    """The same with runs of their own."""
    return [event | {"run": event["run"] | {"runId": a_run_id()}} for event in events]


async def a_rule(tenant: Tenant, url: str) -> None:
    body = {
        "name": "drops",
        "channel_type": "WEBHOOK",
        "channel_config": {"webhook_url": url},
        "anomaly_type": "RowCountDrop",
    }
    response = await tenant.client.post(RULES, json=body)
    assert response.is_success, response.text


async def send(tenant: Tenant, events: list[Json]) -> None:
    response = await post(tenant, BATCH, events)
    assert response.is_success, response.text


async def found(db: asyncpg.Connection, tenant: Tenant) -> dict[str, list[tuple[Any, ...]]]:
    return {name: [tuple(row) for row in await db.fetch(sql, tenant.organization_id)] for name, sql in FOUND.items()}


def delivered(channel: BadServer) -> set[str]:
    return {asked.headers[DELIVERY_HEADER.lower()] for asked in channel.asked}


async def until(is_so: Callable[[], Awaitable[object]], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not await is_so():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        await asyncio.sleep(0.01)


def headgate_worker(env: dict[str, str], errors: Path) -> None:
    """The command, in a process of its own."""
    with errors.open("ab") as err:
        os.dup2(err.fileno(), 2)
    os.environ.clear()
    os.environ.update(env)
    sys.exit(run(["worker"]))


class Workers:
    """`headgate worker`, a few times over. Its code is loaded once, and forked: else most of the time goes there."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._env = environment(HEADGATE_DATABASE_URL=dsn, HEADGATE_ALERT_ALLOW_PRIVATE=OURS)
        self._errors = folder / "err.txt"
        self._forks = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload(["headgate.cli.launch", __name__])
        self.processes: dict[int, ForkServerProcess] = {}

    def start(self) -> None:
        process = self._forks.Process(target=headgate_worker, args=(self._env, self._errors))
        process.start()
        assert process.pid is not None
        self.processes[process.pid] = process

    def kill(self, pid: int) -> None:
        process = self.processes.pop(pid)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, self.errors()

    def errors(self) -> str:
        return self._errors.read_text()


@contextmanager
def workers_on(dsn: str, folder: Path) -> Iterator[Workers]:
    workers = Workers(dsn, folder)
    try:
        for _ in range(PROCESSES):
            workers.start()
        yield workers
    finally:
        for pid in list(workers.processes):
            workers.kill(pid)


@pytest.fixture
async def both(settings: Settings, cluster: Cluster, database_name: str) -> AsyncIterator[tuple[Server, Tenant]]:
    """A server with an organisation that is left in peace, and another."""
    database = Database(cluster.app_dsn(database_name), max_size=8)
    async with running_server(settings, database) as server:
        yield server, await server.add_tenant("Second")
    await database.close()


async def test_real_workers_killed_at_random_find_and_tell_what_undisturbed_ones_do(
    both: tuple[Server, Tenant],
    settings: Settings,
    cluster: Cluster,
    database_name: str,
    db: asyncpg.Connection,
    tmp_path: Path,
) -> None:
    server, disturbed = both
    peaceful, dice, kills = server.tenant, random.Random(SEED), 0
    busy: list[int] = []
    events = rounds()

    async def is_settled() -> bool:
        return not await db.fetchval(
            "SELECT count(*) FROM async_task WHERE repeat_s IS NULL AND status NOT IN ('SUCCEEDED', 'DEAD', 'CANCELED')"
        )

    async def is_hit(workers: Workers, sending: asyncio.Task[None]) -> bool:
        is_sent = sending.done()
        rows = await db.fetch(
            "SELECT DISTINCT split_part(worker_id, ':', 2)::integer FROM async_task WHERE status = 'RUNNING'"
        )
        busy[:] = sorted(workers.processes.keys() & {row[0] for row in rows})
        return bool(busy) or (is_sent and await is_settled())

    with a_channel() as calm, a_channel() as stormy:
        await a_rule(peaceful, calm.url)
        await a_rule(disturbed, stormy.url)
        for part in events:
            await send(peaceful, part)
        await Worker(server.database, kinds_of(settings)).drain()
        expected = await found(db, peaceful)

        with workers_on(cluster.app_dsn(database_name), tmp_path) as workers:
            for part in events:
                sending = asyncio.create_task(send(disturbed, renamed(part)))
                await until(partial(is_hit, workers, sending), 60, "work")
                if busy:
                    await asyncio.sleep(dice.uniform(0, 0.03))
                    kills += 1
                    victim = dice.choice(busy)
                    workers.kill(victim)
                    await expire_claims_of(db, victim)
                    workers.start()
                await sending
            await until(is_settled, 60, "the end of all work")
            assert "Traceback" not in workers.errors()

    assert kills >= ROUNDS // 2
    assert {row[1] for row in expected["tasks"]} == {"SUCCEEDED"}
    assert {row[0] for row in expected["tasks"]} == {"DETECT", "CORRELATE", "ALERT"}
    assert await found(db, disturbed) == expected
    assert len(delivered(calm)) == len(delivered(stormy)) == ROUNDS * TABLES_A_ROUND
    await assert_only_kills_failed(db, disturbed.organization_id)


async def assert_only_kills_failed(db: asyncpg.Connection, organization_id: UUID) -> None:
    rows = await db.fetch(
        "SELECT error_type, count(*) FROM async_task_attempt WHERE organization_id = $1 GROUP BY 1", organization_id
    )
    ended = {row[0]: row[1] for row in rows}
    assert ended.keys() == {None, "ClaimExpired"}, ended
