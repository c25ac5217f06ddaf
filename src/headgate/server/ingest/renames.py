"""Renamed datasets: the old name goes, and what led into it leads into the new one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from headgate.server.ingest.context import Context, Q, write_touches
from headgate.server.ingest.memory import NameKey, Touches
from headgate.server.ingest.rows import Content

# A START only announces, and a run that did not complete has not renamed anything that we could rely on.
_UNDONE = frozenset({"START", "FAIL", "ABORT"})


def is_renamed(content: Content) -> bool:
    """Whether a use says that its dataset had another name before."""
    use = content.use
    return use.lifecycle == "RENAME" and use.previous is not None and content.facts.event_type not in _UNDONE


async def carry_renamed(context: Context, contents: Sequence[Content]) -> None:
    """Carry the lineage of each old name over, moment by moment; a name that nobody has sent has none."""
    moments: dict[datetime, dict[NameKey, UUID]] = {}
    for content in contents:
        assert content.use.previous is not None
        moments.setdefault(content.facts.event_time, {})[content.use.previous[:2]] = content.dataset_id
    known = await _find(context, {key for renamed in moments.values() for key in renamed})
    await _settle(context, set(known.values()))
    for at in sorted(moments):
        pairs = [(known[key], dataset_id) for key, dataset_id in sorted(moments[at].items()) if key in known]
        if pairs:
            old, new = zip(*pairs, strict=True)
            await context.conn.execute(Q.carry_lineage, context.organization_id, list(old), list(new), at)


async def _find(context: Context, keys: Iterable[NameKey]) -> dict[NameKey, UUID]:
    wanted = sorted(keys)
    namespaces, names = [key[0] for key in wanted], [key[1] for key in wanted]
    rows = await context.conn.fetch(Q.find_aliases, context.organization_id, namespaces, names)
    return {(row["namespace"], row["name"]): row["dataset_id"] for row in rows}


async def _settle(context: Context, datasets: set[UUID]) -> None:
    """Write now when these were last written to: whether they still are decides what is carried."""
    seen = Touches()
    for touches in (*context.pending, context.touches):
        for use, times in touches.uses.items():
            if use[1] in datasets:
                seen.add_use(use, *times)
        for edge, span in touches.edges.items():
            if edge[1] in datasets:
                seen.add_edge(edge, *span)
    if seen:
        await write_touches(context.conn, context.organization_id, seen)
