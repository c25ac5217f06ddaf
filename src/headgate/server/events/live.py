"""The route of the stream: who may listen, to what, and from where on."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from fastapi import Header, Query, Request

from headgate.errors import FieldError, InvalidFields, RateLimited, Unauthenticated, Unavailable
from headgate.server.auth import COOKIE, Scope
from headgate.server.deps import Auth, Reader
from headgate.server.events.hub import Hub
from headgate.server.events.stream import EventStream
from headgate.server.problems import problems
from headgate.server.routing import new_router

router = new_router("", "events")

_EXAMPLE = 'event: run\nid: 41\ndata: {"run_id": "0194b8c2-0000-7000-8000-000000000001", "state": "COMPLETE"}\n\n'


class StreamType(StrEnum):
    run = "run"
    incident = "incident"
    ingest = "ingest"


Types = Annotated[
    str | None, Query(max_length=100, description="What to tell of, separated by commas; everything if left out")
]
LastEventId = Annotated[int | None, Header(ge=0, le=2**63 - 1, description="Tell again what came after this id")]


@router.get(
    "/api/v1/stream",
    status_code=200,
    response_class=EventStream,
    responses={200: {"content": {EventStream.media_type: {"example": _EXAMPLE}}}, **problems(RateLimited, Unavailable)},
)
async def stream(
    request: Request, caller: Reader, authenticator: Auth, types: Types = None, last_event_id: LastEventId = None
) -> EventStream:
    """Runs, failed tests and the state of ingest as they happen, as server-sent events. Does not end by itself."""
    hub: Hub = request.app.state.hub
    authorization, cookie = request.headers.get("authorization"), request.cookies.get(COOKIE)

    async def is_allowed() -> bool:
        try:
            now = await authenticator.authenticate(authorization, cookie)
        except Unauthenticated:
            return False
        except Unavailable:
            # Nobody can say; the next time will tell.
            return True
        return now is not None and now.organization_id == caller.organization_id and Scope.read in now.scopes

    return EventStream(hub, caller.organization_id, _types_of(types), last_event_id, is_allowed)


def _types_of(text: str | None) -> frozenset[str]:
    known = [kind.value for kind in StreamType]
    asked: Sequence[str] = known if text is None else [part.strip() for part in text.split(",") if part.strip()]
    unknown = [part for part in asked if part not in known]
    if unknown or not asked:
        wrong = FieldError("query.types", f"must be some of {', '.join(known)}", unknown[0] if unknown else text)
        raise InvalidFields([wrong], hint="leave it out to be told of everything")
    return frozenset(asked)
