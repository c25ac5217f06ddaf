"""Clients that send events without pause, remember what was acknowledged, and go on when the server dies."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from tests.support.events import Json, a_dataset, a_facet, an_event, at, with_schema

ACKNOWLEDGED = {200, 201}


@dataclass
class Load:
    """Some clients of one server; every event has a run of its own."""

    url: str
    api_key: str
    seed: int
    sent: dict[bytes, bool] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)
    stopping: bool = False

    @property
    def acknowledged(self) -> list[bytes]:
        return [raw for raw, is_acknowledged in self.sent.items() if is_acknowledged]

    @asynccontextmanager
    async def running(self, *, singles: int = 8, batches: int = 2) -> AsyncIterator[None]:
        self.stopping = False
        clients = [self._client(number, self._send_one) for number in range(singles)]
        clients += [self._client(singles + number, self._send_batch) for number in range(batches)]
        tasks = [asyncio.create_task(client) for client in clients]
        try:
            yield
        finally:
            self.stopping = True
            await asyncio.gather(*tasks)

    async def _client(self, number: int, send: object) -> None:
        dice = random.Random(f"{self.seed}.{number}.{len(self.sent)}")
        headers = {"authorization": f"Bearer {self.api_key}", "content-type": "application/json"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=15) as client:
            while not self.stopping:
                await send(client, dice)  # type: ignore[operator]  # one of the two below

    async def _send_one(self, client: httpx.AsyncClient, dice: random.Random) -> None:
        raw = json.dumps(_an_event(dice)).encode()
        self.sent[raw] = False
        while not await self._try(client, "/api/v1/lineage", raw, [raw]):
            # Like the official clients, some send again until it is taken; others give up.
            if self.stopping or dice.random() < 0.3:
                return
            await asyncio.sleep(0.05)

    async def _send_batch(self, client: httpx.AsyncClient, dice: random.Random) -> None:
        raws = [json.dumps(_an_event(dice)).encode() for _ in range(dice.randint(2, 40))]
        self.sent |= dict.fromkeys(raws, False)
        while not await self._try(client, "/api/v1/lineage/batch", b"[" + b",".join(raws) + b"]", raws):
            if self.stopping or dice.random() < 0.3:
                return
            await asyncio.sleep(0.05)

    async def _try(self, client: httpx.AsyncClient, path: str, body: bytes, raws: list[bytes]) -> bool:
        try:
            response = await client.post(path, content=body)
        except httpx.HTTPError:
            return False
        if response.status_code in ACKNOWLEDGED:
            self.sent |= dict.fromkeys(raws, True)
            return True
        if response.status_code not in {207, 503}:
            self.surprises.append(f"{response.status_code} {response.text[:2000]}")
        if response.status_code == 207:
            failed = {item["index"] for item in response.json()["failed_events"]}
            self.sent |= {raw: True for place, raw in enumerate(raws) if place not in failed}
        return False


def _an_event(dice: random.Random) -> Json:
    statistics = {"outputStatistics": a_facet(rowCount=dice.randint(0, 1000))}
    return an_event(
        dice.choice(["START", "RUNNING", "COMPLETE", "FAIL"]),
        job=f"job-{dice.randint(0, 5)}",
        time=at(dice.randint(0, 3600)),
        inputs=[a_dataset(f"source-{dice.randint(0, 9)}")],
        outputs=[a_dataset(f"target-{dice.randint(0, 9)}", facets=with_schema("a", "b"), outputFacets=statistics)],
    )
