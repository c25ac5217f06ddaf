"""The demo's shop, on a server behind a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.live import Live, live_server

if TYPE_CHECKING:
    from tests.conftest import Cluster

EVENTS = Path(__file__).parents[2] / "examples" / "shop" / "events.ndjson"
REVENUE = "postgres://warehouse.shop.example/shop.marts.daily_revenue"
SILVER = "s3://shop-lake/silver/orders"
STAGING = "postgres://warehouse.shop.example/shop.staging.orders"


@asynccontextmanager
async def shop_server(cluster: Cluster) -> AsyncIterator[Live]:
    """A server that knows two days of the shop."""
    async with live_server(cluster) as live:
        answers = await live.replay(*EVENTS.read_bytes().splitlines())
        assert {answer.status_code for answer in answers} == {201}
        yield live
