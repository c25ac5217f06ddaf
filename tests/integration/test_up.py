"""`headgate up` and the commands around it, as real processes: starts, stops, crashes and recovery."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import psutil
import pytest

from headgate.client import HeadgateClient
from headgate.errors import HeadgateError, Unauthenticated
from headgate.local import claim
from headgate.server.db.embedded import EmbeddedPostgres
from tests.support.up import HEADGATE, Up, an_event, environment, headgate, open_folder, wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "shop" / "events.ndjson"


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture
def up(folder: Path) -> Iterator[Up]:
    up = Up(folder)
    yield up
    up.remove()


def test_the_first_start_makes_credentials_that_work_and_stay(up: Up) -> None:
    up.start().await_ready()

    first = up.credentials()
    path = up.data_dir / "credentials.json"
    assert list(first) == ["url", "organization", "email", "password", "api_key"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first["api_key"].startswith("hg_live_")
    with up.client() as client:
        assert client.send(an_event()).status == 201
        assert client.health()["database"]["status"] == "ok"
        assert client.login(first["email"], first["password"])["user"]["role"] == "admin"
    assert first["api_key"] not in up.output() + up.errors()
    assert first["password"] not in up.output() + up.errors()

    assert up.stop() == 0
    up.start().await_ready()

    second = up.credentials()
    assert {**second, "url": ""} == {**first, "url": ""}
    assert second["url"] in up.output()
    with up.client() as client:
        assert len(client.runs().items) == 1


def test_what_it_prints_fits_80_columns_and_names_what_one_needs(up: Up) -> None:
    up.start().await_ready()

    wait_until(lambda: "Ctrl-C" in up.output(), 5, "the summary")
    printed = up.output()
    url = up.credentials()["url"]
    for text in (url, f"{url}/docs", ".headgate/credentials.json", "headgate replay"):
        assert text in printed
    assert max(len(line) for line in printed.splitlines()) <= 80


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_signal_stops_everything_within_20_seconds_and_loses_nothing(up: Up, number: int) -> None:
    up.start().await_ready()
    acknowledged: list[bytes] = []
    senders = [threading.Thread(target=_send_until_refused, args=(up, acknowledged)) for _ in range(4)]
    for sender in senders:
        sender.start()
    wait_until(lambda: len(acknowledged) > 50, 20, "traffic")

    began = time.monotonic()
    up.signal_group(number)
    code = up.process.wait(20)

    assert code == 0, up.errors()
    assert time.monotonic() - began < 20
    assert up.postgres() == []
    for sender in senders:
        sender.join()
    assert "Traceback" not in up.errors()

    up.start().await_ready()
    with up.client() as client:
        for at in range(0, len(acknowledged), 500):
            sent = acknowledged[at : at + 500]
            assert client.send_batch(sent).summary.duplicates == len(sent)


def _send_until_refused(up: Up, acknowledged: list[bytes]) -> None:
    with up.client() as client:
        while True:
            event = json.dumps(an_event()).encode()
            try:
                client.send(event)
            except HeadgateError:
                return
            acknowledged.append(event)


def test_a_second_ctrl_c_stops_without_draining(up: Up) -> None:
    up.start().await_ready()
    with socket.create_connection(("127.0.0.1", up.port())) as half_sent:
        half_sent.sendall(b"POST /api/v1/lineage HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        time.sleep(0.3)
        up.signal_group(signal.SIGINT)
        time.sleep(1)
        began = time.monotonic()
        up.signal_group(signal.SIGINT)
        code = up.process.wait(10)

    assert code == 0
    assert time.monotonic() - began < 6
    assert up.postgres() == []


def test_a_request_that_never_ends_does_not_hold_up_the_stop(up: Up) -> None:
    up.start().await_ready()
    head = f"POST /api/v1/lineage HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {up.credentials()['api_key']}\r\n"
    with socket.create_connection(("127.0.0.1", up.port())) as half_sent:
        half_sent.sendall(head.encode() + b"Content-Length: 10\r\n\r\n{")
        time.sleep(0.3)

        assert up.stop() == 0

    assert up.postgres() == []
    assert "Traceback" not in up.errors()


@pytest.mark.parametrize("delay_s", [0.3, 0.7, 1.0, 1.3, 1.7])
def test_a_signal_during_the_first_start_leaves_nothing_running(up: Up, delay_s: float) -> None:
    up.start()
    wait_until(lambda: (up.data_dir / "up.lock").exists(), 10, "the start")
    time.sleep(delay_s - 0.3)

    code = up.stop()

    assert code == 0, up.errors()
    assert up.postgres() == []
    up.start().await_ready()


def test_it_recovers_at_once_from_a_kill_of_the_whole_group(up: Up) -> None:
    up.start().await_ready()
    port, before = up.port(), up.credentials()
    event = json.dumps(an_event()).encode()
    for _ in range(3):
        with up.client() as client:
            client.send(event)
            up.signal_group(signal.SIGKILL)
            up.start(port=port).await_ready()
        with up.client() as client:
            assert client.send(event).duplicate
    assert up.credentials() == before

    assert up.stop() == 0
    assert up.postgres() == []


def test_it_recovers_from_a_kill_of_the_group_and_of_postgresql(up: Up) -> None:
    up.start().await_ready()
    port = up.port()
    with up.client() as client:
        client.send(event := json.dumps(an_event()).encode())
    servers = up.postgres()
    up.signal_group(signal.SIGKILL)
    for server in servers:
        # What served the API may be gone with its connection.
        with suppress(psutil.NoSuchProcess):
            server.kill()

    up.start(port=port).await_ready()

    with up.client() as client:
        assert client.send(event).duplicate


def test_a_crash_before_the_accounts_were_made_heals(up: Up) -> None:
    up.data_dir.mkdir()
    known = {"url": "http://127.0.0.1:1", "organization": "Shop", "email": "ada@example.org"}
    known |= {"password": "a long enough password", "api_key": "hg_live_written_before_the_crash"}
    (up.data_dir / "credentials.json").write_text(json.dumps(known))

    up.start().await_ready()

    assert {**up.credentials(), "url": ""} == {**known, "url": ""}
    with up.client() as client:
        assert client.send(an_event()).status == 201
        assert client.login(known["email"], known["password"])["organization"]["name"] == "Shop"


def test_a_second_up_on_the_same_directory_is_refused(up: Up) -> None:
    up.start().await_ready()

    second = headgate("up", "--port", "0", cwd=up.folder)

    assert second.returncode == 2
    first, hint = second.stderr.splitlines()
    assert first == f"error[conflict]: the data directory '.headgate' is in use by process {up.process.pid}"
    assert hint == f"hint: stop it with `kill {up.process.pid}`, or choose another with --data-dir"
    assert up.client().ready()


def test_a_taken_port_is_told_before_anything_is_started(up: Up) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        done = headgate("up", "--port", str(port), cwd=up.folder)

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"error[conflict]: port {port} on '127.0.0.1' is taken by another program",
        "hint: stop that program, or choose another port with --port (0 picks a free one)",
    ]
    assert not (up.data_dir / "postgres").exists()


def test_the_service_returns_by_itself_when_postgresql_was_killed(up: Up) -> None:
    up.start().await_ready()
    with up.client() as client:
        client.send(event := json.dumps(an_event()).encode())
        for process in up.postgres():
            process.kill()

        statuses = _statuses_until_stored(up)

        assert set(statuses) <= {201, 503}
        assert client.send(event).duplicate
    assert up.stop() == 0
    assert up.postgres() == []


def _statuses_until_stored(up: Up) -> list[int]:
    statuses, known = [], up.credentials()
    deadline = time.monotonic() + 30
    with httpx.Client(base_url=known["url"], headers={"Authorization": f"Bearer {known['api_key']}"}) as client:
        while not statuses or statuses[-1] != 201:
            assert time.monotonic() < deadline, statuses
            statuses.append(client.post("/api/v1/lineage", json=an_event(), timeout=20).status_code)
            time.sleep(0.05)
    return statuses


def test_replay_sends_the_shop_and_goes_on_where_it_stopped(up: Up) -> None:
    up.start().await_ready()
    lines = SHOP.read_bytes().splitlines(keepends=True)
    events = up.folder / "events.ndjson"

    events.write_bytes(b"".join(lines[:20]) + lines[20][:100])
    first = headgate("replay", "events.ndjson", "--batch-size", "7", cwd=up.folder)
    events.write_bytes(b"".join(lines) + b'{"eventType": "START"}\n')
    second = headgate("replay", "events.ndjson", "--refused", "refused.ndjson", cwd=up.folder)
    third = headgate("replay", "events.ndjson", cwd=up.folder)

    assert (first.returncode, second.returncode, third.returncode) == (1, 1, 1)
    assert "events.ndjson:21" in first.stdout
    assert "1 file: 21 events, 20 stored, 0 duplicate, 1 refused" in first.stdout
    assert f"1 file: {len(lines) - 19} events, {len(lines) - 20} stored, 0 duplicate, 1 refused" in second.stdout
    assert f"events.ndjson:{len(lines) + 1}" in second.stdout
    assert json.loads((up.folder / "refused.ndjson").read_text())["event"] == {"eventType": "START"}
    assert "1 events were refused by an earlier call" in third.stdout
    with up.client() as client:
        runs = client.runs(limit=1000).items
    assert len(runs) == 17
    assert [run["state"] for run in runs if run["job"]["name"] == "shop.silver_orders"] == [
        "COMPLETE",
        "FAIL",
        "COMPLETE",
    ]


def test_replay_survives_a_kill_and_an_outage_and_stores_every_event_once(up: Up) -> None:
    up.start().await_ready()
    port = up.port()
    runs = [str(uuid4()) for _ in range(3000)]
    lines = [json.dumps(an_event(run_id)) for run_id in runs]
    (up.folder / "many.ndjson").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "headgate.cli.main", "replay", "many.ndjson", "--batch-size", "10"]

    killed = subprocess.Popen(command, cwd=up.folder, env=environment())
    wait_until(lambda: len(_runs(up)) > 0, 30, "the first events")
    killed.kill()
    killed.wait()
    stored = len(_runs(up))
    assert stored < 1000, "it was killed too late to show anything"
    replaying = subprocess.Popen(
        command, cwd=up.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: len(_runs(up)) > stored, 30, "more events")
    up.signal_group(signal.SIGKILL)
    up.start(port=port).await_ready()
    out, err = replaying.communicate(timeout=60)

    assert replaying.returncode == 0, out + err
    assert "0 refused" in out
    with up.client() as client:
        summary = client.send_batch([line.encode() for line in lines[:1000]]).summary
        assert summary.duplicates == 1000
        assert client.run(runs[-1])["event_count"] == 1


def _runs(up: Up) -> Sequence[Mapping[str, Any]]:
    with up.client() as client:
        return client.runs(limit=1000).items


def test_ctrl_c_in_a_replay_says_how_to_go_on(up: Up) -> None:
    up.start().await_ready()
    (up.folder / "many.ndjson").write_text("".join(json.dumps(an_event()) + "\n" for _ in range(5000)))
    replaying = subprocess.Popen(
        [sys.executable, "-m", "headgate.cli.main", "replay", "many.ndjson", "--batch-size", "1"],
        cwd=up.folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until((up.data_dir / "replay.json").exists, 20, "progress")

    replaying.send_signal(signal.SIGINT)
    _, err = replaying.communicate(timeout=10)

    assert replaying.returncode == 130
    assert "run the same command again to go on from there" in err
    assert "Traceback" not in err


def test_replay_reads_standard_input(up: Up) -> None:
    up.start().await_ready()

    done = subprocess.run(
        [sys.executable, "-m", "headgate.cli.main", "replay", "-"],
        cwd=up.folder,
        env=environment(),
        input=json.dumps([an_event(), an_event()], indent=2),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "1 file: 2 events, 2 stored, 0 duplicate, 0 refused\n")


def test_a_key_is_made_used_listed_and_revoked(up: Up) -> None:
    up.start().await_ready()

    made = headgate("keys", "create", "spark jobs", cwd=up.folder)
    key = made.stdout.strip()
    with HeadgateClient(up.credentials()["url"], key, attempts=1) as client:
        assert client.send(an_event()).status == 201
        listed = headgate("keys", "list", cwd=up.folder)
        revoked = headgate("keys", "revoke", key[:12], cwd=up.folder)
        with pytest.raises(Unauthenticated):
            client.send(an_event())

    assert made.stdout == f"{key}\n"
    assert key not in made.stderr
    assert "spark jobs" in listed.stdout
    assert key not in listed.stdout
    assert revoked.stdout == f"revoked 'spark jobs' ({key[:12]})\n"


def test_a_wrong_password_is_a_user_error(up: Up) -> None:
    up.start().await_ready()

    done = headgate("keys", "list", "--password", "wrong", cwd=up.folder)

    assert done.returncode == 2
    assert done.stderr.startswith("error[auth.unauthenticated]: ")
    assert "correlation id: " in done.stderr


@pytest.fixture
async def own_database(embedded_postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """The URL of an empty database, as a user's own server would have it."""
    name = f"own_{uuid4().hex}"
    conn = await asyncpg.connect(embedded_postgres.dsn(user="postgres", database="postgres"))
    try:
        await conn.execute(f"CREATE DATABASE {name}")
        yield embedded_postgres.dsn(user="postgres", database=name)
        await conn.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await conn.close()


