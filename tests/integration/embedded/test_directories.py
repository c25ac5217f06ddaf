"""The embedded PostgreSQL in odd directories, with broken programs and for odd users."""

from __future__ import annotations

import os
import pwd
import shutil
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from headgate.errors import EmbeddedPostgresError
from headgate.server.db.embedded import EmbeddedPostgres, wheel_binaries
from headgate.server.db.programs import SHARED
from tests.support.embedded import Make, cluster_of, is_running, kill_everything, sql

IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="about what only root has to do")


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
