"""What a list of runs can be narrowed by, as it stands in a query string."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final
from uuid import UUID

from fastapi import Depends, Query
from pydantic import BeforeValidator

from headgate.domain.run import RunState
from headgate.domain.stuck import GOING_ON
from headgate.errors import FieldError, InvalidFields

MAX_HOURS: Final = 87_600
_MAX_TEXT: Final = 2000

Hours = Annotated[int, Query(ge=1, le=MAX_HOURS)]
Text = Annotated[str | None, Query(min_length=1, max_length=_MAX_TEXT)]


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Runs that are asked for; what is None is not asked for."""

    states: tuple[str, ...] | None = None
    is_test: bool | None = None
    context: dict[str, str] | None = None
    since: datetime | None = None
    job: str | None = None
    job_name: str | None = None
    application_id: str | None = None
    parent: UUID | None = None
    stuck: bool | None = None


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


AnyCaseState = Annotated[RunState, BeforeValidator(_upper)]


async def state_filter(
    state: Annotated[list[AnyCaseState] | None, Query(description="One of these states")] = None,
    stuck: Annotated[
        bool | None, Query(description="Only those that should have ended by now, or only the others")
    ] = None,
) -> tuple[tuple[str, ...] | None, bool | None]:
    states = tuple(dict.fromkeys(state)) if state else None
    if stuck:
        states = tuple(sorted(GOING_ON & set(states))) if states else tuple(sorted(GOING_ON))
    return states, stuck


async def context_filter(
    partition: Annotated[
        list[str] | None,
        Query(description="`key:value` of the partition context, such as `country:US`; may be repeated"),
    ] = None,
    country: Text = None,
    region: Text = None,
    date: Text = None,
    environment: Text = None,
) -> dict[str, str] | None:
    plain = {"country": country, "region": region, "date": date, "environment": environment}
    context = {key: value for key, value in plain.items() if value is not None}
    for pair in partition or ():
        key, colon, value = pair.partition(":")
        if not key or not colon or len(pair) > _MAX_TEXT:
            raise InvalidFields(
                [FieldError("query.partition", "is not `key:value`", pair[:120])], hint="such as partition=country:US"
            )
        context[key] = value
    return context or None


States = Annotated[tuple[tuple[str, ...] | None, bool | None], Depends(state_filter)]
Context = Annotated[dict[str, str] | None, Depends(context_filter)]


async def run_filter(
    states: States,
    context: Context,
    hours: Annotated[int | None, Query(ge=1, le=MAX_HOURS, description="Started within these many hours")] = None,
    application_id: Text = None,
    parent: Annotated[UUID | None, Query(description="Directly under this run")] = None,
    is_test: Annotated[bool | None, Query()] = None,
) -> RunFilter:
    since = None if hours is None else datetime.now(UTC) - timedelta(hours=hours)
    return RunFilter(
        states=states[0],
        stuck=states[1],
        context=context,
        since=since,
        application_id=application_id,
        parent=parent,
        is_test=is_test,
    )


Filtered = Annotated[RunFilter, Depends(run_filter)]
