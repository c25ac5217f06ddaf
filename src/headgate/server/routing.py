"""Routes on the path as it was sent: `%2F` is part of a name and never separates segments.

The edge leaves the path percent-encoded; what a route takes out of it is decoded here, after the match.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import Match

from headgate.errors import Forbidden, Unauthenticated
from headgate.server.problems import problems


class RawRoute(APIRoute):
    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        match, child = super().matches(scope)
        if child.get("path_params"):
            child["path_params"] = {name: _decoded(value) for name, value in child["path_params"].items()}
        return match, child


def new_router(prefix: str, tag: str) -> APIRouter:
    """A router of routes that need credentials."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=RawRoute, responses=problems(Unauthenticated, Forbidden))


def _decoded(value: Any) -> Any:
    # Bytes that are not UTF-8 name nothing we have; replaced, they still name nothing.
    return unquote_to_bytes(value.encode("latin-1")).decode("utf-8", "replace") if isinstance(value, str) else value
