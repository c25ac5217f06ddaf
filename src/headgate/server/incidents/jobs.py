"""Background work on incidents: looking into what went wrong, and tending what is open."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from headgate.domain.incident import Status
from headgate.server.cleaning import Cleaning
from headgate.server.db.pool import Connection, Record
from headgate.server.incidents.correlation import symptoms
from headgate.server.incidents.correlation.correlate import Correlator
from headgate.server.incidents.correlation.telling import Telling
from headgate.server.incidents.ending.clearing import Clearing
from headgate.server.incidents.ending.tending import Tending
from headgate.server.incidents.record.history import History
from headgate.server.incidents.store import Q
from headgate.server.queue import CORRELATE_PRIORITY, Batch, Kind, NewTask, Task, content_hash, enqueue

log = logging.getLogger("headgate.incidents")

BATCH: Final = 100
TEND_S: Final = 60
CLEANUP_BATCH: Final = 100
# A run may tell of tests before it has ended, and say something else then. It is looked at again after so long.
WAITS_S: Final = (2.0, 10.0, 60.0, 300.0, 900.0, 3600.0)
_NOT_YET: Final = frozenset({"START", "RUNNING", "OTHER"})
_ENDLESS: Final = frozenset({"STREAMING", "SERVICE"})


class Correlation:
    """What a task of the kind CORRELATE comes to, by what it is about."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._correlator = Correlator(conn, organization_id)
        self._clearing = Clearing(conn, organization_id)
        self._history = History(conn, organization_id)
        self._telling = Telling(conn, organization_id)

    async def do(self, task: Task) -> None:
        match task.payload.get("kind"):
            case "tests":
                await self._tests(task)
            case "run_failed":
                await self._run_failed(UUID(task.resource_id))
            case "anomaly":
                await self._anomaly(UUID(str(task.payload.get("anomaly_id") or task.resource_id)))
            case "judged":
                await self._judged(UUID(task.resource_id))
            case "merged":
                await self._merged([UUID(each) for each in task.payload["dataset_ids"]])
            case other:
                raise ValueError(f"a task of the type CORRELATE says what it is of; kind is {other!r}")

    async def _tests(self, task: Task) -> None:
        run_id, dataset_id = UUID(task.resource_id), task.payload.get("dataset_id")
        of_dataset = None if dataset_id is None else UUID(str(dataset_id))
        run = None
        if run_id != symptoms.NO_RUN:
            run = await symptoms.get_run(self._conn, self._organization_id, run_id)
            if run is not None and await self._waits(task, run):
                return
        found = await symptoms.failed_tests(self._conn, self._organization_id, run_id, of_dataset, run)
        taken: dict[UUID | None, UUID] = {}
        for symptom in found:
            incident_id = await self._correlator.take(symptom)
            if incident_id is not None:
                taken.setdefault(symptom.dataset_id, incident_id)
        if len(found) == symptoms.MAX_FAILURES and taken:
            await self._note_rest(run_id, of_dataset, Counter(symptom.dataset_id for symptom in found), taken)
        await self._clearing.of_tests(run_id, of_dataset)

    async def _note_rest(
        self, run_id: UUID, of_dataset: UUID | None, told: Counter[UUID | None], taken: dict[UUID | None, UUID]
    ) -> None:
        """Of a run with too many failures for a symptom each, how many more there were."""
        for row in await symptoms.count_failures(self._conn, self._organization_id, run_id, of_dataset):
            left = row["failures"] - told[row["dataset_id"]]
            if left <= 0:
                continue
            incident_id = taken.get(row["dataset_id"], next(iter(taken.values())))
            detail = {"left_out": left, "failures": row["failures"], "dataset": row["dataset_name"], "run_id": run_id}
            await self._history.note(incident_id, "symptoms_left_out", detail)
            place = f" on {row['dataset_name']}" if row["dataset_name"] else ""
            title = f"{row['failures']:,} tests failed{place}"
            await self._telling.set_title(incident_id, row["dataset_id"], title)

    async def _waits(self, task: Task, run: Record) -> bool:
        """Whether the run has yet to end; then it is looked at again later, but not for ever."""
        waited = int(task.payload.get("waited", 0))
        if run["state"] not in _NOT_YET or run["processing_type"] in _ENDLESS or waited >= len(WAITS_S):
            return False
        payload = {**task.payload, "waited": waited + 1}
        key = content_hash(task.resource_id, run["last_event_at"], "waits", waited)
        delay_s = WAITS_S[waited]
        again = NewTask(
            "CORRELATE", task.resource_type, task.resource_id, key, payload, CORRELATE_PRIORITY, delay_s=delay_s
        )
        await enqueue(self._conn, self._organization_id, [again])
        return True

    async def _run_failed(self, run_id: UUID) -> None:
        run = await symptoms.get_run(self._conn, self._organization_id, run_id)
        if run is None:
            return
        await self._correlator.replace_runs(run["output_ids"])
        await self._correlator.hear_late(run)
        symptom = await symptoms.failed_run(self._conn, self._organization_id, run)
        if symptom is not None:
            await self._correlator.take(symptom)
        await self._clearing.of_run(run["job_id"], [])

    async def _anomaly(self, anomaly_id: UUID) -> None:
        row, symptom = await symptoms.anomaly(self._conn, self._organization_id, anomaly_id)
        if row is None:
            return
        if row["status"] in ("RESOLVED", "FALSE_POSITIVE"):
            await self._clearing.of_anomaly(anomaly_id)
        elif symptom is None:
            if row["status"] == "OPEN":
                await self._history.tell_anomaly(anomaly_id, row["anomaly_type"])
        elif not await self._revives(anomaly_id, row["incident_id"]):
            await self._hear_late(row["run_id"])
            await self._correlator.take(symptom)

    async def _hear_late(self, run_id: UUID | None) -> None:
        run = None if run_id is None else await symptoms.get_run(self._conn, self._organization_id, run_id)
        if run is not None:
            await self._correlator.hear_late(run)

    async def _revives(self, anomaly_id: UUID, incident_id: UUID | None) -> bool:
        """Whether an anomaly that somebody had resolved is open again; then its incident is, too."""
        if incident_id is None:
            return False
        rows = await self._clearing.undo_of_anomaly(anomaly_id, incident_id)
        for row in rows:
            if row["status"] == Status.resolved:
                await self._correlator.reopen(incident_id, datetime.now(UTC), "the anomaly is open again")
        return bool(rows)

    async def _merged(self, dataset_ids: Sequence[UUID]) -> None:
        """Datasets became one, or two again: what failed on them may be of a run that it was not of before."""
        parted = await self._conn.fetch(Q.forget_producers, self._organization_id, list(dataset_ids))
        await self._correlator.replace_runs(dataset_ids)
        await self._correlator.rename(dataset_ids)
        for row in parted:
            detail = {"reason": "what the run wrote is another dataset"}
            await self._history.note(row["incident_id"], "symptom_moved", detail)
            await self._correlator.renew(row["incident_id"])
            await self._correlator.rerank(row["incident_id"])

    async def _judged(self, run_id: UUID) -> None:
        run = await symptoms.get_run(self._conn, self._organization_id, run_id)
        if run is not None:
            await self._correlator.replace_runs(run["output_ids"])
            await self._correlator.hear_late(run)
            await self._clearing.of_run(run["job_id"], run["output_ids"])


