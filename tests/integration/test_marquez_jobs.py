"""The read routes of Marquez's API in its shapes: jobs and runs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headgate.server.marquez import schemas
from tests.conftest import Cluster
from tests.support.events import a_dataset, a_run_id, an_event, at
from tests.support.ingest import a_server
from tests.support.marquez import (
    FAILED,
    FIRST,
    JOBS,
    KNOWN_AS,
    LAKE,
    RAW,
    SECOND,
    ask,
    at_dataset,
    at_job,
    at_path,
    tell,
    the_story,
)
from tests.support.server import Server


@pytest.fixture(scope="module")
async def shop(cluster: Cluster) -> AsyncIterator[Server]:
    """A server that was told the story once; tests only read it."""
    async with a_server(cluster) as server:
        await tell(server.tenant, *the_story())
        yield server


async def test_a_job_has_what_its_facets_and_runs_say(shop: Server) -> None:
    found = await ask(shop.client, schemas.JobOut, at_job(JOBS, "nightly.load"))

    assert {name: found[name] for name in ("id", "type", "name", "simpleName", "parentJobName", "labels")} == {
        "id": {"namespace": JOBS, "name": "nightly.load"},
        "type": "BATCH",
        "name": "nightly.load",
        "simpleName": "load",
        "parentJobName": "nightly",
        "labels": [],
    }
    assert (found["location"], found["description"], found["tags"]) == (
        "https://example.org/load.py",
        "Loads orders",
        ["daily"],
    )
    assert found["inputs"] == [{"namespace": KNOWN_AS, "name": RAW}]
    assert found["outputs"] == [{"namespace": LAKE, "name": "orders"}]
    assert (found["createdAt"], found["updatedAt"]) == (at(0), at(110))
    assert [run["id"] for run in found["latestRuns"]] == [SECOND, FIRST]
    assert found["latestRun"] == found["latestRuns"][0]
    assert set(found["facets"]) == {"documentation", "sourceCodeLocation", "jobType", "tags"}


async def test_jobs_are_listed_by_name_each_with_its_latest_run(shop: Server) -> None:
    everywhere = await ask(shop.client, schemas.JobList, "/jobs")
    there = await ask(shop.client, schemas.JobList, at_path("namespaces", JOBS, "jobs"))

    assert everywhere == there
    assert everywhere["totalCount"] == 2
    latest = [(job["name"], job["type"], job["latestRun"]["id"], job["latestRun"]["state"]) for job in there["jobs"]]
    assert latest == [("nightly.load", "BATCH", SECOND, "COMPLETED"), ("publish", "STREAM", FAILED, "FAILED")]


async def test_a_job_that_never_ran_has_no_run_and_no_version(server: Server) -> None:
    event = an_event(inputs=[a_dataset("a")])
    del event["run"], event["eventType"]
    await tell(server.tenant, event)

    job = await ask(server.client, schemas.JobOut, at_job("tests", "orders"))

    assert (job["latestRun"], job["latestRuns"], job["currentVersion"]) == (None, [], None)
    assert job["inputs"] == [{"namespace": KNOWN_AS, "name": "a"}]
    empty = {"versions": [], "totalCount": 0}
    assert await ask(server.client, schemas.JobVersionList, at_job("tests", "orders", "versions")) == empty


async def test_a_job_has_a_version_for_each_set_of_inputs_and_outputs(server: Server) -> None:
    runs = [a_run_id() for _ in range(3)]
    outputs = [[a_dataset("a")], [a_dataset("a"), a_dataset("b")], [a_dataset("a")]]
    told = zip(runs, outputs, strict=True)
    await tell(
        server.tenant, *(an_event(run=run, time=at(n), outputs=written) for n, (run, written) in enumerate(told))
    )

    found = await ask(server.client, schemas.JobVersionList, at_job("tests", "orders", "versions"))

    shown = [
        (version["latestRun"]["id"], version["createdAt"], [output["name"] for output in version["outputs"]])
        for version in found["versions"]
    ]
    assert shown == [(runs[2], at(0), ["a"]), (runs[1], at(1), ["a", "b"])]
    assert found["totalCount"] == 2
    job = await ask(server.client, schemas.JobOut, at_job("tests", "orders"))
    newest = found["versions"][0]
    assert job["currentVersion"] == newest["version"] == job["latestRun"]["jobVersion"]["version"]
    path = at_job("tests", "orders", "versions", newest["version"])
    assert await ask(server.client, schemas.JobVersionOut, path) == newest


async def test_a_run_has_times_facets_and_versions(shop: Server) -> None:
    found = await ask(shop.client, schemas.RunOut, f"/jobs/runs/{SECOND}")

    assert (found["state"], found["startedAt"], found["endedAt"], found["durationMs"]) == (
        "COMPLETED",
        at(100),
        at(110),
        10_000,
    )
    assert (found["nominalStartTime"], found["nominalEndTime"]) == (at(-60), None)
    assert {name: facet.get("version") for name, facet in found["facets"].items()} == {
        "nominalTime": None,
        "parent": None,
        "engine": "2",
    }
    assert [use["datasetVersionId"]["name"] for use in found["inputDatasetVersions"]] == [RAW]
    dataset = await ask(shop.client, schemas.DatasetOut, at_dataset(LAKE, "orders"))
    assert found["outputDatasetVersions"][0]["datasetVersionId"]["version"] == dataset["currentVersion"]
    assert found["jobVersion"]["name"] == "nightly.load"


@pytest.mark.parametrize(("told", "duration_ms"), [(["COMPLETE"], None), (["START", "COMPLETE"], 0)])
async def test_a_run_of_which_only_the_end_is_known_has_no_duration(
    server: Server, told: list[str], duration_ms: int | None
) -> None:
    run = a_run_id()
    await tell(server.tenant, *(an_event(type_, run=run, time=at(0)) for type_ in told))

    one = await ask(server.client, schemas.RunOut, f"/jobs/runs/{run}")
    listed = await ask(server.client, schemas.RunList, at_job("tests", "orders", "runs"))
    job = await ask(server.client, schemas.JobOut, at_job("tests", "orders"))

    shown = [one, *listed["runs"], job["latestRun"]]
    assert [found["durationMs"] for found in shown] == [duration_ms] * 3


async def test_runs_of_a_job_come_latest_first_in_pages(shop: Server) -> None:
    path = at_job(JOBS, "nightly.load", "runs")

    everything = await ask(shop.client, schemas.RunList, path)
    pages = [await ask(shop.client, schemas.RunList, path, limit=1, offset=offset) for offset in range(3)]

    assert [run["id"] for run in everything["runs"]] == [SECOND, FIRST]
    assert [[run["id"] for run in page["runs"]] for page in pages] == [[SECOND], [FIRST], []]
    assert {page["totalCount"] for page in pages} == {2}
    assert everything["runs"][0] == await ask(shop.client, schemas.RunOut, f"/jobs/runs/{SECOND}")


@pytest.mark.parametrize(
    ("event_type", "state"),
    [
        ("START", "RUNNING"),
        ("RUNNING", "RUNNING"),
        ("OTHER", "RUNNING"),
        ("COMPLETE", "COMPLETED"),
        ("FAIL", "FAILED"),
        ("ABORT", "ABORTED"),
    ],
)
async def test_states_have_marquez_names(server: Server, event_type: str, state: str) -> None:
    run = a_run_id()
    await tell(server.tenant, an_event(event_type, run=run))

    found = await ask(server.client, schemas.RunOut, f"/jobs/runs/{run}")

    assert found["state"] == state
    assert (found["endedAt"] is None) == (state == "RUNNING") == (found["jobVersion"] is None)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("run", {"nominalTime", "parent", "engine"}),
        ("job", {"documentation", "sourceCodeLocation", "jobType", "tags"}),
    ],
)
async def test_facets_of_a_run_are_its_own_or_its_jobs(shop: Server, kind: str, names: set[str]) -> None:
    found = await ask(shop.client, schemas.RunFacets, f"/jobs/runs/{SECOND}/facets", type=kind)

    assert found["runId"] == SECOND
    assert set(found["facets"]) == names
