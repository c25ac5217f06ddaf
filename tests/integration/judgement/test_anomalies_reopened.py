"""What a person says of an anomaly is not undone by work that had begun before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

from headgate.server.incidents.ending.clearing import Clearing, Q
from headgate.server.incidents.record.history import History
from tests.support.events import Json, at
from tests.support.incidents import DAY, Shop, wrote


class Interrupted:
    """A connection on which something else happens before one query."""

    def __init__(self, conn: Any, query: str, happens: Callable[[], Any]) -> None:
        self._conn, self._query, self._happens = conn, query, happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)

    async def execute(self, query: str, *arguments: Any) -> Any:
        if query == self._query:
            await self._happens()
        return await self._conn.execute(query, *arguments)


async def an_odd_one(shop: Shop) -> Json:
    for day in range(8):
        await shop.send(*wrote("load", day * DAY, "marts.orders", rows=1000 + day))
    await shop.send_and_work(*wrote("load", 8 * DAY, "marts.orders", rows=100))
    (found,) = (await shop.tenant.client.get("/api/v1/anomalies")).json()["items"]
    assert datetime.fromisoformat(found["observed_at"]) == datetime.fromisoformat(at(8 * DAY))
    result: Json = found
    return result


async def set_status(shop: Shop, anomaly: Json, status: str) -> None:
    response = await shop.tenant.client.patch(f"/api/v1/anomalies/{anomaly['id']}", json={"status": status})
    assert response.status_code == 200, response.text


async def test_what_a_person_opens_again_stays_open_though_its_end_is_being_looked_into(shop: Shop) -> None:
    anomaly = await an_odd_one(shop)
    await set_status(shop, anomaly, "RESOLVED")
    opened: list[asyncio.Task[None]] = []

    async def open_again() -> None:
        opened.append(asyncio.create_task(set_status(shop, anomaly, "OPEN")))
        # Long enough for it to be done, if nothing holds it up.
        await asyncio.wait(opened, timeout=1)

    organization_id = shop.tenant.organization_id
    async with shop.server.database.tenant(organization_id) as conn:
        await History(conn, organization_id).lock()
        between: Any = Interrupted(conn, Q.clear_symptoms, open_again)
        await Clearing(between, organization_id).of_anomaly(anomaly["id"])
    await asyncio.gather(*opened)
    assert len(opened) == 1
    await shop.work()

    found = (await shop.tenant.client.get(f"/api/v1/anomalies/{anomaly['id']}")).json()
    assert found["status"] == "OPEN"
    assert "headgate" not in {change["by"] for change in found["changes"]}
    assert (await shop.incident())["status"] == "open"


async def test_the_incident_of_a_run_that_is_measured_as_odd_once_more_is_open_again(shop: Shop) -> None:
    anomaly = await an_odd_one(shop)
    for seconds, rows in ((5, 1000), (9, 90)):
        again = wrote("load", 8 * DAY + seconds, "marts.orders", run=anomaly["run_id"], rows=rows)
        await shop.send_and_work(*again[-1:])
        if rows == 1000:
            assert (await shop.incident())["status"] == "resolved"

    found = (await shop.tenant.client.get(f"/api/v1/anomalies/{anomaly['id']}")).json()
    assert (found["status"] in ("OPEN", "ALERTED"), found["actual_value"]) == (True, {"value": 90.0})
    assert (await shop.incident())["status"] == "open"
