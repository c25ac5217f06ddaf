"""Events that real producers sent, byte for byte, in the order they sent them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import httpx

from tests.support.live import Live

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(producer: str) -> list[bytes]:
    """The events of `airflow`, `dbt` or `client-python`."""
    found = [path.read_bytes() for path in sorted((GOLDEN / producer).glob("*.json"))]
    assert found, f"no golden events of {producer!r}"
    return found


async def replay(live: Live, events: Sequence[bytes]) -> list[httpx.Response]:
    """Send each as its producer did, one request an event."""
    headers = {"authorization": f"Bearer {live.api_key}", "content-type": "application/json"}
    async with httpx.AsyncClient(base_url=live.url, headers=headers, trust_env=False) as client:
        return [await client.post("/api/v1/lineage", content=event) for event in events]
