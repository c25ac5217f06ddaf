"""kill -9 and a lost database under load: no task is lost, and no effect is made twice."""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from headgate.server.accounts.store import bootstrap
from headgate.server.db.embedded import EmbeddedPostgres
from headgate.server.db.migrate import migrate
from headgate.server.db.pool import Database
from headgate.server.notices import Notices
from headgate.server.queue import CHANNEL, Batch, Bell
from headgate.server.worker import Worker
from tests.conftest import FAST, Cluster
from tests.support.server import Server
from tests.support.stored import eventually
from tests.support.tasks import EFFECTS, Recorder, a_task, effects_of, make, running, tasks_of, until
from tests.support.up import environment

pytestmark = pytest.mark.slow

SEED = 20260301
TASKS = 1500
KILLS = 12


class Workers:
    """Processes that work, some of which are killed and begun anew."""

    def __init__(self, dsn: str) -> None:
        self._command = [sys.executable, "-m", "tests.integration.judgement.worker_process", dsn]
        self.processes: list[asyncio.subprocess.Process] = []

    async def start(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *self._command, env=environment(), stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[3]
        )
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"working\n"
        self.processes.append(process)

    async def kill(self, place: int) -> None:
        process = self.processes.pop(place)
        process.kill()
        await process.wait()


@asynccontextmanager
async def workers_on(dsn: str, number: int) -> AsyncIterator[Workers]:
    workers = Workers(dsn)
    try:
        await asyncio.gather(*(workers.start() for _ in range(number)))
        yield workers
    finally:
        while workers.processes:
            await workers.kill(0)


async def test_workers_killed_at_random_lose_no_task_and_repeat_no_effect(
    server: Server, cluster: Cluster, database_name: str, db: asyncpg.Connection
) -> None:
    await db.execute(EFFECTS)
    orgs = [server.tenant.organization_id, (await server.add_tenant("Second")).organization_id]
    dice = random.Random(SEED)

    async def is_open() -> int:
        return int(await db.fetchval("SELECT count(*) FROM async_task WHERE status <> 'SUCCEEDED'"))

    async with workers_on(cluster.app_dsn(database_name), 3) as workers:
        for org in orgs:
            await make(server.database, org, *(a_task(number) for number in range(TASKS // 2)))
            server.app.api.state.bell.ring(org)
        for _ in range(KILLS):
            await asyncio.sleep(dice.uniform(0.05, 0.4))
            await workers.kill(dice.randrange(len(workers.processes)))
            await workers.start()
        for _ in range(600):
            if not await is_open():
                break
            await asyncio.sleep(0.1)

    assert await is_open() == 0
    rows = await db.fetch("SELECT organization_id, resource_id, count(*) FROM effects GROUP BY 1, 2")
    assert len(rows) == TASKS
    assert {row["count"] for row in rows} == {1}
    taken_over = await db.fetchval("SELECT count(*) FROM async_task_attempt WHERE error_type = 'ClaimExpired'")
    assert taken_over > 0
    succeeded = await db.fetchval("SELECT count(*) FROM async_task_attempt WHERE status = 'SUCCEEDED'")
    assert succeeded == TASKS


async def test_a_bell_reaches_workers_of_other_processes_at_once(
    server: Server, cluster: Cluster, database_name: str, db: asyncpg.Connection
) -> None:
    await db.execute(EFFECTS)
    org = server.tenant.organization_id
    database = Database(cluster.app_dsn(database_name), max_size=4)
    recorder = Recorder()
    # A look once a minute: only the bell can tell it in time.
    worker = Worker(database, [recorder.kind()], look_s=60)
    notices = Notices(database)
    notices.subscribe(CHANNEL, worker.hear)
    await notices.start()
    try:
        async with running(worker):
            await asyncio.sleep(0.5)
            await make(server.database, org, a_task())
            server.app.api.state.bell.ring(org)
            await until(lambda: bool(recorder.batches), 5)
    finally:
        await notices.stop()
        await database.close()


async def test_a_lost_bell_is_made_up_for_by_a_look(server: Server, database: Database, db: asyncpg.Connection) -> None:
    await db.execute(EFFECTS)
    recorder = Recorder()
    async with running(Worker(database, [recorder.kind()], look_s=0.2)):
        await asyncio.sleep(0.3)
        await make(database, server.tenant.organization_id, a_task())
        await until(lambda: bool(recorder.batches), 5)


@pytest.fixture
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """A server of one's own, to be stopped and started."""
    with tempfile.TemporaryDirectory(prefix="headgate-crash-") as directory:
        Path(directory).chmod(0o755)
        postgres = EmbeddedPostgres(Path(directory) / "postgres", settings=FAST)
        postgres.start()
        yield postgres
        postgres.remove()


async def test_workers_wait_for_a_database_that_is_gone_and_blame_no_task(own_postgres: EmbeddedPostgres) -> None:
    dsn = own_postgres.dsn(user="postgres", database="postgres")
    await migrate(dsn)
    database = Database(own_postgres.dsn(user="headgate_app", database="postgres"), max_size=8, timeout_s=2)
    db = await asyncpg.connect(dsn, server_settings={"search_path": "headgate"})
    await db.execute(EFFECTS)
    await bootstrap(
        database, organization="One", email="a@example.org", password="long enough", api_key="hg_live_" + "x" * 43
    )
    org: UUID = await db.fetchval("SELECT id FROM organizations")
    await make(database, org, *(a_task(number) for number in range(60)))
    began = asyncio.Event()

    async def slowly(_: Batch) -> None:
        began.set()
        await asyncio.sleep(0.3)

    recorder = Recorder(slowly)
    async with running(Worker(database, [recorder.kind(batch_size=10)], bell=Bell(database), look_s=0.2)):
        await began.wait()
        await asyncio.to_thread(own_postgres.stop, timeout_s=1)
        await asyncio.sleep(1)
        await asyncio.to_thread(own_postgres.start)
        db = await asyncpg.connect(
            own_postgres.dsn(user="postgres", database="postgres"), server_settings={"search_path": "headgate"}
        )
        states = await eventually(
            lambda: tasks_of(db, "DISTINCT ON (id) status"), lambda rows: rows == [("SUCCEEDED",)] * 60
        )
    assert states == [("SUCCEEDED",)] * 60
    assert len(set(await effects_of(db))) == len(await effects_of(db)) == 60
    assert await tasks_of(db, "DISTINCT ON (id) retry_count") == [(0,)] * 60
    reasons = {row[0] for row in await db.fetch("SELECT DISTINCT error_type FROM async_task_attempt")}
    assert reasons == {None, "GivenBack"}
    await db.close()
    await database.close()