def test_migrate_serve_and_worker_run_on_a_database_of_ones_own(own_database: str, folder: Path) -> None:
    url = {"HEADGATE_DATABASE_URL": own_database}
    too_early = headgate("serve", "--port", "0", cwd=folder, **url)
    first = headgate("migrate", cwd=folder, **url)
    second = headgate("migrate", cwd=folder, **url)

    assert too_early.returncode == 2
    assert "headgate migrate" in too_early.stderr
    assert (first.returncode, first.stdout.startswith("applied 0001_")) == (0, True)
    assert (second.returncode, second.stdout) == (0, "up to date\n")

    with claim.port("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    for command in (["serve", "--port", str(port)], ["worker", "--concurrency", "2"]):
        with (folder / "err.txt").open("wb") as err:
            process = subprocess.Popen([*HEADGATE, *command], cwd=folder, env=environment(**url), stderr=err)
        try:
            if command[0] == "serve":
                with HeadgateClient(f"http://127.0.0.1:{port}") as client:
                    wait_until(client.ready, 30, "ready")
            else:
                wait_until(lambda: b"working on tasks, 2 at once" in (folder / "err.txt").read_bytes(), 30, "work")
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
        assert "Traceback" not in (folder / "err.txt").read_text()


def test_up_uses_the_database_of_the_environment_and_brings_none(own_database: str, up: Up) -> None:
    up.start(HEADGATE_DATABASE_URL=own_database).await_ready()

    with up.client() as client:
        assert client.send(an_event()).status == 201
    assert not (up.data_dir / "postgres").exists()
    assert up.stop() == 0


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://u:secret@127.0.0.1:1/x", "error[unavailable]: PostgreSQL at 127.0.0.1:1/x does not answer"),
        ("mysql://u:secret@127.0.0.1/x", "error[config.invalid]: the database URL cannot be used"),
    ],
    ids=["nobody there", "not postgresql"],
)
def test_a_database_that_cannot_be_used_is_told_without_its_password(folder: Path, url: str, expected: str) -> None:
    done = headgate("migrate", cwd=folder, HEADGATE_DATABASE_URL=url)

    assert done.returncode == 2
    assert done.stderr.startswith(expected)
    assert "secret" not in done.stderr
