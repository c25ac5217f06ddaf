"""The state folder of a project, and its own server as real processes: started, shared, left and outlived."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from headgate.errors import ConfigError, NotFound
from headgate.local import claim
from headgate.pipelines import home as module
from headgate.pipelines import keeper
from headgate.pipelines.home import Home, Server, connect
from headgate.pipelines.load import Loaded
from headgate.pipelines.record import NodeRecord, RunRecord, Status
from headgate.pipelines.spool import Client
from headgate.server.db.embedded import EmbeddedPostgres
from tests.support.pipeline_runs import PROJECT, TWO_PIPELINES
from tests.support.up import Up, environment, wait_until
from tests.unit.pipelines.samples import loaded

AT = datetime(2026, 3, 1, tzinfo=UTC)
IDS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(6)]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headgate-home-") as name:
        # Open, as a user's folder would be: the database of root runs as somebody else.
        Path(name).chmod(0o755)
        yield Path(name)
        for store in (Path(name) / ".headgate", Path(name) / ".headgate" / "store"):
            if (store / "postgres").exists():
                EmbeddedPostgres(store / "postgres").remove()


@pytest.fixture
def project(folder: Path) -> Loaded:
    return loaded(folder, PROJECT)


@pytest.fixture
def home(project: Loaded) -> Home:
    return Home.of(project)


def a_record(number: int, status: Status = Status.published, *pipelines: str) -> RunRecord:
    at = AT + timedelta(days=number)
    return RunRecord(IDS[number], "shop", pipelines or ("daily",), status, started_at=at, ended_at=at)


def test_the_folder_is_beside_the_file_and_out_of_git(home: Home, folder: Path) -> None:
    assert home.folder == folder.resolve() / ".headgate"
    assert (home.folder / ".gitignore").read_text() == "*\n"
    assert oct(home.spool.stat().st_mode)[-3:] == oct(home.runs.stat().st_mode)[-3:] == "700"


def test_a_folder_that_cannot_be_made_is_told_with_the_way_out(folder: Path, project: Loaded) -> None:
    (folder / ".headgate").write_text("a file")

    with pytest.raises(ConfigError, match=r"\.headgate' cannot be written: File exists") as caught:
        Home.of(project)
    assert "writable" in (caught.value.hint or "")


def test_a_record_comes_back_as_it_was(home: Home) -> None:
    run = a_record(1)
    run.nodes = [NodeRecord("daily", "orders", IDS[2], Status.stopped, watermark={"id": 7}, reasons=("too few",))]

    home.save_record(run)

    assert home.load_record(run.run_id) == run
    assert [path.name for path in home.runs.iterdir()] == [f"{run.run_id}.json"]


def test_a_run_that_is_not_there_is_answered_with_the_nearest(home: Home) -> None:
    home.save_record(a_record(1))

    with pytest.raises(NotFound) as caught:
        home.load_record(IDS[1][:-1])
    assert caught.value.hint == f"did you mean {IDS[1]!r}?"
    with pytest.raises(NotFound):
        home.load_record("../../etc/passwd")


def test_a_broken_record_is_told_and_passed_over_where_it_does_not_matter(home: Home) -> None:
    home.save_record(a_record(1))
    (home.runs / f"{IDS[2]}.json").write_text('{"run_id": 1')

    with pytest.raises(ConfigError, match="is no record of a run"):
        home.load_record(IDS[2])
    assert home.latest() == a_record(1)


def test_the_latest_run_is_the_one_that_was_saved_last(home: Home) -> None:
    assert home.latest() is None
    home.save_record(a_record(1, Status.published, "daily"))
    home.save_record(a_record(2, Status.failed, "daily", "hourly"))
    home.save_record(a_record(3, Status.failed, "hourly"))

    assert home.latest() == a_record(3, Status.failed, "hourly")
    assert home.latest(["daily"]) == a_record(2, Status.failed, "daily", "hourly")
    assert home.latest(["weekly"]) is None


def test_a_run_is_compared_with_the_last_before_it_that_published_the_same(home: Home) -> None:
    for number, status in enumerate([Status.published, Status.published, Status.failed, Status.published]):
        home.save_record(a_record(number, status))
    home.save_record(a_record(4, Status.published, "hourly"))

    assert home.previous(a_record(3)) == a_record(1)
    assert home.previous(a_record(5)) == a_record(3)
    assert home.previous(a_record(0)) is None


def test_old_records_are_forgotten(home: Home) -> None:
    for number in range(4):
        home.save_record(a_record(number))
        os.utime(home.runs / f"{IDS[number]}.json", (number, number))

    home.forget_old(kept=2)

    assert sorted(path.stem for path in home.runs.iterdir()) == IDS[2:4]


def with_server(folder: Path, server: str) -> Loaded:
    return loaded(folder, f"{PROJECT}\n    server: {server}\n")


@pytest.mark.parametrize(
    ("server", "environ", "url", "key"),
    [
        ("{url: http://a, api_key: of_file}", {}, "http://a", "of_file"),
        ("{url: http://a}", {"HEADGATE_API_KEY": "of_env"}, "http://a", "of_env"),
        ("{url: http://a, api_key: of_file}", {"HEADGATE_URL": "http://b"}, "http://b", None),
        ("{url: http://a, api_key: of_file}", {"HEADGATE_URL": "http://a/"}, "http://a/", "of_file"),
        ("{api_key: of_file}", {"HEADGATE_URL": "http://b"}, "http://b", "of_file"),
        (
            "{url: http://a, api_key: of_file}",
            {"HEADGATE_URL": "http://b", "HEADGATE_API_KEY": "of_env"},
            "http://b",
            "of_env",
        ),
    ],
)
def test_a_key_goes_to_the_server_that_it_was_named_with(
    folder: Path, server: str, environ: dict[str, str], url: str, key: str | None
) -> None:
    found = connect(with_server(folder, server), environ=environ)

    assert (found.url, found.api_key, found.is_embedded) == (url, key, False)
    assert "of_" not in repr(found)


def test_offline_there_is_no_server(folder: Path) -> None:
    found = connect(with_server(folder, "{url: http://a}"), is_offline=True, environ={"HEADGATE_URL": "http://b"})

    assert (found.url, found.is_embedded) == (None, False)
    found.close()


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why(project: Loaded, home: Home) -> None:
    home.store.mkdir()
    (home.store / "credentials.json").write_text('{"url": 1}')

    with pytest.raises(ConfigError) as caught:
        connect(project, environ={})
    assert "credentials.json" in caught.value.message
    (home.store / "credentials.json").unlink()
    (home.store / "postgres").write_text("no folder")

    began = time.monotonic()
    with pytest.raises(ConfigError, match="does not start: error") as caught:
        connect(project, environ={})
    assert time.monotonic() - began < module.START_S / 2
    assert "--no-server" in (caught.value.hint or "")
    wait_until(lambda: _is_stopped(home), 20, "the end of the keeper")
    (home.store / "postgres").unlink()


def _is_stopped(home: Home) -> bool:
    locks = keeper.Locks.of(home.folder)
    return keeper.is_free(locks.keeper) and keeper.is_free(home.store / claim.LOCK)


def _answers(server: Server) -> bool:
    assert server.url is not None
    with Client(server.url, server.api_key) as client:
        return client.pipelines(limit=1).items == []


USER = """
import sys, time
from pathlib import Path
from headgate.pipelines.home import connect
from headgate.pipelines.load import load

