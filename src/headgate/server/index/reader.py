"""Looks words up in the index. Every question is bounded; it finds candidates and leaves the ranking to the caller."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from headgate.domain.words import MAX_TAIL, after, after_word, alike, can_be_mistyped, pieces
from headgate.server.db.pool import Connection
from headgate.server.index.writer import Q

MAX_INNER_WORDS = 24
MAX_CANDIDATES = 500

_PER_PIECE = 200
_MEANT = 4


class Hit(NamedTuple):
    """An entry, and the tail of its name at which the search met it."""

    kind: str
    id: UUID
    rank: int
    tail: str
    size: int


class WholeHit(NamedTuple):
    """An entry that has all of some words, and everything it is called."""

    kind: str
    id: UUID
    size: int
    body: str
    is_cut: bool


class IndexReader:
    """The index of one organisation, on a connection that has it set."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def open(self) -> bool:
        """Prepare the transaction for reading; whether the index is behind."""
        row = await self._conn.fetchrow(Q.open_index, self._organization_id)
        return bool(row["is_behind"])

    async def beginning_with(self, phrases: Iterable[str], kinds: Sequence[str], limit: int) -> list[Hit]:
        """Entries of which a word, or several in a row, begin like one of these phrases."""
        cut = dict.fromkeys(phrase[:MAX_TAIL].rstrip() for phrase in phrases)
        return await self._in_ranges([(phrase, after(phrase)) for phrase in cut], kinds, limit)

    async def with_words(self, words: Iterable[str], kinds: Sequence[str], limit: int) -> list[Hit]:
        """Entries that have one of these words."""
        return await self._in_ranges([(word, after_word(word)) for word in words], kinds, limit)

    async def with_inside(self, tokens: Sequence[str], kinds: Sequence[str], limit: int) -> list[Hit]:
        """Entries that have these tokens one after the other, the first of them beginning inside a word."""
        first, rest = tokens[0], " ".join(tokens[1:])
        # With more to come the first token ends its word; alone, it may end anywhere in it. No word has a blank.
        high = first + " " if rest else after(first)
        rows = await self._conn.fetch(Q.find_inner_words, self._organization_id, [first], [high], MAX_INNER_WORDS)
        words = list(dict.fromkeys(row["word"] for row in rows))
        if rest:
            begun = [f"{word} {rest}" for word in words]
            return await self._in_ranges([(text, after(text)) for text in begun], kinds, limit)
        return await self.with_words(words, kinds, limit)

    async def with_all(self, tokens: Sequence[str], kinds: Sequence[str], limit: int) -> list[WholeHit]:
        """Entries that have every token somewhere, at least one of them at the beginning of a word."""
        high = [after(token) for token in tokens]
        rows = await self._conn.fetch(
            Q.find_all_words, self._organization_id, kinds, tokens, high, MAX_CANDIDATES, limit
        )
        return [WholeHit(*row) for row in rows]

    async def meant_by(self, tokens: Iterable[str]) -> dict[str, list[tuple[str, float]]]:
        """For each token, words of the index that may have been meant, with their likeness to it."""
        asked = [(token, piece) for token in tokens if can_be_mistyped(token) for piece in pieces(token)]
        if not asked:
            return {}
        low, high = [piece for _, piece in asked], [after(piece) for _, piece in asked]
        rows = await self._conn.fetch(
            Q.find_similar_words, self._organization_id, [token for token, _ in asked], low, high, _PER_PIECE
        )
        candidates: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            candidates[row["token"]].append(row["word"])
        return {token: alike(token, words, _MEANT) for token, words in candidates.items()}

    async def _in_ranges(self, ranges: Sequence[tuple[str, str]], kinds: Sequence[str], limit: int) -> list[Hit]:
        if not ranges:
            return []
        low, high = [begin for begin, _ in ranges], [end for _, end in ranges]
        rows = await self._conn.fetch(Q.find_tails, self._organization_id, kinds, low, high, limit)
        return [Hit(row["kind"], row["id"], row["rank"], row["tail"], row["size"]) for row in rows]
