"""Says why a column has no lineage in a direction, from who writes or reads its dataset and what of that is gone.

Reads no database.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

_MAX_NAMED = 3


class Reason(NamedTuple):
    code: str
    message: str


class User(NamedTuple):
    """A job that writes or reads a dataset, and whether it sends column lineage."""

    name: str
    tells: bool


class Gone(NamedTuple):
    """A dropped or renamed dataset at an end of a column's edges; it may be the column's own."""

    column: str
    dataset: str
    is_own: bool
    is_renamed: bool

    @property
    def fate(self) -> str:
        return f"{self.dataset!r} was {'renamed' if self.is_renamed else 'dropped'}"


class Losses:
    """What has gone from the edges of a dataset in one direction, by column."""

    def __init__(self, gone: Iterable[Gone]) -> None:
        self._all = list(gone)
        self._own: dict[str, list[Gone]] = {}
        self._in_parts: dict[str, list[Gone]] = {}
        for item in self._all:
            self._own.setdefault(item.column, []).append(item)
            for whole in _wholes(item.column):
                self._in_parts.setdefault(whole, []).append(item)

    def of(self, column: str | None) -> list[Gone]:
        """What a column, its parts and what it is part of have lost; without a column, what all of them have."""
        if column is None:
            return self._all
        wholes = (item for whole in _wholes(column) for item in self._own.get(whole, ()))
        return [*self._own.get(column, ()), *self._in_parts.get(column, ()), *wholes]


def why_no_source(column: str | None, fields: Collection[str], writers: Sequence[User], losses: Losses) -> Reason:
    """Why nothing is known that a column comes from; without a column, why of none of them."""
    what = "the columns" if column is None else repr(column)
    if gone := losses.of(column):
        return _lost("source_gone", f"what {what} came from is gone", gone)
    if column is not None and fields and column not in fields:
        return Reason("not_in_schema", f"{column!r} is not in the current schema of the dataset")
    if not writers:
        return Reason("no_producer", "nothing is known to write this dataset: it is external")
    tellers = [job for job in writers if job.tells]
    if not tellers:
        said = _said(writers, "writes this dataset and sends", "write this dataset and send")
        return Reason("producer_sends_none", f"{said} no column lineage")
    said = _said(tellers, "sends column lineage and names", "send column lineage and name")
    which = "any column" if column is None else f"{column!r}: it is constant or generated"
    return Reason("no_source_named", f"{said} no source for {which}")


def why_no_use(column: str, readers: Sequence[User], losses: Losses) -> Reason:
    """Why nothing is known that is made of a column."""
    if gone := losses.of(column):
        return _lost("target_gone", f"what was made of {column!r} is gone", gone)
    if not readers:
        return Reason("no_reader", "nothing is known to read this dataset")
    tellers = [job for job in readers if job.tells]
    if not tellers:
        said = _said(readers, "reads this dataset and sends", "read this dataset and send")
        return Reason("reader_sends_none", f"{said} no column lineage")
    said = _said(tellers, "sends column lineage and makes", "send column lineage and make")
    return Reason("not_read", f"{said} nothing of {column!r}")


def without_source(fields: Sequence[str], read: Iterable[str], sourced: Collection[str]) -> list[str]:
    """Columns without a source: those of the schema, then those that are only known because others read them.

    A nested column has the sources of what it is part of, and a record those of its parts.
    """
    names = dict.fromkeys((*fields, *sorted(set(read) - set(fields))))
    own = set(sourced)
    in_parts = {whole for name in own for whole in _wholes(name)}
    return [name for name in names if name not in own and name not in in_parts and own.isdisjoint(_wholes(name))]


def _wholes(name: str) -> Iterator[str]:
    """What a nested column is part of: `a.b.c` is part of `a.b` and of `a`."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _lost(code: str, what: str, gone: Sequence[Gone]) -> Reason:
    own = [item for item in gone if item.is_own]
    if own:
        return Reason("dataset_gone", f"this dataset is gone, and its lineage with it: {own[0].fate}")
    fates = list(dict.fromkeys(item.fate for item in gone))
    more = f" and {len(fates) - _MAX_NAMED} more" if len(fates) > _MAX_NAMED else ""
    return Reason(code, f"{what}: {', '.join(fates[:_MAX_NAMED])}{more}")


def _said(jobs: Sequence[User], one: str, several: str) -> str:
    shown = ", ".join(repr(job.name) for job in jobs[:_MAX_NAMED])
    more = f" and {len(jobs) - _MAX_NAMED} more" if len(jobs) > _MAX_NAMED else ""
    return f"{shown}{more} {one if len(jobs) == 1 else several}"
