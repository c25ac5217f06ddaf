"""kill -9, a lost database and a full disk, under load: what was acknowledged is there afterwards, once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import asyncpg
import httpx
import psutil
import pytest

from headgate.openlineage.packing import unpack
from headgate.server.db.embedded import EmbeddedPostgres
from headgate.server.db.migrate import migrate
from headgate.server.db.pool import Database
from headgate.settings import Settings
from tests.support.absent import lacking
from tests.support.events import Json, a_facet, an_event
from tests.support.load import Load
from tests.support.server import Server, running_server
from tests.support.up import Up

pytestmark = pytest.mark.slow

ROUNDS = 10
SEED = 20260301


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headgate-crash-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def up(folder: Path) -> Iterator[Up]:
    up = Up(folder)
    yield up
    up.remove()


async def test_ten_crashes_under_load_lose_nothing_and_repeat_nothing(up: Up) -> None:
    up.start().await_ready()
    port, known = up.port(), up.credentials()
    load = Load(known["url"], known["api_key"], SEED)
    dice = random.Random(SEED)
    victims = ["server", "postgres", "both", "backend"]

    for crash in range(ROUNDS):
        async with load.running():
            await asyncio.sleep(dice.uniform(0.3, 1.5))
            await asyncio.to_thread(_kill, up, victims[crash % len(victims)], dice)
            if up.process.poll() is not None or victims[crash % len(victims)] in {"server", "both"}:
                await asyncio.to_thread(up.process.wait)
                up.start(port=port)
            await asyncio.to_thread(up.await_ready)
            await asyncio.sleep(0.3)

    assert load.surprises == []
    assert len(load.acknowledged) > 500
    await _assert_stored_once(up, load)
    assert up.stop() == 0
    assert "Traceback" not in up.errors()


def _kill(up: Up, victim: str, dice: random.Random) -> None:
    processes = up.postgres()
    if victim in {"server", "both"}:
        up.signal_group(signal.SIGKILL)
    chosen = {"postgres": processes, "both": processes, "backend": [dice.choice(processes)]}
    for process in chosen.get(victim, ()):
        # Children of a killed postmaster may end by themselves.
        with suppress(psutil.NoSuchProcess):
            process.kill()


async def _assert_stored_once(up: Up, load: Load) -> None:
    dsn = EmbeddedPostgres(up.data_dir / "postgres").dsn(user="postgres", database="headgate")
    conn = await asyncpg.connect(dsn, server_settings={"search_path": "headgate"})
    try:
        events = await conn.fetch("SELECT raw FROM lineage_events WHERE outcome = 'accepted'")
        runs = await conn.fetch("SELECT run_id, state FROM job_runs")
        metrics = await conn.fetchval("SELECT count(*) FROM dataset_metrics")
    finally:
        await conn.close()
    stored = Counter(unpack(row["raw"]) for row in events)
    assert set(stored.values()) == {1}
    assert set(load.acknowledged) <= set(stored) <= set(load.sent)
    told = {UUID(event["run"]["runId"]): event["eventType"] for event in map(json.loads, stored)}
    assert {row["run_id"]: row["state"] for row in runs} == told
    assert metrics == sum(state != "START" for state in told.values())


@pytest.fixture
async def postgres(folder: Path) -> AsyncIterator[EmbeddedPostgres]:
    """A durable PostgreSQL of the test's own, to be taken away, with a migrated database."""
    postgres = EmbeddedPostgres(folder / "postgres")
    postgres.start()
    conn = await asyncpg.connect(postgres.dsn(user="postgres", database="postgres"))
    await conn.execute("CREATE DATABASE headgate")
    await conn.close()
    await migrate(postgres.dsn(user="postgres", database="headgate"))
    yield postgres
    postgres.remove()


