"""Datasets: lists, one dataset with what is known of it, tags, notes, and the state of many at once."""

from __future__ import annotations

from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any
from uuid import UUID

import msgspec
from fastapi import Depends, Query, Response

from headgate.domain.names import canonical_namespace
from headgate.errors import Conflict, FieldError, InvalidFields, NotFound
from headgate.server.auth import Principal
from headgate.server.catalog import schemas
from headgate.server.catalog.schemas import ColumnRef, Sort, Tag
from headgate.server.catalog.status import state_of
from headgate.server.catalog.store import CatalogStore, Filters
from headgate.server.db.pool import Record
from headgate.server.deps import Db, Reads, Writer
from headgate.server.pagination import DEFAULT_LIMIT, Limit, LongCursor, SortedPage, sorted_page
from headgate.server.problems import problems
from headgate.server.references.datasets import DatasetRef, find_dataset
from headgate.server.references.ids import as_any_id
from headgate.server.routing import new_router

router = new_router("/api/v1", "datasets")

_LARGEST = {"rows": 2**63 - 1, "downstream": 2**31 - 1}
# Where an order by freshness has the datasets that were never written: last.
_NEVER = {Sort.freshness: "infinity", Sort.freshness_down: "-infinity"}
_NO_ID = UUID(int=0)
_TAGS = "tag"

Text = Annotated[str | None, Query(max_length=2000)]


def dataset_filters(
    namespace: Text = None,
    type_: Annotated[str | None, Query(alias="type", max_length=100)] = None,
    dataset_type: Annotated[str | None, Query(max_length=100, description="The same as `type`")] = None,
    tag: Annotated[Text, Query(max_length=1000, description="Of the dataset or one of its columns")] = None,
    text: Annotated[Text, Query(max_length=500, description="Part of the urn or of the display name")] = None,
    has_incident: bool | None = None,
    dropped: Annotated[bool, Query(description="Show datasets that were dropped, too")] = False,
) -> Filters:
    kind = type_ or dataset_type
    return Filters(
        namespace=canonical_namespace(namespace) if namespace else None,
        type=kind.lower() if kind else None,
        tag=tag or None,
        text=text or None,
        has_incident=has_incident,
        dropped=dropped,
    )


def dataset_page(sort: Sort = Sort.name, limit: Limit = DEFAULT_LIMIT, cursor: LongCursor = None) -> SortedPage:
    page = sorted_page(sort, limit, cursor)
    return page if cursor is None else page._replace(value=_place(sort, page.value, cursor))


@router.get("/datasets", response_model=schemas.DatasetPage)
async def list_datasets(
    reads: Reads,
    page: Annotated[SortedPage, Depends(dataset_page)],
    filters: Annotated[Filters, Depends(dataset_filters)],
) -> Response:
    """Datasets in a chosen order. What is not known comes last, also with a `-` before the order."""
    async with reads.open() as conn:
        items, cursor = await CatalogStore(conn, reads.organization_id).page(page, filters)
    return _json({"items": items, "next_cursor": cursor})


@router.get("/datasets/{dataset}", response_model=schemas.DatasetDetailOut, responses=problems(NotFound, Conflict))
async def get_dataset(dataset: DatasetRef, reads: Reads) -> Response:
    """One dataset with everything that is known of it, dropped ones too."""
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        return _json(await CatalogStore(conn, reads.organization_id).get(found.id))


@router.patch("/datasets/{dataset}", response_model=schemas.DatasetOut, responses=problems(NotFound, Conflict))
async def annotate_dataset(dataset: DatasetRef, body: schemas.NoteIn, caller: Writer, database: Db) -> Response:
    """Sets the description or the owners in place of what facets say; null takes that back."""
    changes = body.model_dump(exclude_unset=True)
    async with database.tenant(caller.organization_id) as conn:
        store = CatalogStore(conn, caller.organization_id)
        await store.hold_names()
        found = await find_dataset(conn, caller.organization_id, dataset)
        if changes:
            await store.set_note(found.id, changes, _author(caller))
        (row,) = await store.describe([found.id])
    return _json(row)


@router.put("/datasets/{dataset}/tags/{tag}", status_code=204, responses=problems(NotFound, Conflict))
async def add_dataset_tag(dataset: DatasetRef, tag: Tag, caller: Writer, database: Db) -> None:
    """Tags a dataset; one that has the tag keeps it."""
    await _add_tag(database, caller, dataset, None, tag)


@router.delete("/datasets/{dataset}/tags/{tag}", status_code=204, responses=problems(NotFound, Conflict))
async def remove_dataset_tag(dataset: DatasetRef, tag: Tag, caller: Writer, database: Db) -> None:
    """Takes a tag away. One that a facet gives cannot be taken away here."""
    await _remove_tag(database, caller, dataset, "", tag)


@router.put("/datasets/{dataset}/columns/{column}/tags/{tag}", status_code=204, responses=problems(NotFound, Conflict))
async def add_column_tag(dataset: DatasetRef, column: ColumnRef, tag: Tag, caller: Writer, database: Db) -> None:
    """Tags a column. Where the schema is known, it must have the column."""
    await _add_tag(database, caller, dataset, column, tag)


