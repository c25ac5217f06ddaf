"""Symlinks: a path and its catalog table are one dataset, under either name."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.server.ingest.context import Context, Q
from headgate.server.ingest.rows import Content


async def link_symlinks(context: Context, contents: Sequence[Content]) -> None:
    """Make each symlink an alias of its dataset; where both already stand, merge them into the older."""
    wanted = {link[:2]: content.dataset_id for content in contents for link in content.use.symlinks}
    keys = sorted(wanted)
    rows = await context.conn.fetch(
        Q.find_aliases, context.organization_id, [key[0] for key in keys], [key[1] for key in keys]
    )
    known = {(row["namespace"], row["name"]): row["dataset_id"] for row in rows}
    for key in keys:
        dataset_id = wanted[key]
        other = known.get(key)
        if other is None:
            await context.conn.execute(Q.insert_alias, context.organization_id, *key, dataset_id, "symlink")
        elif other != dataset_id:
            await context.conn.fetchval(Q.merge_datasets, context.organization_id, dataset_id, other, "symlink")