async def correlate(conn: Connection, batch: Batch) -> None:
    """Look into what went wrong, one organisation's worth at a time and nobody else beside."""
    await History(conn, batch.organization_id).lock()
    correlation = Correlation(conn, batch.organization_id)
    for task in await _by_time(conn, batch):
        await correlation.do(task)


async def _by_time(conn: Connection, batch: Batch) -> list[Task]:
    """As it happened: what comes in at once, from a replay, may not be in that order."""
    ids = {task.id: UUID(task.resource_id) for task in batch.tasks}
    times = await symptoms.times_of(conn, batch.organization_id, list(set(ids.values())))
    return sorted(batch.tasks, key=lambda task: (times.get(ids[task.id], task.created_at), task.id))


async def tend(conn: Connection, batch: Batch) -> None:
    """End what is well again although nobody said so, and let go on what was muted for a time."""
    await History(conn, batch.organization_id).lock()
    tending = Tending(conn, batch.organization_id)
    await tending.end_mutes()
    await tending.end_symptoms()


class IncidentCleaning(Cleaning):
    """Removes incidents that ended long ago, with their symptoms and events: a few at a time, there may be many."""

    async def clean(self, conn: Connection, organization_id: UUID, now: datetime, before: datetime) -> bool:
        await History(conn, organization_id).lock()
        gone = await Tending(conn, organization_id).delete_old(before, CLEANUP_BATCH)
        return gone == CLEANUP_BATCH


def kinds(days: int) -> tuple[Kind, ...]:
    """All of them, with incidents kept for so many days after they ended."""
    return (*KINDS, IncidentCleaning(days).kind("CLEAN_INCIDENTS"))


KINDS: tuple[Kind, ...] = (
    Kind("CORRELATE", correlate, batch_size=BATCH),
    Kind("TEND", tend, batch_size=1, every_s=TEND_S),
)
