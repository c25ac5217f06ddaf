"""Brings the index up to date with what was queued since. Batches of one transaction each, one writer at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from headgate.domain.words import Key, first_words, suffixes
from headgate.server.db.pool import Connection, Record, set_organization
from headgate.server.db.queries import Queries
from headgate.server.index.entries import (
    Entry,
    column_entry,
    column_id,
    dataset_entry,
    is_pipeline,
    job_entry,
    pipeline_entry,
)

BATCH = 500
MAX_ALIASES = 200
MAX_COLUMNS = 5000

_PATIENCE_MS = 2000
Q = Queries("headgate.server.index")


async def catch_up(conn: Connection, organization_id: UUID, *, seconds: float, batch: int = BATCH) -> bool:
    """Index what waits, for about so many seconds; whether all of it is done."""
    ends_at = time.monotonic() + seconds
    while True:
        try:
            taken = await _index_batch(conn, organization_id, batch)
        except asyncpg.LockNotAvailableError:
            return False
        if taken < batch:
            return True
        if time.monotonic() >= ends_at:
            return False


async def _index_batch(conn: Connection, organization_id: UUID, limit: int) -> int:
    async with conn.transaction():
        await set_organization(conn, organization_id)
        await conn.execute(Q.set_up_indexing, str(_PATIENCE_MS))
        await conn.execute(Q.lock_index, organization_id)
        rows = await conn.fetch(Q.take_pending, organization_id, limit)
        if rows:
            queued = {(row["kind"], row["id"]) for row in rows}
            await IndexWriter(conn, organization_id).index(queued)
    return len(rows)


class Change(NamedTuple):
    """An entry as the index has it, and as it should be; None where there is none."""

    before: Entry | None
    now: Entry | None


class IndexWriter:
    """Writes entries of one organisation, in a transaction that holds the lock of its index."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def index(self, queued: Collection[tuple[str, UUID]]) -> None:
        """Make the entries of these datasets and jobs what they should be, with their columns and pipelines."""
        now = [
            *await self._datasets([each for kind, each in queued if kind == "dataset"]),
            *await self._jobs([each for kind, each in queued if kind == "job"]),
        ]
        before = await self._entries(queued)
        current = {(entry.kind, entry.id): entry for entry in now}
        changes = [Change(before.get(key), current.get(key)) for key in sorted(queued)]
        changes += await self._new([entry for entry in now if (entry.kind, entry.id) not in queued])
        await self._write([change for change in changes if change.before != change.now])
        await self._write_columns(changes)

    async def _datasets(self, ids: Sequence[UUID]) -> list[Entry]:
        rows = await self._fetch(Q.read_datasets, ids, MAX_ALIASES, MAX_COLUMNS) if ids else []
        return [
            dataset_entry(
                row["id"],
                row["namespace"],
                row["name"],
                row["display_name"],
                zip(row["namespaces"], row["names"], strict=True),
                row["columns"],
            )
            for row in rows
        ]

    async def _jobs(self, ids: Sequence[UUID]) -> list[Entry]:
        """The jobs, and the pipelines that they are or are part of."""
        rows = await self._fetch(Q.read_jobs, ids) if ids else []
        jobs = [job_entry(row["id"], row["namespace"], row["name"]) for row in rows]
        pipelines = {name for row in rows for name in _pipelines(row)}
        return jobs + [pipeline_entry(*name) for name in sorted(pipelines)]

    async def _entries(self, keys: Iterable[tuple[str, UUID]]) -> dict[tuple[str, UUID], Entry]:
        wanted = list(keys)
        rows = await self._fetch(Q.read_entries, [kind for kind, _ in wanted], [each for _, each in wanted])
        return {(row["kind"], row["id"]): _stored(row) for row in rows}

    async def _new(self, entries: Sequence[Entry]) -> list[Change]:
        """Entries that are what they are called, and so need to be written only once."""
        known = await self._entries((entry.kind, entry.id) for entry in entries) if entries else {}
        return [Change(None, entry) for entry in entries if (entry.kind, entry.id) not in known]

    async def _write(self, changes: Sequence[Change]) -> None:
        gone = [change.before for change in changes if change.before]
        new = [change.now for change in changes if change.now]
        if gone:
            tails = [(entry.kind, key.rank, key.tail, entry.id) for entry in gone for key in entry.keys]
            await self._execute(Q.delete_tails, tails, 4)
        removed = [(entry.kind, entry.id) for entry, now in changes if entry and not now]
        if removed:
            await self._execute(Q.delete_entries, removed, 2)
        if new:
            await self._execute(Q.upsert_entries, [_row(entry) for entry in new], 7)
            await self._execute(Q.insert_tails, sorted(chain.from_iterable(map(_tails, new))), 5)
            await self._write_words(first_words(chain.from_iterable(entry.keys for entry in new)))

    async def _write_words(self, words: set[str]) -> None:
        unknown = await self._fetch(Q.find_unknown_words, sorted(words))
        pairs = sorted((suffix, row["word"]) for row in unknown for suffix in suffixes(row["word"]))
        if pairs:
            await self._execute(Q.insert_suffixes, pairs, 2)

    async def _write_columns(self, changes: Sequence[Change]) -> None:
        added: list[tuple[UUID, UUID]] = []
        removed: list[tuple[UUID, UUID]] = []
        names: set[str] = set()
        for before, now in changes:
            had, has = set(before.columns if before else ()), set(now.columns if now else ())
            dataset_id = (before or now or _NOTHING).id
            added += [(column_id(name), dataset_id) for name in has - had]
            removed += [(column_id(name), dataset_id) for name in had - has]
            names |= has - had
        if added:
            await self._execute(Q.insert_columns, sorted(added), 2)
            await self._write(await self._new([column_entry(name) for name in sorted(names)]))
        if removed:
            await self._execute(Q.delete_columns, removed, 2)
            await self._forget_columns({column for column, _ in removed})

    async def _forget_columns(self, ids: set[UUID]) -> None:
        rows = await self._fetch(Q.find_unused_columns, list(ids))
        unused = await self._entries(("column", row["column_id"]) for row in rows) if rows else {}
        await self._write([Change(entry, None) for entry in unused.values()])

    async def _fetch(self, query: str, *arguments: Any) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *arguments)
        return rows

    async def _execute(self, query: str, rows: Sequence[tuple[Any, ...]], width: int) -> None:
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
        await self._conn.execute(query, self._organization_id, *columns, timeout=120)


_NOTHING = Entry("", UUID(int=0), "", "", "", ())


def _pipelines(row: Record) -> list[tuple[str, str]]:
    named = [json.loads(text) for text in (row["root_job"], row["parent_job"]) if text]
    parents = [(job["namespace"], job["name"]) for job in named]
    return [*parents, (row["namespace"], row["name"])] if is_pipeline(row["job_type"]) else parents


def _stored(row: Record) -> Entry:
    keys = tuple(Key(int(text[0]), text[1:]) for text in row["keys"])
    columns = tuple(row["columns"])
    return Entry(row["kind"], row["id"], row["namespace"], row["name"], row["body"], keys, columns)


def _row(entry: Entry) -> tuple[Any, ...]:
    keys = "\n".join(f"{key.rank}{key.tail}" for key in entry.keys)
    return (*entry[:5], keys, json.dumps(entry.columns))


def _tails(entry: Entry) -> list[tuple[str, int, str, UUID, int]]:
    return [(entry.kind, key.rank, key.tail, entry.id, entry.size) for key in entry.keys]
