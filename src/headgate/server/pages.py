"""What a browser gets where links in messages lead, until there is a web UI: how to look at the thing.

Nobody has said who he is here, so a page repeats what the link itself says and nothing else. The UI will own these
paths; its routes go before these.
"""

from __future__ import annotations

import shlex
from html import escape
from typing import Annotated
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Path
from fastapi.responses import HTMLResponse

from headgate.server.routing import RawRoute

router = APIRouter(route_class=RawRoute, include_in_schema=False)

Name = Annotated[str, Path(max_length=4000)]
# Nothing of a link is run, whatever it holds.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title} - Headgate</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 44rem; padding: 0 1rem }}
code {{ background: #8882; padding: .1em .3em; overflow-wrap: anywhere }}</style></head>
<body>
<h1>{title}</h1>
<p>This server has no web pages for it yet. On the command line:</p>
<p><code>{command}</code></p>
<p>By the API, with a key in the header <code>Authorization: Bearer ...</code>:</p>
<p><code>GET {api}</code></p>
<p><a href="/docs">All routes of the API</a></p>
</body>
</html>
"""


def _page(title: str, command: str, api: str) -> HTMLResponse:
    filled = _PAGE.format(title=escape(title), command=escape(command), api=escape(api))
    return HTMLResponse(filled, headers=_HEADERS)


@router.get("/incidents/{incident_id}")
async def incident(incident_id: UUID) -> HTMLResponse:
    """How to look at an incident."""
    path = f"/api/v1/incidents/{incident_id}"
    return _page(f"Incident {incident_id}", f"headgate incidents show {incident_id}", path)


@router.get("/runs/{run_id}")
async def run(run_id: UUID) -> HTMLResponse:
    """How to look at a run."""
    return _page(f"Run {run_id}", f"headgate runs show {run_id}", f"/api/v1/runs/{run_id}")


@router.get("/datasets/{namespace}/{name}")
async def dataset(namespace: Name, name: Name) -> HTMLResponse:
    """How to look at a dataset."""
    urn = f"{namespace}/{name}"
    path = f"/api/v1/datasets/{quote(urn, safe='')}"
    return _page(f"Dataset {urn}", f"headgate datasets show {shlex.quote(urn)}", path)


@router.get("/pipelines/{name}/stories/{run_id}")
async def story(name: Name, run_id: UUID) -> HTMLResponse:
    """How to read the story of a run."""
    path = f"/api/v1/pipeline-runs/{run_id}/story"
    return _page(f"Story of {name}, run {run_id}", f"headgate story {run_id} --open", path)
