"""Events that are valid and far larger than those of any sane producer."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from headgate.openlineage.packing import unpack
from tests.support import broken
from tests.support.server import Server


@pytest.mark.parametrize("name", broken.LARGE_EVENTS)
async def test_a_monstrous_event_is_stored_byte_for_byte(server: Server, db: asyncpg.Connection, name: str) -> None:
    event: dict[str, Any] = broken.LARGE_EVENTS[name]()
    raw = json.dumps(event).encode()

    response = await server.tenant.send(raw)

    assert response.status_code == 201, response.text
    assert (await server.tenant.run(event["run"]["runId"]))["state"] == "COMPLETE"
    assert unpack(await db.fetchval("SELECT raw FROM lineage_events")) == raw
