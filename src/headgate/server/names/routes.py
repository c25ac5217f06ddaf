"""Routes for what datasets are called: alias rules, merges and name patterns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import wraps
from typing import Annotated, Any, TypeVar
from uuid import UUID

import asyncpg
from fastapi import Depends, Path, Query, Request

from headgate.domain.names import DEFAULT_PATTERNS, Pattern
from headgate.errors import Conflict, NotFound, Unavailable
from headgate.server.auth import Principal
from headgate.server.db.pool import Record
from headgate.server.deps import Admin, Db, Reader, Writer
from headgate.server.names import schemas
from headgate.server.names.plan import Kind, new_rule
from headgate.server.names.store import Effect, NameStore, Pairs
from headgate.server.names.suggest import Suggestion, suggest
from headgate.server.pagination import Numbered, NumberedPage, Paged, encode_number
from headgate.server.problems import problems
from headgate.server.routing import new_router

MAX_SHOWN = 1000

_NOBODY = UUID(int=0)
_TRIES = 3
_COLLISIONS = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
router = new_router("/api/v1", "names")


class NameAccess:
    """Opens the store for a request. What changed is told to this process at once, to others by a notice."""

    def __init__(self, request: Request, database: Db) -> None:
        self._database = database
        self._tell = request.app.state.organization_changed
        self._bell = request.app.state.bell

    @asynccontextmanager
    async def read(self, caller: Principal) -> AsyncIterator[NameStore]:
        async with self._database.tenant(caller.organization_id) as conn:
            yield NameStore(conn, caller.organization_id)

    @asynccontextmanager
    async def change(self, caller: Principal) -> AsyncIterator[NameStore]:
        async with self.read(caller) as store:
            yield store
        self._tell(caller.organization_id)
        # What failed on datasets that are one now is looked into again.
        self._bell.ring(caller.organization_id)


Answer = TypeVar("Answer")
Item = TypeVar("Item")
Names = Annotated[NameAccess, Depends()]
PatternName = Annotated[str, Path(pattern="^[a-z][a-z0-9_]{0,62}$")]


def _retried(handler: Callable[..., Awaitable[Answer]]) -> Callable[..., Awaitable[Answer]]:
    """A merge changes many rows; where it collides with a writer of some of them, it starts over."""

    @wraps(handler)
    async def patient(*args: Any, **kwargs: Any) -> Answer:
        for _ in range(_TRIES):
            with suppress(*_COLLISIONS):
                return await handler(*args, **kwargs)
        raise Unavailable("other changes were in the way", hint="retry after a moment")

    return patient


@router.get("/aliases")
async def list_alias_rules(caller: Reader, names: Names, page: Numbered) -> schemas.AliasRulesOut:
    """Alias rules in the order in which they are tried; the first that fits a name decides."""
    async with names.read(caller) as store:
        rows, cursor = page.cut(await store.rules(page))
    return schemas.AliasRulesOut(items=[_rule(row) for row in rows], next_cursor=cursor)


@router.post("/aliases/preview")
async def preview_alias_rule(body: schemas.AliasRuleIn, caller: Reader, names: Names) -> schemas.PreviewOut:
    """What a rule would do to the datasets that exist. Nothing is changed."""
    rule = new_rule(body.pattern, body.canonical)
    async with names.read(caller) as store:
        effect = await store.effect(rule, body.position)
    return _preview(effect, [None] * len(effect.changes))


@router.post("/aliases", status_code=201, responses=problems(Conflict))
@_retried
async def create_alias_rule(body: schemas.AliasRuleIn, caller: Writer, names: Names) -> schemas.AppliedOut:
    """Adds a rule and applies it to the datasets that exist: all of it, or nothing."""
    rule = new_rule(body.pattern, body.canonical)
    created_by = caller.subject_id if caller.kind == "user" else None
    async with names.change(caller) as store:
        await store.lock()
        effect = await store.effect(rule, body.position)
        row = await store.add_rule(rule, body.position, created_by)
        merge_ids = await store.apply(effect.changes, row["id"])
    return schemas.AppliedOut(**_preview(effect, merge_ids).model_dump(), rule=_rule(row))


@router.get("/aliases/suggestions")
async def suggest_alias_rules(caller: Reader, names: Names, page: Numbered) -> schemas.SuggestionsOut:
    """Rules that would give datasets with test results the producer they lack, the surest first.

    Found where such a dataset's name ends like that of a dataset which a job writes.
    """
    async with names.read(caller) as store:
        pairs, patterns = await store.orphan_pairs(), await store.patterns()
    # Half a second for thousands of orphans: other requests go on meanwhile.
    suggested = await asyncio.to_thread(suggest, pairs.items, patterns)
    items, cursor = _cut(suggested, page)
    return schemas.SuggestionsOut(items=[_suggestion(each, pairs) for each in items], next_cursor=cursor)


@router.get("/aliases/{rule_id}", responses=problems(NotFound))
async def get_alias_rule(rule_id: UUID, caller: Reader, names: Names) -> schemas.AliasRuleOut:
    """One alias rule."""
    async with names.read(caller) as store:
        return _rule(await store.rule(rule_id))


@router.put("/aliases/{rule_id}", responses=problems(NotFound, Conflict))
@_retried
async def change_alias_rule(
    rule_id: UUID, body: schemas.AliasRuleIn, caller: Writer, names: Names
) -> schemas.ChangedOut:
    """Takes back what a rule did, changes it and applies it anew: all of it, or nothing.

    Without `position` it stays where it is. Other rules are not applied again.
    """
    rule = new_rule(body.pattern, body.canonical)
    async with names.change(caller) as store:
        await store.lock()
        stood = await store.lift_rule(rule_id)
        position = body.position or stood
        undone = await store.undo_rule(rule_id)
        effect = await store.effect(rule, position, instead_of=rule_id)
        row = await store.change_rule(rule_id, rule, position)
        merge_ids = await store.apply(effect.changes, rule_id)
    return schemas.ChangedOut(**_preview(effect, merge_ids).model_dump(), rule=_rule(row), undone=undone)


@router.post("/aliases/{rule_id}/undo", responses=problems(NotFound, Conflict))
@_retried
async def undo_alias_rule(rule_id: UUID, caller: Writer, names: Names) -> schemas.RemovedOut:
    """Takes back what a rule did, and removes it."""
    async with names.change(caller) as store:
        undone = await store.remove_rule(rule_id, undo=True)
    return schemas.RemovedOut(id=rule_id, undone=undone)


@router.delete("/aliases/{rule_id}", responses=problems(NotFound, Conflict))
@_retried
async def delete_alias_rule(
    rule_id: UUID,
    caller: Writer,
    names: Names,
    undo: Annotated[bool, Query(description="Also take back what the rule did")] = False,
) -> schemas.RemovedOut:
    """Removes a rule. What it did stays, unless it is to be undone."""
    async with names.change(caller) as store:
        undone = await store.remove_rule(rule_id, undo=undo)
    return schemas.RemovedOut(id=rule_id, undone=undone)


@router.get("/dataset-merges")
async def list_dataset_merges(caller: Reader, names: Names, page: Paged) -> schemas.MergesOut:
    """Merges, newest first, undone ones too."""
    async with names.read(caller) as store:
        rows, cursor = page.cut(await store.merges(page), "merged_at")
    return schemas.MergesOut(items=[_merge(row) for row in rows], next_cursor=cursor)


@router.post("/dataset-merges", status_code=201, responses=problems(NotFound, Conflict))
@_retried
async def create_dataset_merge(body: schemas.MergeIn, caller: Writer, names: Names) -> schemas.MergeOut:
    """Makes two datasets one. The older one stays; the other's id and names lead to it."""
    async with names.change(caller) as store:
        return _merge(await store.merge(body.one, body.other))