@router.delete(
    "/datasets/{dataset}/columns/{column}/tags/{tag}", status_code=204, responses=problems(NotFound, Conflict)
)
async def remove_column_tag(dataset: DatasetRef, column: ColumnRef, tag: Tag, caller: Writer, database: Db) -> None:
    """Takes a tag from a column, also from one that the schema has lost."""
    await _remove_tag(database, caller, dataset, column, tag)


@router.get("/tags")
async def list_tags(reads: Reads, limit: Limit = DEFAULT_LIMIT, cursor: LongCursor = None) -> schemas.TagPage:
    """Tags in order of their text, with how many datasets and columns have each."""
    page = sorted_page(_TAGS, limit, cursor)
    async with reads.open() as conn:
        found = await CatalogStore(conn, reads.organization_id).tags(page.value or "", limit + 1)
    rows, next_cursor = page.cut([{**row, "id": _NO_ID} for row in found], "tag")
    return schemas.TagPage(items=[schemas.TagOut(**row) for row in rows], next_cursor=next_cursor)


def wanted_ids(
    ids: Annotated[
        list[str], Query(description=f"Ids of datasets, also with commas between; at most {schemas.MAX_IDS}")
    ],
) -> list[UUID]:
    texts = [text.strip() for part in ids for text in part.split(",") if text.strip()]
    wrong = [FieldError("query.ids", "is not an id", text[:120]) for text in texts if as_any_id(text) is None]
    if not texts:
        wrong = [FieldError("query.ids", "is empty")]
    if len(texts) > schemas.MAX_IDS:
        wrong = [FieldError("query.ids", f"has {len(texts)} ids, more than {schemas.MAX_IDS}")]
    if wrong:
        raise InvalidFields(wrong[:20], hint="give ids of datasets as /api/v1/datasets lists them")
    return list(dict.fromkeys(UUID(text) for text in texts))


@router.get("/status")
async def get_status(reads: Reads, ids: Annotated[list[UUID], Depends(wanted_ids)]) -> schemas.StatusOut:
    """How many datasets are, in the order in which they were asked for."""
    async with reads.open() as conn:
        rows = await CatalogStore(conn, reads.organization_id).status(ids)
    known = {row["id"] for row in rows}
    return schemas.StatusOut(items=[_status(row) for row in rows], missing=[id_ for id_ in ids if id_ not in known])


async def _add_tag(database: Db, caller: Principal, dataset: str, column: str | None, tag: str) -> None:
    async with database.tenant(caller.organization_id) as conn:
        store = CatalogStore(conn, caller.organization_id)
        await store.hold_names()
        found = await find_dataset(conn, caller.organization_id, dataset)
        if column is not None:
            _check_column(found.urn, column, await store.columns(found.id))
        await store.add_tag(found.id, column or "", tag, _author(caller))


async def _remove_tag(database: Db, caller: Principal, dataset: str, column: str, tag: str) -> None:
    async with database.tenant(caller.organization_id) as conn:
        store = CatalogStore(conn, caller.organization_id)
        await store.hold_names()
        found = await find_dataset(conn, caller.organization_id, dataset)
        if await store.has_facet_tag(found.id, column, tag):
            raise Conflict(
                f"the tag {tag!r} comes from the tags facet",
                hint="remove it where the events are made: in the producer",
            )
        await store.remove_tag(found.id, column, tag)


def _check_column(urn: str, column: str, columns: list[str] | None) -> None:
    if columns is None or column in columns:
        return
    near = get_close_matches(column, columns, n=3)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "see the dataset's fields"
    raise NotFound(f"no column {column!r} in {urn!r}", hint=hint, nearest=near)


def _status(row: Record) -> schemas.DatasetStatusOut:
    last_run = None
    if row["run_id"] is not None:
        last_run = schemas.LastRunOut(run_id=row["run_id"], state=row["state"], ended_at=row["ended_at"])
    return schemas.DatasetStatusOut(
        id=row["id"],
        current_id=row["current_id"],
        state=state_of(
            is_dropped=row["dropped"],
            failing_tests=row["failing_tests"],
            last_run=row["state"],
            is_stale=row["is_stale"],
            is_written=row["last_updated"] is not None,
            is_tested=row["is_tested"],
        ),
        dropped=row["dropped"],
        last_updated=row["last_updated"],
        failing_tests=row["failing_tests"],
        last_run=last_run,
        row_count=row["row_count"],
    )


def _place(sort: Sort, value: str | None, cursor: str) -> str:
    """What a cursor holds, if this order can sort by it."""
    column = sort.lstrip("-")
    try:
        if value is not None and column == "name":
            return value
        if value is not None and column == "freshness":
            return value if value == _NEVER[sort] else datetime.fromisoformat(value).astimezone(UTC).isoformat()
        if value is not None and abs(int(value)) <= _LARGEST[column]:
            return str(int(value))
    except (ValueError, OverflowError):
        pass
    raise InvalidFields(
        [FieldError("query.cursor", "is not a cursor of this list", cursor[:120])],
        hint="pass `next_cursor` of the previous page as it is, or leave it out",
    )


def _author(caller: Principal) -> UUID | None:
    return caller.subject_id if caller.kind == "user" else None


def _json(answer: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")
