"""Shapes of Spark stages in answers. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from headgate.server.runs.schemas import SignalOut


class CostOut(BaseModel):
    """What a stage, or a whole run, cost."""

    duration_ms: int | None
    num_tasks: int | None
    failed_tasks: int | None
    input_bytes: int | None
    input_records: int | None
    output_bytes: int | None
    output_records: int | None
    shuffle_read_bytes: int | None
    shuffle_read_records: int | None
    shuffle_remote_bytes_read: int | None
    shuffle_local_bytes_read: int | None
    shuffle_remote_bytes_read_to_disk: int | None
    shuffle_fetch_wait_time_ms: int | None
    shuffle_remote_blocks_fetched: int | None
    shuffle_local_blocks_fetched: int | None
    shuffle_write_bytes: int | None
    shuffle_write_records: int | None
    shuffle_write_time_ns: int | None
    executor_run_time_ms: int | None
    executor_cpu_time_ns: int | None
    jvm_gc_time_ms: int | None
    executor_deserialize_time_ms: int | None
    executor_deserialize_cpu_time_ns: int | None
    result_serialization_time_ms: int | None
    result_size_bytes: int | None
    memory_bytes_spilled: int | None
    disk_bytes_spilled: int | None
    peak_execution_memory: int | None
    process_local_tasks: int | None
    node_local_tasks: int | None
    rack_local_tasks: int | None
    any_locality_tasks: int | None


class StageOut(CostOut):
    """One attempt of a stage; `extra` is what was sent beyond the known counters."""

    stage_id: int
    attempt: int
    name: str | None
    application_id: str | None
    started_at: datetime | None
    ended_at: datetime | None
    extra: dict[str, Any]


class StageItemOut(StageOut):
    attempt_count: int


class StageDetailOut(StageItemOut):
    """A stage as its latest attempt, and all attempts, the latest first."""

    run_id: UUID
    attempts: list[StageOut]


class StagePage(BaseModel):
    """`totals` is as the run reported it or, where it did not, over the latest attempts of its stages."""

    run_id: UUID
    items: list[StageItemOut]
    totals: CostOut | None
    signals: list[SignalOut]
    next_cursor: str | None
