"""Cost of Spark stages: from facet bodies to the columns of `stage_metrics`, with nothing thrown away."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

WHOLE_RUN = -1
MAX_BIGINT = 9_223_372_036_854_775_807

COUNTERS = (
    "duration_ms", "num_tasks", "failed_tasks", "input_bytes", "input_records", "output_bytes", "output_records",
    "shuffle_read_bytes", "shuffle_read_records", "shuffle_remote_bytes_read", "shuffle_local_bytes_read",
    "shuffle_remote_bytes_read_to_disk", "shuffle_fetch_wait_time_ms", "shuffle_remote_blocks_fetched",
    "shuffle_local_blocks_fetched", "shuffle_write_bytes", "shuffle_write_records", "shuffle_write_time_ns",
    "executor_run_time_ms", "executor_cpu_time_ns", "jvm_gc_time_ms", "executor_deserialize_time_ms",
    "executor_deserialize_cpu_time_ns", "result_serialization_time_ms", "result_size_bytes", "memory_bytes_spilled",
    "disk_bytes_spilled", "peak_execution_memory", "process_local_tasks", "node_local_tasks", "rack_local_tasks",
    "any_locality_tasks",
)  # fmt: skip

# What the simple form calls some of these.
_SIMPLE_NAMES = {
    "execution_time_ms": "duration_ms",
    "total_tasks": "num_tasks",
    "rows_read": "input_records",
    "rows_written": "output_records",
    "bytes_read": "input_bytes",
    "bytes_written": "output_bytes",
    "shuffle_records_read": "shuffle_read_records",
    "shuffle_records_written": "shuffle_write_records",
}


def stage_row(stage: Mapping[str, Any]) -> dict[str, Any]:
    """One stage attempt. Raises `ValueError` when its id or attempt is not a number."""
    row = _counters(stage)
    row["stage_id"] = _integer(stage.get("stage_id"), "stage_id")
    row["attempt"] = _integer(stage.get("attempt", 0), "attempt")
    for name in ("name", "application_id"):
        if isinstance(stage.get(name), str):
            row[name] = stage[name]
    for name in ("started_at", "ended_at"):
        if stage.get(name) is not None:
            row[name] = _instant(stage[name], name)
    for name in row:
        row["extra"].pop(name, None)
    return row


def execution_totals(metrics: Mapping[str, Any], **extra: object) -> dict[str, Any]:
    """The whole run's totals as stage -1."""
    row = _counters({_SIMPLE_NAMES.get(name, name): value for name, value in metrics.items()})
    row["extra"] |= {name: value for name, value in extra.items() if isinstance(value, int)}
    return row | {"stage_id": WHOLE_RUN, "attempt": 0, "name": "whole run"}


def _counters(values: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"extra": {}}
    for name, value in values.items():
        if name in COUNTERS and _is_count(value):
            row[name] = int(value)
        else:
            row["extra"][name] = value
    return row


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_BIGINT


def _integer(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -1 <= value <= 2_147_483_647:
        return value
    raise ValueError(f"{name} is {value!r}, not a small whole number")


def _instant(value: object, name: str) -> str:
    """An ISO date-time, or milliseconds since 1970 as Spark counts them."""
    try:
        if isinstance(value, str):
            at = msgspec.convert(value, datetime)
        elif isinstance(value, int):
            at = datetime.fromtimestamp(value / 1000, UTC)
        else:
            raise ValueError(f"{name} is {value!r}, not a time")
    except (msgspec.ValidationError, OverflowError, OSError) as error:
        raise ValueError(f"{name} is {value!r}, not a time") from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()
