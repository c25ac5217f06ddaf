"""Searches of one organisation: which questions are asked of the index, in which order, and when to stop asking."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from headgate.domain.names import canonical_urn
from headgate.domain.words import phrase, says_something, tokens
from headgate.server.db.pool import Connection, Record
from headgate.server.index.reader import IndexReader
from headgate.server.references.ids import as_any_id
from headgate.server.search import ranking
from headgate.server.search.describe import Describer, Item, Q
from headgate.server.search.ranking import Found, Kind, Ranking

_INDEXED = (Kind.dataset, Kind.pipeline, Kind.job, Kind.column)
_RUN_ID = re.compile(r"[0-9a-fA-F-]{6,36}")
_UUID_DIGITS = 32
_FEWEST_DIGITS = 6
_APPLICATION = re.compile(r"[\w.:-]*\d[\w.:-]*")
# Entries may turn out to be gone, to be one thing under two kinds, or to stand behind others because they were dropped.
_SPARE = 30
# In some collations ids that only look alike stand between those that begin alike.
_APPLICATIONS = 2000


class Results(NamedTuple):
    items: list[Item]
    is_cut: bool


class SearchStore:
    """Search in one organisation, on a connection that has it set."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._index = IndexReader(conn, organization_id)

    async def is_behind(self) -> bool:
        """Whether something waits to be indexed. To be asked before searching."""
        return await self._index.open()

    async def search(self, text: str, kinds: Sequence[Kind], limit: int) -> Results:
        found = Ranking()
        if Kind.run in kinds:
            found.add(await self._runs(text, limit + 1))
        if (given := as_any_id(text)) is not None:
            found.add(await self._by_id(given, kinds))
        indexed = [kind for kind in _INDEXED if kind in kinds]
        asked = tokens(text)
        is_cut = await self._search_index(found, text, asked, indexed, limit) if indexed and asked else False
        best = found.first(limit + _SPARE)
        describer = Describer(self._conn, self._organization_id)
        items, has_more = await describer.describe(best, phrase(text), limit, only_columns=indexed == [Kind.column])
        return Results(items, is_cut or has_more or len(found) > len(best))

    async def _search_index(
        self, found: Ranking, text: str, asked: Sequence[str], kinds: Sequence[Kind], limit: int
    ) -> bool:
        """Add what the index has, worse fits only while there is room; whether candidates were left out."""
        is_cut = False
        phrases = _phrases(text)
        begun = await self._index.beginning_with(phrases, kinds, limit + _SPARE)
        found.add(ranking.begun(hit, phrases) for hit in begun)
        if len(found) <= limit and len(asked) > 1:
            hits = await self._index.with_all(asked, kinds, limit + 1)
            is_cut = any(hit.is_cut for hit in hits)
            found.add(ranking.with_all(hit, asked) for hit in hits)
        if len(found) <= limit and says_something(asked[0]):
            inner = await self._index.with_inside(phrases[0].split(" "), kinds, limit + 1)
            found.add(ranking.inside(hit, phrases[0]) for hit in inner)
        if not found:
            found.add(await self._similar(asked, kinds, limit + 1))
        return is_cut

    async def _similar(self, asked: Sequence[str], kinds: Sequence[Kind], limit: int) -> list[Found]:
        """What was meant, if words are spelled wrongly."""
        meant = await self._index.meant_by(asked)
        if len(asked) == 1:
            likeness = dict(meant.get(asked[0], ()))
            hits = await self._index.with_words(likeness, kinds, limit)
            return [ranking.similar(hit, asked[0], likeness[hit.tail.partition(" ")[0]]) for hit in hits]
        # A word that nothing is like stands as it is: it may be the beginning of one.
        best = [words[0] if (words := meant.get(token)) else (token, 1.0) for token in asked]
        spelled = [word for word, _ in best]
        if spelled == list(asked):
            return []
        ratio = sum(each for _, each in best) / len(best)
        text = " ".join(spelled)
        hits = await self._index.beginning_with([text], kinds, limit)
        found = hits or await self._index.with_all(spelled, kinds, limit)
        return [ranking.similar(hit, text, ratio) for hit in found]

    async def _runs(self, text: str, limit: int) -> list[Found]:
        found: list[Found] = []
        digits = text.replace("-", "")
        if _RUN_ID.fullmatch(text) and _FEWEST_DIGITS <= len(digits) < _UUID_DIGITS:
            low, high = (UUID(digits.ljust(_UUID_DIGITS, filler)) for filler in "0f")
            rows = await self._fetch(Q.list_runs_by_id, low, high, limit)
            found += [ranking.begun_id(row["run_id"], len(digits)) for row in rows]
        if _APPLICATION.fullmatch(text):
            rows = await self._fetch(Q.list_runs_by_application, text, _APPLICATIONS, limit)
            found += [ranking.begun_application(row["run_id"], row["application_id"], text) for row in rows]
        return found

    async def _by_id(self, given: UUID, kinds: Sequence[Kind]) -> list[Found]:
        rows = await self._fetch(Q.find_id, given)
        return [ranking.exactly(Kind(row["kind"]), row["id"]) for row in rows if row["kind"] in kinds]

    async def _fetch(self, query: str, *arguments: Any) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *arguments)
        return rows


def _phrases(text: str) -> list[str]:
    """What was typed and, if it may be a urn, the name that it stands for."""
    spelled = [phrase(text)]
    if "/" in text and (canonical := phrase(canonical_urn(text))):
        spelled.append(canonical)
    return list(dict.fromkeys(spelled))
