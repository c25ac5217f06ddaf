"""Merging two datasets into one, and taking it back."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from headgate.domain.schema import Field, diff
from headgate.server.db.pool import Connection, Database
from tests.support.events import T0
from tests.support.graphs import TABLES, RandomGraph, an_organization, dump, fields_json, insert


async def merge(conn: Connection, org: UUID, one: UUID, other: UUID, reason: str = "manual") -> UUID | None:
    merge_id: UUID | None = await conn.fetchval("SELECT merge_datasets($1, $2, $3, $4, NULL)", org, one, other, reason)
    return merge_id


async def undo(conn: Connection, org: UUID, merge_id: UUID | None) -> None:
    await conn.execute("SELECT undo_dataset_merge($1, $2)", org, merge_id)


async def rename(conn: Connection, org: UUID, dataset_id: UUID, name: str, *, primary: bool = True) -> UUID | None:
    merge_id: UUID | None = await conn.fetchval(
        "SELECT rename_dataset($1, $2, 'postgres://db', $3, $3, $4, NULL)", org, dataset_id, name, primary
    )
    return merge_id


async def graph_of(db: asyncpg.Connection, seed: int = 1, datasets: int = 5) -> tuple[UUID, RandomGraph]:
    org = await an_organization(db)
    graph = RandomGraph(db, org, seed, datasets)
    await graph.write()
    return org, graph


@pytest.mark.parametrize("seed", range(8), ids=lambda seed: f"graph-{seed}")
async def test_undone_merge_leaves_every_table_as_it_was(database: Database, db: asyncpg.Connection, seed: int) -> None:
    org, graph = await graph_of(db, seed)
    before = await dump(db, org)
    for one, other in [graph.datasets[:2], graph.datasets[2:4], graph.datasets[1::-1]]:
        async with database.tenant(org) as conn:
            merge_id = await merge(conn, org, one, other)
        assert await dump(db, org) != before

        async with database.tenant(org) as conn:
            await undo(conn, org, merge_id)
        assert await dump(db, org) == before


@pytest.mark.parametrize("seed", range(8), ids=lambda seed: f"graph-{seed}")
async def test_merges_and_renames_undone_in_reverse_leave_every_table_as_it_was(
    database: Database, db: asyncpg.Connection, seed: int
) -> None:
    org, graph = await graph_of(db, seed, datasets=7)
    draw = random.Random(seed)
    done = []
    for number in range(8):
        before = await dump(db, org)
        async with database.tenant(org) as conn:
            if draw.random() < 0.3:
                merge_id = await rename(
                    conn, org, draw.choice(graph.datasets), f"t{number}", primary=draw.random() < 0.7
                )
            else:
                merge_id = await merge(conn, org, *draw.sample(graph.datasets, 2), draw.choice(["manual", "rule"]))
        if merge_id is not None:
            done.append((merge_id, before))
    assert len(done) >= 4

    for merge_id, before in reversed(done):
        async with database.tenant(org) as conn:
            await undo(conn, org, merge_id)
        assert await dump(db, org) == before
    assert await db.fetchval("SELECT count(*) FROM dataset_merge_rows WHERE organization_id = $1", org) == 0


@pytest.mark.parametrize("seed", range(4), ids=lambda seed: f"graph-{seed}")
async def test_nothing_is_left_with_the_merged_dataset(database: Database, db: asyncpg.Connection, seed: int) -> None:
    org, graph = await graph_of(db, seed)
    async with database.tenant(org) as conn:
        merge_id = await merge(conn, org, *graph.datasets[:2])
    merged = await db.fetchrow("SELECT survivor_id, merged_id FROM dataset_merges WHERE id = $1", merge_id)

    for table in TABLES:
        rows = await db.fetch(f"SELECT to_jsonb(t)::text AS row FROM {table} t WHERE organization_id = $1", org)
        with_id = [row["row"] for row in rows if str(merged["merged_id"]) in row["row"]]
        assert len(with_id) == (1 if table == "datasets" else 0), table
    names = await db.fetch(
        "SELECT count(*) FROM dataset_aliases WHERE organization_id = $1 AND dataset_id = $2",
        org,
        merged["survivor_id"],
    )
    assert names[0][0] >= 2
    assert await db.fetchval("SELECT surviving_dataset($1, $2)", org, merged["merged_id"]) == merged["survivor_id"]


@pytest.mark.parametrize("seed", range(4), ids=lambda seed: f"graph-{seed}")
async def test_merged_schema_history_is_one_line_of_time(database: Database, db: asyncpg.Connection, seed: int) -> None:
    org, graph = await graph_of(db, seed)
    async with database.tenant(org) as conn:
        for other in graph.datasets[1:]:
            await merge(conn, org, graph.datasets[0], other)

    rows = await db.fetch(
        """SELECT v.*, d.schema_hash AS current_hash, d.schema_at AS current_at
             FROM schema_versions v JOIN datasets d ON d.id = v.dataset_id
            WHERE v.organization_id = $1 ORDER BY v.version""",
        org,
    )
    assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["valid_to"] for row in rows] == [*(row["valid_from"] for row in rows[1:]), None]
    assert (rows[-1]["current_hash"], rows[-1]["current_at"]) == (rows[-1]["schema_hash"], rows[-1]["valid_from"])
    assert rows[0]["change_type"] == "INITIAL"
    for before, after in itertools.pairwise(rows):
        change = diff(fields_of(before), fields_of(after))
        assert before["schema_hash"] != after["schema_hash"]
        assert (after["change_type"], after["description"]) == (str(change.type), change.description)


def fields_of(row: Any) -> list[Field]:
    return [Field(**field) for field in json.loads(row["fields"])]


async def test_sql_and_python_agree_on_what_changed_in_a_schema(db: asyncpg.Connection) -> None:
    draw = random.Random(7)
    names = [f"c{number}" for number in range(25)] + ["it's", "%s", "é"]

    def schema() -> list[Field]:
        chosen = draw.choices(names, k=draw.choice([0, 1, 2, 3, 40]))
        return [Field(name, draw.choice(["int", "string"]), draw.random() < 0.5) for name in chosen]

    for _ in range(300):
        old, new = schema(), schema()
        if draw.random() < 0.3:
            new = draw.sample(old, len(old))
        found = await db.fetchrow("SELECT * FROM schema_change($1, $2)", fields_json(old), fields_json(new))
        change = diff(old, new)
        assert (*found,) == (
            list(change.added),
            list(change.removed),
            list(change.type_changed),
            str(change.type),
            change.description,
            change.breaking,
        )
        projected = await db.fetchval("SELECT is_projection($1, $2)", fields_json(new), fields_json(old))
        types = {field.name: field.type for field in old}
        assert projected == (len(new) < len(old) and all(types.get(field.name) == field.type for field in new))


async def test_every_table_that_names_datasets_is_part_of_a_merge(db: asyncpg.Connection) -> None:
    rows = await db.fetch(
        r"""SELECT DISTINCT c.table_name
             FROM information_schema.columns c
             JOIN information_schema.tables t USING (table_schema, table_name)
            WHERE c.table_schema = 'headgate' AND t.table_type = 'BASE TABLE'
              AND c.column_name IN ('dataset_id', 'source_id', 'target_id', 'input_ids', 'output_ids')
              AND c.table_name NOT LIKE 'dataset\_metrics\__%'"""
    )
    # What search knows of columns, and who is watched, is made anew after a merge.
    anew = {"search_columns", "watched_datasets"}
    assert {row["table_name"] for row in rows} - anew == set(TABLES) - {"datasets", "jobs"}


async def test_older_dataset_survives_whichever_is_named_first(database: Database, db: asyncpg.Connection) -> None:
    org, graph = await graph_of(db)
    older, newer, *_ = graph.datasets
    await db.execute("UPDATE datasets SET created_at = $2 WHERE id = $1", older, T0 - timedelta(days=1))

    for pair in [(older, newer), (newer, older)]:
        async with database.tenant(org) as conn:
            merge_id = await merge(conn, org, *pair)
            row = await conn.fetchrow("SELECT survivor_id, merged_id FROM dataset_merges WHERE id = $1", merge_id)
            await undo(conn, org, merge_id)
        assert tuple(row) == (older, newer)


async def test_of_two_datasets_made_at_once_the_lower_id_survives(database: Database, db: asyncpg.Connection) -> None:
    org, graph = await graph_of(db)
    await db.execute("UPDATE datasets SET created_at = $1", T0)
    async with database.tenant(org) as conn:
        merge_id = await merge(conn, org, *graph.datasets[:2])

    survivor = await db.fetchval("SELECT survivor_id FROM dataset_merges WHERE id = $1", merge_id)
    assert survivor == min(graph.datasets[:2])


async def test_datasets_that_are_one_already_are_not_merged_again(database: Database, db: asyncpg.Connection) -> None:
    org, graph = await graph_of(db)
    a, b, c, *_ = graph.datasets
    async with database.tenant(org) as conn:
        assert await merge(conn, org, a, b) is not None
        assert await merge(conn, org, b, c) is not None

        assert await merge(conn, org, a, c) is None
        assert await merge(conn, org, c, c) is None


async def test_two_merges_of_a_pair_at_once_make_one_merge(database: Database, db: asyncpg.Connection) -> None:
    org, graph = await graph_of(db)
    a, b, *_ = graph.datasets

    async def once(one: UUID, other: UUID) -> UUID | None:
        async with database.tenant(org) as conn:
            return await merge(conn, org, one, other)

    found = await asyncio.gather(*[once(a, b), once(b, a), once(a, b), once(b, a)])

    assert len([merge_id for merge_id in found if merge_id is not None]) == 1


async def test_merge_that_fails_half_way_changes_nothing(database: Database, db: asyncpg.Connection) -> None:
    org, graph = await graph_of(db)
    before = await dump(db, org)
    await db.execute("ALTER TABLE dataset_aliases ADD CHECK (source <> 'merge')")

    with pytest.raises(asyncpg.CheckViolationError):
        async with database.tenant(org) as conn:
            await merge(conn, org, *graph.datasets[:2])

    assert await dump(db, org) == before
    assert await db.fetchval("SELECT count(*) FROM dataset_merges") == 0


async def test_merge_does_not_touch_another_organisation(database: Database, db: asyncpg.Connection) -> None:
    org, graph = await graph_of(db, seed=1)
    other_org, _ = await graph_of(db, seed=1)
    before = await dump(db, other_org)
    async with database.tenant(org) as conn:
        merge_id = await merge(conn, org, *graph.datasets[:2])
    assert await dump(db, other_org) == before

    async with database.tenant(other_org) as conn:
        with pytest.raises(asyncpg.PostgresError, match="there is no merge") as refusal:
            await undo(conn, other_org, merge_id)
    assert refusal.value.sqlstate == "HG003"


async def test_merge_is_announced_to_every_process(database: Database, db: asyncpg.Connection) -> None:
    org, graph = await graph_of(db)
    heard: asyncio.Queue[str] = asyncio.Queue()
    await db.add_listener("headgate_organization", lambda *notice: heard.put_nowait(notice[-1]))
    async with database.tenant(org) as conn:
        merge_id = await merge(conn, org, *graph.datasets[:2])
    assert await asyncio.wait_for(heard.get(), 5) == str(org)

    async with database.tenant(org) as conn:
        await undo(conn, org, merge_id)
    assert await asyncio.wait_for(heard.get(), 5) == str(org)


@pytest.mark.parametrize("again", ["undone", "unknown"])
async def test_merge_that_is_not_there_cannot_be_undone(database: Database, db: asyncpg.Connection, again: str) -> None:
    org, graph = await graph_of(db)
    async with database.tenant(org) as conn:
        merge_id = await merge(conn, org, *graph.datasets[:2])
        await undo(conn, org, merge_id)
    with pytest.raises(asyncpg.PostgresError, match="undone already" if again == "undone" else "no merge") as refusal:
        async with database.tenant(org) as conn:
            await undo(conn, org, merge_id if again == "undone" else uuid4())
    assert refusal.value.sqlstate == "HG003"


@pytest.mark.parametrize("later", ["survivor merged", "another merged into it", "neighbour merged", "renamed"])
async def test_merges_are_undone_in_reverse_only(database: Database, db: asyncpg.Connection, later: str) -> None:
    org, graph = await graph_of(db)
    oldest, survivor, merged, neighbour, another = graph.datasets
    for age, dataset_id in enumerate(reversed(graph.datasets)):
        await db.execute("UPDATE datasets SET created_at = $2 WHERE id = $1", dataset_id, T0 - timedelta(days=age))
    await db.execute(
        """INSERT INTO lineage_edges (organization_id, source_id, target_id, job_id, first_seen_at, last_seen_at)
           VALUES ($1, $2, $3, $4, now(), now()) ON CONFLICT DO NOTHING""",
        org, merged, neighbour, graph.jobs[0],
    )  # fmt: skip
    async with database.tenant(org) as conn:
        first = await merge(conn, org, survivor, merged)
        if later == "renamed":
            second = await rename(conn, org, survivor, "t")
        else:
            pairs = {
                "survivor merged": (oldest, survivor),
                "another merged into it": (survivor, another),
                "neighbour merged": (neighbour, another),
            }
            second = await merge(conn, org, *pairs[later])

    with pytest.raises(asyncpg.PostgresError) as refusal:
        async with database.tenant(org) as conn:
            await undo(conn, org, first)
    assert refusal.value.sqlstate == "HG003"
    assert f"merge {second}" in str(refusal.value)
    async with database.tenant(org) as conn:
        await undo(conn, org, second)
        await undo(conn, org, first)


async def test_unrelated_later_merge_does_not_stand_in_the_way(database: Database, db: asyncpg.Connection) -> None:
    org = await an_organization(db)
    first, second = RandomGraph(db, org, 1, prefix="one"), RandomGraph(db, org, 2, prefix="two")
    await first.write()
    before = await dump(db, org)
    await second.write()
    async with database.tenant(org) as conn:
        merge_id = await merge(conn, org, *first.datasets[:2])
        await merge(conn, org, *second.datasets[:2])
        await undo(conn, org, merge_id)

    after = await dump(db, org)
    assert all(not before[table] - after[table] for table in TABLES)


async def test_merging_joins_what_both_datasets_have(database: Database, db: asyncpg.Connection) -> None:
    org = await an_organization(db)
    early, late, latest = (T0 + timedelta(hours=hours) for hours in range(3))
    kept, gone, other = await three_datasets(db, org, first_seen=(late, early, early))
    job, run = uuid4(), uuid4()
    await insert(db, org, "jobs", id=job, namespace="j", name="j", first_seen_at=T0)
    edges = [
        (kept, other, early, late, True),
        (gone, other, late, latest, False),
        (gone, kept, early, late, True),
        (kept, gone, early, late, True),
    ]
    for source, target, first, last, is_current in edges:
        seen = {"source_id": source, "target_id": target, "job_id": job, "first_seen_at": first, "last_seen_at": last}
        await insert(db, org, "lineage_edges", **seen)
        columns = {"source_column": "a", "target_column": "a", "kinds": "[]", "is_current": is_current}
        await insert(db, org, "column_lineage_edges", **seen, **columns)
    for id_, time, word, rows, status in [(kept, early, '"kept"', 1, "passed"), (gone, late, '"gone"', 2, "failed")]:
        of = {"dataset_id": id_}
        result = {"test_key": "k", "name": "k", "status": status, "severity": "error", "observed_at": time}
        await insert(db, org, "dataset_facets", **of, name="docs", body=word, event_time=time)
        await insert(db, org, "dataset_metrics", **of, measured_at=time, run_id=run, direction="output", row_count=rows)
        await insert(db, org, "test_results", **of, run_id=run, **result)

    async with database.tenant(org) as conn:
        await merge(conn, org, gone, kept)

    edge = await db.fetch("SELECT source_id, target_id, first_seen_at, last_seen_at FROM lineage_edges")
    assert [tuple(row) for row in edge] == [(kept, other, early, latest)]
    column = await db.fetch("SELECT source_id, first_seen_at, last_seen_at, is_current FROM column_lineage_edges")
    assert [tuple(row) for row in column] == [(kept, early, latest, True)]
    assert await db.fetchval("SELECT body FROM dataset_facets") == '"gone"'
    assert [row[0] for row in await db.fetch("SELECT row_count FROM dataset_metrics")] == [1]
    assert [row[0] for row in await db.fetch("SELECT status FROM test_results")] == ["failed"]
    assert await db.fetchval("SELECT first_seen_at FROM datasets WHERE id = $1", kept) == early
    names = await db.fetch("SELECT name, source FROM dataset_aliases WHERE dataset_id = $1 ORDER BY name", kept)
    assert [tuple(row) for row in names] == [("0", "primary"), ("1", "merge")]


async def three_datasets(
    db: asyncpg.Connection, org: UUID, first_seen: tuple[datetime, datetime, datetime]
) -> list[UUID]:
    """Datasets named 0, 1 and 2, oldest first."""
    ids = [uuid4() for _ in first_seen]
    for number, (id_, seen) in enumerate(zip(ids, first_seen, strict=True)):
        name = {"namespace": "n", "name": str(number)}
        made = {"first_seen_at": seen, "created_at": T0 + timedelta(days=number)}
        await insert(db, org, "datasets", id=id_, **name, display_name="d", **made)
        await insert(db, org, "dataset_aliases", **name, dataset_id=id_, source="primary")
    return ids
