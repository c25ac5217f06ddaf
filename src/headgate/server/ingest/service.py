"""The one path of every event: check, project, write, and say what became of it. Knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import asyncpg
import msgspec
from msgspec import Struct

from headgate.domain.run import RunState, Verdict, check_sequence
from headgate.errors import (
    FieldError,
    HeadgateError,
    InvalidFields,
    InvalidSequence,
    RefusedState,
    TooLarge,
    Unavailable,
)
from headgate.openlineage.events import decode_array
from headgate.openlineage.explain import unparsable
from headgate.openlineage.facets import FacetReader
from headgate.openlineage.facts import Facts
from headgate.openlineage.simple import Translated
from headgate.openlineage.validate import check_event, check_text
from headgate.server.auth import Principal
from headgate.server.db.pool import Database
from headgate.server.ingest.batch import Prepared, event_key, prepare
from headgate.server.ingest.context import Q
from headgate.server.ingest.counters import IngestCounters
from headgate.server.ingest.group import Answer, GroupWriter, Source
from headgate.server.ingest.tenants import Tenant, Tenants

log = logging.getLogger("headgate.ingest")

KEPT_BYTES = 64 * 1024
_THREAD_BYTES = 512 * 1024
# Between so many events of an array the loop gets a turn: others are answered, and the database kept busy.
_SLICE = 10
# An array has at most one more element than commas; events have dozens of commas each.
_MAX_COMMAS = 4_000_000
# Each event of an array has its own line in the answer, and each refused one a row.
_MAX_EVENTS = 100_000
_MAX_KEPT = 10_000

_FEWER = "send fewer events at once"

Translate = Callable[..., Translated]


class Request(Struct, frozen=True):
    """Who sends what where, for counting and for keeping what is refused."""

    principal: Principal
    route: str
    correlation_id: str

    @property
    def source(self) -> Source:
        return Source(self.principal.organization_id, self.principal.tenant_code)


class Result(Struct, frozen=True):
    """What became of one event of an array."""

    index: int
    outcome: str
    error: HeadgateError | None = None


class Ingest:
    """Accepts events for any organisation."""

    def __init__(
        self,
        database: Database,
        tenants: Tenants,
        writer: GroupWriter,
        reader: FacetReader,
        counters: IngestCounters,
    ) -> None:
        self._database = database
        self._tenants = tenants
        self._writer = writer
        self._reader = reader
        self._counters = counters

    async def accept(self, request: Request, body: bytes) -> tuple[str, Facts]:
        """Store one event: `stored` or `duplicate`. Raises what it is refused for, after keeping it."""
        tenant = await self._tenants.get(request.principal.organization_id)
        try:
            prepared = await self._prepare_body(tenant, body)
            outcome = await self._writer.write(request.source, prepared)
            result = self._result(request, 0, prepared, outcome)
        except HeadgateError as error:
            result = Result(0, "refused", error)
            self._count_refusal(request, error)
        if result.error is not None:
            await self.keep_refused(request, [(result.error, body)])
            raise result.error
        return result.outcome, prepared.facts

    async def accept_array(self, request: Request, body: bytes) -> list[Result]:
        """Store the events of an array; a result for each, at its place in the request."""
        tenant = await self._tenants.get(request.principal.organization_id)
        try:
            check_text(body, tenant.rules.max_depth + 1)
            raws = self._elements(body)
        except HeadgateError as error:
            await self.refuse(request, error, body)
            raise
        return await self._accept_all(request, tenant, raws)

    async def accept_simple(
        self, request: Request, body: bytes, translate: Translate
    ) -> tuple[Translated, list[Result]]:
        """Translate a simple form and store its events. Wrong fields are refused; a state that cannot be is told."""
        tenant = await self._tenants.get(request.principal.organization_id)
        try:
            translated = await self._translate(tenant, body, translate)
        except HeadgateError as error:
            await self.refuse(request, error, body)
            raise
        # Without times of its own a form becomes other events each time, so it is known by its own bytes.
        key = event_key(tenant.organization_id, body)
        if key in await self._writer.known_keys(request.source, [key]):
            return translated, [Result(index, "duplicate") for index in range(len(translated.events))]
        results = await self._accept_all(request, tenant, translated.events, form_key=key)
        gone = next((result.error for result in results if isinstance(result.error, Unavailable)), None)
        if gone is not None:
            raise gone
        return translated, results

    async def _translate(self, tenant: Tenant, body: bytes, translate: Translate) -> Translated:
        def work() -> Translated:
            check_text(body, tenant.rules.max_depth)
            return translate(
                body,
                default_namespace=tenant.default_namespace,
                received_at=datetime.now(UTC),
                patterns=tenant.patterns,
            )

        return await asyncio.to_thread(work) if len(body) > _THREAD_BYTES else work()

    async def _accept_all(
        self, request: Request, tenant: Tenant, raws: Sequence[bytes], *, form_key: bytes | None = None
    ) -> list[Result]:
        results: list[Result | None] = [None] * len(raws)
        prepared: list[tuple[int, Prepared]] = []
        for index, raw in enumerate(raws):
            try:
                prepared.append((index, self._prepare(tenant, raw)))
            except HeadgateError as error:
                self._count_refusal(request, error)
                results[index] = Result(index, "refused", error)
            if index % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        if form_key is not None and prepared:
            # Claimed with the last event, which is the one that holds what the form says.
            prepared[-1][1].key = form_key
        for result in await self._write_all(request, prepared, in_sequence=form_key is None):
            results[result.index] = result
        done = [result for result in results if result is not None]
        await self.keep_refused(request, [(r.error, raws[r.index]) for r in done if r.error is not None])
        return done

    async def _write_all(
        self, request: Request, prepared: list[tuple[int, Prepared]], in_sequence: bool
    ) -> list[Result]:
        if not prepared:
            return []
        events = [event for _, event in prepared]
        try:
            if in_sequence:
                await self._check_sequence(request.source, events)
            verdicts: list[Answer] = await self._writer.write_batch(request.source, events)
        except (InvalidSequence, Unavailable) as error:
            for _ in prepared:
                self._count_refusal(request, error)
            return [Result(index, "refused", error) for index, _ in prepared]
        return [
            self._result(request, index, event, verdict)
            for (index, event), verdict in zip(prepared, verdicts, strict=True)
        ]

    async def _check_sequence(self, source: Source, events: list[Prepared]) -> None:
        """Layer 2, for a batch of one run: what is not a duplicate must be a possible course of that run."""
        runs = {event.facts.run_id if event.facts.kind == "run" else None for event in events}
        if len(events) < 2 or len(runs) != 1 or None in runs:
            return
        distinct = {event.key: event for event in events}
        known = await self._writer.known_keys(source, list(distinct))
        fresh = [event.facts for key, event in distinct.items() if key not in known]
        check_sequence([(facts.event_time, RunState(facts.event_type or "OTHER")) for facts in fresh])

    async def _prepare_body(self, tenant: Tenant, body: bytes) -> Prepared:
        if len(body) > _THREAD_BYTES:
            return await asyncio.to_thread(self._prepare_checked, tenant, body)
        return self._prepare_checked(tenant, body)

    def _prepare_checked(self, tenant: Tenant, body: bytes) -> Prepared:
        check_text(body, tenant.rules.max_depth)
        return self._prepare(tenant, body)

    def _prepare(self, tenant: Tenant, raw: bytes) -> Prepared:
        checked = check_event(raw, tenant.rules, self._reader)
        facts = tenant.projector.facts(checked, bytes(raw))
        for name in facts.invalid_facets:
            self._counters.invalid_facets.labels(facet=name).inc()
        return prepare(tenant.organization_id, facts)

    def _elements(self, body: bytes) -> list[bytes]:
        if body.count(b",") > _MAX_COMMAS:
            raise TooLarge("the array has too many values", hint=_FEWER)
        try:
            raws = decode_array(body)
        except msgspec.ValidationError:
            raise _no_array(body) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise unparsable(error) from None
        if len(raws) > _MAX_EVENTS:
            raise TooLarge(f"the array has {len(raws)} events, over the limit of {_MAX_EVENTS}", hint=_FEWER)
        return [bytes(raw) for raw in raws]

    def _result(self, request: Request, index: int, event: Prepared, verdict: Answer) -> Result:
        tenant_code, route = request.principal.tenant_code, request.route
        if verdict == Verdict.STORED:
            self._counters.accepted.labels(organization=tenant_code, route=route).inc()
            return Result(index, "stored")
        if verdict == Verdict.DUPLICATE:
            self._counters.duplicate.labels(organization=tenant_code, route=route).inc()
            return Result(index, "duplicate")
        error = verdict if isinstance(verdict, HeadgateError) else _refusal(event.facts, verdict)
        self._count_refusal(request, error)
        return Result(index, "refused", error)

    def _count_refusal(self, request: Request, error: HeadgateError) -> None:
        self._counters.refused.labels(organization=request.principal.tenant_code, reason=error.code).inc()

    async def refuse(self, request: Request, error: HeadgateError, body: bytes) -> None:
        """Count and keep what was refused as a whole."""
        self._count_refusal(request, error)
        await self.keep_refused(request, [(error, body)])

    async def keep_refused(self, request: Request, refused: Sequence[tuple[HeadgateError, bytes]]) -> None:
        """Keep the beginning of what was refused. Best effort: the refusal itself does not depend on it."""
        rows = [_refused_row(request, error, body) for error, body in refused[:_MAX_KEPT] if not error.retryable]
        if not rows:
            return
        try:
            async with self._database.tenant(request.principal.organization_id) as conn:
                await conn.execute(
                    Q.insert_refused, request.principal.organization_id, *map(list, zip(*rows, strict=True))
                )
        except (Unavailable, asyncpg.PostgresError) as error:
            log.warning("refused events could not be kept", extra={"error": str(error), "events": len(rows)})


def _no_array(body: bytes) -> HeadgateError:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return unparsable(error)
    return InvalidFields([FieldError("$", "must be an array of events")], hint="send one event to /api/v1/lineage")


def _refusal(facts: Facts, outcome: Verdict) -> RefusedState:
    if outcome == Verdict.ENDED_OTHERWISE:
        return RefusedState(
            f"run {facts.run_id} has already ended in another state; {facts.event_type} at "
            f"{facts.event_time.isoformat()} comes later and cannot change it",
            hint="the earliest terminal event of a run counts; send a new attempt under a new runId",
        )
    return RefusedState(
        f"run {facts.run_id} ended before {facts.event_time.isoformat()}; {facts.event_type} comes too late",
        hint="events after a run's end are not accepted; check the producer's clock",
    )


def _refused_row(request: Request, error: HeadgateError, body: bytes) -> tuple[object, ...]:
    wrong = error.errors[:100] if isinstance(error, InvalidFields) else []
    errors = [{name: part and _plain(part) for name, part in item._asdict().items()} for item in wrong]
    return (
        request.route,
        error.code,
        _plain(error.message),
        _producer(body),
        msgspec.json.encode(errors).decode(),
        body[:KEPT_BYTES],
        len(body),
        request.correlation_id,
    )


class _ProducerOnly(Struct):
    producer: str | None = None


def _producer(body: bytes) -> str | None:
    if len(body) > KEPT_BYTES:
        return None
    try:
        producer = msgspec.json.decode(body, type=_ProducerOnly).producer
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return _plain(producer)[:500] if producer else None


def _plain(text: str) -> str:
    return text.replace("\x00", "\\u0000")
