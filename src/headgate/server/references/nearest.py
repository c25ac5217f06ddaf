"""Names that come nearest to one that leads nowhere: what a not-found answer suggests.

Looks among names that begin alike, which are there at once, and among those that the index of words has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from headgate.domain.words import alike, last_part, tokens
from headgate.server.db.pool import Connection
from headgate.server.db.queries import Queries
from headgate.server.index.reader import IndexReader

Q = Queries("headgate.server.references")

SUGGESTED = 3

_LIKENESS = 0.6
_CANDIDATES = 200
# Long names are compared by their ends, where they differ; comparing costs the square of the length.
_COMPARED = 200

Name = tuple[str, str]


async def nearest_datasets(conn: Connection, organization_id: UUID, text: str) -> list[str]:
    """Up to three urns of datasets whose names look like `text`."""
    return await _nearest(conn, organization_id, text.strip(), "dataset", Q.list_candidates)


async def nearest_jobs(conn: Connection, organization_id: UUID, text: str) -> list[str]:
    """Up to three jobs whose names look like `text`, as `namespace/name`."""
    return await _nearest(conn, organization_id, text.strip(), "job", Q.list_job_candidates)


async def _nearest(conn: Connection, organization_id: UUID, text: str, kind: str, beginning: str) -> list[str]:
    if not text or "\0" in text:
        return []
    names: set[Name] = set()
    for letter in {letter for part in _parts(text) for letter in (part[0], part[0].lower(), part[0].upper())}:
        rows = await conn.fetch(beginning, organization_id, letter, letter + "\U0010ffff")
        names.update((row["namespace"], row["name"]) for row in rows)
    ids = await _indexed(IndexReader(conn, organization_id), text, kind)
    rows = await conn.fetch(Q.list_indexed_names, organization_id, kind, ids)
    names.update((row["namespace"], row["name"]) for row in rows)
    return likest(text, names)


async def _indexed(index: IndexReader, text: str, kind: str) -> list[UUID]:
    """What has the words of the text, each spelled as it most likely was meant."""
    await index.open()
    asked = tokens(text)
    meant = await index.meant_by(asked)
    spelled = [meant[token][0][0] if meant.get(token) else token for token in asked]
    if not spelled:
        return []
    whole = await index.with_all(spelled, [kind], _CANDIDATES)
    last = [word for word, _ in meant.get(asked[-1], [])]
    some = await index.with_words(last, [kind], _CANDIDATES)
    return list({hit.id for hit in whole} | {hit.id for hit in some})


def likest(text: str, names: Iterable[Name]) -> list[str]:
    """Those of the names that look like the text, or like a part of it if none looks like all of it."""
    spelled: dict[str, str] = {}
    for namespace, name in sorted(names):
        urn = f"{namespace}/{name}"
        for each in (last_part(name), name, urn):
            spelled.setdefault(each, urn)
    folded: dict[str, list[str]] = defaultdict(list)
    for each, urn in spelled.items():
        folded[_folded(each)].append(urn)
    for asked in _parts(text):
        if close := alike(_folded(asked), folded, 2 * SUGGESTED, _LIKENESS):
            return list(dict.fromkeys(urn for each, _ in close for urn in folded[each]))[:SUGGESTED]
    return []


def _folded(text: str) -> str:
    """What is compared: case makes no difference."""
    return text.casefold()[-_COMPARED:]


def _parts(text: str) -> list[str]:
    """The text, its name without a namespace, and the last part of that."""
    name = last_part(text)
    return list(dict.fromkeys((text, name, last_part(name))))
