"""Every kind of background work that this version knows."""

from __future__ import annotations

from headgate.server.alerts import jobs as alerts
from headgate.server.anomalies import jobs as anomalies
from headgate.server.incidents import jobs as incidents
from headgate.server.queue import Kind
from headgate.server.tasks import jobs as maintenance
from headgate.settings import Settings

JUDGING: tuple[Kind, ...] = (*anomalies.KINDS, *incidents.KINDS)
# What needs no settings.
KINDS: tuple[Kind, ...] = (*JUDGING, *maintenance.KINDS)


def kinds_of(settings: Settings) -> tuple[Kind, ...]:
    """All of them, as this server is set up."""
    judging = (*anomalies.kinds(settings.anomaly_days), *incidents.kinds(settings.incident_days))
    return (*judging, *maintenance.kinds(settings.tasks_dead_days), *alerts.kinds(settings))
