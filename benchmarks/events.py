"""Run events as a Spark integration sends them, as many as wanted: event number n of a seed is always the same.

Jobs repeat themselves and runs do not: names, schemas, column lineage and SQL belong to the job; run id, parent
run, time and statistics to the event. Knows nothing of what becomes of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

PRODUCER = "https://example.org/spark"
FACETS = "https://example.org/facets"
SCHEMA_URL = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
# Events of one orchestrator run: they share a parent, as the tasks of a DAG run do.
SIBLINGS = 20
# Mixed events come as this many STARTs, then the COMPLETEs of the same runs.
WAVE = 100
STEP = timedelta(milliseconds=10)
_CUTS = re.compile(rb'(@(?:time|run|parent)@|"@(?:rows|size)@")')

_INPUT_COLUMNS = (
    (("id", "bigint"), ("amount", "double")),
    (("id", "bigint"), ("country", "string")),
)
_OUTPUT_COLUMNS = (("country", "string"), ("amount", "double"))


class Events:
    """An endless stream of distinct events over a fixed set of jobs; three datasets a job."""

    def __init__(
        self, seed: int, *, jobs: int = 50, mixed: bool = False, since: datetime | None = None, team: str = "sales"
    ) -> None:
        self._key = seed.to_bytes(8, "big")
        self._since = since or datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=1)
        self._since_ms = int(self._since.timestamp() * 1000)
        self._mixed = mixed
        self._finished = [_template(team, job, is_start=False) for job in range(jobs)]
        self._started = [_template(team, job, is_start=True) for job in range(jobs)]
        self._next = 0

    def take(self, count: int) -> list[bytes]:
        """The next events, as the bytes of their JSON."""
        first, self._next = self._next, self._next + count
        return [self.event(number) for number in range(first, first + count)]

    def batches(self, count: int, size: int = 100) -> list[list[bytes]]:
        return [self.take(size) for _ in range(count)]

    def event(self, number: int) -> bytes:
        wave, place = divmod(number, 2 * WAVE)
        is_start = self._mixed and place < WAVE
        run = wave * WAVE + place % WAVE if self._mixed else number
        parts = self._started if is_start else self._finished
        digest = self._digest(run)
        return self._fill(parts[digest[0] % len(parts)], number, run, digest)

    def of_one_run(self, count: int) -> list[bytes]:
        """The next run as `count` events: START, RUNNING as often as needed, COMPLETE."""
        run, self._next = self._next, self._next + count
        digest = self._digest(run)
        job = digest[0] % len(self._finished)
        events = [self._fill(self._started[job], run + place, run, digest) for place in range(count - 1)]
        running = [event.replace(b'"eventType":"START"', b'"eventType":"RUNNING"', 1) for event in events[1:]]
        return [*events[:1], *running, self._fill(self._finished[job], run + count - 1, run, digest)]

    def _fill(self, template: list[bytes], number: int, run: int, digest: bytes) -> bytes:
        at = self._since + number * STEP
        family = self._digest(run // SIBLINGS, b"parent")
        rows = int.from_bytes(digest[12:15], "big")
        values = {
            b"@time@": at.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode(),
            b"@run@": self._uuid(run, digest),
            b"@parent@": self._uuid(run - run % SIBLINGS, family),
            b'"@rows@"': str(rows).encode(),
            b'"@size@"': str(rows * 37).encode(),
        }
        return b"".join(values.get(part, part) for part in template)

    def _digest(self, number: int, kind: bytes = b"run") -> bytes:
        return hashlib.blake2b(number.to_bytes(8, "big"), key=self._key, person=kind, digest_size=16).digest()

    def _uuid(self, run: int, digest: bytes) -> bytes:
        """A version 7 UUID, as OpenLineage's clients make them: random, but in order of time."""
        since = self._since_ms + run * 10
        bits = (since << 80) | (0x7 << 76) | (int.from_bytes(digest[1:3], "big") >> 4 << 64) | (0b10 << 62)
        return str(UUID(int=bits | int.from_bytes(digest[3:11], "big") >> 2)).encode()


def mean_size(events: list[bytes]) -> float:
    return sum(map(len, events)) / len(events)


def _template(team: str, job: int, *, is_start: bool) -> list[bytes]:
    """One job's event, cut where its values differ from run to run."""
    return _CUTS.split(json.dumps(_event(team, job, is_start), separators=(",", ":")).encode())


def _event(team: str, job: int, is_start: bool) -> dict[str, Any]:
    orders, customers, target = f"raw/orders_{job}", f"raw/customers_{job}", f"silver/revenue_{job}"
    return {
        "eventTime": "@time@",
        "eventType": "START" if is_start else "COMPLETE",
        "producer": PRODUCER,
        "schemaURL": SCHEMA_URL,
        "run": {"runId": "@run@", "facets": _run_facets(team)},
        "job": {"namespace": team, "name": f"revenue_{job}", "facets": _job_facets(job)},
        "inputs": [
            _dataset(team, name, {"schema": _schema(columns)})
            for name, columns in zip((orders, customers), _INPUT_COLUMNS, strict=True)
        ],
        "outputs": [_output(team, target, (orders, customers), is_start)],
    }


def _run_facets(team: str) -> dict[str, Any]:
    parent = {"run": {"runId": "@parent@"}, "job": {"namespace": team, "name": "nightly"}}
    return {
        "parent": _facet("Parent", parent),
        "processing_engine": _facet("ProcessingEngine", {"name": "spark", "version": "3.5.1"}),
    }


def _job_facets(job: int) -> dict[str, Any]:
    query = f"SELECT country, sum(amount) FROM orders_{job} JOIN customers_{job} USING (id) GROUP BY 1"
    return {
        "jobType": _facet("JobType", {"processingType": "BATCH", "integration": "SPARK"}),
        "sql": _facet("SQL", {"query": query}),
    }


def _output(team: str, name: str, sources: tuple[str, str], is_start: bool) -> dict[str, Any]:
    facets = {"schema": _schema(_OUTPUT_COLUMNS), "columnLineage": _column_lineage(team, sources)}
    statistics = {"rowCount": "@rows@", "size": "@size@"}
    measured = {"outputStatistics": _facet("OutputStatistics", statistics)}
    return {**_dataset(team, name, facets), **({} if is_start else {"outputFacets": measured})}


def _dataset(team: str, name: str, facets: dict[str, Any]) -> dict[str, Any]:
    return {"namespace": f"s3://{team}", "name": name, "facets": facets}


def _schema(columns: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    fields = [{"name": name, "type": type_} for name, type_ in columns]
    return _facet("Schema", {"fields": fields})


def _column_lineage(team: str, sources: tuple[str, str]) -> dict[str, Any]:
    origins = {"country": (sources[1], "IDENTITY"), "amount": (sources[0], "AGGREGATION")}
    fields = {
        column: {
            "inputFields": [
                {
                    "namespace": f"s3://{team}",
                    "name": source,
                    "field": column,
                    "transformations": [{"type": "DIRECT", "subtype": kind}],
                }
            ]
        }
        for column, (source, kind) in origins.items()
    }
    return _facet("ColumnLineage", {"fields": fields})


def _facet(schema: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": f"{FACETS}/{schema}-1.json", **body}