async def test_without_its_database_the_server_says_so_and_returns_with_it(
    postgres: EmbeddedPostgres, settings: Settings
) -> None:
    database = Database(postgres.dsn(user="headgate_app", database="headgate"), max_size=6)
    async with running_server(settings, database) as server:
        before, lost = an_event(), an_event()
        await server.tenant.send_ok(before)
        await asyncio.to_thread(postgres.stop)

        await _assert_away(server, lost)

        await asyncio.to_thread(postgres.start)
        began = time.monotonic()
        while (response := await server.tenant.send(lost)).status_code == 503:
            assert time.monotonic() - began < 10
            await asyncio.sleep(0.1)
        assert response.status_code == 201
        assert (await server.tenant.send(before)).status_code == 200
        assert (await server.client.get("/ready")).status_code == 200
    await database.close()


async def _assert_away(server: Server, event: Json) -> None:
    """Every route answers soon that the database is gone, and what is worth another try."""
    began = time.monotonic()
    for path in ("/api/v1/lineage", "/api/openlineage"):
        response = await server.tenant.send(event, path)
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        assert response.json()["code"] == "unavailable"
    batch = await server.client.post("/api/v1/lineage/batch", json=[event, an_event()])
    assert batch.status_code == 503
    assert int(batch.headers["retry-after"]) >= 1
    assert batch.json()["summary"]["retriable"] == 2
    for path in ("/api/v1/runs", "/api/v1/organization", "/ready"):
        response = await server.client.get(path)
        assert response.status_code == 503, path
        assert int(response.headers["retry-after"]) >= 1
    unknown = await server.client.get("/api/v1/runs", headers={"authorization": "Bearer hg_live_never_seen"})
    assert unknown.status_code == 503
    assert (await server.client.get("/ping")).status_code == 200
    assert (await server.client.get("/health")).json()["status"] == "degraded"
    assert time.monotonic() - began < 10


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of 300 MB in memory."""
    if os.geteuid() != 0 or sys.platform != "linux":
        lacking("only root may mount a small disk, and only on Linux")
    with tempfile.TemporaryDirectory(prefix="headgate-disk-") as name:
        mount = ["mount", "-t", "tmpfs", "-o", "size=300m,mode=755", "tmpfs", name]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            lacking("this machine does not let root mount a tmpfs")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


async def test_a_full_disk_is_503_until_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    up = Up(small_disk)
    try:
        up.start().await_ready()
        known = up.credentials()
        headers = {"authorization": f"Bearer {known['api_key']}", "content-type": "application/json"}
        async with httpx.AsyncClient(base_url=known["url"], headers=headers, timeout=30) as client:
            _fill(ballast, leaving=6 * 1024 * 1024)
            acknowledged, refused = await _send_until_full(client)
            ballast.unlink()
            began = time.monotonic()
            while (status := (await client.post("/api/v1/lineage", content=refused)).status_code) == 503:
                assert time.monotonic() - began < 45, up.errors()
                await asyncio.sleep(0.3)
            assert status in {200, 201}
            for raw in acknowledged:
                assert (await client.post("/api/v1/lineage", content=raw)).status_code == 200
        assert up.stop() == 0
        assert "Traceback" not in up.errors()
    finally:
        up.remove()


def _fill(ballast: Path, *, leaving: int) -> None:
    free = os.statvfs(ballast.parent)
    with ballast.open("wb") as file:
        file.write(b"\0" * max(0, free.f_bavail * free.f_frsize - leaving))


async def _send_until_full(client: httpx.AsyncClient) -> tuple[list[bytes], bytes]:
    """What was taken, and the first event that was not. Noise does not compress, so each takes its megabyte."""
    dice = random.Random(SEED)
    acknowledged: list[bytes] = []
    while True:
        raw = json.dumps(an_event(run_facets={"noise": a_facet(noise=dice.randbytes(500_000).hex())})).encode()
        response = await client.post("/api/v1/lineage", content=raw)
        if response.status_code == 503:
            assert int(response.headers["retry-after"]) >= 1
            return acknowledged, raw
        assert response.status_code == 201, response.text
        acknowledged.append(raw)
