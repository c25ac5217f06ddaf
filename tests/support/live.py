"""The application behind a real socket, in a thread of its own: for producers that block, retry and compress."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from socket import socket
from typing import TYPE_CHECKING, NamedTuple

import asyncpg
import httpx
import uvloop

from headgate.cli.operate import HttpServer
from headgate.local.claim import port, url_of
from headgate.server.accounts.store import bootstrap
from headgate.server.app import create_app
from headgate.server.db.pool import Database
from headgate.server.edge import App, Message, Receive, Scope, Send
from headgate.settings import Settings

if TYPE_CHECKING:
    from tests.conftest import Cluster

START_S = 30


class Answer(NamedTuple):
    """One exchange as it went over the socket."""

    path: str
    encoding: str
    status: int


@dataclass
class Live:
    """Where the server listens, who may use it, what it has answered, and a look into its database."""

    url: str
    db: asyncpg.Connection
    api_key: str = field(default_factory=lambda: f"hg_live_{secrets.token_urlsafe(32)}")
    email: str = "admin@live.example.org"
    password: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    answers: list[Answer] = field(default_factory=list)

    @property
    def statuses(self) -> list[int]:
        return [answer.status for answer in self.answers]

    async def replay(self, *events: bytes, path: str = "/api/v1/lineage") -> list[httpx.Response]:
        """Send each as its producer did, one request an event."""
        headers = {"authorization": f"Bearer {self.api_key}", "content-type": "application/json"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, trust_env=False) as client:
            return [await client.post(path, content=event) for event in events]


@asynccontextmanager
async def live_server(cluster: Cluster) -> AsyncIterator[Live]:
    """A server on a free port and on a database of its own, until the block ends."""
    name = await cluster.create()
    db = await asyncpg.connect(cluster.admin_dsn(name), server_settings={"search_path": "headgate"})
    listener = port("127.0.0.1", 0)
    live = Live(url_of(listener), db)
    try:
        with _Thread(live, cluster.app_dsn(name), listener).running():
            # The views show a superuser, too, only what belongs to the organisation that is set.
            await db.execute("SELECT set_config('headgate.organization_id', id::text, false) FROM organizations")
            yield live
    finally:
        await db.close()
        await cluster.drop(name)


class _Thread:
    def __init__(self, live: Live, dsn: str, listener: socket) -> None:
        self._live = live
        self._dsn = dsn
        self._listener = listener
        self._ready = threading.Event()
        self._http: HttpServer | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="live") as threads:
            ended = threads.submit(self._run)
            try:
                assert self._ready.wait(START_S), f"the server did not start within {START_S} s"
                if ended.done():
                    ended.result()
                yield
            finally:
                if self._http is not None:
                    self._http.should_exit = True
                ended.result(timeout=START_S)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        database = Database(self._dsn, max_size=8)
        try:
            live = self._live
            await bootstrap(
                database, organization="Live", email=live.email, password=live.password, api_key=live.api_key
            )
            settings = Settings(rate_global=None, rate_key=None, rate_anonymous=None, _env_file=None)
            app = _noting(create_app(settings, database), live.answers)
            self._http = HttpServer(app, self._listener, self._ready.set)
            await self._http.run_until_told()
        finally:
            await database.close()


def _noting(app: App, answers: list[Answer]) -> App:
    """The same application; each of its answers is noted before it goes out."""

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                encoding = dict(scope["headers"]).get(b"content-encoding", b"").decode()
                answers.append(Answer(scope["path"], encoding, message["status"]))
            await send(message)

        await app(scope, receive, note if scope["type"] == "http" else send)

    return noting
