"""Finds which runs wrote what a run has read, and which runs read what it has written, each at its time.

Never looks into the future of a run: what was written after it began is not what it read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

from headgate.errors import NotFound
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.lineage.runs.schemas import (
    RunEdgeOut,
    RunInputOut,
    RunLineageOut,
    RunNodeOut,
    RunOutputOut,
    RunRefOut,
)
from headgate.server.shapes import DatasetRefOut, JobOut

Q = Queries("headgate.server.lineage.runs")

MAX_DATASETS: Final = 200
MAX_CONSUMERS: Final = 20
MAX_RUNS: Final = 500
MAX_READS: Final = 2000
_LAST: Final = datetime.max.replace(tzinfo=UTC)


class Read(NamedTuple):
    """A dataset that a run read, and when that run began."""

    run_id: UUID
    at: datetime
    dataset: DatasetRefOut


class RunLineageStore:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def lineage(self, run_id: UUID, depth: int) -> RunLineageOut:
        row = await self._conn.fetchrow(Q.get_run, self._organization_id, run_id)
        if row is None:
            raise NotFound(f"no run {str(run_id)!r}", hint="run is the OpenLineage runId; list them at /api/v1/runs")
        run = _ref(row)
        datasets = await self._conn.fetch(Q.list_datasets, self._organization_id, run_id, MAX_DATASETS)
        inputs = [item for item in datasets if item["role"] == "input"]
        outputs = [item for item in datasets if item["role"] == "output"]
        reads = [Read(run_id, run.started_at, _dataset(item)) for item in inputs]
        producers = await self._producers(reads)
        nodes, edges, is_cut = await self._climb(run, list(zip(reads, producers, strict=True)), depth)
        return RunLineageOut(
            run=run,
            inputs=[
                RunInputOut(dataset=read.dataset, row_count=item["row_count"], produced_by=producer)
                for read, item, producer in zip(reads, inputs, producers, strict=True)
            ],
            input_count=row["input_count"],
            outputs=await self._outputs(run, outputs),
            output_count=row["output_count"],
            runs=nodes,
            edges=edges,
            truncated=is_cut or max(row["input_count"], row["output_count"]) > MAX_DATASETS,
        )

    async def _producers(self, reads: Sequence[Read]) -> list[RunRefOut | None]:
        """Of each dataset that was read the run that had written it by then; None if none is known."""
        if not reads:
            return []
        rows = await self._conn.fetch(
            Q.find_producers,
            self._organization_id,
            [read.dataset.id for read in reads],
            [read.at for read in reads],
            [read.run_id for read in reads],
        )
        found = {row["place"]: _ref(row) for row in rows}
        return [found.get(place) for place in range(1, len(reads) + 1)]

    async def _climb(
        self, run: RunRefOut, known: list[tuple[Read, RunRefOut | None]], depth: int
    ) -> tuple[list[RunNodeOut], list[RunEdgeOut], bool]:
        """Runs that led to a run, level by level, each once, and what each has read of which."""
        nodes: dict[UUID, RunNodeOut] = {}
        edges: list[RunEdgeOut] = []
        is_cut = False
        for level in range(1, depth + 1):
            fresh: list[UUID] = []
            for read, producer in known:
                if producer is None:
                    continue
                if producer.run_id not in nodes and producer.run_id != run.run_id:
                    if len(nodes) >= MAX_RUNS:
                        is_cut = True
                        continue
                    nodes[producer.run_id] = RunNodeOut(**producer.model_dump(), depth=level)
                    fresh.append(producer.run_id)
                edges.append(RunEdgeOut(source=producer.run_id, target=read.run_id, dataset=read.dataset))
            if not fresh or level == depth:
                break
            reads = await self._reads(fresh)
            is_cut = is_cut or len(reads) > MAX_READS
            reads = reads[:MAX_READS]
            known = list(zip(reads, await self._producers(reads), strict=True))
        return list(nodes.values()), edges, is_cut

    async def _reads(self, run_ids: Sequence[UUID]) -> list[Read]:
        rows = await self._conn.fetch(Q.list_inputs, self._organization_id, run_ids, MAX_DATASETS)
        return [Read(row["run_id"], row["started_at"], _dataset(row)) for row in rows]

    async def _outputs(self, run: RunRefOut, rows: Sequence[Record]) -> list[RunOutputOut]:
        consumers = await self._consumers(run, [row["id"] for row in rows])
        return [
            RunOutputOut(
                dataset=_dataset(row),
                row_count=row["row_count"],
                consumed_by=consumers.get(row["id"], [])[:MAX_CONSUMERS],
                consumed_by_truncated=len(consumers.get(row["id"], [])) > MAX_CONSUMERS,
            )
            for row in rows
        ]

    async def _consumers(self, run: RunRefOut, dataset_ids: list[UUID]) -> dict[UUID, list[RunRefOut]]:
        """Runs that read what the run left behind. While it goes on, and for a test, there is no such thing."""
        if run.ended_at is None or run.is_test or not dataset_ids:
            return {}
        own = self._organization_id
        rows = await self._conn.fetch(Q.find_next_ends, own, dataset_ids, run.ended_at, run.run_id)
        ends = {row["dataset_id"]: row["next_end"] for row in rows}
        untils = [ends.get(dataset_id, _LAST) for dataset_id in dataset_ids]
        found: dict[UUID, list[RunRefOut]] = {}
        for row in await self._conn.fetch(
            Q.list_consumers, own, dataset_ids, untils, run.ended_at, MAX_CONSUMERS + 1, run.run_id
        ):
            found.setdefault(row["dataset_id"], []).append(_ref(row))
        return found


def _ref(row: Record) -> RunRefOut:
    return RunRefOut(
        run_id=row["run_id"],
        job=JobOut(id=row["job_id"], namespace=row["job_namespace"], name=row["job_name"]),
        state=row["state"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        is_test=row["is_test"],
    )


def _dataset(row: Record) -> DatasetRefOut:
    return DatasetRefOut(
        id=row["id"],
        namespace=row["namespace"],
        name=row["name"],
        urn=f"{row['namespace']}/{row['name']}",
        display_name=row["display_name"],
        type=row["type"],
    )
