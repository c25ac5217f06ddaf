"""Alias rules, merges and name patterns of one organisation in the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import UUID

import asyncpg

from headgate.domain.names import (
    DEFAULT_PATTERNS,
    AliasRule,
    Pattern,
    Patterns,
    compile_rules,
)
from headgate.errors import ConfigError, Conflict, FieldError, InvalidFields, NotFound
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.names.plan import Change, Kind, Match, Name, Orphan, matches, orphans_fixed, plan
from headgate.server.names.suggest import Named, Pair
from headgate.server.pagination import NumberedPage, Page
from headgate.server.references.datasets import Dataset

NOTICES = "headgate_organization"
MAX_RULES = 1000
MAX_PATTERNS = 100
# Events of the organisation wait while a rule is applied, so one rule may not take minutes.
MAX_CHANGES = 5000
# Suggestions look at so many tested datasets, and for each at so many of the same last part.
MAX_TESTED = 5000
MAX_NAMESAKES = 10

_REFUSED_MERGE = "HG003"
_NAMES_AT_ONCE = 5000
_defaults = frozenset(pattern.name for pattern in DEFAULT_PATTERNS.items)
_sql = Queries("headgate.server.names")


class Effect(NamedTuple):
    """What a rule does to the datasets that exist."""

    changes: list[Change]
    orphans: list[Orphan]


class Pairs(NamedTuple):
    """Tested datasets without a producer, with those that they may be, and all of them by id."""

    items: list[Pair]
    datasets: dict[UUID, Dataset]


class NameStore:
    """The names of one organisation, on a connection that has it set."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def lock(self) -> None:
        """Keep events out until the transaction ends; to be asked for before anything else is changed."""
        await self._conn.execute(_sql.lock_names, self._organization_id)

    async def rules(self, page: NumberedPage) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(
            _sql.list_rules, self._organization_id, page.number, page.id, page.limit + 1
        )
        return rows

    async def rule(self, rule_id: UUID) -> Record:
        row = await self._conn.fetchrow(_sql.get_rule, self._organization_id, rule_id)
        if row is None:
            raise _no_rule(rule_id)
        return row

    async def effect(self, rule: AliasRule, position: int | None, instead_of: UUID | None = None) -> Effect:
        """What the rule would do at this position, or after all others."""
        rows = await self._conn.fetch(_sql.list_all_rules, self._organization_id)
        others = [row for row in rows if row["id"] != instead_of]
        before = [row for row in others if position is None or row["position"] < position]
        earlier = compile_rules((row["pattern"], row["canonical"]) for row in before)
        found = await self._matches(rule, earlier)
        targets = sorted({match.target for match in found})
        changes = plan(found, await self._holders(targets))
        return Effect(changes, await self._orphans_fixed(changes))

    async def add_rule(self, rule: AliasRule, position: int | None, created_by: UUID | None) -> Record:
        rows = await self._conn.fetch(_sql.list_all_rules, self._organization_id)
        if len(rows) >= MAX_RULES:
            raise Conflict(
                f"the organisation has {MAX_RULES} alias rules", hint="remove some, or use variables in patterns"
            )
        place = await self._make_room(rows, rule, position)
        row = await self._conn.fetchrow(
            _sql.insert_rule, self._organization_id, place, rule.pattern, rule.canonical, created_by
        )
        await self._announce()
        return row

    async def lift_rule(self, rule_id: UUID) -> int:
        """Let the other rules stand as if this one were not there; where it stood."""
        position: int = (await self.rule(rule_id))["position"]
        await self._conn.execute(_sql.close_gap_of_rule, self._organization_id, position)
        return position

    async def change_rule(self, rule_id: UUID, rule: AliasRule, position: int) -> Record:
        """Make a rule that was lifted another one; what it did stays."""
        rows = await self._conn.fetch(_sql.list_all_rules, self._organization_id)
        place = await self._make_room([row for row in rows if row["id"] != rule_id], rule, position)
        row = await self._conn.fetchrow(
            _sql.update_rule, self._organization_id, rule_id, place, rule.pattern, rule.canonical
        )
        await self._announce()
        return row

    async def _make_room(self, others: Sequence[Record], rule: AliasRule, position: int | None) -> int:
        """Where the rule comes to stand among the others, if none of them is for the same pattern."""
        same = next((row for row in others if row["pattern"] == rule.pattern), None)
        if same is not None:
            raise Conflict(
                f"there is already a rule for {rule.pattern!r}", hint=f"remove the rule '{same['id']}' first"
            )
        end = others[-1]["position"] + 1 if others else 1
        place = end if position is None else min(position, end)
        await self._conn.execute(_sql.make_room_for_rule, self._organization_id, place)
        return place

    async def apply(self, changes: Sequence[Change], rule_id: UUID) -> list[UUID | None]:
        """Carry out a plan; for each change the id that undoes it, or None if there was nothing to do."""
        if len(changes) > MAX_CHANGES:
            raise Conflict(
                f"the rule would change {len(changes)} datasets, more than {MAX_CHANGES} at once",
                hint="narrow the pattern and make several rules",
            )
        return [await self._apply(change, rule_id) for change in changes]

    async def remove_rule(self, rule_id: UUID, *, undo: bool) -> int:
        """Remove a rule and, if wanted, what it did; how many changes were undone."""
        await self.lock()
        await self.lift_rule(rule_id)
        await self._conn.execute(_sql.delete_rule, self._organization_id, rule_id)
        await self._announce()
        return await self.undo_rule(rule_id) if undo else 0

    async def undo_rule(self, rule_id: UUID) -> int:
        """Take back what a rule did; how many changes that were."""
        rows = await self._conn.fetch(_sql.list_rule_merges, self._organization_id, rule_id)
        for row in rows:
            await self.undo(row["id"])
        return len(rows)

    async def orphan_pairs(self) -> Pairs:
        """Tested datasets without a producer, and written ones whose names have the same last part."""
        orphans = await self._conn.fetch(_sql.list_orphans, self._organization_id, MAX_TESTED)
        parts = list({row["last_part"] for row in orphans})
        written = await self._conn.fetch(_sql.list_written_namesakes, self._organization_id, parts, MAX_NAMESAKES)
        namesakes: dict[str, list[Dataset]] = defaultdict(list)
        for row in written:
            namesakes[row["last_part"]].append(_dataset(row))
        datasets = [_dataset(row) for row in (*orphans, *written)]
        items = [
            Pair(Named(*row[:3]), Named(*candidate[:3])) for row in orphans for candidate in namesakes[row["last_part"]]
        ]
        return Pairs(items, {dataset.id: dataset for dataset in datasets})

    async def merges(self, page: Page) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(
            _sql.list_merges, self._organization_id, page.at, page.id, page.limit + 1, None
        )
        return rows

    async def merge(self, one: UUID, other: UUID) -> Record:
        for dataset_id in (one, other):
            if not await self._conn.fetchval(_sql.count_datasets, self._organization_id, [dataset_id]):
                raise NotFound(f"there is no dataset '{dataset_id}' in this organisation")
        async with _refusals():
            merge_id = await self._conn.fetchval(_sql.merge_datasets, self._organization_id, one, other, "manual", None)
        if merge_id is None:
            raise Conflict(f"'{one}' and '{other}' are one dataset already")
        return await self._merge(merge_id)

    async def undo(self, merge_id: UUID) -> Record:
        merge = await self._merge(merge_id)
        if merge is None:
            raise NotFound(f"there is no merge '{merge_id}' in this organisation")
        async with _refusals():
            await self._conn.execute(_sql.undo_merge, self._organization_id, merge_id)
        return await self._merge(merge_id)

    async def own_patterns(self) -> dict[str, Pattern]:
        rows = await self._conn.fetch(_sql.list_patterns, self._organization_id)
        return {row["name"]: Pattern(**dict(row)) for row in rows}

    async def patterns(self) -> Patterns:
        """The patterns that apply: the defaults, with the organisation's own laid over them."""
        return DEFAULT_PATTERNS.with_own((await self.own_patterns()).values())

    async def set_pattern(self, pattern: Pattern) -> None:
        own = await self.own_patterns()
        try:
            DEFAULT_PATTERNS.with_own((own | {pattern.name: pattern}).values())
        except ConfigError as error:
            raise InvalidFields([FieldError("regex", error.message, pattern.regex[:120])], hint=error.hint) from error
        if pattern.name not in own and len(own) >= MAX_PATTERNS:
            raise Conflict(
                f"the organisation has {MAX_PATTERNS} name patterns of its own", hint="remove or combine some"
            )
        await self._conn.execute(_sql.upsert_pattern, self._organization_id, *pattern)
        await self._announce()

    async def reset_pattern(self, name: str) -> None:
        row = await self._conn.fetchrow(_sql.delete_pattern, self._organization_id, name)
        if row is None and name not in _defaults:
            raise NotFound(f"there is no name pattern {name!r}", hint="see GET /api/v1/name-patterns")
        await self._announce()

    async def _matches(self, rule: AliasRule, earlier: Sequence[AliasRule]) -> list[Match]:
        patterns = await self.patterns()
        found: list[Match] = []
        # In portions: an organisation may have a million names, and others want their turn meanwhile.
        names = await self._conn.cursor(_sql.list_names, self._organization_id)
        while rows := await names.fetch(_NAMES_AT_ONCE):
            found += matches(rows, rule, earlier, patterns)
        return found

    async def _holders(self, targets: Sequence[Name]) -> dict[Name, UUID]:
        rows = await self._conn.fetch(
            _sql.find_names,
            self._organization_id,
            [namespace for namespace, _ in targets],
            [name for _, name in targets],
        )
        return {(row["namespace"], row["name"]): row["dataset_id"] for row in rows}

    async def _orphans_fixed(self, changes: Sequence[Change]) -> list[Orphan]:
        joined = [change for change in changes if change.kind is Kind.merge]
        ids = {change.match.dataset_id for change in joined} | {
            change.other_id for change in joined if change.other_id is not None
        }
        rows = await self._conn.fetch(_sql.list_evidence, self._organization_id, list(ids))
        written = {row["id"] for row in rows if row["is_written"]}
        tested = {row["id"] for row in rows if row["is_tested"]}
        return orphans_fixed(joined, written, tested)

    async def _apply(self, change: Change, rule_id: UUID) -> UUID | None:
        match = change.match
        query = _sql.merge_datasets if change.kind is Kind.merge else _sql.rename_dataset
        arguments: tuple[object, ...] = (match.dataset_id, change.other_id, "rule", rule_id)
        if change.kind is not Kind.merge:
            is_primary = change.kind is Kind.rename
            arguments = (match.dataset_id, *match.target, match.target_display, is_primary, rule_id)
        async with _refusals():
            merge_id: UUID | None = await self._conn.fetchval(query, self._organization_id, *arguments)
        return merge_id

    async def _merge(self, merge_id: UUID) -> Record:
        return await self._conn.fetchrow(_sql.list_merges, self._organization_id, None, None, 1, merge_id)

    async def _announce(self) -> None:
        await self._conn.execute(_sql.notify, NOTICES, str(self._organization_id))


def _dataset(row: Record) -> Dataset:
    return Dataset(row["id"], row["namespace"], row["name"], row["display_name"], row["type"])


def _no_rule(rule_id: UUID) -> NotFound:
    return NotFound(f"there is no alias rule '{rule_id}' in this organisation", hint="list them at /api/v1/aliases")


@asynccontextmanager
async def _refusals() -> AsyncIterator[None]:
    """What the database refuses in so many words is a conflict."""
    try:
        yield
    except asyncpg.PostgresError as error:
        if error.sqlstate != _REFUSED_MERGE:
            raise
        raise Conflict(str(error), hint=error.hint) from error
