"""Schema versions, SCD type 2: a new version when the schema changes, also when it returns to an older one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import msgspec

from headgate.domain.schema import INITIAL, Change, Field, diff, is_same_schema, place, schema_hash, widened
from headgate.server.ingest.context import Context, Q
from headgate.server.ingest.memory import UseKey
from headgate.server.ingest.rows import Content
from headgate.server.queue import DETECT_PRIORITY, NewTask, content_hash

_encode = msgspec.json.encode


class Version(msgspec.Struct):
    """A version as stored, or about to be."""

    id: UUID
    number: int
    hash: bytes
    fields: tuple[Field, ...]
    valid_from: datetime
    valid_to: datetime | None = None
    job_id: UUID | None = None

    def says(self, row: Content) -> bool:
        """Whether a sighting shows this version. Other jobs may call the same types by other names."""
        schema = row.use.schema
        assert schema is not None
        is_same_job = row.job_id is not None and row.job_id == self.job_id
        return schema.hash == self.hash or is_same_schema(self.fields, schema.fields, as_spelled=is_same_job)


class Head(msgspec.Struct):
    """The current version of a dataset while a group is being stored, and what has to be written for it."""

    current: Version | None
    by: str | None
    seen_at: datetime | None = None
    closed: list[Version] = []
    opened: list[tuple[Version, Change, Content | None]] = []
    touched: bool = False
    respelled: set[UseKey] = set()


async def store_schemas(context: Context, contents: Sequence[Content]) -> None:
    """Open new versions for the schemas that these contents show, oldest first."""
    shown = [content for content in contents if content.use.schema is not None]
    heads = await _lock(context, {content.dataset_id for content in shown})
    late = [content for content in shown if not _follow(heads[content.dataset_id], content)]
    await _write(context, heads)
    for content in late:
        # One late sighting may move the current version's beginning back behind the next one.
        heads = await _lock(context, {content.dataset_id})
        if _follow(heads[content.dataset_id], content):
            await _write(context, heads)
        else:
            await _place_late(context, content)


async def _lock(context: Context, dataset_ids: set[UUID]) -> dict[UUID, Head]:
    rows = await context.conn.fetch(Q.lock_schemas, context.organization_id, sorted(dataset_ids))
    return {row["dataset_id"]: _head(row, context) for row in rows}


def _head(row: Any, context: Context) -> Head:
    dataset_id = row["dataset_id"]
    times = [row["seen_at"], *(touches.schema_seen_at(dataset_id) for touches in context.pending)]
    seen_at = max((at for at in times if at is not None), default=None)
    current = _version(row) if row["version_id"] else None
    # What this group shows itself, and is already written, is no sighting of what was known before it.
    shown = context.shown.get((dataset_id, seen_at))
    is_new = shown is not None and (current is None or shown != current.hash)
    return Head(current, row["schema_by"], None if is_new else seen_at)


def _version(row: Any) -> Version:
    fields = _fields(row["fields"])
    given = (row["version_id"], row["version"], row["schema_hash"], fields, row["valid_from"])
    return Version(*given, job_id=row["job_id"])


def _fields(text: str) -> tuple[Field, ...]:
    return tuple(msgspec.json.decode(text, type=list[Field]))


def _follow(head: Head, row: Content) -> bool:
    """Move a head on by one sighting; False when the sighting is older than the head."""
    schema, role = row.use.schema, row.use.role
    at = row.facts.event_time
    assert schema is not None
    current = head.current
    if role == "input" and (head.by or "input") != "input":
        return True
    if current is None:
        _open(head, Version(uuid4(), 1, schema.hash, schema.fields, at, job_id=row.job_id), INITIAL, row)
        return True
    if at < current.valid_from:
        return False
    if current.says(row):
        head.touched = head.touched or head.by != role
        head.by = role
        if schema.hash != current.hash:
            head.respelled.add((row.job_id, row.dataset_id, role))
        return True
    fields = widened(current.fields, schema.fields) if role == "input" else schema.fields
    if (new_hash := schema_hash(fields)) != current.hash:
        version = Version(uuid4(), current.number + 1, new_hash, fields, at, job_id=row.job_id)
        _replace(head, current, version, row)
    return True


def _replace(head: Head, current: Version, version: Version, row: Content) -> None:
    """End the current version. If its schema has been seen since, the new one is a thing of the past already."""
    current.valid_to = version.valid_from
    head.closed.append(current)
    _open(head, version, diff(current.fields, version.fields), row)
    if head.seen_at is not None and head.seen_at > version.valid_from:
        version.valid_to = head.seen_at
        returned = Version(uuid4(), version.number + 1, current.hash, current.fields, head.seen_at)
        _open(head, returned, diff(version.fields, current.fields), None)


def _open(head: Head, version: Version, change: Change, row: Content | None) -> None:
    head.current = version
    head.by = row.use.role if row is not None else head.by
    head.touched = True
    head.opened.append((version, change, row))


async def _write(context: Context, heads: dict[UUID, Head]) -> None:
    conn, organization_id = context.conn, context.organization_id
    context.respelled.update(*(head.respelled for head in heads.values()))
    closed = [(id_, version.id, version.valid_to) for id_ in sorted(heads) for version in heads[id_].closed]
    opened = [(id_, *entry) for id_ in sorted(heads) for entry in heads[id_].opened]
    context.ids.changed_schemas.update(id_ for id_, head in heads.items() if head.closed)
    if opened:
        # One statement inserts versions opened and closed within the group with their end already set, so
        # the one that was open before has to end first.
        if closed:
            await conn.execute(Q.close_schema_versions, organization_id, *map(list, zip(*closed, strict=True)))
        rows = [_insert_row(id_, version, change, row) for id_, version, change, row in opened]
        await conn.execute(Q.insert_schema_versions, organization_id, *map(list, zip(*rows, strict=True)))
    touched = [(id_, head) for id_, head in sorted(heads.items()) if head.touched and head.current]
    if touched:
        states = [(id_, head.current.hash, head.current.valid_from, head.by) for id_, head in touched if head.current]
        await conn.execute(Q.set_dataset_schemas, organization_id, *map(list, zip(*states, strict=True)))
    told = [entry for entry in opened if entry[2] != INITIAL and not entry[2].is_respelling]
    await context.follow_up([_follow_up(id_, version, row) for id_, version, _, row in told])


def _insert_row(dataset_id: UUID, version: Version, change: Change, row: Content | None) -> tuple[Any, ...]:
    run_id, job_id, client_hash = (row.facts.run_id, row.job_id, row.use.client_hash) if row else (None, None, None)
    return (
        dataset_id, version.id, version.number, version.hash, _encode(version.fields).decode(), run_id,
        job_id, _encode(change.added).decode(), _encode(change.removed).decode(),
        _encode(change.type_changed).decode(), str(change.type), change.description, change.breaking,
        client_hash, version.valid_from, version.valid_to,
    )  # fmt: skip


def _follow_up(dataset_id: UUID, version: Version, row: Content | None) -> NewTask:
    payload = {"schema_version": str(version.id), "dataset_id": str(dataset_id)}
    run_id = row.facts.run_id if row else None
    resource = ("DATASET", str(dataset_id)) if run_id is None else ("RUN", str(run_id))
    return NewTask("DETECT", *resource, content_hash("schema", version.id), payload, DETECT_PRIORITY)


async def _place_late(context: Context, row: Content) -> None:
    """A sighting from before the current version: it belongs between versions, or tells nothing new."""
    conn, organization_id, dataset_id = context.conn, context.organization_id, row.dataset_id
    schema, at = row.use.schema, row.facts.event_time
    assert schema is not None
    records = await conn.fetch(Q.list_schema_history, organization_id, dataset_id)
    history = [_version(record) for record in records]
    dated = [(each.valid_from, schema.hash if each.says(row) else each.hash) for each in history]
    found = place(dated, at, schema.hash)
    before = history[found.after - 1] if found and found.after else None
    if found is None or (row.use.role == "input" and before and widened(before.fields, schema.fields) == before.fields):
        return
    context.ids.changed_schemas.add(dataset_id)
    following = history[found.after]
    if before is not None:
        await conn.execute(Q.close_schema_versions, organization_id, [dataset_id], [before.id], [at])
    if found.moves_next:
        await conn.execute(Q.move_schema_start, organization_id, dataset_id, following.id, at)
        return
    version = Version(uuid4(), following.number, schema.hash, schema.fields, at, following.valid_from)
    change = diff(before.fields, schema.fields) if before else INITIAL
    inserted = _insert_row(dataset_id, version, change, row)
    await conn.execute(Q.insert_schema_versions, organization_id, *[[value] for value in inserted])
    told = diff(schema.fields, following.fields)
    await _redescribe(context, dataset_id, following, told)
    await conn.execute(Q.renumber_schema_versions, organization_id, dataset_id)
    # What was the first and is a change now has not been told; one that another has followed since is over.
    if before is None and following is history[-1] and not told.is_respelling:
        await context.follow_up([_follow_up(dataset_id, following, None)])


async def _redescribe(context: Context, dataset_id: UUID, version: Version, change: Change) -> None:
    await context.conn.execute(
        Q.set_schema_change,
        context.organization_id,
        dataset_id,
        version.id,
        list(change.added),
        list(change.removed),
        list(change.type_changed),
        str(change.type),
        change.description,
        change.breaking,
    )
