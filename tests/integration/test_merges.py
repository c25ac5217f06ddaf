"""Merging two datasets into one, and taking it back."""

from __future__ import annotations

import random
from uuid import UUID

import asyncpg
import pytest

from headgate.server.db.pool import Connection, Database
from tests.support.graphs import RandomGraph, an_organization, dump


async def merge(conn: Connection, org: UUID, one: UUID, other: UUID, reason: str = "manual") -> UUID | None:
    merge_id: UUID | None = await conn.fetchval("SELECT merge_datasets($1, $2, $3, $4, NULL)", org, one, other, reason)
    return merge_id


async def undo(conn: Connection, org: UUID, merge_id: UUID | None) -> None:
    await conn.execute("SELECT undo_dataset_merge($1, $2)", org, merge_id)


@pytest.mark.parametrize("seed", range(25), ids=lambda seed: f"graph-{seed}")
async def test_undone_merge_leaves_every_table_as_it_was(database: Database, db: asyncpg.Connection, seed: int) -> None:
    org = await an_organization(db)
    graph = RandomGraph(db, org, seed)
    await graph.write()
    before = await dump(db, org)
    for one, other in [graph.datasets[:2], graph.datasets[2:4], graph.datasets[1::-1]]:
        async with database.tenant(org) as conn:
            merge_id = await merge(conn, org, one, other)
        assert await dump(db, org) != before

        async with database.tenant(org) as conn:
            await undo(conn, org, merge_id)
        assert await dump(db, org) == before


@pytest.mark.parametrize("seed", range(25), ids=lambda seed: f"graph-{seed}")
async def test_merges_undone_in_reverse_leave_every_table_as_it_was(
    database: Database, db: asyncpg.Connection, seed: int
) -> None:
    org = await an_organization(db)
    graph = RandomGraph(db, org, seed, datasets=7)
    await graph.write()
    draw = random.Random(seed)
    states = []
    merges = []
    for _ in range(5):
        before = await dump(db, org)
        async with database.tenant(org) as conn:
            merge_id = await merge(conn, org, *draw.sample(graph.datasets, 2))
        if merge_id is not None:
            states.append(before)
            merges.append(merge_id)
    assert len(merges) >= 2

    for merge_id, before in zip(reversed(merges), reversed(states), strict=True):
        async with database.tenant(org) as conn:
            await undo(conn, org, merge_id)
        assert await dump(db, org) == before
