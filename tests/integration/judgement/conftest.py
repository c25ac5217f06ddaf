"""What tests of judgement begin with: an organisation to judge, one with incidents, one that tells, one with tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from tests.conftest import Cluster
from tests.support.alerts import Telling, a_telling, another
from tests.support.anomalies import Judging, NewJudging, judging_server
from tests.support.events import a_run_id
from tests.support.incidents import FAILS, Shop, checked, wrote
from tests.support.ingest import an_observed_server
from tests.support.server import Server
from tests.support.stored import Stored
from tests.support.tasks import EFFECTS


@pytest.fixture(scope="module")
async def new_judging(cluster: Cluster) -> AsyncIterator[NewJudging]:
    """Makes organisations on one server."""
    async with judging_server(cluster) as new:
        yield new


@pytest.fixture
async def judging(new_judging: NewJudging) -> Judging:
    return await new_judging()


@pytest.fixture(scope="module")
async def observed(cluster: Cluster) -> AsyncIterator[tuple[Server, Stored]]:
    async with an_observed_server(cluster) as observed:
        yield observed


@pytest.fixture
async def shop(observed: tuple[Server, Stored]) -> Shop:
    server, stored = observed
    return Shop(server, await server.add_tenant(f"Org {a_run_id()}"), stored.db)


@pytest.fixture
async def failing(shop: Shop) -> Shop:
    """With a test that fails."""
    await shop.send(*wrote("load", 0, "marts.orders", "raw.orders"))
    await shop.send_and_work(checked("marts.orders", 60, FAILS))
    return shop


@pytest.fixture
async def two(failing: Shop) -> Shop:
    """With two incidents that have nothing to do with each other."""
    await failing.send(*wrote("other", 0, "marts.other", "raw.other"))
    await failing.send_and_work(checked("marts.other", 90, FAILS))
    return failing


@pytest.fixture(scope="module")
async def first_telling(cluster: Cluster) -> AsyncIterator[Telling]:
    """A server that may send to this machine, shared by the tests of a file."""
    async with a_telling(cluster) as telling:
        yield telling


@pytest.fixture
async def telling(first_telling: Telling) -> Telling:
    """An organisation of its own on that server."""
    return await another(first_telling)


@pytest.fixture
async def org(server: Server, db: asyncpg.Connection) -> UUID:
    """An organisation whose tasks leave effects that can be counted."""
    await db.execute(EFFECTS)
    return server.tenant.organization_id
