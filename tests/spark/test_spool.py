"""Where the agent's events stay that no server took: files that only their owner reads, and that are replayed."""

from __future__ import annotations

import json
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate.client import HeadgateClient
from tests.spark.deliveries import numbered, states, until_turned_away
from tests.support.absent import lacking
from tests.support.agent_jvm import AgentJvm, Counted
from tests.support.bad_servers import bad_server, dead_url, gate_to, hanging
from tests.support.disks import tiny_disk
from tests.support.events import a_run_id, an_event
from tests.support.live import Live
from tests.support.spark_jobs import environment, run_job


def runs_of(server: Live, application: str) -> list[tuple[str, str]]:
    with HeadgateClient(server.url, server.api_key) as client:
        runs = client.runs(limit=1000).items
    return sorted((run["job"]["name"], run["state"]) for run in runs if run["job"]["name"].startswith(application))


def replay(server: Live, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("headgate")), "replay", str(folder), "--url", server.url]
    state = ["--state", str(folder.parent / f"{folder.name}-state.json")]
    env = environment({"HEADGATE_API_KEY": server.api_key})
    return subprocess.run([*command, *state], env=env, capture_output=True, text=True, timeout=60)


def spooled_lines(folder: Path) -> list[Any]:
    return [json.loads(line) for path in sorted(folder.glob("*.ndjson")) for line in path.read_bytes().splitlines()]


@contextmanager
def full_disk(agent: AgentJvm, folder: Path, kib: int) -> Iterator[Path]:
    """A folder with room for so much; where nothing can be mounted, no file of the JVM grows beyond it instead."""
    with tiny_disk(folder, kib) as disk:
        if disk is not None:
            yield disk
        elif not hasattr(resource, "prlimit"):
            lacking("a small file system cannot be mounted here")
        else:
            limited = (agent.jvm.java.lang.ProcessHandle.current().pid(), resource.RLIMIT_FSIZE)
            before = resource.prlimit(*limited)
            resource.prlimit(*limited, (kib * 1024, before[1]))
            try:
                yield folder
            finally:
                resource.prlimit(*limited, before)


def test_without_an_address_everything_goes_to_the_spool(agent: AgentJvm, tmp_path: Path) -> None:
    sending = agent.sending(spoolDir=tmp_path / "deep" / "spool")
    sending.send(*numbered(3), b'{\n"n": 3\r\n}')
    assert sending.flush()
    assert spooled_lines(tmp_path / "deep" / "spool") == numbered(4)
    sending.send({"n": 4})
    assert sending.close() == Counted(sent=0, retried=0, spooled=5, dropped=0)
    assert spooled_lines(tmp_path / "deep" / "spool") == numbered(5)
    assert [path.name.startswith("headgate-") for path in (tmp_path / "deep" / "spool").iterdir()] == [True]


def test_only_the_owner_reads_what_is_spooled(agent: AgentJvm, tmp_path: Path) -> None:
    sending = agent.sending(spoolDir=tmp_path / "spool")
    sending.send({"n": 0})
    assert sending.close().spooled == 1
    [file] = (tmp_path / "spool").iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "spool", file)] == [0o700, 0o600]


def test_what_a_dead_server_does_not_take_is_spooled_and_replayed(
    log: AgentJvm, watching_server: Live, tmp_path: Path
) -> None:
    runs = [a_run_id() for _ in range(20)]
    spool = tmp_path / "spool"
    with gate_to(watching_server.url) as gate:
        gate.shut()
        sending = log.sending(url=gate.url, apiKey=watching_server.api_key, spoolDir=spool)
        sending.send(*(an_event(run=run) for run in runs[:10]))
        assert sending.flush()
        gate.open()
        sending.send(*(an_event(run=run) for run in runs[10:]))
        assert sending.close() == Counted(sent=0, retried=2, spooled=20, dropped=0)
    assert [line.count("go to the spool") for line in log.new_log()] == [1]
    with (next(spool.glob("*.ndjson"))).open("ab") as torn:
        torn.write(b'{"eventType": "COMP')
    replayed = replay(watching_server, spool)
    assert "20 stored" in replayed.stdout
    assert "cut off" in replayed.stdout
    assert set(states(watching_server, runs)) == {"COMPLETE"}


