"""Looks up what results are, so that they can be shown. Does not decide what is found, nor how well it fits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from headgate.domain.words import MAX_TAIL
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.references.datasets import Dataset
from headgate.server.search.ranking import Found, Kind, Match, place

# A column such as `id` is in every dataset; next to other things a few of them are enough.
DATASETS_OF_A_COLUMN = 3

Q = Queries("headgate.server.search")


class Item(NamedTuple):
    """A result with what it is. `id` leads to it; `dataset` is a dataset's own, or a column's."""

    found: Found
    id: UUID | None
    namespace: str
    name: str
    dataset: Dataset | None
    is_dropped: bool = False


class Describer:
    """Reads what was found in one organisation."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def describe(
        self, best: Sequence[Found], asked: str, limit: int, *, only_columns: bool
    ) -> tuple[list[Item], bool]:
        """The results that still exist, best first, each column with its datasets; and whether there is more."""
        entries = [each for each in best if each.kind is not Kind.run]
        items = [
            *await self._entries(entries, asked),
            *await self._runs([each for each in best if each.kind is Kind.run]),
        ]
        most = limit if only_columns else DATASETS_OF_A_COLUMN
        owners = await self._owners([item.found.id for item in items if item.found.kind is Kind.column], most + 1)
        shown = [each for item in items for each in _spread(item, owners, most)]
        shown.sort(key=_order)
        shown = list(_without_twins(shown))
        return shown[:limit], len(shown) > limit or any(len(each) > most for each in owners.values())

    async def _entries(self, entries: Sequence[Found], asked: str) -> list[Item]:
        by_key = {(each.kind.value, each.id): each for each in entries}
        kinds, ids = [kind for kind, _ in by_key], [each for _, each in by_key]
        rows = await self._fetch(Q.describe_entries, kinds, ids) if by_key else []
        found = ((by_key[(row["kind"], row["entry_id"])], row) for row in rows)
        return [_item(each, row) for each, row in found if _fits(each, row, asked)]

    async def _runs(self, runs: Sequence[Found]) -> list[Item]:
        by_id = {each.id: each for each in runs}
        rows = await self._fetch(Q.describe_runs, list(by_id)) if by_id else []
        return [Item(by_id[row["id"]], row["id"], row["namespace"], row["name"], None) for row in rows]

    async def _owners(self, columns: Sequence[UUID], limit: int) -> dict[UUID, list[Dataset]]:
        """The datasets that have each of these columns, the first few of them."""
        rows = await self._fetch(Q.list_column_datasets, columns, limit) if columns else []
        owners: dict[UUID, list[Dataset]] = defaultdict(list)
        for row in rows:
            owners[row["column_id"]].append(_dataset(row))
        return owners

    async def _fetch(self, query: str, *arguments: Any) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *arguments)
        return rows


def _fits(found: Found, row: Record, asked: str) -> bool:
    """Of what is longer than the index holds, only the beginning was compared."""
    return len(asked) <= MAX_TAIL or found.match in (Match.exact, Match.fuzzy) or asked in row["body"]


def _item(found: Found, row: Record) -> Item:
    dataset = _dataset(row) if found.kind is Kind.dataset else None
    return Item(found, row["id"], row["namespace"], row["name"], dataset, row["is_dropped"])


def _dataset(row: Record) -> Dataset:
    return Dataset(row["id"], row["namespace"], row["name"], row["display_name"], row["type"])


def _order(item: Item) -> tuple[float | int | str, ...]:
    dataset = item.dataset.name if item.dataset else ""
    return *place(item.found, is_dropped=item.is_dropped), item.name, dataset, item.namespace, str(item.id)


def _spread(item: Item, owners: Mapping[UUID, Sequence[Dataset]], most: int) -> list[Item]:
    """A column once for each of its datasets; anything else as it is."""
    if item.found.kind is not Kind.column:
        return [item]
    datasets = owners.get(item.found.id, ())[:most]
    return [item._replace(id=each.id, namespace=each.namespace, dataset=each) for each in datasets]


def _without_twins(items: Sequence[Item]) -> Iterator[Item]:
    """A job that is a pipeline is shown as that."""
    pipelines = {item.id for item in items if item.found.kind is Kind.pipeline}
    return (item for item in items if item.found.kind is not Kind.job or item.id not in pipelines)
