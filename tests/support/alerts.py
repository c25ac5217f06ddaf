"""Incidents that somebody wants to hear of, channels that listen, and a worker that tells."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx

from headgate.server.alerts.channels.mail import Mailer
from headgate.server.alerts.jobs import Alerting
from headgate.server.alerts.sending import Channels
from headgate.server.db.pool import Database
from headgate.server.outbound import Guard, Outbound
from headgate.server.queue import Batch, Kind, NewTask, Task, content_hash, enqueue
from headgate.server.secrets import Vault
from headgate.server.worker import Worker
from headgate.settings import Settings
from tests.conftest import Cluster
from tests.support.bad_servers import Asked, BadServer, Behaviour, answering, bad_server
from tests.support.ingest import an_observed_server
from tests.support.server import Server, Tenant

Json = dict[str, Any]

RULES, HISTORY, TEST = "/api/v1/alert-rules", "/api/v1/alert-history", "/api/v1/test-alert"
EMAIL = "/api/v1/email-settings"
SECRET = "T0SECRET0/B0SECRET0/s3cr3tt0k3n"
PUBLIC = "https://headgate.example"
NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
OK = answering(200, "ok")


@dataclass
class Clock:
    """A clock that is turned by hand."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now

    def turn(self, **span: float) -> None:
        self.now += timedelta(**span)


@dataclass
class Telling:
    """An organisation with rules, something to tell, and a worker whose clock is ours."""

    server: Server
    tenant: Tenant
    db: asyncpg.Connection
    settings: Settings
    clock: Clock = field(default_factory=Clock)
    number: int = 0
    channels: Channels | None = None

    @property
    def database(self) -> Database:
        return self.server.database

    @property
    def org(self) -> UUID:
        return self.tenant.organization_id

    async def a_rule(self, url: str | None = None, **fields: Any) -> Json:
        """A rule that tells a channel at this URL of everything."""
        body: Json = {"name": f"rule {uuid4()}", "channel_type": "SLACK", **fields}
        body.setdefault("channel_config", {} if url is None else {"webhook_url": f"{url}/services/{SECRET}"})
        return await self.post(RULES, body)

    async def post(self, path: str, body: Json) -> Json:
        response = await self.tenant.client.post(path, json=body)
        assert response.is_success, response.text
        found: Json = response.json()
        return found

    async def refused(self, method: str, path: str, body: Json, status: int = 422) -> Json:
        """The problem that the server answers with."""
        response = await self.tenant.client.request(method, path, json=body)
        assert response.status_code == status, response.text
        found: Json = response.json()
        return found

    async def get(self, path: str, **params: Any) -> Json:
        response = await self.tenant.client.get(path, params=params)
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found

    async def history(self, **params: Any) -> list[Json]:
        """What became of alerts, the oldest first."""
        return list(reversed((await self.get(HISTORY, **params))["items"]))

    async def outcomes(self, **params: Any) -> list[tuple[str, str | None]]:
        return [(each["status"], each["reason"]) for each in await self.history(**params)]

    async def a_dataset(
        self, name: str = "shop.orders", *, owners: list[str] | None = None, tag: str | None = None
    ) -> UUID:
        found: UUID = await self.db.fetchval(
            "INSERT INTO datasets (organization_id, namespace, name, display_name, first_seen_at)"
            " VALUES ($1, 'postgres://db:5432', $2, $2, now()) RETURNING id",
            self.org,
            name,
        )
        if owners:
            await self.db.execute(
                "INSERT INTO dataset_notes (organization_id, dataset_id, owners) VALUES ($1, $2, $3)",
                self.org,
                found,
                owners,
            )
        if tag:
            await self.db.execute(
                "INSERT INTO dataset_tags (organization_id, dataset_id, tag, source) VALUES ($1, $2, $3, 'user')",
                self.org,
                found,
                tag,
            )
        return found

    async def an_incident(self, dataset_id: UUID | None = None, **fields: Any) -> UUID:
        self.number += 1
        columns = {
            "number": self.number,
            "title": "row count of orders fell",
            "severity": "CRITICAL",
            "kind": "RowCountDrop",
            "dataset_id": dataset_id,
            "opened_at": self.clock.now,
            "last_seen_at": self.clock.now,
            "root_cause": "the source batch of orders came without 80 % of its rows",
            "cause": json.dumps({"evidence": [{"sentence": "raw.orders has 200 rows, 1,000 are usual"}]}),
            **fields,
        }
        return await self._insert("incidents", columns)

    async def a_symptom(self, incident_id: UUID, dataset_id: UUID | None = None, **fields: Any) -> UUID:
        columns = {
            "incident_id": incident_id,
            "type": "RowCountDrop",
            "key": str(uuid4()),
            "dataset_id": dataset_id,
            "severity": "CRITICAL",
            "sentence": "row_count of orders is 200, 900 to 1,100 are usual",
            "observed_at": self.clock.now,
            "last_observed_at": self.clock.now,
            "created_at": self.clock.now,
            **fields,
        }
        return await self._insert("incident_symptoms", columns)

    async def an_anomaly(self, dataset_id: UUID, **fields: Any) -> UUID:
        columns = {
            "dataset_id": dataset_id,
            "anomaly_type": "RowCountDrop",
            "severity": "CRITICAL",
            "metric": "row_count",
            "observed_at": self.clock.now,
            "expected_value": json.dumps({"low": 900, "high": 1100}),
            "actual_value": json.dumps(200),
            "deviation_score": -8.5,
            "description": "too few rows",
            "source": "detector",
            "occasion": str(uuid4()),
            **fields,
        }
        return await self._insert("anomalies", columns)

    async def _insert(self, table: str, columns: Json) -> UUID:
        names = ", ".join(columns)
        marks = ", ".join(f"${place}" for place in range(2, len(columns) + 2))
        found: UUID = await self.db.fetchval(
            f"INSERT INTO {table} (organization_id, {names}) VALUES ($1, {marks}) RETURNING id",
            self.org,
            *columns.values(),
        )
        return found

    async def tell(self, symptom_id: UUID) -> None:
        """Make the task that follows from a symptom, and have it done."""
        payload = {"symptom_id": str(symptom_id), "event": "RowCountDrop"}
        await self.make(NewTask("ALERT", "SYMPTOM", str(symptom_id), content_hash(symptom_id), payload))
        await self.work()
        self.clock.turn(milliseconds=1)

    async def tell_of(self, dataset_id: UUID | None = None, **fields: Any) -> UUID:
        """Have a new symptom of a new incident told; the incident."""
        incident_id = await self.an_incident(dataset_id)
        await self.tell(await self.a_symptom(incident_id, dataset_id, **fields))
        return incident_id

    async def make(self, *tasks: NewTask) -> None:
        async with self.database.tenant(self.org) as conn:
            await enqueue(conn, self.org, tasks)

    @property
    def alerting(self) -> Alerting:
        return Alerting(self.settings, channels=self.channels, clock=self.clock)

    async def work(self) -> None:
        await Worker(self.database, [Kind("ALERT", send=self.alerting.send, batch_size=20)]).drain()

    async def hurry(self) -> None:
        """Make what is to be tried again due now, and have it done."""
        await self.db.execute(
            "UPDATE async_task SET next_run_at = now() WHERE organization_id = $1 AND status IN ('FAILED', 'PENDING')",
            self.org,
        )
        await self.work()

    async def task_states(self) -> list[str]:
        rows = await self.db.fetch(
            "SELECT status FROM async_task WHERE organization_id = $1 AND task_type = 'ALERT' ORDER BY id", self.org
        )
        return [row["status"] for row in rows]

    async def everything(self) -> str:
        """All that the tables and answers of this slice show."""
        answers = [await self.tenant.client.get(path) for path in (RULES, HISTORY, EMAIL)]
        rows = [
            await self.db.fetch(f"SELECT t::text AS row FROM {table} t")
            for table in ("alert_rules", "alert_history", "email_settings", "async_task", "async_task_attempt")
        ]
        return "\n".join([*(each.text for each in answers), *(row["row"] for found in rows for row in found)])


