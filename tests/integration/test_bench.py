"""The benchmarks still run, and their last line is what is read from them. How fast they are, is not tested."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from benchmarks.agent.ratios import interval
from benchmarks.events import Events, mean_size

from tests.support.maven import jars, openlineage
from tests.support.spark_jobs import quick_java

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
async def test_a_quick_run_ends_with_one_line_of_figures_and_ratios() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.ingest", "--quick"), cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), timeout=300)
    assert process.returncode == 0
    answer = json.loads(output.decode().splitlines()[-1])
    assert answer.keys() == {"figures", "ratios"}
    assert {"batch_vs_copy", "group_vs_naive", "validate_vs_decode"} <= answer["ratios"].keys()
    assert [name for name, ratio in answer["ratios"].items() if not isinstance(ratio, float) or ratio <= 0] == []


@pytest.mark.slow
async def test_a_quick_run_of_the_reading_benchmark_ends_in_the_same_way() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.lineage", "--quick"), cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), timeout=300)
    assert process.returncode == 0
    ratios = json.loads(output.decode().splitlines()[-1])["ratios"]
    assert {"bfs_vs_cte", "list_vs_ping", "search_vs_ping"} <= ratios.keys()
    assert min(ratios.values()) > 0


@pytest.mark.slow
async def test_a_quick_run_of_the_agent_benchmark_measures_both_agents() -> None:
    jars(openlineage())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.agent", "--quick"), cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), timeout=900)
    assert process.returncode == 0
    answer = json.loads(output.decode().splitlines()[-1])
    ratios, figures = answer["ratios"], answer["figures"]
    wanted = {f"{side}{work}" for side in ("with_agent", "with_openlineage_spark") for work in ("", "_cpu", "_big")}
    assert wanted <= ratios.keys()
    assert [
        key for key in wanted if not figures[f"{key}_interval"][0] <= ratios[key] <= figures[f"{key}_interval"][1]
    ] == []
    assert 0 < figures["extraction_ms_p50"] <= figures["extraction_ms_p95"]
    assert figures["sent_bytes_per_query"] < figures["event_bytes_per_query"]
    assert figures["event_bytes_per_query_openlineage"] > 0


@pytest.mark.slow
async def test_a_quick_run_of_the_pipelines_benchmark_counts_the_same_jobs_for_any_number_of_tests() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.pipelines", "--quick", "--without-peers"),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
        # It keeps Spark's own variables out; here nobody reads how long anything took.
        env=os.environ | {"JAVA_TOOL_OPTIONS": str(quick_java())},
    )
    output, _ = await asyncio.wait_for(process.communicate(), timeout=900)
    assert process.returncode == 0
    answer = json.loads(output.decode().splitlines()[-1])
    ratios, figures = answer["ratios"], answer["figures"]
    assert {"checks", "checks_unique", "tests50_vs_10"} <= ratios.keys()
    assert min(ratios.values()) > 0
    assert figures["jobs_10"] == figures["jobs_50"] > 0
    assert 0.005 < figures["checks_rejected"] / figures["rows"] < 0.02


@pytest.mark.slow
async def test_a_quick_run_of_the_judgement_benchmark_judges_everything_it_sends() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.judgement", "--quick"), cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), timeout=600)
    assert process.returncode == 0
    answer = json.loads(output.decode().splitlines()[-1])
    ratios, figures = answer["ratios"], answer["figures"]
    # The newest run is mostly not the cause, so that its share may be nothing.
    assert 0 <= ratios.pop("newest_run_first") <= 1
    assert {"verdict_vs_ingest", "incident_vs_ingest", "runs_10k_vs_10", "cause_first"} <= ratios.keys()
    assert min(ratios.values()) > 0
    # What is not judged in time counts as ten seconds.
    assert max(figures["verdict_p95_ms"], figures["incident_p95_ms"]) < 10_000
    assert figures["causes_seen"] == figures["causes_planted"] > 0


def test_the_interval_of_a_ratio_knows_that_starts_differ_more_than_rounds() -> None:
    alike = [[1.0, 1.02, 0.98, 1.01]] * 3
    apart = [[1.0, 1.01], [1.2, 1.21], [0.8, 0.81]]
    assert interval(alike)[1] - interval(alike)[0] < 0.05
    assert interval(apart)[1] - interval(apart)[0] > 0.3


@pytest.mark.parametrize("mixed", [False, True], ids=["finished", "started and finished"])
def test_the_events_that_are_measured_have_the_size_that_is_claimed(mixed: bool) -> None:
    assert 2300 <= mean_size(Events(1, mixed=mixed).take(1000)) <= 2500


def test_no_event_of_a_benchmark_comes_twice_and_each_seed_repeats_itself() -> None:
    events = Events(1)
    first = events.take(500) + events.take(500)
    assert len(set(first)) == 1000
    assert Events(1).take(1000) == first
    assert not set(first) & set(Events(2).take(1000))
