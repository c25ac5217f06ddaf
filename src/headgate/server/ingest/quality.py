"""Secondary facts of quality and cost: test results and stage metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from headgate.openlineage.facts import Facts
from headgate.server.ingest.context import Context, Q
from headgate.server.ingest.rows import NO_RUN
from headgate.server.queue import CORRELATE_PRIORITY, NewTask, content_hash


async def store_tests(context: Context, events: Sequence[Facts]) -> None:
    """Results of tests; a run with news of some is looked into, be it that they failed or that they pass again."""
    rows: dict[tuple[UUID, UUID | None, str], tuple[Any, ...]] = {}
    for facts in sorted(events, key=lambda facts: facts.event_time):
        for test in facts.tests:
            dataset_id = None if test.dataset is None else context.ids.datasets[test.dataset[:2]]
            run_id = facts.run_id or NO_RUN
            rows[(run_id, dataset_id, test.key)] = (
                run_id, context.job_id(facts), dataset_id, test.key, test.name, test.assertion, test.column,
                test.status, test.severity, test.expected, test.actual, test.description,
                msgspec.json.encode(test.detail).decode(), test.sent_urn, facts.event_time,
            )  # fmt: skip
    columns = map(list, zip(*rows.values(), strict=True))
    news = {tuple(row) for row in await context.conn.fetch(Q.upsert_test_results, context.organization_id, *columns)}
    told: dict[UUID, list[str]] = {}
    for key in sorted(news, key=str):
        row = rows[key]
        told.setdefault(key[0], []).append(f"{key[1]} {key[2]} {row[7]} {row[8]} {row[-1].isoformat()}")
    await context.follow_up([_looked_into(run_id, results) for run_id, results in told.items()])


def _looked_into(run_id: UUID, results: Sequence[str]) -> NewTask:
    return NewTask("CORRELATE", "TEST", str(run_id), content_hash(*results), {"kind": "tests"}, CORRELATE_PRIORITY)


async def store_stages(context: Context, events: Sequence[Facts]) -> None:
    """Cost of stages; several events of a run may tell of the same stage."""
    rows: dict[tuple[UUID, int, int], dict[str, Any]] = {}
    for facts in sorted(events, key=lambda facts: facts.event_time):
        if facts.run_id is None:
            continue
        for stage in facts.stages:
            key = (facts.run_id, stage["stage_id"], stage["attempt"])
            owner = {"run_id": str(facts.run_id), "application_id": facts.application_id}
            rows[key] = rows.get(key, {}) | owner | stage
    if rows:
        await context.conn.execute(
            Q.upsert_stage_metrics, context.organization_id, msgspec.json.encode(list(rows.values())).decode()
        )
