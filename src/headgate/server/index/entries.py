"""Entries of the index: what of a dataset, a column, a job or a pipeline can be searched for. Knows no database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID, uuid5

from headgate.domain.words import IN_NAME, MAX_TAIL, Key, keys_of, phrase, spellings

# Names of many columns and pipelines are the same text; the text is who they are.
_NAMED = UUID("5e1f6a0c-6f5b-4c5e-9d0b-3a7a5f0c2b11")
_MAX_BODY = 4000
_MAX_SIZE = 32_767
_PIPELINES = frozenset({"DAG", "PIPELINE", "WORKFLOW"})


class Entry(NamedTuple):
    """Something that can be found. `keys` are sorted, so that equal entries are equal."""

    kind: str
    id: UUID
    namespace: str
    name: str
    body: str
    keys: tuple[Key, ...]
    columns: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return min(len(self.name), _MAX_SIZE)


def dataset_entry(
    dataset_id: UUID,
    namespace: str,
    name: str,
    display_name: str,
    others: Iterable[tuple[str, str]],
    columns: Iterable[str],
) -> Entry:
    """A dataset under all its names."""
    names = [(namespace, name), *others]
    keys = {key for each in names for key in keys_of(*each)}
    if shown := phrase(display_name)[:MAX_TAIL].rstrip():
        keys.add(Key(IN_NAME, shown))
    return _entry("dataset", dataset_id, names, keys, columns)


def job_entry(job_id: UUID, namespace: str, name: str) -> Entry:
    return _entry("job", job_id, [(namespace, name)], keys_of(namespace, name))


def pipeline_entry(namespace: str, name: str) -> Entry:
    return _entry("pipeline", uuid5(_NAMED, f"{namespace}\0{name}"), [(namespace, name)], keys_of(namespace, name))


def column_entry(name: str) -> Entry:
    return _entry("column", column_id(name), [("", name)], keys_of("", name))


def column_id(name: str) -> UUID:
    return uuid5(_NAMED, name)


def is_pipeline(job_type: str | None) -> bool:
    return (job_type or "").upper() in _PIPELINES


def _entry(
    kind: str, entry_id: UUID, names: Sequence[tuple[str, str]], keys: set[Key], columns: Iterable[str] = ()
) -> Entry:
    texts = dict.fromkeys(phrase(f"{space}/{text}") for space, name in names for text in spellings(name))
    body = " | ".join(texts)[:_MAX_BODY]
    return Entry(kind, entry_id, *names[0], body, tuple(sorted(keys)), tuple(sorted(columns)))
