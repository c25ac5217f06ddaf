"""What the OpenAPI document says of the ingest routes, which FastAPI does not serve itself."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response

from headgate.errors import (
    Forbidden,
    InvalidFields,
    InvalidSequence,
    NotFound,
    RateLimited,
    RefusedState,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unparsable,
    WrongEncoding,
)
from headgate.openlineage.events import Event
from headgate.openlineage.simple_body import Metadata, Schemas
from headgate.server.auth import Scope, require
from headgate.server.problems import problems

_EVENT = {"$ref": "#/components/schemas/OpenLineageEvent"}
_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}
_ID = {"type": ["string", "null"], "format": "uuid"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


_SINGLE = _object(status={"enum": ["stored", "duplicate"]}, kind=_TEXT, run_id=_ID, correlation_id=_TEXT)
_SINK = _object(status={"enum": ["accepted", "duplicate"]}, eventType=_TEXT, runId=_ID, tenantId=_COUNT)
_BATCH = _object(
    status={"enum": ["success", "partial_success", "error"]},
    summary=_object(
        received=_COUNT,
        successful=_COUNT,
        failed=_COUNT,
        retriable=_COUNT,
        non_retriable=_COUNT,
        duplicates=_COUNT,
    ),
    failed_events={
        "type": "array",
        "items": _object(index=_COUNT, reason=_TEXT, retriable={"type": "boolean"}),
    },
    correlation_id=_TEXT,
    timestamp=_TEXT,
)
_EVENTS = _object(
    correlation_id=_TEXT,
    timestamp=_TEXT,
    stored=_COUNT,
    duplicates=_COUNT,
    failed=_COUNT,
    results={
        "type": "array",
        "items": {
            "type": "object",
            "required": ["index", "status"],
            "properties": {"index": _COUNT, "status": _COUNT, "message": _TEXT, "error": _TEXT},
        },
    },
)
_SIMPLE = _object(status=_TEXT, job_id=_TEXT, message=_TEXT, datasets_processed=_COUNT, edges_created=_COUNT)
_METADATA_BODY = {"$ref": "#/components/schemas/SimpleMetadata"}
_SCHEMA_BODY = {"$ref": "#/components/schemas/SimpleSchemas"}
_ARRAY = {"type": "array", "items": _EVENT}

# path, summary, body schema, answers by status
_ROUTES: list[tuple[str, str, dict[str, Any], dict[int, tuple[str, dict[str, Any]]]]] = [
    ("/api/v1/lineage", "Store one OpenLineage event", _EVENT,
     {201: ("Stored", _SINGLE), 200: ("Known already", _SINGLE)}),
    ("/marquez/api/v1/lineage", "Store one OpenLineage event, where Marquez's clients send it", _EVENT,
     {201: ("Stored", _SINGLE), 200: ("Known already", _SINGLE)}),
    ("/api/v1/lineage/batch", "Store an array of events, answered in the specification's batch shape", _ARRAY,
     {200: ("All stored or known", _BATCH), 207: ("Some refused", _BATCH)}),
    ("/api/v1/lineage/events", "Store an array of events, answered one result an event", _ARRAY,
     {200: ("All stored or known", _EVENTS), 207: ("Some refused", _EVENTS)}),
    ("/api/openlineage", "Store one event, the sink form", _EVENT,
     {201: ("Stored", _SINK), 200: ("Known already", _SINK)}),
    ("/api/v1/ingest/metadata", "Store what a Spark job did, the simple form", _METADATA_BODY,
     {202: ("Stored", _SIMPLE)}),
    ("/api/v1/ingest/schema", "Store schemas of datasets, the simple form", _SCHEMA_BODY,
     {202: ("Stored", _SIMPLE)}),
]  # fmt: skip


def describe(app: FastAPI) -> None:
    """Register the ingest routes for the OpenAPI document. The edge answers them before FastAPI is asked."""
    failures = problems(
        Unparsable, Unauthenticated, Forbidden, TooLarge, WrongEncoding, InvalidFields, InvalidSequence, RefusedState,
        RateLimited, Unavailable,
    )  # fmt: skip
    for path, summary, body, answers in _ROUTES:
        responses: dict[int | str, dict[str, Any]] = dict(failures)
        if path == "/api/openlineage":
            # The sink form answers 400 where the others say 422.
            responses.pop(422)
        for status, (description, schema) in answers.items():
            responses[status] = {
                "description": description,
                "content": {"application/json": {"schema": schema}},
            }
        if path.startswith("/api/v1/lineage/"):
            shape = answers[200][1]
            for status in (422, 503):
                content = {**failures[status]["content"], "application/json": {"schema": shape}}
                responses[status] = {"description": failures[status]["description"], "content": content}
        app.add_api_route(
            path,
            _unreachable,
            methods=["POST"],
            tags=["ingest"],
            summary=summary,
            operation_id=f"post_{path.strip('/').replace('/', '_')}",
            status_code=min(answers) if 201 not in answers else 201,
            responses=responses,
            response_class=Response,
            dependencies=[Depends(require(Scope.ingest))],
            openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": body}}}},
        )
    app.state.extra_schemas = components()


async def _unreachable(request: Request) -> Response:
    # The edge matches paths as they were sent, FastAPI as they decode: only an odd spelling comes here.
    raise NotFound(f"no route {request.url.path!r} in this spelling", hint="do not percent-encode the path")


def components() -> dict[str, Any]:
    """Schemas of the bodies, to be added to the document's own."""
    found: dict[str, Any] = {}
    for prefix, types in (("OpenLineage", [Event]), ("Simple", [Metadata, Schemas])):
        _, schemas = msgspec.json.schema_components(
            types,
            # Times and states are read from text by a hook of ours.
            schema_hook=lambda _: {"type": "string"},
            ref_template=f"#/components/schemas/{prefix}{{name}}",
        )
        found |= {f"{prefix}{name}": schema for name, schema in schemas.items()}
    return found
