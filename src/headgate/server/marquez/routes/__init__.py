"""The read routes of Marquez's API v1, in its shapes."""

from __future__ import annotations

from fastapi import APIRouter

from headgate.server.marquez.routes import datasets, finding, graph, jobs, namespaces

router = APIRouter()
for part in (namespaces, datasets, jobs, graph, finding):
    router.include_router(part.router)
