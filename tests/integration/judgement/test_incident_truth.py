"""Planted causes through the whole of it: events of a simulated platform in, and what its incidents say caused them."""

from __future__ import annotations

import pytest
from benchmarks.judgement.truth import Answer, served
from benchmarks.stage import Store

from tests.conftest import Cluster

SEEDS = (1000, 1001, 1002, 1003)
DATASETS = 10


async def answers(cluster: Cluster) -> list[tuple[int, Answer]]:
    """What became of all that was planted, in a database that is gone afterwards."""
    name = await cluster.create()
    store = Store(name, cluster.admin_dsn(name), cluster.app_dsn(name))
    try:
        return [(seed, answer) for seed in SEEDS for answer in await served(store, seed, DATASETS)]
    finally:
        await cluster.drop(name)


@pytest.mark.slow
async def test_incidents_name_planted_causes_first(cluster: Cluster) -> None:
    found = await answers(cluster)

    missed = [(seed, answer.planted.kind, answer.root_cause) for seed, answer in found if not answer.is_first]
    assert len(found) >= 12
    assert all(answer.is_found for _, answer in found)
    assert len(missed) <= 0.1 * len(found), missed
