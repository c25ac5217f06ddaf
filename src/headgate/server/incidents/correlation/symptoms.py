"""What is wrong, as symptoms: failed tests, failed runs and blocked gates, anomalies. Each knows what it is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from headgate.domain.anomaly import AnomalyType, Severity
from headgate.domain.incident import (
    Outright,
    key_of_anomaly,
    key_of_freshness,
    key_of_gate,
    key_of_run,
    key_of_schema,
    key_of_stuck,
    key_of_test,
)
from headgate.domain.masking import without_credentials
from headgate.domain.scene import DatasetRef, Failure, JobRef
from headgate.domain.trace import telling_line
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.incidents.scene.walk import Observed

Q = Queries("headgate.server.incidents.correlation")

MAX_FAILURES: Final = 1000
_MAX_SENTENCE: Final = 500
NO_RUN: Final = UUID(int=0)
TEST_FAILED: Final = Outright.TestFailed
RUN_FAILED: Final = Outright.RunFailed
GATE_BLOCKED: Final = Outright.GateBlocked
_OF_NO_INTEREST: Final = frozenset({"skipped", "published"})


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that is wrong. `run_id` is the run that failed or was measured, or that ran the test."""

    type: str
    key: str
    severity: str
    sentence: str
    observed_at: datetime
    dataset_id: UUID | None = None
    dataset_name: str | None = None
    column: str | None = None
    job_id: UUID | None = None
    run_id: UUID | None = None
    producing_run_id: UUID | None = None
    anomaly_id: UUID | None = None
    test_key: str | None = None
    test_name: str | None = None
    test_status: str | None = None
    # Set if it is known to be well again.
    cleared_at: datetime | None = None
    # Whether the run wrote what was observed, so that no other run may be behind it.
    is_of_run: bool = False

    @property
    def own_run_id(self) -> UUID | None:
        """The run that produced what is wrong, or that is wrong itself."""
        return self.producing_run_id or (self.run_id if self.is_of_run and self.type != TEST_FAILED else None)

    @property
    def origin(self) -> UUID | None:
        """What ties it to others: the run that is behind it or, where none is known, the data itself."""
        return self.own_run_id or self.dataset_id

    @property
    def is_orphan(self) -> bool:
        return self.type == TEST_FAILED and self.dataset_id is not None and self.producing_run_id is None

    def observed(self) -> Observed:
        is_overdue = self.type == AnomalyType.FreshnessMissed
        return Observed(self.observed_at, self.dataset_id, self.column, self.own_run_id, self.is_of_run, is_overdue)

    def failure(self, urn: str | None, job: JobRef | None) -> Failure:
        dataset = None if self.dataset_id is None else DatasetRef(str(self.dataset_id), urn or self.dataset_name or "")
        run_id = None if self.own_run_id is None else str(self.own_run_id)
        detail = None if self.type == TEST_FAILED else self.sentence
        return Failure(self.type, self.observed_at, dataset, self.column, self.test_name, run_id, job, detail)


async def get_run(conn: Connection, organization_id: UUID, run_id: UUID) -> Record | None:
    return await conn.fetchrow(Q.get_run, organization_id, run_id)


async def times_of(conn: Connection, organization_id: UUID, ids: Sequence[UUID]) -> dict[UUID, datetime]:
    """When runs ended, or were last heard of, and when anomalies were observed."""
    return {row["id"]: row["at"] for row in await conn.fetch(Q.list_times, organization_id, ids)}


async def failed_tests(
    conn: Connection, organization_id: UUID, run_id: UUID, dataset_id: UUID | None, run: Record | None
) -> list[Symptom]:
    """The tests of a run that failed, the first ones by name; those of severity warn are no symptoms."""
    rows = await conn.fetch(Q.list_failures, organization_id, run_id, dataset_id, MAX_FAILURES)
    family = set() if run is None else {run["run_id"], run["parent_run_id"]}
    return [_failed_test(row, run_id, family) for row in rows]


async def count_failures(
    conn: Connection, organization_id: UUID, run_id: UUID, dataset_id: UUID | None
) -> Sequence[Record]:
    """How many tests of a run failed, by dataset."""
    rows: Sequence[Record] = await conn.fetch(Q.count_failures, organization_id, run_id, dataset_id)
    return rows


def _failed_test(row: Record, run_id: UUID, family: set[UUID | None]) -> Symptom:
    producing = row["producing_run_id"]
    dataset = row["dataset_id"]
    # A test of no dataset is told apart by the job that runs it.
    key = key_of_test(str(dataset) if dataset else f"job-{row['test_job_id']}", row["test_key"])
    return Symptom(
        TEST_FAILED,
        key,
        Severity.CRITICAL,
        _test_sentence(row),
        row["observed_at"],
        dataset,
        row["dataset_name"],
        row["column_name"],
        row["producing_job_id"] if dataset else row["test_job_id"],
        None if run_id == NO_RUN else run_id,
        producing,
        test_key=row["test_key"],
        test_name=row["name"],
        test_status=row["status"],
        cleared_at=row["passed_at"],
        is_of_run=producing in family,
    )


