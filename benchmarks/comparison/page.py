"""The comparison as Markdown: one line a query, then every edge on which the two agents differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.spark.queries import Query

from benchmarks.comparison.edges import Kinds, Pair, Score, alike, pairs, score

MARKER = "<!-- Everything below is written by `make compare-agents`. -->"


@dataclass(frozen=True)
class Row:
    """One query: the expected edges and those that each agent gave."""

    query: Query
    expected: Kinds
    ours: Kinds
    official: Kinds
    our_tables: set[Pair]
    official_tables: set[Pair]

    @classmethod
    def of(cls, query: Query, ours: Mapping[str, Any], official: Mapping[str, Any]) -> Row:
        expected = pairs(_parsed(query.column_edges))
        return cls(
            query,
            expected,
            alike(pairs(map(tuple, ours["columns"])), expected),
            alike(pairs(map(tuple, official["columns"])), expected),
            set(map(tuple, ours["tables"])),
            set(map(tuple, official["tables"])),
        )

    def columns(self) -> tuple[Kinds, ...]:
        return self.expected, self.ours, self.official

    def tables(self) -> tuple[set[Pair], ...]:
        return self.query.edges, self.our_tables, self.official_tables

    def scores(self) -> tuple[Score, ...]:
        """Tables and columns, of ours and of the official agent."""
        return (
            score(self.our_tables, self.query.edges),
            score(self.official_tables, self.query.edges),
            score(self.ours, self.expected),
            score(self.official, self.expected),
        )


def page(ours: Mapping[str, Any], official: Mapping[str, Any], version: str, queries: Iterable[Query]) -> str:
    rows = [
        Row.of(query, ours["queries"][query.name], official["queries"][query.name])
        for query in queries
        if query.name in ours["queries"]
    ]
    parts = [
        f"Spark {ours['spark']}, openlineage-spark {version}, {len(rows)} queries.",
        "\n".join(_overview(rows)),
        "## Where the two differ",
        "\n\n".join(filter(None, map(_differences, rows))),
        "## Facets",
        "In how many of the queries' events each facet came:",
        "\n".join(_facets(ours["queries"].values(), official["queries"].values())),
    ]
    return "\n\n".join(parts) + "\n"


def _parsed(edges: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    for edge in edges:
        target, _, origin = edge.partition(" <- ")
        source, _, kind = origin.rpartition(" ")
        yield target, source, kind


def _overview(rows: list[Row]) -> Iterator[str]:
    yield "| query | table edges | ours | openlineage-spark | column edges | ours | openlineage-spark |"
    yield "|---|---|---|---|---|---|---|"
    totals = [Score()] * 4
    for row in rows:
        totals = [total + one for total, one in zip(totals, row.scores(), strict=True)]
        yield _counted(row.query.name, len(row.query.edges), len(row.expected), row.scores())
    tables, columns = sum(len(row.query.edges) for row in rows), sum(len(row.expected) for row in rows)
    yield _counted("**all**", tables, columns, totals)


def _counted(name: str, tables: int, columns: int, scores: Sequence[Score]) -> str:
    return _line(name, tables, *scores[:2], columns, *scores[2:])


def _differences(row: Row) -> str:
    known = sorted({*row.expected, *row.ours, *row.official})
    columns = [
        _line(f"`{target} <- {source}`", *(_kinds(side.get((target, source))) for side in row.columns()))
        for target, source in known
        if row.ours.get((target, source)) != row.official.get((target, source))
    ]
    tables = [
        _line(f"`{target} <- {source}`", *("yes" if (source, target) in side else "–" for side in row.tables()))
        for source, target in sorted(row.our_tables ^ row.official_tables)
    ]
    if not columns and not tables:
        return ""
    head = [f"### {row.query.name}", "", "| edge | expected | ours | openlineage-spark |", "|---|---|---|---|"]
    return "\n".join([*head, *tables, *columns])


def _facets(ours: Iterable[Mapping[str, Any]], official: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    mine, theirs = (Counter(facet for query in side for facet in query["facets"]) for side in (ours, official))
    yield "| facet | ours | openlineage-spark |"
    yield "|---|---|---|"
    for facet in sorted({*mine, *theirs}):
        where, _, name = facet.partition(" ")
        yield _line(f"{where} `{name}`", mine[facet] or "", theirs[facet] or "")


def _kinds(kinds: frozenset[str] | None) -> str:
    return ", ".join(sorted(kinds)) if kinds else "–"


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"