@router.post("/dataset-merges/{merge_id}/undo", responses=problems(NotFound, Conflict))
@_retried
async def undo_dataset_merge(merge_id: UUID, caller: Writer, names: Names) -> schemas.MergeOut:
    """Parts what was merged. What came after the merge stays with the survivor."""
    async with names.change(caller) as store:
        return _merge(await store.undo(merge_id))


@router.get("/name-patterns")
async def list_name_patterns(caller: Reader, names: Names, page: Numbered) -> schemas.PatternsOut:
    """Patterns of partition segments: the defaults, with the organisation's own in place of or after them."""
    async with names.read(caller) as store:
        own = await store.own_patterns()
    items = [_pattern(pattern, is_own=pattern.name in own) for pattern in DEFAULT_PATTERNS.overlaid(own.values())]
    shown, cursor = _cut(items, page)
    return schemas.PatternsOut(items=shown, next_cursor=cursor)


@router.put("/name-patterns/{name}", responses=problems(Conflict))
async def set_name_pattern(
    name: PatternName, body: schemas.PatternIn, caller: Admin, names: Names
) -> schemas.PatternOut:
    """Adds a pattern, or changes one for this organisation. Datasets that exist keep their names."""
    pattern = Pattern(name, body.regex, body.kind, body.enabled)
    async with names.change(caller) as store:
        await store.set_pattern(pattern)
    return _pattern(pattern, is_own=True)