GIVEN: Json = {"alert_allow_private": "127.0.0.0/8", "public_url": PUBLIC}


@asynccontextmanager
async def a_telling(cluster: Cluster, **settings: Any) -> AsyncIterator[Telling]:
    """A server that may send to this machine, on a database of its own."""
    given = GIVEN | settings
    async with an_observed_server(cluster, **given) as (server, stored):
        yield Telling(server, server.tenant, stored.db, Settings(**given, _env_file=None))


async def another(telling: Telling) -> Telling:
    """Another organisation of the same server."""
    tenant = await telling.server.add_tenant(f"Org {uuid4()}")
    return Telling(telling.server, tenant, telling.db, telling.settings)


def channels_by(telling: Telling, guard: Guard, timeout_s: float = 5.0, **parts: Any) -> Channels:
    """Ways out that go by this guard."""
    vault = Vault(telling.database, telling.settings)
    mailer = Mailer(guard, timeout_s=timeout_s, **parts)
    return Channels(vault, Outbound(guard, timeout_s=timeout_s, **parts), mailer)


@contextmanager
def a_channel(behaviour: Behaviour = OK) -> Iterator[BadServer]:
    with bad_server(behaviour) as server:
        yield server


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """One after the other; the last one stays."""

    def answer(server: BadServer, connection: Any, asked: Asked) -> bool:
        return behaviours[min(len(server.asked), len(behaviours)) - 1](server, connection, asked)

    return answer


def bodies(server: BadServer) -> list[Json]:
    return [json.loads(asked.body) for asked in server.asked]


def a_batch(task: Task) -> Batch:
    return Batch(task.organization_id, task.task_type, "", (task,))


async def every_page(client: httpx.AsyncClient, path: str, limit: int) -> list[Json]:
    """All items of a list, asked for in pages."""
    found: list[Json] = []
    cursor: str | None = None
    while True:
        params: Json = {"limit": limit} | ({"cursor": cursor} if cursor else {})
        page = (await client.get(path, params=params)).json()
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found
