"""Schemas of datasets: now, at any time, and how they changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Any
from uuid import UUID

import msgspec
from fastapi import Query
from fastapi.responses import Response

from headgate.domain.schema import FieldChange, FieldDiff, compare, parents_of, summary
from headgate.errors import Conflict, FieldError, InvalidFields, NotFound
from headgate.server.deps import Reads
from headgate.server.pagination import Paged
from headgate.server.problems import problems
from headgate.server.references.datasets import DatasetRef, find_dataset
from headgate.server.routing import new_router
from headgate.server.times import Moment, read_moment
from headgate.server.versions import answers
from headgate.server.versions.schemas import DiffOut, SchemaOut, VersionPage
from headgate.server.versions.store import Version, VersionStore, Wanted, Word

MAX_READERS = 1000

_NUMBER = re.compile(r"v?(\d{1,18})", re.IGNORECASE)
router = new_router("/api/v1/datasets/{dataset}/schema", "schemas")

VersionText = Annotated[str | None, Query(max_length=64, examples=["v3"])]
FromVersion = Annotated[str | None, Query(alias="from", max_length=64, examples=["v3"])]


@router.get("", response_model=SchemaOut, responses=problems(NotFound, Conflict))
async def get_schema(
    dataset: DatasetRef,
    reads: Reads,
    at: Annotated[Moment | None, Query(description="The schema that was valid then; left out: now")] = None,
) -> Response:
    """The schema of a dataset."""
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        version = await VersionStore(conn, reads.organization_id, found).find(at or Word.current)
    return _json(answers.version_out(version) | {"dataset": found.out().model_dump()})


@router.get("/history", response_model=VersionPage, responses=problems(NotFound, Conflict))
async def list_schema_history(dataset: DatasetRef, reads: Reads, page: Paged) -> Response:
    """Versions of the schema, newest first. Pages of wide schemas are shorter than asked for."""
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        versions, cursor = await VersionStore(conn, reads.organization_id, found).page(page)
    return _json({"items": [answers.version_out(version) for version in versions], "next_cursor": cursor})


@router.get("/diff", response_model=DiffOut, responses=problems(NotFound, Conflict))
async def diff_schemas(
    dataset: DatasetRef,
    reads: Reads,
    from_: FromVersion = None,
    to: VersionText = None,
    from_version: VersionText = None,
    to_version: VersionText = None,
) -> Response:
    """What is different between two versions, what of it breaks readers, and who they are.

    A version is a number (`3` or `v3`), an id, a time, `current`, `first` or `previous`. Left out, `to` is the current
    one, and `from` the one before `to`.
    """
    newer = _wanted({"to": to, "to_version": to_version}, Word.current)
    older = _wanted({"from": from_, "from_version": from_version}, Word.previous)
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        store = VersionStore(conn, reads.organization_id, found)
        after = await store.find(newer)
        before = await _before(store, older, after)
        body = await _diff(store, before, after)
    return _json({"dataset": found.out().model_dump()} | body)


def _wanted(said: Mapping[str, str | None], default: Word) -> Wanted:
    """Which version the first of these parameters that says anything means."""
    for parameter, text in said.items():
        if text is not None and text.strip():
            return _version(parameter, text.strip().lower())
    return default


def _version(parameter: str, text: str) -> Wanted:
    if text in set(Word):
        return Word(text)
    if number := _NUMBER.fullmatch(text):
        return int(number[1])
    try:
        return UUID(text) if len(text) == 36 else read_moment(text)
    except ValueError:
        error = FieldError(f"query.{parameter}", "is no version: not a number, an id, a word or a time", text)
        raise InvalidFields([error], hint="try 3, v3, current, first, previous or 2026-01-31T12:00:00Z") from None


async def _before(store: VersionStore, wanted: Wanted, after: Version) -> Version | None:
    """What to compare with: nothing, if the version before the first one is meant."""
    if wanted is not Word.previous:
        return await store.find(wanted)
    return await store.find(after.number - 1) if after.number > 1 else None


async def _diff(store: VersionStore, before: Version | None, after: Version) -> dict[str, Any]:
    items = compare(before.fields if before else (), after.fields)
    since = {item.name: 1 for item in items}
    if before is not None:
        older, newer = sorted((before, after), key=lambda version: version.number)
        between = await store.between(older, newer)
        since = answers.since_versions(items, between, backwards=older is after and newer is before)
    return {
        "from": answers.brief_out(before) if before else None,
        "to": answers.brief_out(after),
        "summary": summary(before.fields if before else None, after.fields),
        "fields": answers.field_diffs_out(items, since),
        **{name: [item.name for item in items if change in item.changes] for name, change in _LISTS.items()},
        "breaking": any(item.breaks for item in items),
        "breaking_changes": answers.breaks_out(items),
        **await _readers(store, items),
    }


_LISTS = {
    "added": FieldChange.ADDED,
    "removed": FieldChange.REMOVED,
    "type_changed": FieldChange.TYPE,
    "nullability_changed": FieldChange.NULLABILITY,
    "moved": FieldChange.MOVED,
}


async def _readers(store: VersionStore, items: Sequence[FieldDiff]) -> dict[str, Any]:
    """Who reads the broken columns, for certain or possibly."""
    broken = _read_as(items)
    if not broken:
        return {"readers": [], "possible_readers": [], "truncated": False}
    rows = await store.readers(list(broken), MAX_READERS + 1)
    found = (answers.reader_out(row, column) for row in rows for column in broken[row["source_column"]])
    readers = list(islice(found, MAX_READERS + 1))
    certain = {row["job_id"] for row in rows}
    jobs = await store.possible_readers(MAX_READERS + 1)
    return {
        "readers": readers[:MAX_READERS],
        "possible_readers": [dict(job) for job in jobs[:MAX_READERS] if job["id"] not in certain],
        "truncated": len(readers) > MAX_READERS or len(jobs) > MAX_READERS,
    }


def _read_as(items: Sequence[FieldDiff]) -> dict[str, list[str]]:
    """Broken columns by the names under which they are read: whoever reads a column reads what is nested in it."""
    names = {item.name for item in items}
    broken = [item.name for item in items if item.breaks]
    read_as = {name: [name] for name in broken}
    for name in broken:
        for parent in parents_of(name, names):
            # A parent that is broken too has its readers listed anyway.
            if parent not in read_as or read_as[parent][0] != parent:
                read_as.setdefault(parent, []).append(name)
    return read_as


def _json(answer: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")
