"""Which batch is meant, and what is told of a run that is about one."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.errors import ConfigError, NotFound
from headgate.pipelines.batches import Batch
from headgate.pipelines.config.wording import nearest
from headgate.pipelines.plan import Node
from headgate.pipelines.record import NodeRecord


class ReplayRecord(NodeRecord, kw_only=True):
    """A run of a node that is about a batch of an earlier one, and no part of the node's history.

    `rows_left` are still in the batch; `rows_skipped` are those of a file that it has no more.
    """

    replay_of: str = ""
    rows_left: int = 0
    rows_skipped: int = 0


def pick(found: Sequence[Batch], wanted: str | None, node: Node) -> Batch:
    """The batch whose id begins so; without a wish the newest."""
    if not found:
        raise NotFound(
            f"there is no batch of {node.job_name} in {node.quarantine}",
            hint="what was there was replayed, discarded, or too old",
        )
    if wanted is None:
        return found[-1]
    fitting = [batch for batch in found if batch.note.batch_id.startswith(wanted)]
    exact = [batch for batch in fitting if batch.note.batch_id == wanted]
    if len(fitting) == 1 or exact:
        return (exact or fitting)[0]
    known = [batch.note.batch_id for batch in found]
    if fitting:
        names = ", ".join(batch.note.batch_id for batch in fitting)
        raise ConfigError(f"batch {wanted!r} may be {names}", hint="give more of its id")
    raise NotFound(
        f"there is no batch {wanted!r} of {node.job_name} in {node.quarantine}",
        hint=nearest(wanted, known) or f"the newest is {known[-1]}; `headgate quarantine list` shows all",
    )