@router.delete("/name-patterns/{name}", status_code=204, responses=problems(NotFound))
async def reset_name_pattern(name: PatternName, caller: Admin, names: Names) -> None:
    """Back to the default; a pattern that has none is removed."""
    async with names.change(caller) as store:
        await store.reset_pattern(name)


def _cut(items: Sequence[Item], page: NumberedPage) -> tuple[list[Item], str | None]:
    """A page of a list that is made anew for each request."""
    begin = 0 if page.number is None else max(0, page.number)
    end = begin + page.limit
    return list(items[begin:end]), encode_number(end, _NOBODY) if end < len(items) else None


def _suggestion(suggestion: Suggestion, pairs: Pairs) -> schemas.SuggestionOut:
    orphan, candidate = suggestion.pairs[0]
    rule = suggestion.rule
    return schemas.SuggestionOut(
        rule=schemas.RuleTextOut(pattern=rule.pattern, canonical=rule.canonical),
        resolves=len(suggestion.pairs),
        orphan=pairs.datasets[orphan.id].out(),
        candidate=pairs.datasets[candidate.id].out(),
        confidence=suggestion.confidence,
        reason=suggestion.reason,
    )


def _rule(row: Record) -> schemas.AliasRuleOut:
    return schemas.AliasRuleOut(**dict(row))


def _merge(row: Record) -> schemas.MergeOut:
    kind = Kind(row["reason"]) if row["reason"] in set(Kind) else Kind.merge
    return schemas.MergeOut(**dict(row), kind=kind)


def _pattern(pattern: Pattern, *, is_own: bool) -> schemas.PatternOut:
    return schemas.PatternOut.model_validate({**pattern._asdict(), "source": "organization" if is_own else "default"})


def _preview(effect: Effect, merge_ids: Sequence[UUID | None]) -> schemas.PreviewOut:
    changes = effect.changes
    shown = [
        schemas.ChangeOut(
            kind=change.kind,
            dataset_id=change.match.dataset_id,
            urn="/".join(change.match.name),
            target_urn="/".join(change.match.target),
            target_id=change.other_id,
            merge_id=merge_id,
        )
        for change, merge_id in zip(changes[:MAX_SHOWN], merge_ids, strict=False)
    ]
    kinds = [change.kind for change in changes]
    return schemas.PreviewOut(
        total=len(changes),
        datasets=len({change.match.dataset_id for change in changes}),
        merges=kinds.count(Kind.merge),
        renames=kinds.count(Kind.rename),
        aliases=kinds.count(Kind.alias),
        orphans_fixed=len(effect.orphans),
        truncated=len(changes) > MAX_SHOWN,
        changes=shown,
        orphans=[
            schemas.OrphanOut(
                dataset_id=orphan.dataset_id, urn="/".join(orphan.name), target_urn="/".join(orphan.target)
            )
            for orphan in effect.orphans[:MAX_SHOWN]
        ],
    )
