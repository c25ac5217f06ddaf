"""How long anomalies are kept: what was closed long ago is removed, but nothing that somebody still looks into."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from headgate.server.anomalies import jobs
from headgate.server.kinds import kinds_of
from headgate.server.queue import Kind
from headgate.server.worker import Worker
from headgate.settings import Settings
from tests.support.anomalies import Judging, NewJudging

LONG_AGO = timedelta(days=366)


async def an_incident(judging: Judging, status: str, number: int) -> UUID:
    found: UUID = await judging.db.fetchval(
        """INSERT INTO incidents (organization_id, number, title, severity, kind, status, opened_at, last_seen_at)
           VALUES ($1, $2, 'too few rows', 'CRITICAL', 'RowCountDrop', $3, now(), now()) RETURNING id""",
        judging.organization_id,
        number,
        status,
    )
    return found


async def an_anomaly(judging: Judging, name: str, status: str, *, changed: timedelta = LONG_AGO, **more: Any) -> None:
    """One that was found long ago and last changed so long ago; the name is its description."""
    await judging.db.execute(
        """INSERT INTO anomalies (organization_id, anomaly_type, severity, observed_at, detected_at, updated_at,
                                  description, occasion, source, status, incident_id)
           VALUES ($1, 'RowCountDrop', 'CRITICAL', now(), now() - $2::interval, now() - $3::interval, $4, $4,
                   'detector', $5, $6)""",
        judging.organization_id,
        LONG_AGO,
        changed,
        name,
        status,
        more.get("incident_id"),
    )


async def cleaned(judging: Judging, kind: Kind) -> set[str]:
    """What is left after a round."""
    worker = Worker(judging.database, [kind])
    await worker.schedule()
    await worker.drain()
    return {row["description"] for row in await judging.anomalies()}


def the_cleaning(**settings: Any) -> Kind:
    kinds = kinds_of(Settings(_env_file=None, **settings))
    return next(kind for kind in kinds if kind.task_type == "CLEAN_ANOMALIES")


async def test_what_was_closed_long_ago_is_removed(judging: Judging) -> None:
    for status in ("OPEN", "ACKNOWLEDGED", "ALERTED", "RESOLVED", "FALSE_POSITIVE"):
        await an_anomaly(judging, status, status)
    await an_anomaly(judging, "closed lately", "RESOLVED", changed=timedelta(days=364))

    assert await cleaned(judging, the_cleaning()) == {"OPEN", "ACKNOWLEDGED", "ALERTED", "closed lately"}


async def test_what_belongs_to_an_incident_that_goes_on_is_kept(judging: Judging) -> None:
    for number, status in enumerate(("open", "acknowledged", "muted", "resolved"), start=1):
        incident_id = await an_incident(judging, status, number)
        await an_anomaly(judging, status, "RESOLVED", incident_id=incident_id)

    assert await cleaned(judging, the_cleaning()) == {"open", "acknowledged", "muted"}


async def test_the_days_are_a_setting(judging: Judging) -> None:
    await an_anomaly(judging, "40 days", "RESOLVED", changed=timedelta(days=40))
    await an_anomaly(judging, "60 days", "RESOLVED", changed=timedelta(days=60))

    assert await cleaned(judging, the_cleaning(anomaly_days=50)) == {"40 days"}


async def test_so_many_that_it_takes_several_transactions_are_removed(
    judging: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "CLEANUP_BATCH", 2)
    for number in range(5):
        await an_anomaly(judging, str(number), ("RESOLVED", "FALSE_POSITIVE")[number % 2])
    cleaning = jobs.AnomalyCleaning(365, clock=lambda: datetime.now(UTC))

    assert await cleaned(judging, Kind("CLEAN_ANOMALIES", send=cleaning.send, every_s=3600)) == set()


async def test_other_organisations_are_left_alone(new_judging: NewJudging) -> None:
    ours, theirs = await new_judging(), await new_judging()
    await an_anomaly(theirs, "theirs", "RESOLVED")
    await jobs.AnomalyCleaning(365).send(ours.database, ours.batch())

    assert len(await theirs.anomalies()) == 1


@pytest.mark.parametrize("days", [30, 36_501])
def test_how_long_anomalies_are_kept_has_its_bounds(days: int) -> None:
    assert Settings(_env_file=None).anomaly_days == 365
    with pytest.raises(ValueError, match="anomaly_days"):
        Settings(anomaly_days=days, _env_file=None)
