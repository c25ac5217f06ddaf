"""Tells a server, in OpenLineage, what a run does; never stands in the way of the run."""

from headgate.pipelines.emit.watcher import Emitter
from headgate.pipelines.spool import Outbox, Standing

__all__ = ["Emitter", "Outbox", "Standing"]
