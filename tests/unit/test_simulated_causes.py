"""Simulated pipelines: their events are real ones, their truth holds, and planted causes are mostly found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from benchmarks.causes import World, simulate
from benchmarks.causes.loader import Loader
from benchmarks.causes.plants import KINDS
from benchmarks.causes.score import score, share
from benchmarks.causes.world import DATA, failed_by_chance

from headgate.domain.cause import rank
from headgate.openlineage.facets import FacetReader
from headgate.openlineage.project import Projector
from headgate.openlineage.validate import STRICT, check_event

# Not among the seeds by which the ranking was tuned.
SEEDS = range(2000, 2030)
TELLING = ("plant", "cause", "taint", "truth", "spoil")
Json = dict[str, Any]


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [simulate(seed, 10) for seed in SEEDS]


@pytest.fixture(scope="module")
def world(worlds: list[World]) -> World:
    return worlds[0]


def test_the_same_seed_makes_the_same_world() -> None:
    one, other = simulate(7, 10), simulate(7, 10)

    assert one.events == other.events
    assert one.planted == other.planted
    assert simulate(8, 10).events != one.events


def test_events_come_by_time_and_every_run_ends_once(world: World) -> None:
    times = [datetime.fromisoformat(event["eventTime"]) for event in world.events]
    ends = Counter(event["run"]["runId"] for event in world.events if event["eventType"] != "START")
    starts = Counter(event["run"]["runId"] for event in world.events if event["eventType"] == "START")

    assert times == sorted(times)
    assert set(ends.values()) == {1}
    assert ends == starts


def test_every_event_is_accepted_as_it_is_and_every_facet_understood(world: World) -> None:
    reader, projector = FacetReader(), Projector()
    facts = [projector.facts(check_event(json.dumps(event).encode(), STRICT, reader), b"") for event in world.events]

    assert [each.invalid_facets for each in facts if each.invalid_facets] == []
    assert any(each.tests for each in facts)
    assert any(metric.columns for each in facts for metric in each.metrics)
    assert any(use.columns for each in facts for use in each.uses)


def test_a_month_has_several_runs_a_day_retries_and_noise(world: World) -> None:
    days = (max(run.ended_at for run in world.runs) - min(run.started_at for run in world.runs)) / timedelta(days=1)
    per_job = Counter(run.dataset for run in world.runs)
    attempts = Counter((run.dataset, run.scheduled_at) for run in world.runs)

    assert days > 28
    assert min(per_job.values()) >= 2 * 28
    assert max(attempts.values()) > 1
    assert {run.state for run in world.runs} >= {"COMPLETE", "FAIL"}
    assert max(run.sql for run in world.runs) > 0


def test_nothing_in_the_events_tells_the_cause(world: World) -> None:
    text = json.dumps(world.events).lower()

    assert [word for word in TELLING if word in text] == []


def test_a_symptom_is_downstream_of_its_cause_and_after_it(worlds: list[World]) -> None:
    for world in worlds:
        inputs = _inputs(world.events)
        ended = {run.id: run.ended_at for run in world.runs}
        for planted in world.planted:
            for symptom in planted.symptoms:
                assert planted.dataset in _upstream(inputs, symptom.dataset)
                if planted.run_ids:
                    assert min(ended[run] for run in planted.run_ids) <= symptom.observed_at


def test_what_fails_without_any_cause_is_nobodys_symptom(worlds: list[World]) -> None:
    counted = 0
    for world in worlds[:8]:
        by_chance = failed_by_chance(world.seed, len(world.datasets))
        places = {f"{DATA}/{dataset.name}": dataset.index for dataset in world.datasets}
        symptoms = [symptom for planted in world.planted for symptom in planted.symptoms]
        told = {(places[each.dataset], each.test or "run", each.observed_at.toordinal()) for each in symptoms}
        counted += len(by_chance)

        assert told & by_chance == set()
    assert counted > 0


def test_every_symptom_is_a_failure_that_the_events_tell(worlds: list[World]) -> None:
    for world in worlds:
        failed = set(_failures(world.events))
        for planted in world.planted:
            assert planted.scored in planted.symptoms
            assert {(each.run_id, each.dataset, each.test) for each in planted.symptoms} <= failed


def test_all_kinds_of_causes_are_planted(worlds: list[World]) -> None:
    assert {planted.kind for world in worlds for planted in world.planted} == set(KINDS)


def test_planted_causes_are_ranked_first_and_the_newest_run_hardly_ever_is_one(worlds: list[World]) -> None:
    scored = [each for world in worlds for each in score(world)]

    assert len(scored) >= 90
    assert share(each.is_first for each in scored) >= 0.9
    assert share(each.is_newest for each in scored) <= 0.4
    assert share(each.is_newest_later for each in scored) <= 0.1


def test_the_surer_the_ranking_is_the_more_often_it_is_right(worlds: list[World]) -> None:
    scored = [each for world in worlds for each in score(world, all_symptoms=True)]
    sure = [each.is_first for each in scored if each.ranking.confidence >= 0.9]
    unsure = [each.is_first for each in scored if each.ranking.confidence < 0.7]

    assert len(sure) > len(scored) / 2
    assert share(sure) >= 0.93
    assert share(unsure) < share(sure)


def test_no_run_that_ended_after_the_symptom_is_even_a_candidate(world: World) -> None:
    loader = Loader(world.events)
    for planted in world.planted:
        for symptom in planted.symptoms:
            failure, candidates = loader.scene(symptom)
            cause = rank(failure, candidates).cause

            assert all(each.ended_at is None or each.ended_at <= symptom.observed_at for each in candidates)
            assert cause is not None


def test_a_larger_world_is_deeper() -> None:
    world = simulate(3, 60, days=14)

    assert len(world.datasets) == 60
    assert max(dataset.layer for dataset in world.datasets) == 4
    assert world.planted


def _inputs(events: list[Json]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for event in events:
        for output in event["outputs"]:
            names = {f"{each['namespace']}/{each['name']}" for each in event["inputs"]}
            found.setdefault(f"{output['namespace']}/{output['name']}", set()).update(names)
    return found


def _upstream(inputs: dict[str, set[str]], dataset: str) -> set[str]:
    found, open_ = {dataset}, [dataset]
    while open_:
        for name in inputs.get(open_.pop(), set()) - found:
            found.add(name)
            open_.append(name)
    return found


def _failures(events: list[Json]) -> Iterator[tuple[str, str, str | None]]:
    for event in events:
        run = event["run"]["runId"]
        if event["eventType"] in ("FAIL", "ABORT"):
            yield from ((run, f"{DATA}/{output['name']}", None) for output in event["outputs"])
        for dataset in event["inputs"]:
            facet = dataset.get("inputFacets", {}).get("dataQualityAssertions", {"assertions": []})
            for told in facet["assertions"]:
                if not told["success"]:
                    yield run, f"{DATA}/{dataset['name']}", told["assertion"]