def test_what_overflows_or_is_left_at_the_end_is_spooled_and_nothing_twice(agent: AgentJvm, tmp_path: Path) -> None:
    with bad_server(hanging) as server:
        sending = agent.sending(url=server.url, readTimeoutMs=60_000, queueSize=10, spoolDir=tmp_path)
        sending.send({"n": 0})
        until_turned_away(server, 1)
        sending.send(*numbered(30, start=1))
        counted, seconds = sending.timed_close(1000)
    assert counted == Counted(sent=0, retried=0, spooled=31, dropped=0)
    assert seconds < 4
    assert sorted(event["n"] for event in spooled_lines(tmp_path)) == list(range(31))


def test_a_full_disk_costs_events_and_one_line_and_keeps_whole_lines(log: AgentJvm, tmp_path: Path) -> None:
    with full_disk(log, tmp_path / "disk", kib=64) as disk:
        sending = log.sending(spoolDir=disk)
        for number in range(20):
            sending.send({"n": number, "text": "x" * 10_000})
            assert sending.flush()
        counted = sending.close()
        assert [event["n"] for event in spooled_lines(disk)] == list(range(6))
    assert counted == Counted(sent=0, retried=0, spooled=6, dropped=14)
    [line] = log.new_log()
    assert "No space left on device" in line or "File too large" in line


@pytest.mark.parametrize("obstacle", ["a file", "below a file", "a special folder"])
def test_a_spool_that_cannot_be_written_costs_events_and_one_line(log: AgentJvm, tmp_path: Path, obstacle: str) -> None:
    (tmp_path / "file").write_text("mine")
    places = {"a file": tmp_path / "file", "below a file": tmp_path / "file" / "spool", "a special folder": "/proc/1"}
    sending = log.sending(spoolDir=places[obstacle])
    for number in range(3):
        sending.send({"n": number})
        assert sending.flush()
    assert sending.close() == Counted(sent=0, retried=0, spooled=0, dropped=3)
    assert (tmp_path / "file").read_text() == "mine"
    [line] = log.new_log()
    assert "cannot write to the spool" in line


JOBS = """
    import os, sys
    from pyspark.sql import SparkSession

    def do(name, folder, **conf):
        builder = SparkSession.builder.appName(name)
        for key, value in conf.items():
            builder = builder.config(f"spark.headgate.{key}", value)
        spark = builder.getOrCreate()
        spark.range(10).write.parquet(f"{folder}/{name}/ten")
        spark.read.parquet(f"{folder}/{name}/ten").filter("id > 4").write.parquet(f"{folder}/{name}/five")
        print(spark.read.parquet(f"{folder}/{name}/five").count(), flush=True)
        return spark

    folder, dead = sys.argv[1:]
    do("spooled_job", folder, url=dead, spoolDir=f"{folder}/spooled").stop()
    spark = do("killed_job", folder, spoolDir=f"{folder}/killed")
    assert spark._jvm.headgate.spark.Agent.flush(20000)
    os.kill(spark._jvm.java.lang.ProcessHandle.current().pid(), 9)
    os._exit(7)
"""


def test_a_job_that_could_not_send_and_one_that_was_killed_are_replayed(watching_server: Live, tmp_path: Path) -> None:
    finished = run_job(JOBS, args=[str(tmp_path), dead_url()])
    assert (finished.returncode, finished.stdout) == (7, "5\n5\n"), finished.stderr
    for name in ("spooled", "killed"):
        assert runs_of(watching_server, f"{name}_job") == []
        replayed = replay(watching_server, tmp_path / name)
        assert replayed.returncode == 0, replayed.stdout
    actions = [state for job, state in runs_of(watching_server, "spooled_job") if job != "spooled_job"]
    assert actions == ["COMPLETE"] * 3
    assert ("spooled_job", "COMPLETE") in runs_of(watching_server, "spooled_job")
    assert [state for job, state in runs_of(watching_server, "killed_job") if job != "killed_job"] == actions
    assert ("killed_job", "START") in runs_of(watching_server, "killed_job")