with connect(load(Path(sys.argv[1])), environ={}) as server:
    print(server.url, flush=True)
    try:
        time.sleep(120)
    except KeyboardInterrupt:
        from headgate.pipelines.spool import Client
        print(len(Client(server.url, server.api_key).pipelines().items), flush=True)
"""


def a_user(folder: Path) -> subprocess.Popen[str]:
    """A run in a process group of its own, as a terminal has it."""
    command = [sys.executable, "-c", f"import signal\nsignal.signal(2, signal.default_int_handler)\n{USER}"]
    return subprocess.Popen(
        [*command, str(folder / "pipeline.yaml")],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )


def said(user: subprocess.Popen[str]) -> str:
    assert user.stdout is not None
    return user.stdout.readline().strip()


@pytest.mark.slow
def test_the_server_of_a_project_is_started_kept_for_all_runs_and_stopped_with_the_last(
    folder: Path, project: Loaded, home: Home
) -> None:
    users = [a_user(folder), a_user(folder)]
    urls = {said(user) for user in users}
    assert len(urls) == 1, "two runs that begin at once share one server"

    with connect(project, environ={}) as third:
        assert (third.url, third.is_embedded) == (urls.pop(), True)
        assert (home.folder / "store" / "credentials.json").exists()
        # One run is killed, another is broken off: neither takes the server with it.
        users[0].kill()
        users[0].wait()
        os.killpg(users[1].pid, signal.SIGINT)
        assert said(users[1]) == "0", "a run that is broken off can still tell the server how it ended"
        assert users[1].wait(30) == 0
        assert _answers(third)

    assert _is_stopped(home)
    assert _left_over(home) == []
    with connect(project, environ={}) as again:
        assert _answers(again)
        assert again.api_key == third.api_key
    assert _is_stopped(home)


def _left_over(home: Home) -> list[str]:
    """Processes that still have to do with the folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = " ".join(process.info["cmdline"] or ())
        if str(home.folder) in command and "pytest" not in command:
            found.append(command)
    return found


@pytest.mark.slow
def test_a_killed_run_leaves_no_server_behind(folder: Path, home: Home) -> None:
    user = a_user(folder)
    assert said(user).startswith("http://127.0.0.1:")

    user.kill()
    user.wait()

    wait_until(lambda: _is_stopped(home) and _left_over(home) == [], 25, "the end of the server")


@pytest.mark.slow
def test_a_server_that_somebody_runs_in_the_folder_is_used_and_left_alone(folder: Path, project: Loaded) -> None:
    up = Up(folder)
    try:
        up.start().await_ready()

        with connect(project, environ={}) as server:
            assert (server.url, server.is_embedded) == (up.credentials()["url"], True)
            assert _answers(server)

        assert up.process.poll() is None
        assert json.loads((folder / ".headgate" / "credentials.json").read_bytes())["url"] == server.url
        assert not (folder / ".headgate" / "store").exists()
    finally:
        up.remove()


def test_two_projects_of_a_folder_share_it(folder: Path, home: Home) -> None:
    assert Home.of(loaded(folder, TWO_PIPELINES)) == home
