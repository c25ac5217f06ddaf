"""Whatever is wrong with the server, the settings, the disk or the plan: the job is as it is without the agent."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.absent import lacking
from tests.support.bad_servers import (
    HTML,
    BadServer,
    answering,
    bad_server,
    breaking_off,
    closing,
    dead_url,
    garbage,
    hanging,
    taking,
)
from tests.support.disks import tiny_disk
from tests.support.harmless_job import SOURCE
from tests.support.spark_jobs import Finished, run_job

KEY = "hg_live_a-key-that-nobody-may-see"
FLUSH_MS = 2000
COUNTS = re.compile(r"(\d+) sent, (\d+) retried, (\d+) spooled, (\d+) dropped")
LARGE_PLANS = ("many_nodes", "many_columns", "many_inputs")
PLANS = (*LARGE_PLANS, "throwing")
LONGEST_EXTRACTION_S = 10
SERVERS = {
    "slow": hanging,
    "500": answering(500),
    "401": answering(401),
    "429": answering(429, "", Retry_After="30"),
    "garbage": garbage,
    "closing": closing,
    "breaking off": breaking_off,
    "another server": answering(200, HTML),
}
MALFORMED = {
    "spark.headgate.enabled": "perhaps",
    "spark.headgate.connectTimeoutMs": "soon",
    "spark.headgate.readTimeoutMs": "-1",
    "spark.headgate.flushTimeoutMs": "1.5",
    "spark.headgate.queueSize": "∞",
    "spark.headgate.maskLiterals": "maybe",
    "spark.headgate.parent": "nobody",
    "spark.headgate.rootParent": "//",
    "spark.headgate.spoolDir": "s3://bucket/spool",
    "spark.headgate.url": "http://user:hunter2@host",
}
Situation = tuple[str, dict[str, str]]


@dataclass
class Report:
    """What one situation printed, what it logged, and how long it took to stop."""

    stdout: str
    log: list[str]
    stop_s: float

    @property
    def warnings(self) -> list[str]:
        """Without the last line, which is a warning itself if something was dropped."""
        return [line for line in self.log if "WARN headgate" in line and not COUNTS.search(line)]

    @property
    def counts(self) -> tuple[int, ...] | None:
        """Sent, retried, spooled and dropped, as the last line tells them."""
        told = [tuple(map(int, found.groups())) for line in self.log if (found := COUNTS.search(line))]
        assert len(told) <= 1, self.log
        return told[0] if told else None


def reports(finished: Finished) -> dict[str, Report]:
    assert finished.returncode == 0, finished.stderr
    logs = _sections(finished.stderr)
    found = {}
    for name, text in _sections(finished.stdout).items():
        stopped = re.search(r"stopped in ([\d.]+) s", logs[name])
        assert stopped is not None
        lines = [line for line in logs[name].splitlines() if " headgate" in line]
        found[name] = Report(text, lines, float(stopped[1]))
    return found


def _sections(text: str) -> dict[str, str]:
    parts = re.split(r"^== (.+)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def run(folder: Path, situations: dict[str, Situation], *, watch: bool) -> dict[str, Report]:
    folder.mkdir()
    return reports(run_job(SOURCE, args=[str(folder), json.dumps(situations)], watch=watch, timeout_s=400))


@pytest.fixture(scope="module")
def without_agent(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    works: dict[str, Situation] = {name: (name, {}) for name in ("ordinary", *PLANS)}
    return run(tmp_path_factory.mktemp("without") / "data", works, watch=False)


@dataclass
class Watched:
    """All situations with the agent, and the server that takes everything."""

    reports: dict[str, Report]
    good: BadServer


@pytest.fixture(scope="module")
def with_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("with")
    (folder / "file").write_text("mine")
    with ExitStack() as stack:
        good = stack.enter_context(bad_server(taking))
        situations = {name: sending(stack.enter_context(bad_server(each)).url) for name, each in SERVERS.items()}
        situations |= {"good": sending(good.url), "dead": sending(dead_url())}
        situations |= {"no such name": sending("http://no-such-host.invalid:8080")}
        situations |= {"malformed": ("ordinary", MALFORMED), "off": sending(good.url, enabled="false")}
        situations |= {"spool in a file": sending(spoolDir=str(folder / "file"))}
        disk = stack.enter_context(tiny_disk(folder / "disk", kib=4))
        work = "ordinary" if disk else "ordinary_in_small_files"
        if disk or hasattr(resource, "prlimit"):
            situations |= {"full disk": (work, sending(dead_url(), spoolDir=str(folder / "disk"))[1])}
        situations |= {name: (name, sending(good.url, flushTimeoutMs="20000")[1]) for name in PLANS}
        yield Watched(run(folder / "data", situations, watch=True), good)


def sending(url: str | None = None, **settings: str) -> Situation:
    given = {"apiKey": KEY, "flushTimeoutMs": str(FLUSH_MS)} | ({"url": url} if url else {}) | settings
    return "ordinary", {f"spark.headgate.{name}": value for name, value in given.items()}


@pytest.mark.parametrize(
    "name", [*SERVERS, "good", "dead", "no such name", "malformed", "off", "spool in a file", "full disk"]
)
def test_the_result_is_the_same_and_the_end_comes_in_time(
    without_agent: dict[str, Report], with_agent: Watched, name: str
) -> None:
    if name not in with_agent.reports:
        lacking("a small file system cannot be mounted here")
    report = with_agent.reports[name]
    assert report.stdout == without_agent["ordinary"].stdout
    assert report.stdout.splitlines()[0].startswith("[Row(who='ann', sum(amount)=6.5)")
    assert report.stop_s < without_agent["ordinary"].stop_s + FLUSH_MS / 1000 + 5
    assert KEY not in str(report.log)


@pytest.mark.parametrize("name", [*SERVERS, "dead", "no such name"])
def test_a_server_that_takes_nothing_costs_one_line_and_is_counted(with_agent: Watched, name: str) -> None:
    report = with_agent.reports[name]
    assert len(report.warnings) == 1, report.log
    assert report.counts is not None
    sent, _, spooled, dropped = report.counts
    assert (sent, spooled) == (0, 0)
    assert dropped >= 8  # START and COMPLETE of the application and of three actions at least


def test_a_server_that_takes_everything_costs_no_warning(with_agent: Watched) -> None:
    report = with_agent.reports["good"]
    assert report.warnings == []
    assert report.counts is not None
    assert report.counts[0] >= 8
    assert report.counts[1:] == (0, 0, 0)


@pytest.mark.parametrize("name", ["spool in a file", "full disk"])
def test_a_spool_that_takes_nothing_costs_one_line_and_is_counted(with_agent: Watched, name: str) -> None:
    if name not in with_agent.reports:
        lacking("a small file system cannot be mounted here")
    report = with_agent.reports[name]
    assert len([line for line in report.warnings if "cannot write to the spool" in line]) == 1, report.log
    assert report.counts is not None
    assert report.counts[0] == 0
    assert report.counts[3] > 0


def test_malformed_settings_are_told_in_one_line_that_shows_no_password(with_agent: Watched) -> None:
    [line] = with_agent.reports["malformed"].warnings
    assert [key for key in MALFORMED if key not in line] == []
    assert "hunter2" not in line


def test_switched_off_it_is_silent(with_agent: Watched) -> None:
    assert with_agent.reports["off"].log == []


@pytest.mark.parametrize("name", PLANS)
def test_no_plan_is_too_large_or_too_broken(without_agent: dict[str, Report], with_agent: Watched, name: str) -> None:
    report = with_agent.reports[name]
    assert report.stdout == without_agent[name].stdout
    assert report.stop_s < without_agent[name].stop_s + 25
    assert len(report.warnings) <= 1, report.log
    assert report.counts is not None
    assert report.counts[0] > 0


def end_of_writing(server: BadServer, name: str) -> dict[str, Any]:
    ends = [event for event in server.events if event.get("eventType") == "COMPLETE"]
    [end] = [event for event in ends if any(each["name"].endswith(f"/out/{name}") for each in event["outputs"])]
    return dict(end)


@pytest.mark.parametrize("name", LARGE_PLANS)
def test_a_large_plan_gives_columns_or_says_why_not_and_takes_no_time(with_agent: Watched, name: str) -> None:
    end = end_of_writing(with_agent.good, name)
    [output] = end["outputs"]
    extraction = end["run"]["facets"]["headgate_extraction"]
    assert output["facets"].get("columnLineage", {}).get("fields") or extraction.get("lost")
    assert 0 < extraction["micros"] < LONGEST_EXTRACTION_S * 1_000_000


def test_the_inputs_of_a_large_union_are_all_there(with_agent: Watched) -> None:
    assert len(end_of_writing(with_agent.good, "many_inputs")["inputs"]) == 1000


def test_the_exit_code_is_the_jobs_own() -> None:
    source = """
        import sys
        from pyspark.sql import SparkSession
        print(SparkSession.builder.getOrCreate().range(3).count())
        sys.exit(3)
    """
    with bad_server(hanging) as server:
        finished = run_job(source, url=server.url, conf={"spark.headgate.flushTimeoutMs": "1000"})
    assert (finished.returncode, finished.stdout) == (3, "3\n"), finished.stderr