def _test_sentence(row: Record) -> str:
    column = f" of column {row['column_name']!r}" if row["column_name"] else ""
    place = f" on {row['dataset_name']}" if row["dataset_name"] else ""
    end = "could not be run" if row["status"] == "error" else "failed"
    return _cut(f"test {row['name']!r}{column} {end}{place}")


async def failed_run(conn: Connection, organization_id: UUID, run: Record) -> Symptom | None:
    """What a run that ended badly is a symptom of; None for what was skipped, or what its tests tell of already."""
    status = run["node_status"] or run["pipeline_status"]
    if run["state"] not in ("FAIL", "ABORT") or status in _OF_NO_INTEREST:
        return None
    told = (organization_id, run["run_id"], run["is_test"], run["output_ids"])
    if run["node_status"] is None and await conn.fetchval(Q.has_failed_tests, *told):
        return None
    is_gate = run["node_status"] == "stopped" and run["gate"] is not None
    return Symptom(
        GATE_BLOCKED if is_gate else RUN_FAILED,
        key_of_gate(run["project"], run["pipeline"], run["node"]) if is_gate else key_of_run(str(run["job_id"])),
        Severity.CRITICAL,
        _gate_sentence(run) if is_gate else _run_sentence(run),
        run["ended_at"],
        next(iter(run["output_ids"]), run["usual_output_id"]),
        job_id=run["job_id"],
        run_id=run["run_id"],
        is_of_run=True,
    )


def _gate_sentence(run: Record) -> str:
    return _cut(f"the gate of {run['pipeline']}.{run['node']} kept {run['rows_in']:,} rows from being published")


def _run_sentence(run: Record) -> str:
    end = "was aborted" if run["state"] == "ABORT" else "failed"
    if run["node_status"] == "stopped":
        end = "was stopped by its tests"
    line = telling_line(run["error"])
    return _cut(f"a run of {run['job_name']} {end}{f': {line}' if line else ''}")


async def anomaly(conn: Connection, organization_id: UUID, anomaly_id: UUID) -> tuple[Record | None, Symptom | None]:
    """An anomaly and the symptom that it is; those that merely inform, and changes that break nobody, are none."""
    row = await conn.fetchrow(Q.get_anomaly, organization_id, anomaly_id)
    if row is None or row["severity"] == Severity.INFO:
        return row, None
    if row["anomaly_type"] == AnomalyType.SchemaChange and row["severity"] != Severity.CRITICAL:
        return row, None
    is_of_run = row["run_id"] is not None and not row["is_reader"]
    producing, job_id = row["run_id"], row["job_id"] or row["run_job_id"]
    if not is_of_run and row["dataset_id"] is not None:
        # Whoever reads a table and says what is in it has not written it.
        found = await conn.fetchrow(Q.find_producing_run, organization_id, row["dataset_id"], row["observed_at"])
        job_id = None if row["is_reader"] else job_id
        producing, job_id = (found["run_id"], job_id or found["job_id"]) if found else (None, job_id)
    return row, Symptom(
        row["anomaly_type"],
        _anomaly_key(row, job_id),
        row["severity"],
        _anomaly_sentence(row),
        row["observed_at"],
        row["dataset_id"],
        row["dataset_name"],
        row["column_name"],
        job_id,
        row["run_id"],
        producing,
        anomaly_id=row["id"],
        is_of_run=is_of_run,
    )


def _anomaly_sentence(row: Record) -> str:
    said = without_credentials(row["description"])
    return _cut(f"{row['dataset_name']}: {said}" if row["dataset_name"] else said)


def _anomaly_key(row: Record, job_id: UUID | None) -> str:
    match row["anomaly_type"]:
        case AnomalyType.FreshnessMissed:
            return key_of_freshness(str(row["dataset_id"]))
        case AnomalyType.StuckRun:
            return key_of_stuck(str(job_id))
        case AnomalyType.SchemaChange:
            return key_of_schema(str(row["dataset_id"]), str(row["occasion"] or row["id"]))
    of, what = row["dataset_id"] or job_id, row["metric"] or row["anomaly_type"]
    return key_of_anomaly(str(of), what, row["column_name"], row["partition_key"])


def of_row(row: Record) -> Symptom:
    """A symptom that was stored."""
    named: Sequence[str] = (
        "type",
        "key",
        "severity",
        "sentence",
        "observed_at",
        "dataset_id",
        "dataset_name",
        "job_id",
    )
    more: Sequence[str] = ("run_id", "producing_run_id", "anomaly_id", "test_key", "test_name", "test_status")
    values: dict[str, Any] = {name: row[name] for name in (*named, *more)}
    wrote = row["producing_run_id"] is not None and row["producing_run_id"] == row["run_id"]
    is_of_run = row["type"] in (RUN_FAILED, GATE_BLOCKED) or wrote
    return Symptom(**values, column=row["column_name"], cleared_at=row["cleared_at"], is_of_run=is_of_run)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SENTENCE else f"{text[: _MAX_SENTENCE - 1]}…"
